"""A saved model: a folder with ``model.json`` and ``weights.safetensors``, and never pickle.

    model.json            class, constructor parameters, fitted facts, units, fingerprint of the
                          data, citation keys, version of foretell; readable by any program
    weights.safetensors   the arrays, exactly as they were

Saving writes a new folder beside the old one and then swaps the two names, so that a full disk or
Ctrl-C leaves the old model whole. Files that others keep in the folder (a report) move along.
Opening checks everything before a learner sees it: the schema, the class against the closed table
of the caller, and the weights against the size and SHA-256 in ``model.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell import __version__
from foretell.core.errors import ArtifactError
from foretell.core.files import (
    beside,
    put_in_place,
    recover_folder,
    resolved,
    sync_folder,
    write_and_sync,
    writing,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "foretell-model"
SCHEMA = 1
MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What a model folder holds.

    Parameters
    ----------
    model_class : str
        Name of the learner, a key of the closed table that ``open`` is given.
    arrays : mapping of str to array
        Everything numeric that must come back bit for bit.
    parameters : mapping
        Constructor arguments, as JSON values.
    fields : mapping
        Fitted facts as JSON values (names, time scale, scores); floats come back exactly.
    units : mapping of str to str
        Unit of each variable; the empty string where it is unknown.
    data_fingerprint : str
        SHA-256 of the recordings that the model was fitted to.
    citations : sequence of str
        Keys for :func:`foretell.core.citation`.
    foretell_version : str
        Version that wrote the folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> artifact = Artifact(model_class="CPLRNN", arrays={"h": np.ones(3)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = artifact.save(f"{folder}/pump")
    ...     again = Artifact.open(path, classes=["CPLRNN"])
    >>> again.arrays["h"]
    array([1., 1., 1.])
    >>> again
    Artifact(CPLRNN, 1 array (24 bytes), foretell 0.1.0)
    """

    model_class: str
    arrays: Mapping[str, NDArray[Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    data_fingerprint: str = ""
    citations: tuple[str, ...] = ()
    foretell_version: str = __version__

    def __repr__(self) -> str:
        size = sum(array.nbytes for array in self.arrays.values())
        count = f"{len(self.arrays)} array{'' if len(self.arrays) == 1 else 's'} ({size} bytes)"
        return f"Artifact({self.model_class}, {count}, foretell {self.foretell_version})"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the folder, or leave what was there untouched.

        Parameters
        ----------
        path : path
            The folder. It may be new, empty, or an older model, which is then replaced; other
            files in an older model's folder are kept.

        Returns
        -------
        pathlib.Path
            The folder written.

        Raises
        ------
        ArtifactError
            When the path is a file or a folder with something else in it, when the disk is full or
            closed, or when a field is not JSON; the message names the place and the remedy.
        """
        target = resolved(path)
        weights = _pack(self.arrays)
        model = self._describe(weights)
        with writing(target):
            _refuse_others(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = beside(target)
            try:
                fresh.mkdir()
                write_and_sync(fresh / WEIGHTS_FILE, weights)
                write_and_sync(fresh / MODEL_FILE, model)
                sync_folder(fresh)
                put_in_place(fresh, target, ours=(MODEL_FILE, WEIGHTS_FILE).__contains__)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        return target

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, classes: Collection[str]) -> Artifact:
        """Read a folder back and check all of it.

        Parameters
        ----------
        path : path
            The folder that ``save`` wrote.
        classes : collection of str
            The closed table of class names that the caller can build.

        Raises
        ------
        ArtifactError
            Names what is wrong (missing file, damaged JSON, unknown class, newer schema, truncated
            or changed weights) and what to do.
        """
        folder = _found(resolved(path))
        model = _read_model(folder)
        name = model["class"]
        if name not in classes:
            raise ArtifactError(
                f"{folder / MODEL_FILE} names the class {name!r}, which is not known here "
                f"(known: {', '.join(sorted(classes))}). "
                "Update with: pip install --upgrade foretell"
            )
        return cls(
            model_class=name,
            arrays=_unpack(folder / WEIGHTS_FILE, model["weights"]),
            parameters=model["parameters"],
            fields=model["fields"],
            units=model["units"],
            data_fingerprint=model["data_fingerprint"],
            citations=tuple(model["citations"]),
            foretell_version=model["foretell"],
        )

    def _describe(self, weights: bytes) -> bytes:
        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "foretell": self.foretell_version,
            "class": self.model_class,
            "parameters": dict(self.parameters),
            "fields": dict(self.fields),
            "units": dict(self.units),
            "data_fingerprint": self.data_fingerprint,
            "citations": list(self.citations),
            "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        }
        try:
            text = json.dumps(
                content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain
            )
        except (TypeError, ValueError) as error:
            raise ArtifactError(
                f"{MODEL_FILE} cannot hold these fields: {error}. Put arrays and numbers that may "
                "be NaN or infinite into `arrays`, everything else as plain JSON values."
            ) from error
        return (text + "\n").encode("utf-8")


# Saving ------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """NumPy scalars as the Python number of the same value; anything else is not JSON."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save

    plain: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in arrays.items():
        array = np.asarray(value, order="C")
        if array.dtype.kind not in "biuf":
            raise ArtifactError(
                f"The array {name!r} has the type {array.dtype}; saved are numbers and booleans. "
                "Put names and texts into `fields`."
            )
        plain[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        return save(plain)
    except (KeyError, SafetensorError) as error:
        types = ", ".join(f"{name}: {array.dtype}" for name, array in plain.items())
        raise ArtifactError(f"The arrays cannot be saved: {error} ({types}).") from error


def _refuse_others(target: Path) -> None:
    """Refuse a path that holds anything but a model, which may be replaced."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ArtifactError(f"{target} is a file. A model is saved as a folder: give another name.")
    if (target / MODEL_FILE).exists() or not any(target.iterdir()):
        return
    raise ArtifactError(
        f"{target} exists and holds files, but no {MODEL_FILE}, so it is not a model that could be "
        "replaced. Give another name, or empty the folder first."
    )


# Opening -----------------------------------------------------------------------------------------


def _found(folder: Path) -> Path:
    recover_folder(folder)
    if not folder.exists():
        raise ArtifactError(f"{folder} does not exist. Give the folder that `save` returned.")
    if not folder.is_dir():
        raise ArtifactError(
            f"{folder} is a file; a model is a folder with {MODEL_FILE} and {WEIGHTS_FILE}. "
            f"Did you mean {folder.parent}?"
        )
    for name in (MODEL_FILE, WEIGHTS_FILE):
        if not (folder / name).is_file():
            raise ArtifactError(
                f"{folder} has no {name}, so it is not a whole model. Copy the folder again with "
                "all of its files, or fit and save the model again."
            )
    return folder


def _read_model(folder: Path) -> dict[str, Any]:
    path = folder / MODEL_FILE
    try:
        model = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ArtifactError(
            f"{path} is damaged: {error}. Copy the folder again, or fit and save the model again."
        ) from error
    if not isinstance(model, dict) or model.get("format") != FORMAT:
        raise ArtifactError(f"{path} was not written by foretell. Give a folder that `save` made.")
    schema = model.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise ArtifactError(
            f"{path} has schema {schema} and comes from a newer foretell "
            f"({model.get('foretell', 'unknown version')}); this one reads up to schema {SCHEMA}. "
            "Update with: pip install --upgrade foretell"
        )
    for key, kind in _KINDS.items():
        if not isinstance(model.get(key), kind):
            raise ArtifactError(
                f"{path} has no usable {key!r}: {model.get(key)!r}. Copy the folder again, or fit "
                "and save the model again."
            )
    return model


_KINDS: dict[str, type] = {
    "schema": int,
    "foretell": str,
    "class": str,
    "parameters": dict,
    "fields": dict,
    "units": dict,
    "data_fingerprint": str,
    "citations": list,
    "weights": dict,
}


def _unpack(path: Path, expected: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    remedy = "Copy the folder again, or fit and save the model again."
    if len(data) != expected.get("bytes"):
        raise ArtifactError(
            f"{path} has {len(data)} bytes where {MODEL_FILE} says {expected.get('bytes')}: it was "
            f"cut off or replaced. {remedy}"
        )
    if hashlib.sha256(data).hexdigest() != expected.get("sha256"):
        raise ArtifactError(
            f"{path} does not match its SHA-256 in {MODEL_FILE}: it was changed after saving. "
            f"{remedy}"
        )
    try:
        return {name: array.copy() for name, array in load(data).items()}
    except SafetensorError as error:
        raise ArtifactError(f"{path} is no safetensors file: {error}. {remedy}") from error
