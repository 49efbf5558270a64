"""Observed variables and the columns that the networks see: angles and quaternions.

An angle becomes its sine and cosine. A unit quaternion and its negative are one rotation, so the
signs of neighbouring samples are aligned; predictions are brought back to length one.

Legend: N observed variables, n columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories

Array = NDArray[np.float64]

_TURN = 2 * np.pi
_OFF_LENGTH = 1e-2  # of a quaternion


@dataclass(frozen=True)
class Columns:
    """Which variables are angles or parts of quaternions.

    Parameters
    ----------
    names : tuple of str
        The N observed variables.
    angles : tuple of int
        Variables that are angles, in radians.
    quaternions : tuple of four int each
        Variables that together are a unit quaternion.
    lowest : tuple of float
        For each angle where the turn begins into which predictions are brought.
    """

    names: tuple[str, ...]
    angles: tuple[int, ...] = ()
    quaternions: tuple[tuple[int, ...], ...] = ()
    lowest: tuple[float, ...] = ()

    @property
    def plain(self) -> tuple[int, ...]:
        """Variables that are not angles."""
        return tuple(k for k in range(len(self.names)) if k not in self.angles)

    @property
    def n_columns(self) -> int:
        """n."""
        return len(self.names) + len(self.angles)

    @property
    def flow_dimension(self) -> int:
        """Dimension of the states: an angle counts one, a quaternion three."""
        return len(self.names) - len(self.quaternions)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Plain variables first, then sine and cosine of each angle."""
        return (
            *(self.names[k] for k in self.plain),
            *(f"{f} {self.names[k]}" for k in self.angles for f in ("sin", "cos")),
        )

    def spread(self, values: Array) -> Array:
        """Columns (..., n) of observed values (..., N)."""
        angles = values[..., list(self.angles)]
        pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        return np.concatenate(
            [values[..., list(self.plain)], pairs.reshape(*values.shape[:-1], -1)], axis=-1
        )

    def spread_rates(self, rates: Array, values: Array) -> Array:
        """Time derivatives of the columns from those of the values."""
        angles, speed = values[..., list(self.angles)], rates[..., list(self.angles)]
        pairs = np.stack([np.cos(angles) * speed, -np.sin(angles) * speed], axis=-1)
        return np.concatenate(
            [rates[..., list(self.plain)], pairs.reshape(*rates.shape[:-1], -1)], axis=-1
        )

    def gather(self, columns: Array) -> Array:
        """Observed values (..., N) of columns (..., n)."""
        values = np.empty((*columns.shape[:-1], len(self.names)))
        n_plain = len(self.plain)
        values[..., list(self.plain)] = columns[..., :n_plain]
        for k, angle in enumerate(self.angles):
            sine, cosine = columns[..., n_plain + 2 * k], columns[..., n_plain + 2 * k + 1]
            low = self.lowest[k]
            values[..., angle] = low + np.mod(np.arctan2(sine, cosine) - low, _TURN)
        for four in self.quaternions:
            q = values[..., list(four)]
            values[..., list(four)] = q / np.maximum(
                np.linalg.norm(q, axis=-1, keepdims=True), 1e-12
            )
        return values

    def aligned(self, values: Array, start: Array | None = None) -> Array:
        """The same values (T, N) with each quaternion on the side of the one before it.

        The first one is brought to the side of ``start`` (N,), or to a first part above zero.
        """
        out = np.array(values)
        for four in map(list, self.quaternions):
            q = out[:, four]
            last = np.array([1.0, 0.0, 0.0, 0.0]) if start is None else start[four]
            for t in np.flatnonzero(np.isfinite(q).all(axis=1)):
                if q[t] @ last < 0:
                    q[t] = -q[t]
                last = q[t]
            out[:, four] = q
        return out

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which ``from_dict`` makes the same columns."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Columns:
        """What ``to_dict`` described."""
        return cls(
            tuple(content["names"]), tuple(content["angles"]),
            tuple(tuple(four) for four in content["quaternions"]), tuple(content["lowest"]),
        )  # fmt: skip


def read_columns(
    recordings: Trajectories,
    angle_columns: Sequence[str | int],
    quaternion_columns: Sequence[Sequence[str | int]],
) -> Columns:
    """Find the named columns and check what they hold.

    Raises
    ------
    ParameterError
        A column does not exist or is named twice.
    DataError
        An angle is not in radians, a quaternion not of length one.
    """
    names = recordings.names
    angles = tuple(_position(names, c, "angle_columns") for c in angle_columns)
    quaternions = []
    for four in quaternion_columns:
        if isinstance(four, str | int) or len(four) != 4:
            raise ParameterError(
                f"quaternion_columns has the entry {four!r}; each entry names four columns, for "
                'instance quaternion_columns=[("qw", "qx", "qy", "qz")].'
            )
        quaternions.append(tuple(_position(names, c, "quaternion_columns") for c in four))
    used = [*angles, *(k for four in quaternions for k in four)]
    if len(set(used)) != len(used):
        raise ParameterError(
            "angle_columns and quaternion_columns name a column twice; each may be named once."
        )
    lowest = tuple(_checked_angle(recordings, k) for k in angles)
    for four in quaternions:
        _check_quaternion(recordings, four)
    return Columns(names, angles, tuple(quaternions), lowest)


def column_trajectories(recordings: Trajectories, columns: Columns) -> Trajectories:
    """The recordings as the networks see them, quaternions aligned, before standardisation."""
    values = [columns.spread(columns.aligned(v)) for v in recordings.values]
    unit_of = dict(zip(recordings.names, recordings.units, strict=True))
    return replace(
        recordings,
        values=tuple(values),
        mask=tuple(np.isfinite(v) for v in values),
        names=columns.column_names,
        units=tuple(unit_of.get(name, "") for name in columns.column_names),
    )


def _position(names: tuple[str, ...], column: str | int, argument: str) -> int:
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and 0 <= int(column) < len(names):
        return int(column)
    raise ParameterError(
        f"{argument} names {column!r}; the columns are {', '.join(names)} (0 to {len(names) - 1})."
    )


def _checked_angle(recordings: Trajectories, k: int) -> float:
    every = np.concatenate([v[:, k] for v in recordings.values])
    worst = float(np.nanmax(np.abs(every)))
    if worst > _TURN + 1e-9:
        raise DataError(
            f"the angle {recordings.names[k]!r} reaches {worst:.6g}, beyond 2 pi. Angles are in "
            "radians and within one turn: give np.deg2rad(column) % (2 * np.pi)."
        )
    return 0.0 if float(np.nanmin(every)) >= 0 else -np.pi


def _check_quaternion(recordings: Trajectories, four: tuple[int, ...]) -> None:
    for n, values in enumerate(recordings.values):
        lengths = np.linalg.norm(values[:, list(four)], axis=1)
        off = np.abs(lengths - 1.0) > _OFF_LENGTH
        if off.any():
            row = int(off.argmax())
            named = ", ".join(recordings.names[k] for k in four)
            raise DataError(
                f"the quaternion ({named}) has length {lengths[row]:.4g} in row {row} of recording "
                f"{n}; needed is length 1. Divide the four columns by their norm."
            )
