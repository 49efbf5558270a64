"""What a SketchIndex writes into its table, and how it is read back and checked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ArtifactError, DataError, ParameterError
from foretell.core.files import beside, put_in_place, resolved, writing
from foretell.recall.backends import BACKENDS, Backend, GraphBackend, as_backend
from foretell.recall.decoders import CosineDecoder
from foretell.recall.sign_coding import SignCoding
from foretell.recall.store import FolderTable, is_ours
from foretell.recall.store_header import HEADER
from foretell.recall.table import Column, TableView

_ROWS = 8192
_KIND = "SketchIndex"


def describe(
    sketch: SignCoding, decoder: CosineDecoder, backend: Backend, vectors: str | None
) -> dict[str, Any]:
    """Fields of the header; raises where the sketch is not fitted."""
    settings = sketch.to_dict()
    seed = getattr(sketch, "random_state", None)
    return {
        "kind": _KIND,
        "sketch": settings,
        "bit_order": settings["bit_order"],
        "seed": int(seed) if isinstance(seed, (int, np.integer)) else None,
        "decoder": {"method": decoder.method, "design_cosine": decoder.design_cosine},
        "backend": {"name": backend.name, "options": backend.options()},
        "vectors": vectors,
    }


def restored(
    view: TableView, backend: str | Backend | None
) -> tuple[SignCoding, CosineDecoder, Backend]:
    """Sketch, decoder and back end that a table describes."""
    fields = view.fields
    if fields.get("kind") != _KIND or "sketch" not in view.blobs:
        raise ArtifactError("The folder is not a whole index of sketches. Build the index again.")
    sketch = SignCoding.from_arrays(dict(fields["sketch"]), unpacked(view.blobs["sketch"]))
    if view.columns["codes"].width != sketch.n_bytes_:
        raise ArtifactError(
            f"The codes have {view.columns['codes'].width} bytes a row, and the sketch makes "
            f"{sketch.n_bytes_}. They do not belong together; build the index again."
        )
    decoder = CosineDecoder(**fields["decoder"])
    if backend is not None:
        made = as_backend(backend)
    elif fields["backend"]["name"] in BACKENDS:
        made = as_backend(fields["backend"]["name"], fields["backend"]["options"])
    else:
        raise ArtifactError(
            f"The index was made with the back end {fields['backend']['name']!r}, which is not "
            'known here. Say which one to use: SketchIndex.load(path, backend="numpy").'
        )
    if isinstance(made, GraphBackend) and "graph" in view.blobs and not made.graph.links().n:
        made.restore(unpacked(view.blobs["graph"]))
    return sketch, decoder, made


def alive_rows(view: TableView) -> NDArray[np.bool_] | None:
    """False for removed rows; None where none was removed."""
    if "removed" not in view.blobs:
        return None
    alive = np.ones(view.n, np.bool_)
    marks = np.unpackbits(np.frombuffer(view.blobs["removed"], np.uint8))[: view.n]
    alive[: len(marks)] = marks == 0
    return alive


def columns_of(rows: NDArray[Any], sketch: SignCoding, view: TableView) -> dict[str, NDArray[Any]]:
    """Codes, and where the table has them, unit vectors and norms of some vectors."""
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    columns: dict[str, NDArray[Any]] = {"codes": sketch.transform(units)}
    if "vectors" in view.columns:
        columns["vectors"] = units.astype(view.columns["vectors"].dtype)
    if "norms" in view.columns:
        columns["norms"] = sketch.residual_norms(units)[:, None]
    return columns


# Checks -------------------------------------------------------------------------------------------


def checked_vectors(X: ArrayLike, d: int) -> NDArray[Any]:
    """Vectors (n, d) as they are, after a look at all of them in pieces."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or rows.shape[1] != d:
        raise DataError(
            f"The vectors have shape {rows.shape} and type {rows.dtype}; the sketch was fitted for "
            f"numbers (n, {d}). One vector x goes in as x[None]."
        )
    for start in range(0, len(rows), _ROWS):
        norms = np.linalg.norm(rows[start : start + _ROWS].astype(np.float64), axis=1)
        bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
        if bad.size:
            what = "norm zero" if norms[bad[0]] == 0 else "NaN or inf"
            more = "" if bad.size == 1 else f", and {bad.size - 1} more rows near it"
            raise DataError(
                f"Row {start + bad[0]} has {what}{more}; nothing was added. Leave such rows out: "
                "X[numpy.isfinite(X).all(axis=1) & X.any(axis=1)]"
            )
    return rows


def checked_ids(ids: ArrayLike | None, n: int, next_id: int) -> NDArray[np.int64]:
    """Ids (n,), each once."""
    if ids is None:
        return np.arange(next_id, next_id + n)
    given = np.atleast_1d(np.asarray(ids))
    if given.size == 0 and n == 0:
        return np.empty(0, np.int64)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise DataError(
            f"The ids have shape {given.shape} and type {given.dtype}; {n} whole numbers go in."
        )
    names = given.astype(np.int64)
    if names.min() < 0:
        raise DataError(f"The id {names.min()} is negative. Ids are whole numbers >= 0.")
    values, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"The id {values[counts > 1][0]} occurs {counts.max()} times. Give each once."
        )
    return names


# Files --------------------------------------------------------------------------------------------


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as the bytes of a safetensors file."""
    from safetensors.numpy import save

    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def unpacked(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of `packed`."""
    from safetensors.numpy import load

    return dict(load(data))


def target_of(path: str | os.PathLike[str] | None, own: Path | None) -> Path:
    """Where to save."""
    if path is None:
        if own is None:
            raise ParameterError("The index is in memory. Write index.save(path).")
        return own
    return resolved(path)


def write_copy(
    target: Path,
    view: TableView,
    alive: NDArray[np.bool_] | None,
    sketch: SignCoding,
    graph: Mapping[str, NDArray[Any]] | None,
) -> Path:
    """Write a table to a new folder and put it in the place of an older index, in one step.

    Removed rows are left out, unless a graph needs them as stepping stones. Files in the older
    folder that are not of the index move along.
    """
    with writing(target):
        _refuse_others(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = beside(target)
        try:
            _write_table(fresh, view, alive, sketch, graph)
            put_in_place(fresh, target, ours=is_ours)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    return target


def _write_table(
    fresh: Path,
    view: TableView,
    alive: NDArray[np.bool_] | None,
    sketch: SignCoding,
    graph: Mapping[str, NDArray[Any]] | None,
) -> None:
    columns = {name: Column(rows.dtype.str, rows.width) for name, rows in view.columns.items()}
    blobs = {"sketch": packed(sketch.to_arrays())}
    if graph is not None:
        blobs["graph"] = packed(graph)
        if alive is not None:
            blobs["removed"] = np.packbits(~alive).tobytes()
    table = FolderTable.create(fresh, columns, blobs=blobs, fields=view.fields)
    try:
        keep = np.arange(view.n) if alive is None or graph is not None else np.flatnonzero(alive)
        for start in range(0, len(keep), 8 * _ROWS):
            rows = keep[start : start + 8 * _ROWS]
            table.commit({name: column.take(rows) for name, column in view.columns.items()})
    finally:
        table.close()


def _refuse_others(target: Path) -> None:
    """Refuse a path that holds anything but an index, which may be replaced."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ArtifactError(f"{target} is a file. An index is a folder: give another name.")
    if (target / HEADER).exists() or not any(target.iterdir()):
        return
    raise ArtifactError(
        f"{target} exists and holds files, but no {HEADER}, so it is not an index that could be "
        "replaced. Give another name, or empty the folder first."
    )
