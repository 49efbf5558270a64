"""Bring what a measure is given into one shape: a list of stretches, with or without stamps.

Legend: T samples, N variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretch:
    """One recording: values (T, N), and times (T,) where they are known."""

    values: Array
    times: Array | None = None

    def stamps(self, step: float) -> Array:
        """The times, or equal steps from 0 where they are not known."""
        if self.times is not None:
            return self.times
        return np.asarray(step * np.arange(len(self.values)), dtype=np.float64)

    def part(self, index: int, parts: int) -> Stretch:
        """One of ``parts`` equal stretches, in time order; what is left over at the end goes."""
        length = len(self.values) // parts
        rows = slice(index * length, (index + 1) * length)
        return Stretch(self.values[rows], None if self.times is None else self.times[rows])


Recordings = Trajectories | ArrayLike | Sequence[ArrayLike] | Sequence[Stretch]


def as_stretches(recordings: Recordings, name: str) -> list[Stretch]:
    """Recordings as stretches of one width; ``name`` is for the messages."""
    if isinstance(recordings, Trajectories):
        return [
            Stretch(np.asarray(v), np.asarray(t))
            for v, t in zip(recordings.values, recordings.times, strict=True)
        ]
    items: list[Any]
    if isinstance(recordings, (list, tuple)) and any(
        isinstance(item, Stretch) or np.ndim(item) > 0 for item in recordings
    ):
        items = list(recordings)
    else:
        array = np.asarray(recordings, dtype=np.float64)
        items = list(array) if array.ndim == 3 else [array]
    stretches = [_stretch(item) for item in items]
    for i, stretch in enumerate(stretches):
        shape = stretch.values.shape
        if stretch.values.ndim != 2 or 0 in shape or shape[1] != stretches[0].values.shape[1]:
            raise DataError(
                f"{name}: recording {i} has shape {shape}; needed is (samples, variables), not "
                "empty, with the same variables in every recording."
            )
    if not stretches:
        raise DataError(f"{name} holds no recording; give an array (samples, variables).")
    return stretches


def _stretch(item: Any) -> Stretch:
    if isinstance(item, Stretch):
        return item
    values = np.asarray(item, dtype=np.float64)
    return Stretch(values[:, None] if values.ndim == 1 else values)


def as_pair(true: Recordings, generated: Recordings) -> tuple[list[Stretch], list[Stretch]]:
    """Both sets as stretches, with the same number of variables."""
    first, second = as_stretches(true, "true"), as_stretches(generated, "generated")
    n_true, n_generated = first[0].values.shape[1], second[0].values.shape[1]
    if n_true != n_generated:
        raise DataError(
            f"true has {n_true} variables and generated has {n_generated}; compare the same "
            "variables, for instance generated[:, : true.shape[1]]."
        )
    return first, second


def points(stretches: list[Stretch]) -> Array:
    """All samples of all recordings, shape (total T, N)."""
    return np.concatenate([s.values for s in stretches])


def true_points(stretches: list[Stretch]) -> Array:
    """All complete samples; rows with a missing cell are left out."""
    values = points(stretches)
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < 2:
        raise DataError(
            f"true has {len(values)} complete rows; at least 2 are needed. Rows with a missing "
            "cell do not count: select fewer variables, or fill the gaps."
        )
    return values
