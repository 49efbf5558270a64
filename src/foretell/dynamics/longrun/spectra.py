"""How differently two sets of recordings spread their power over frequencies.

    D_H = mean over variables of sqrt(1 - sum over frequencies of sqrt(f g))

with f, g the power spectra, smoothed by a Gaussian and normalised to sum 1.

Source: Mikhaeil, Monfared, Durstewitz, "On the difficulty of learning chaotic dynamics with RNNs",
NeurIPS 2022; Hess, Monfared, Brenner, Durstewitz, "Generalized teacher forcing for learning chaotic
dynamics", ICML 2023.

Legend: T samples, N variables, F frequencies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.dynamics.longrun.stretches import Recordings, Stretch, as_pair, points

Array = NDArray[np.float64]

_FLAT = 1e-6  # a variable that moves less than this part of the other set's spread stands still


def power_spectrum_hellinger(
    true: Recordings,
    generated: Recordings,
    *,
    smoothing: float = 20.0,
    segment: int | None = None,
    step: float | None = None,
) -> float:
    """Hellinger distance of the power spectra, averaged over variables (D_H), between 0 and 1.

    1 where only one of the two moves, ends at rest (its last quarter stands still), or is not
    finite. Symmetric for finite data.

    Parameters
    ----------
    true, generated : Trajectories or arrays of shape (T, N), or lists of them
        Arrays are taken as equally spaced with one common step. Trajectories keep their stamps:
        both are brought to one even grid by linear interpolation. Missing cells of ``true``, and
        of a generated `Trajectories`, are interpolated too.
    smoothing : float
        Standard deviation of the Gaussian in frequency bins (0: none), at most a twentieth of all
        bins: on fewer than about 800 samples the smoothing is less than asked for.
    segment : int, optional
        Samples per spectrum; default: the shortest of all recordings. Longer ones are cut into
        segments whose spectra are averaged; shorter ones are left out.
    step : float, optional
        Grid step for Trajectories, in time units; default: the median interval of ``true``.

    Examples
    --------
    >>> t = np.arange(4000) * 0.01
    >>> slow, fast = np.sin(6.0 * t), np.sin(60.0 * t)
    >>> power_spectrum_hellinger(slow, np.cos(6.0 * t)) < 0.01
    True
    >>> round(power_spectrum_hellinger(slow, fast), 2)
    1.0
    >>> power_spectrum_hellinger(slow, np.zeros(4000))
    1.0
    """
    if smoothing < 0 or (segment is not None and segment < 4):
        raise ParameterError(f"smoothing={smoothing} must be >= 0 and segment={segment} >= 4.")
    first, second = as_pair(true, generated)
    escaped = any(s.times is None and np.isnan(s.values).any() for s in second)
    if escaped or any(np.isinf(points(s)).any() for s in (first, second)):
        return 1.0
    step = step or _median_interval(first) or _median_interval(second) or 1.0
    sets = [[_even(s, step) for s in stretches] for stretches in (first, second)]
    length = segment or min(len(values) for values in (*sets[0], *sets[1]))
    if length < 4 or any(all(len(v) < length for v in values) for values in sets):
        raise DataError(
            f"A spectrum of {length} samples is needed, and the longest recordings have "
            f"{[max(len(v) for v in values) for values in sets]}; give longer recordings, leave "
            "the shortest out, or pass a smaller segment (at least 4)."
        )
    spread = np.maximum(*(np.concatenate(values).std(axis=0) for values in sets))
    still = [np.concatenate(values).std(axis=0) <= _FLAT * spread for values in sets]
    if _ends_at_rest(sets[0], spread) != _ends_at_rest(sets[1], spread):
        return 1.0
    f, g = (_mean_spectrum(values, length, smoothing) for values in sets)
    distances = np.sqrt(np.maximum(1.0 - np.sqrt(f * g).sum(axis=0), 0.0))
    distances[still[0] != still[1]] = 1.0
    distances[still[0] & still[1]] = 0.0
    return float(distances.mean())


def _median_interval(stretches: list[Stretch]) -> float:
    """Median distance of neighbouring stamps, 0 where there are none."""
    gaps = [np.diff(s.times) for s in stretches if s.times is not None]
    return float(np.median(np.concatenate(gaps))) if gaps else 0.0


def _even(stretch: Stretch, step: float) -> Array:
    """Values on an even grid, gaps filled by linear interpolation."""
    values, times = stretch.values, stretch.stamps(step)
    regular = np.allclose(np.diff(times), step, rtol=1e-6, atol=0.0)
    if regular and np.isfinite(values).all():
        return values
    grid = times if regular else np.arange(times[0], times[-1] + 1e-9 * step, step)
    even = np.zeros((grid.size, values.shape[1]))
    for j, column in enumerate(values.T):
        seen = np.isfinite(column)
        if seen.any():
            even[:, j] = np.interp(grid, times[seen], column[seen])
    return even


def _ends_at_rest(recordings: list[Array], spread: Array) -> bool:
    tails = [values[-max(len(values) // 4, 2) :] for values in recordings]
    return all(bool((tail.std(axis=0) <= _FLAT * spread).all()) for tail in tails)


def _mean_spectrum(recordings: list[Array], length: int, smoothing: float) -> Array:
    """Smoothed power (F, N), every column summing to 1 (or 0 where nothing moves)."""
    from scipy.ndimage import gaussian_filter1d

    power = np.zeros((length // 2 + 1, recordings[0].shape[1]))
    middle = np.concatenate(recordings).mean(axis=0)
    size = np.concatenate(recordings).std(axis=0)
    size[size == 0] = 1.0
    for values in recordings:
        for begin in range(0, len(values) - length + 1, length):
            part = (values[begin : begin + length] - middle) / size
            power += np.abs(np.fft.rfft(part - part.mean(axis=0), axis=0)) ** 2
    width = min(smoothing, len(power) / 20)
    if width > 0:
        power = gaussian_filter1d(power, width, axis=0)
    total = power.sum(axis=0)
    return np.asarray(power / np.where(total > 0, total, 1.0))
