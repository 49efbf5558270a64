"""Recordings as the training sees them: parts by recording, jumps found, windows drawn.

Legend: B windows, T steps, n columns, K inputs. Jump k of a recording lies between its samples k
and k + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.sequences import Sequences, complete_rows, hold_back

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Whole = NDArray[np.int64]

SPREADS = 8.0  # median absolute deviations above the median
SMALLEST = 0.25  # least threshold, in median steps: rounding is no jump
BENDING = 3.0  # least threshold, in median residuals: even bending is no jump
_WIDEST = 10.0  # model time; no window crosses a wider gap
_MANY_RECORDINGS = 5  # from so many on whole recordings are held back


@dataclass(frozen=True)
class Jumps:
    """Where recordings jump.

    Parameters
    ----------
    flags : tuple of bool arrays (T_i - 1,)
        Whether there is a jump between samples k and k + 1.
    threshold : float
        Residual above which a step is one, in standard deviations of the columns.
    residuals : tuple of arrays (T_i - 1,)
        Residual of every step; NaN beside a missing sample.
    """

    flags: tuple[BoolArray, ...]
    threshold: float
    residuals: tuple[Array, ...]

    @property
    def share(self) -> float:
        """Share of the steps that are jumps."""
        return self.n_jumps / max(sum(f.size for f in self.flags), 1)

    @property
    def n_jumps(self) -> int:
        """Number of jumps."""
        return sum(int(f.sum()) for f in self.flags)

    def replaced(self, index: list[Whole]) -> Jumps:
        """The same recordings with jumps after the given samples instead of those found."""
        flags = []
        for samples, old in zip(index, self.flags, strict=True):
            flag = np.zeros(old.size, dtype=bool)
            flag[samples] = True
            flags.append(flag)
        return replace(self, flags=tuple(flags))

    def __repr__(self) -> str:
        return f"Jumps({self.n_jumps} in {len(self.flags)} recordings, {self.share:.1%} of steps)"


def residuals(values: Array, dt: Array) -> Array:
    """How badly straight lines from both sides predict each step (T-1,), the better one counts.

    Fast smooth motion bends little within a step. A jump is missed by the line from before and by
    the line from after; the steps beside it are missed from one side only.
    """
    speed = np.diff(values, axis=0) / dt[:, None]
    change = np.linalg.norm(np.diff(speed, axis=0), axis=1)
    before = np.append(np.inf, change) * dt
    after = np.append(change, np.inf) * dt
    return np.asarray(np.fmin(before, after)) if len(dt) > 1 else np.zeros(len(dt))


def find_jumps(sequences: Sequences, threshold: float | str = "auto") -> Jumps:
    """Steps whose residual stands out from the others.

    Parameters
    ----------
    threshold : float or "auto"
        In standard deviations of the columns; "auto" is the median plus eight median absolute
        deviations, and at least three times the median and a quarter of the median step.
    """
    found = tuple(residuals(v, d) for v, d in zip(sequences.values, sequences.dt, strict=True))
    if threshold == "auto":
        every = np.concatenate(found)
        every = every[np.isfinite(every)]
        steps = np.concatenate(
            [np.linalg.norm(np.diff(v, axis=0), axis=1) for v in sequences.values]
        )
        usual = float(np.nanmedian(steps)) if np.isfinite(steps).any() else 0.0
        middle = float(np.median(every)) if every.size else 0.0
        spread = float(np.median(np.abs(every - middle))) if every.size else 0.0
        limit = max(middle + SPREADS * spread, BENDING * middle, SMALLEST * usual)
    else:
        limit = float(threshold)
    with np.errstate(invalid="ignore"):
        flags = tuple(
            _without_enclosed((r > limit) & np.isfinite(r), v, d, limit)
            for r, v, d in zip(found, sequences.values, sequences.dt, strict=True)
        )
    return Jumps(flags, limit, found)


def _without_enclosed(flags: BoolArray, values: Array, dt: Array, limit: float) -> BoolArray:
    """Clear the flag of a step beside jumps only that moves on like the steps beyond them."""
    speed = np.diff(values, axis=0) / dt[:, None]
    cleared = np.array(flags)
    padded = np.concatenate([[True], flags, [True]])
    for k in np.flatnonzero(flags & padded[:-2] & padded[2:]):
        beyond = [j for j in (k - 2, k + 2) if 0 <= j < len(flags) and not flags[j]]
        if any(np.linalg.norm(speed[k] - speed[j]) * dt[k] <= limit for j in beyond):
            cleared[k] = False
    return cleared


def hold_back_recordings(
    sequences: Sequences,
    flags: tuple[BoolArray, ...],
    rates: tuple[Array, ...] | None,
    share: float,
    length: int,
) -> tuple[Sequences, Sequences, tuple[BoolArray, ...], tuple[Array, ...] | None]:
    """Training and validation part; flags and derivatives of the former.

    With five recordings or more whole ones are held back, evenly spread; with fewer, the end of
    each one.
    """
    n = len(sequences.values)
    count = round(share * n)
    long = [k for k, v in enumerate(sequences.values) if len(v) > length]
    if n < _MANY_RECORDINGS or count == 0 or len(long) <= count:
        first, rest = hold_back(sequences, share, length)
        lengths = [len(v) for v in first.values]
        cut = tuple(f[: k - 1] for f, k in zip(flags, lengths, strict=True))
        kept = None if rates is None else tuple(
            r[:k] for r, k in zip(rates, lengths, strict=True)
        )  # fmt: skip
        return first, rest, cut, kept
    held = {long[int(k)] for k in np.linspace(0, len(long) - 1, count + 2)[1:-1]}
    stay = [k for k in range(n) if k not in held]
    return (
        pick(sequences, stay),
        pick(sequences, sorted(held)),
        tuple(flags[k] for k in stay),
        None if rates is None else tuple(rates[k] for k in stay),
    )


def cut_at_gaps(
    sequences: Sequences,
    flags: tuple[BoolArray, ...],
    rates: tuple[Array, ...] | None,
) -> tuple[Sequences, tuple[BoolArray, ...], tuple[Array, ...] | None]:
    """Make two recordings of one wherever a gap is too wide to be integrated across."""
    values, dts, controls, cut_flags, cut_rates = [], [], [], [], []
    for k, (v, dt) in enumerate(zip(sequences.values, sequences.dt, strict=True)):
        ends = [0, *(np.flatnonzero(dt > _WIDEST) + 1), len(v)]
        for a, b in pairwise(ends):
            values.append(v[a:b])
            dts.append(dt[a : b - 1])
            cut_flags.append(flags[k][a : b - 1])
            if sequences.controls is not None:
                controls.append(sequences.controls[k][a:b])
            if rates is not None:
                cut_rates.append(rates[k][a:b])
    return (
        Sequences(tuple(values), tuple(dts), tuple(controls) or None, sequences.driven),
        tuple(cut_flags),
        None if rates is None else tuple(cut_rates),
    )


def pick(sequences: Sequences, numbers: list[int]) -> Sequences:
    """Some of the recordings."""
    return Sequences(
        tuple(sequences.values[k] for k in numbers),
        tuple(sequences.dt[k] for k in numbers),
        None if sequences.controls is None else tuple(sequences.controls[k] for k in numbers),
        sequences.driven,
    )


@dataclass(frozen=True)
class Batch:
    """Windows with time first, in float32.

    Attributes: ``x`` (T+1,B,n), NaN where missing; ``dt`` (T,B); ``u`` (T,B,K) or None; ``jump``
    (T,B), 1 where the step is a jump; ``xdot`` (T+1,B,n) or None.
    """

    x: NDArray[np.float32]
    dt: NDArray[np.float32]
    u: NDArray[np.float32] | None
    jump: NDArray[np.float32]
    xdot: NDArray[np.float32] | None = None


class WindowDrawer:
    """Draws windows of any length; none crosses from one recording into another."""

    def __init__(
        self,
        sequences: Sequences,
        flags: tuple[BoolArray, ...],
        derivatives: tuple[Array, ...] | None = None,
    ) -> None:
        self._x = np.concatenate(sequences.values)
        self._whole = [complete_rows(v) for v in sequences.values]
        self._first = np.cumsum([0, *[len(v) for v in sequences.values[:-1]]])
        self._lengths = np.array([len(v) for v in sequences.values])
        self._dt = np.concatenate([np.append(d, np.nan) for d in sequences.dt])
        self._jump = np.concatenate([np.append(f, False) for f in flags]).astype(np.float32)
        self._u = None if sequences.controls is None else np.concatenate(sequences.controls)
        self._xdot = None if derivatives is None else np.concatenate(derivatives)
        self._starts: dict[int, Whole] = {}

    def starts(self, length: int) -> Whole:
        """Rows at which a window of so many steps can begin: complete ones with enough after."""
        if length not in self._starts:
            self._starts[length] = np.concatenate(
                [
                    first + np.flatnonzero(whole[: max(len(whole) - length, 0)])
                    for first, whole in zip(self._first, self._whole, strict=True)
                ]
            )
        return self._starts[length]

    def draw(self, length: int, batch: int, rng: np.random.Generator) -> Batch:
        """So many windows of ``length`` steps."""
        starts = self.starts(length)
        rows = starts[rng.integers(starts.size, size=batch)] + np.arange(length + 1)[:, None]
        inner = rows[:-1]
        return Batch(
            self._x[rows].astype(np.float32),
            self._dt[inner].astype(np.float32),
            None if self._u is None else self._u[inner].astype(np.float32),
            self._jump[inner],
            None if self._xdot is None else self._xdot[rows].astype(np.float32),
        )
