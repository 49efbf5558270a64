"""Recordings as a training sees them: standardised, in model time, cut into parts and windows."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FEWEST = 50  # complete rows that a validation part needs


@dataclass(frozen=True)
class Sequences:
    """Standardised recordings in model time (one unit is about one sample).

    Attributes: ``values`` (T_i, N), NaN where unobserved; ``dt`` (T_i - 1,); ``controls``
    (T_i, K) or None; ``driven``: whether a run can be expected to follow the recording because
    its controls are inputs, not something derived from the stamps.
    """

    values: tuple[Array, ...]
    dt: tuple[Array, ...]
    controls: tuple[Array, ...] | None
    driven: bool = False

    @property
    def n_controls(self) -> int:
        """Number of inputs."""
        return 0 if self.controls is None else int(self.controls[0].shape[1])


class WindowSampler:
    """Draws batches of windows with noise from recordings.

    A window never crosses from one recording into another and starts at a complete row. Its first
    ``warm_up`` samples after the start are hidden, so that they neither count nor force.
    """

    def __init__(
        self, sequences: Sequences, length: int, batch: int, noise: float, warm_up: int = 0
    ) -> None:
        self._values = np.concatenate(sequences.values)
        ends = np.cumsum([v.shape[0] for v in sequences.values])
        self._dt = np.concatenate([np.append(dt, np.nan) for dt in sequences.dt])
        self._controls = None if sequences.controls is None else np.concatenate(sequences.controls)
        starts = [
            end - v.shape[0] + np.flatnonzero(complete_rows(v[: len(v) - length]))
            for v, end in zip(sequences.values, ends, strict=True)
            if v.shape[0] > length
        ]
        self._starts = np.concatenate(starts) if starts else np.zeros(0, np.intp)
        self._offsets = np.arange(length + 1)
        self._batch, self._noise, self._warm_up = batch, noise, warm_up

    @property
    def n_windows(self) -> int:
        """Number of different windows."""
        return int(self._starts.size)

    def resized(self, batch: int) -> WindowSampler:
        """The same windows, drawn in batches of another size."""
        other = copy(self)
        other._batch = batch
        return other

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array | None, Array]:
        """One batch: x (B, T+1, N) with noise, u (B, T, K) or None, dt (B, T)."""
        start = self._starts[rng.integers(self._starts.size, size=self._batch)]
        rows = start[:, None] + self._offsets
        x = self._values[rows]
        if self._noise > 0.0:
            x = x + self._noise * rng.standard_normal(x.shape)
        x[:, 1 : self._warm_up + 1] = np.nan
        inner = rows[:, :-1]
        u = None if self._controls is None else self._controls[inner]
        return x, u, self._dt[inner]


def complete_rows(values: Array) -> NDArray[np.bool_]:
    """Which rows (T,) have no missing cell."""
    return np.asarray(np.isfinite(values).all(axis=1))


def hold_back(sequences: Sequences, share: float, length: int) -> tuple[Sequences, Sequences]:
    """Training part and validation part, cut in time; too short a recording is all training.

    Where too few complete rows remain for validation, all of the data take its place.
    """
    cuts = []
    for values in sequences.values:
        keep = len(values) - round(share * len(values))
        cuts.append(keep if keep > length else len(values))
    first = _cut(sequences, [slice(0, c) for c in cuts])
    rest = _cut(sequences, [slice(c, None) for c in cuts])
    kept = [n for n, v in enumerate(rest.values) if len(v) > 1 and complete_rows(v).any()]
    if sum(int(complete_rows(rest.values[n]).sum()) for n in kept) < _FEWEST:
        return first, sequences
    return first, Sequences(
        tuple(rest.values[n] for n in kept),
        tuple(rest.dt[n] for n in kept),
        None if rest.controls is None else tuple(rest.controls[n] for n in kept),
        rest.driven,
    )


def _cut(sequences: Sequences, rows: list[slice]) -> Sequences:
    def steps(s: slice, n: int) -> slice:
        start, stop, _ = s.indices(n)
        return slice(start, max(stop - 1, start))

    return Sequences(
        tuple(v[s] for v, s in zip(sequences.values, rows, strict=True)),
        tuple(
            d[steps(s, len(v))]
            for d, v, s in zip(sequences.dt, sequences.values, rows, strict=True)
        ),
        None
        if sequences.controls is None
        else tuple(c[s] for c, s in zip(sequences.controls, rows, strict=True)),
        sequences.driven,
    )


def decorrelation(sequences: Sequences) -> int:
    """Samples until the autocorrelation of a variable first reaches zero (median over variables).

    For an oscillation this is a quarter of the period, which is where the forcing intervals that
    work in the literature lie.
    """
    longest = max(sequences.values, key=len)
    firsts = []
    for column in longest.T:
        seen = np.isfinite(column)
        if not seen.any():
            continue
        x = np.where(seen, column - column[seen].mean(), 0.0)
        n = 1 << (2 * len(x) - 1).bit_length()
        power = np.abs(np.fft.rfft(x, n)) ** 2
        correlation = np.fft.irfft(power, n)[: len(x)]
        below = np.flatnonzero(correlation <= 0)
        firsts.append(int(below[0]) if below.size else len(x))
    return round(float(np.median(firsts))) if firsts else len(longest)
