"""Scores, slots and labels of the candidates of a slate, or an error that names what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def checked_scores(scores: ArrayLike, n_users: int, mask: ArrayLike | None) -> Array:
    """Scores as (B, n), finite wherever the mask allows, or a DataError naming one that is not."""
    value = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if value.ndim != 2 or value.shape[0] not in (1, n_users):
        raise DataError(
            f"scores have the shape {np.shape(scores)}; needed is (n,) for one user, or "
            f"({n_users}, n), one row for each user."
        )
    value = np.broadcast_to(value, (n_users, value.shape[1]))
    wrong = ~np.isfinite(value)
    if mask is not None:
        wrong = wrong & np.broadcast_to(np.asarray(mask, dtype=bool), value.shape)
    if wrong.any():
        row, column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise DataError(
            f"scores[{row}, {column}] is {value[row, column]}; needed are finite numbers. To keep "
            "candidates out, write mask=np.isfinite(scores)."
        )
    return value


def check_slots(k: int, value: Array, allowed: NDArray[np.bool_] | None) -> None:
    """Raise a ParameterError unless every user has k candidates."""
    if not (isinstance(k, (int, np.integer)) and k >= 1):
        raise ParameterError(f"k={k!r}; needed is a whole number >= 1.")
    left = np.full(1, value.shape[1]) if allowed is None else allowed.sum(1)
    if left.min() < k:
        raise ParameterError(
            f"k={k} slots, but user number {int(left.argmin())} has {int(left.min())} candidates. "
            f"Give more candidates, or write k={int(left.min())}."
        )


def labels_at(ids: NDArray[Any], columns: Index, shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels of the candidates in these columns, from labels (n,) or (B, n)."""
    if ids.shape == (shape[1],):
        return np.asarray(ids[columns])
    if ids.shape != shape:
        raise DataError(
            f"item_ids have the shape {ids.shape}; needed is ({shape[1]},), or {shape}."
        )
    return np.take_along_axis(ids, columns, axis=1)
