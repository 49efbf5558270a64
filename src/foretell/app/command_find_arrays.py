"""Arrays that somebody gives by their file names: checked, in pieces, and their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.recall import SignSketch

Array = NDArray[np.float64]
Ids = NDArray[np.int64]

_ROWS = 8192  # vectors at a time


def read_array(path: Path) -> NDArray[Any]:
    """A table of numbers from a ``.npy`` file, mapped."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, EOFError) as error:
        raise DataError(
            f"{path} is not an array that can be read ({error}). Write it with numpy.save(path, "
            "X), X of numbers."
        ) from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} holds several arrays. Write one with numpy.save(path, X).")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{path} has shape {array.shape}; needed are rows of vectors, (n, d).")
    return array


def checked_vectors(array: NDArray[Any], path: Path) -> NDArray[Any]:
    """The same array, if every row has a direction."""
    if array.dtype.kind != "f":
        raise DataError(
            f"{path} holds {array.dtype}, and vectors are floating-point numbers. Packed codes "
            "(uint8) come first, with their vectors as --vectors X.npy."
        )
    for start in range(0, len(array), _ROWS):
        part = np.asarray(array[start : start + _ROWS], np.float64)
        size = np.square(part).sum(axis=1)
        wrong = np.flatnonzero(~np.isfinite(size) | (size == 0))
        if wrong.size:
            what = "norm zero" if size[wrong[0]] == 0 else "a value that is not finite"
            raise DataError(
                f"Row {start + wrong[0]} of {path} has {what}: it has no cosine with anything. "
                "Leave such rows out."
            )
    return array


def shape_words(array: NDArray[Any]) -> str:
    """Rows x columns."""
    return " x ".join(map(str, array.shape))


def unit_rows(X: NDArray[Any]) -> Array:
    """Rows of length one."""
    plain = np.asarray(X, np.float64)
    unit: Array = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    return unit


def pieces(X: NDArray[Any]) -> Iterator[tuple[int, Array]]:
    """First row and unit vectors, some thousand at a time."""
    for start in range(0, len(X), _ROWS):
        yield start, unit_rows(X[start : start + _ROWS])


def nearest(X: NDArray[Any], units: Array, k: int) -> tuple[Ids, Array]:
    """Rows and exact cosines (nq, k) of the nearest vectors."""
    best = np.full((len(units), 0), 0.0)
    rows = np.full((len(units), 0), 0, np.int64)
    for start, part in pieces(X):
        both = np.concatenate([best, units @ part.T], axis=1)
        names = np.concatenate(
            [rows, np.tile(np.arange(start, start + len(part)), (len(units), 1))], axis=1
        )
        top = np.argsort(-both, axis=1, kind="stable")[:, :k]
        best, rows = np.take_along_axis(both, top, 1), np.take_along_axis(names, top, 1)
    return rows, best


def encoded(sketch: SignSketch, X: NDArray[Any]) -> NDArray[np.uint8]:
    """Codes of all rows."""
    return np.concatenate([sketch.transform(part) for _, part in pieces(X)])
