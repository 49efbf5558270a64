"""Delay embedding: a state out of one measured signal and its own past.

Stamps may be irregular. Every row keeps its true stamp and true value; only the lagged copies are
interpolated, linearly, between the samples around the lagged time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]

GAP_INTERVALS = 5.0  # a lagged copy is not interpolated across more than this, or than the lag
MAX_GRID = 200_000


def choose_lag(trajectories: Trajectories) -> float:
    """Lag at which the signals have forgotten most of their present, in time units.

    The smallest lag at which the autocorrelation, averaged over variables and recordings, falls to
    1/e; for a pure oscillation that is 0.19 periods. Where a slow drift holds the autocorrelation
    up, half the way down to its first dip is enough (a dip is a minimum from which it regains 5 %
    of its fall, and at least 0.005). The first zero is not used: a drift moves it without bound.

    Irregular stamps are interpolated to a regular grid of the median interval first. Regular stamps
    give a multiple of the interval, so that lagged copies are exact samples.

    Raises
    ------
    DataError
        No variable changes, or the recordings are shorter than the memory of the signal.

    Examples
    --------
    >>> t = np.arange(0, 20, 0.05)
    >>> round(choose_lag(Trajectories.from_arrays(np.sin(2 * np.pi * t), t)), 6)
    0.2
    """
    step = trajectories.median_interval
    longest = max(float(t[-1] - t[0]) for t in trajectories.times)
    step = max(step, longest / MAX_GRID)
    n_lags = int(longest / step / 2) + 1
    products, weights = np.zeros(n_lags), np.zeros(n_lags)
    for n in range(trajectories.n_variables):
        mean, scale = _moments(trajectories, n)
        if scale == 0.0:
            continue
        for times, values, mask in zip(
            trajectories.times, trajectories.values, trajectories.mask, strict=True
        ):
            seen = mask[:, n]
            grid = np.arange(times[0], times[-1] + 0.5 * step, step)
            if seen.sum() < 2 or grid.size < 3:
                continue
            signal = (np.interp(grid, times[seen], values[seen, n]) - mean) / scale
            covered = min(n_lags, grid.size // 2 + 1)
            products[:covered] += _lagged_products(signal)[:covered]
            weights[:covered] += grid.size - np.arange(covered)
    if not products[0] > 0:
        raise DataError("No variable changes, so there is no lag to choose. Give lag=... .")
    correlation = np.divide(products, weights, out=np.ones(n_lags), where=weights > 0)
    below = np.flatnonzero(correlation <= _level(correlation / correlation[0]) * correlation[0])
    if below.size == 0:
        raise DataError(
            f"The signal remembers longer than half of the longest recording ({longest:.4g}), so "
            "no lag can be chosen. Give longer recordings, remove a drift, or give lag=... ."
        )
    return float(max(below[0], 1) * step)


def delay_embed(
    trajectories: Trajectories, *, dimension: int, lag: float | None = None
) -> Trajectories:
    """Add ``dimension - 1`` lagged copies of every variable.

    Parameters
    ----------
    trajectories : Trajectories
        Embedding never reaches from one recording into another; embed after ``split``, so that it
        does not reach from one part into the other either.
    dimension : int
        Number of copies, the present one included. 1 changes nothing.
    lag : float, optional
        In time units; default `choose_lag`.

    Returns
    -------
    Trajectories
        The variables themselves first, then all copies at lag 1, at lag 2, ... Rows without a full
        past are left out: the first ``(dimension - 1) * lag`` of every recording, and rows whose
        past falls into a gap.

    Raises
    ------
    DataError
        A recording is too short for the lag and dimension.

    Notes
    -----
    F. Takens, "Detecting strange attractors in turbulence", Lect. Notes Math. 898 (1981) 366-381.

    Examples
    --------
    >>> pulse = Trajectories.from_arrays(np.sin(np.arange(50.0)), names=["pulse"])
    >>> delay_embed(pulse, dimension=3, lag=2.0).names
    ('pulse', 'pulse(t-2)', 'pulse(t-4)')
    """
    if dimension < 1:
        raise ParameterError(f"dimension={dimension} must be at least 1.")
    if lag is not None and not (np.isfinite(lag) and lag > 0):
        raise ParameterError(f"lag={lag} must be a positive number of time units.")
    if dimension == 1:
        return trajectories
    lag = choose_lag(trajectories) if lag is None else float(lag)
    limit = max(lag, GAP_INTERVALS * trajectories.median_interval) * (1.0 + 1e-9)
    blocks, rows, dropped = [], [], 0
    for label, times, values, mask in zip(
        trajectories.labels, trajectories.times, trajectories.values, trajectories.mask, strict=True
    ):
        slack = 1e-9 * (abs(float(times[-1])) + lag)
        past = times >= times[0] + (dimension - 1) * lag - slack
        copies = [values]
        for k in range(1, dimension):
            at = times - k * lag
            copies.append(
                np.column_stack(
                    [
                        _at(at, times, v, m, limit, slack)
                        for v, m in zip(values.T, mask.T, strict=True)
                    ]
                )
            )
        stacked = np.hstack(copies)
        whole = past & np.isfinite(stacked[:, values.shape[1] :]).all(axis=1)
        dropped += int(past.sum() - whole.sum())
        if whole.sum() < 2:
            raise DataError(
                f"Recording {label!r} lasts {times[-1] - times[0]:.4g} and {int(whole.sum())} of "
                f"its rows have a past of (dimension - 1) x lag = {(dimension - 1) * lag:.4g} "
                "without a gap. Use a smaller dimension or lag, or leave it out with select()."
            )
        rows.append(whole)
        blocks.append(stacked[whole])
    kept = trajectories.take_rows(rows)
    delays = ["", *(f"(t-{k * lag:.4g})" for k in range(1, dimension))]
    notes = list(trajectories.notes)
    if dropped:
        notes.append(f"{dropped} rows whose past falls into a gap left out of the delay embedding")
    return replace(
        kept,
        values=tuple(blocks),
        mask=tuple(np.isfinite(b) for b in blocks),
        names=tuple(f"{name}{delay}" for delay in delays for name in trajectories.names),
        units=trajectories.units * dimension,
        notes=tuple(notes),
    )


def _at(
    at: Array,
    times: Array,
    values: Array,
    mask: NDArray[np.bool_],
    limit: float,
    slack: float,
) -> Array:
    """Linear interpolation between observed samples; NaN outside and across gaps over `limit`."""
    seen_times, seen = times[mask], values[mask]
    if seen.size < 2:
        return np.full(at.size, np.nan)
    right = np.clip(np.searchsorted(seen_times, at - slack), 1, seen.size - 1)
    width = seen_times[right] - seen_times[right - 1]
    inside = (at >= seen_times[0] - slack) & (at <= seen_times[-1] + slack)
    on_sample = (
        np.minimum(np.abs(at - seen_times[right]), np.abs(at - seen_times[right - 1])) <= slack
    )
    usable = inside & ((width <= limit) | on_sample)
    return np.where(usable, np.interp(at, seen_times, seen), np.nan)


def _moments(trajectories: Trajectories, n: int) -> tuple[float, float]:
    cells = np.concatenate(
        [v[m[:, n], n] for v, m in zip(trajectories.values, trajectories.mask, strict=True)]
    )
    if cells.size == 0 or np.ptp(cells) <= 1e-12 * np.abs(cells).max():
        return 0.0, 0.0
    return float(cells.mean()), float(cells.std())


def _level(correlation: Array) -> float:
    """How far the autocorrelation has to fall: 1/e, or half the way to its first dip."""
    lowest = np.minimum.accumulate(correlation)
    risen = np.flatnonzero(correlation - lowest >= np.maximum(0.005, 0.05 * (1.0 - lowest)))
    if risen.size == 0:
        return float(1.0 / np.e)
    return float(max(1.0 / np.e, 0.5 * (1.0 + lowest[risen[0]])))


def _lagged_products(signal: Array) -> Array:
    """Sum over t of s(t) s(t + k), for every k, by fast Fourier transform."""
    size = 1 << (2 * signal.size - 1).bit_length()
    spectrum = np.fft.rfft(signal, size)
    return np.fft.irfft(np.abs(spectrum) ** 2, size)[: signal.size]
