"""A memory as a folder: the cells as they are, and the symbols as JSON."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foretell.core.artifact import Artifact
from foretell.core.errors import ArtifactError, ParameterError
from foretell.recall.vocabulary import Vocabulary, symbol_from_json, symbol_to_json

if TYPE_CHECKING:
    from foretell.recall.fact_memory import FactMemory

M = TypeVar("M", bound="FactMemory")

_HASH = "blake2b-64 of (seed, roles), Philox raw words, Box-Muller; version 1"


def save(memory: FactMemory, path: str | os.PathLike[str], precision: str) -> FilePath:
    """Write the folder; ``precision`` is "full", "float16" or "int8"."""
    arrays = _packed(memory._cells, precision)
    if memory.vocabulary.trained:
        arrays["components"] = np.ascontiguousarray(memory.vocabulary.components)
    fields = {
        "hash": _HASH,
        "growing": memory.vocabulary.growing,
        "symbols": [symbol_to_json(symbol) for symbol in memory.vocabulary],
        "vocabulary_seed": memory.vocabulary.seed,
        "vocabulary_tied": memory.vocabulary.tied,
        "sizes": [symbol_to_json(symbol) for symbol in memory._sizes],
        "keys": [symbol_to_json(key) for key in memory.known_keys],
        "count": memory._count,
        "power": memory._power,
        "peak": memory._peak,
        "places": memory._saved_places(),
    }
    parameters = {name: getattr(memory, name) for name in memory._arguments}
    parameters |= {
        "seed": memory.seed,
        "tied": memory.tied,
        "accuracy": memory.accuracy,
        "beyond": memory.beyond,
        "capacity": memory._stated_capacity,
        "dtype": memory.dtype.name,
    }
    artifact = Artifact(
        model_class=type(memory).__name__,
        arrays=arrays,
        parameters=parameters,
        fields=fields,
        citations=memory.citations,
    )
    return artifact.save(path)


def load(kind: type[M], path: str | os.PathLike[str]) -> M:
    """Read the folder back as a memory of this kind."""
    artifact = Artifact.open(path, classes=[kind.__name__])
    fields, parameters = artifact.fields, dict(artifact.parameters)
    if fields.get("hash") != _HASH:
        raise ArtifactError(
            f"{path} was hashed by {fields.get('hash')!r}; this foretell knows {_HASH!r}. "
            "Update with: pip install --upgrade foretell"
        )
    try:
        dtype = np.dtype(parameters.pop("dtype"))
        memory = kind(**parameters, dtype=dtype)
        components = artifact.arrays.get("components")
        memory.vocabulary = Vocabulary(
            map(symbol_from_json, fields["symbols"]),
            order=memory.vocabulary.order,
            dim=memory.vocabulary.dim,
            seed=fields["vocabulary_seed"],
            tied=fields["vocabulary_tied"],
            growing=fields["growing"],
            components=components,
        )
        memory._sizes.add([symbol_from_json(size) for size in fields["sizes"]])
        memory._known_keys = dict.fromkeys(symbol_from_json(key) for key in fields["keys"])  # type: ignore[misc]
        cells = _unpacked(artifact.arrays, dtype)
        if cells.shape != memory._cells.shape:
            raise ValueError(f"cells of shape {cells.shape} instead of {memory._cells.shape}")
        memory._cells = cells
        memory._count, memory._power = int(fields["count"]), float(fields["power"])
        memory._peak = float(fields["peak"])
        memory._load_places(fields["places"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{path} does not hold a usable {kind.__name__}: {error}. Save the memory again."
        ) from error
    return memory


def _packed(cells: NDArray[Any], precision: str) -> dict[str, NDArray[Any]]:
    if precision == "full":
        return {"cells": cells}
    if precision == "float16":
        scale = max(float(np.max(np.abs(cells))), 1e-30) / 1024.0
        return {"cells": (cells / scale).astype(np.float16), "scale": np.array([scale])}
    if precision == "int8":
        scale = max(float(np.max(np.abs(cells))), 1e-30) / 127.0
        return {"cells": np.rint(cells / scale).astype(np.int8), "scale": np.array([scale])}
    raise ParameterError(
        f'precision={precision!r} is none of "full", "float16" and "int8". '
        'Write save(path, precision="int8").'
    )


def _unpacked(arrays: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    cells: NDArray[Any] = arrays["cells"].astype(dtype)
    if "scale" in arrays:
        cells *= dtype.type(arrays["scale"][0])
    return cells
