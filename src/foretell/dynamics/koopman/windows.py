"""Recordings as a lifted linear model sees them: standardised states with delays, in windows.

With d delays the state of sample k is [x_k, x_(k-1), .., x_(k-d), u_(k-1), .., u_(k-d)]: what is
known at that time and nothing later. No window crosses from one recording into another.

Legend: R recordings, B windows, H steps, N variables, K inputs, s state with delays (F numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError
from foretell.data import Trajectories

Array = NDArray[np.float64]

_EVEN = 1e-3  # share of the interval by which stamps may be off


@dataclass(frozen=True)
class Windows:
    """States s (B, H+1, F) and inputs u (B, H, K); u[:, h] leads from s[:, h] to s[:, h+1]."""

    s: Array
    u: Array

    def __len__(self) -> int:
        return len(self.s)


@dataclass(frozen=True)
class States:
    """States with delays of all recordings: s (T_i, F) and u (T_i, K), row by row."""

    s: tuple[Array, ...]
    u: tuple[Array, ...]

    def windows(self, horizon: int, *, most: int | None = None) -> Windows:
        """All windows of that horizon, or about ``most`` of them, evenly spread."""
        s, u, starts = self.joined(horizon)
        if most is not None and len(starts) > most:
            starts = starts[np.linspace(0, len(starts) - 1, most).round().astype(int)]
        rows = starts[:, None] + np.arange(horizon + 1)
        return Windows(s[rows], u[rows[:, :-1]])

    def joined(self, horizon: int) -> tuple[Array, Array, NDArray[np.int64]]:
        """Rows of all recordings, and the rows at which a window can begin."""
        ends = np.cumsum([len(s) for s in self.s])
        starts = [
            np.arange(end - len(s), end - horizon) for s, end in zip(self.s, ends, strict=True)
        ]
        return np.concatenate(self.s), np.concatenate(self.u), np.concatenate(starts)

    def hold_back(self, share: float, horizon: int) -> tuple[States, States | None]:
        """Training and validation part; None where too little is left for one of them.

        Of five recordings or more, whole ones are held back; else the end of each.
        """
        if share == 0.0:
            return self, None
        if len(self.s) >= 5:
            every = max(2, round(1.0 / share))
            held = [n for n in range(len(self.s)) if n % every == every - 1]
            kept = [n for n in range(len(self.s)) if n % every != every - 1]
            first, rest = self._take(kept), self._take(held)
        else:
            cut = [round(len(s) * (1.0 - share)) for s in self.s]
            pairs = list(zip(self.s, self.u, cut, strict=True))
            first = States(tuple(s[:c] for s, _, c in pairs), tuple(u[:c] for _, u, c in pairs))
            rest = States(tuple(s[c:] for s, _, c in pairs), tuple(u[c:] for _, u, c in pairs))
        if min(_n_windows(first, horizon), _n_windows(rest, horizon)) < 2:
            return self, None
        return first, rest

    def _take(self, which: list[int]) -> States:
        return States(tuple(self.s[n] for n in which), tuple(self.u[n] for n in which))


def _n_windows(states: States, horizon: int) -> int:
    return sum(max(len(s) - horizon, 0) for s in states.s)


def with_delays(values: Array, controls: Array, n_delays: int) -> tuple[Array, Array]:
    """States (T-d, F) and inputs (T-d, K) of one recording.

    Examples
    --------
    >>> s, u = with_delays(np.arange(4.0)[:, None], 10 * np.arange(4.0)[:, None], 1)
    >>> s
    array([[ 1.,  0.,  0.],
           [ 2.,  1., 10.],
           [ 3.,  2., 20.]])
    """
    d, T = n_delays, len(values)
    past_x = [values[d - i : T - i] for i in range(d + 1)]
    past_u = [controls[d - i : T - i] for i in range(1, d + 1)]
    return np.hstack([*past_x, *past_u]), controls[d:]


def states_of(scaled: Trajectories, n_delays: int) -> States:
    """States with delays of standardised recordings."""
    empty = [np.zeros((len(t), 0)) for t in scaled.times]
    controls = scaled.controls if scaled.controls is not None else empty
    pairs = [with_delays(v, u, n_delays) for v, u in zip(scaled.values, controls, strict=True)]
    return States(tuple(s for s, _ in pairs), tuple(u for _, u in pairs))


def check_recordings(data: Trajectories, horizon: int, n_delays: int) -> float:
    """The sampling interval of recordings that a lifted linear model can use.

    Raises
    ------
    DataError
        Cells are missing, stamps are uneven, or a recording is too short.
    """
    if not data.complete:
        n = next(i for i, m in enumerate(data.mask) if not m.all())
        row, column = np.argwhere(~data.mask[n])[0]
        raise DataError(
            f"{data.names[column]!r} is missing in row {row} of recording {data.labels[n]!r}; a "
            "model that steps from sample to sample needs complete rows. Fill the gaps first: "
            "foretell.dynamics.interpolate(recordings, step); or use CPLRNN, which takes missing "
            "cells as they are."
        )
    step = data.median_interval
    for label, t in zip(data.labels, data.times, strict=True):
        off = np.abs(np.diff(t) - step)
        if off.size and off.max() > _EVEN * step:
            row = int(off.argmax())
            raise DataError(
                f"the stamps of recording {label!r} are uneven: {t[row + 1] - t[row]:.6g} passes "
                f"after row {row}, where the usual interval is {step:.6g}. Bring them to a grid "
                f"first: foretell.dynamics.interpolate(recordings, {step:.6g}); or use CPLRNN."
            )
        if len(t) < horizon + n_delays + 1:
            behind = f" and n_delays={n_delays}" if n_delays else ""
            raise DataError(
                f"recording {label!r} has {len(t)} samples; horizon={horizon}{behind} need "
                f"{horizon + n_delays + 1}. Leave it out, or write "
                f"horizon={max(len(t) - n_delays - 1, 2)}."
            )
    return step
