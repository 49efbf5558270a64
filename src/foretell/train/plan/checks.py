"""Arguments of the planning classes: as given, or an error that says what is needed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError

Index = NDArray[np.int64]


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least ``least``.

    Examples
    --------
    >>> whole("micro", 8)
    8
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ParameterError(
            f"{name}={value!r} is not a whole number >= {least}. Write for instance "
            f"{name}={max(least, 8)}."
        )
    return int(value)


def positive(name: str, value: Any, unit: str = "") -> float:
    """A finite number above 0, of that unit.

    Examples
    --------
    >>> positive("mtbf_s", 300, "seconds")
    300.0
    """
    usable = isinstance(value, Real) and not isinstance(value, bool)
    if not usable or not math.isfinite(float(value)) or float(value) <= 0:
        what = f" of {unit}" if unit else ""
        raise ParameterError(f"{name}={value!r}; needed is a finite number{what} above 0.")
    return float(value)


def not_negative(name: str, value: Any, unit: str = "") -> float:
    """A finite number of at least 0.

    Examples
    --------
    >>> not_negative("reduce_s", 0)
    0.0
    """
    usable = isinstance(value, Real) and not isinstance(value, bool)
    if not usable or not math.isfinite(float(value)) or float(value) < 0:
        what = f" of {unit}" if unit else ""
        raise ParameterError(f"{name}={value!r}; needed is a finite number{what}, 0 or more.")
    return float(value)


def share(name: str, value: Any) -> float:
    """A number from 0 to 1.

    Examples
    --------
    >>> share("probability", 0.2)
    0.2
    """
    usable = isinstance(value, Real) and not isinstance(value, bool)
    if not usable or not 0 <= float(value) <= 1:
        raise ParameterError(f"{name}={value!r}; needed is a number from 0 to 1.")
    return float(value)


def group_ids(name: str, values: ArrayLike, n_groups: int) -> Index:
    """Distinct ids of groups, ascending.

    Examples
    --------
    >>> group_ids("failed", [2, 0], 7)
    array([0, 2])
    """
    ids = np.asarray(list(values) if isinstance(values, (set, frozenset)) else values)
    if ids.size == 0:
        return np.empty(0, dtype=np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ParameterError(
            f"{name} must be the ids of groups, whole numbers from 0 to {n_groups - 1}, for "
            f"instance {name}=[0, 2]; given: {values!r}."
        )
    outside = ids[(ids < 0) | (ids >= n_groups)]
    if outside.size:
        raise ParameterError(
            f"{name} holds the id {int(outside[0])}; with {n_groups} groups ids run from 0 to "
            f"{n_groups - 1}."
        )
    unique, counts = np.unique(ids, return_counts=True)
    if unique.size < ids.size:
        twice = int(unique[counts > 1][0])
        raise ParameterError(
            f"{name} holds the id {twice} {int(counts.max())} times; give each once, for instance "
            f"sorted(set({name}))."
        )
    return unique.astype(np.int64)
