"""Power spectrum and dominant frequency of a recording, also with irregular stamps.

Irregular stamps are first interpolated to an even grid of the median interval; stretches with a
gap longer than ten intervals are left out. Then overlapping windowed segments are averaged.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from foretell.app.study import Spectrum
from foretell.data import Trajectories

Array = NDArray[np.float64]

_FUNDAMENTAL = 0.2  # share of the largest peak that makes a lower one the fundamental


def power_spectrum(data: Trajectories, *, step: float | None = None, variable: int = 0) -> Spectrum:
    """Averaged power spectrum of one variable over all recordings.

    Parameters
    ----------
    data : Trajectories
        One or more recordings.
    step : float, optional
        Grid step in time units; the median interval by default. Give the same step for two
        spectra that are to be compared.
    variable : int
        Which variable.

    Returns
    -------
    Spectrum
        Frequencies in 1 / time unit; ``peak`` is 0 when the signal stands still.

    Examples
    --------
    >>> t = np.arange(0.0, 60.0, 0.01)
    >>> tone = Trajectories.from_arrays(np.sin(2 * np.pi * 1.25 * t), t, time_unit="s")
    >>> round(power_spectrum(tone).peak, 2)
    1.25
    """
    from scipy.signal import welch

    dt = data.median_interval if step is None else step
    stretches = []
    for times, values, mask in zip(data.times, data.values, data.mask, strict=True):
        seen = mask[:, variable] & np.isfinite(values[:, variable])
        stretches += _even(times[seen], values[seen, variable], dt)
    if not stretches:
        return Spectrum(np.array([0.0, 0.5 / dt]), np.zeros(2), 0.0)
    longest = max(s.size for s in stretches)
    length = max(16, min(4096, longest // 3)) if longest >= 48 else longest
    total, frequency, weight = None, np.zeros(0), 0
    for stretch in stretches:
        if stretch.size >= length:
            frequency, power = welch(stretch, fs=1.0 / dt, nperseg=length, detrend="linear")
            total = power * stretch.size if total is None else total + power * stretch.size
            weight += stretch.size
    power = np.zeros(frequency.size) if total is None else total / weight
    spread = max(float(np.ptp(s)) for s in stretches)
    whole = float(power.sum())
    if not np.isfinite(whole) or whole <= 1e-20 * spread**2 or spread == 0.0:
        return Spectrum(frequency, np.zeros(frequency.size), 0.0)
    return Spectrum(frequency, power / whole, _peak(frequency, power))


def _even(times: Array, values: Array, step: float) -> list[Array]:
    pieces = np.split(np.arange(times.size), np.flatnonzero(np.diff(times) > 10 * step) + 1)
    even = []
    for piece in pieces:
        if piece.size >= 16:
            t = times[piece]
            grid = np.arange(t[0], t[-1] + 0.5 * step, step)
            even.append(np.interp(grid, t, values[piece]))
    return even


def _peak(frequency: Array, power: Array) -> float:
    """The dominant frequency, refined by a parabola through three logarithms.

    It is the largest peak, or the fundamental of which that peak is a harmonic: a pulse often has
    more power at twice its rate.
    """
    top = 1 + int(np.argmax(power[1:]))
    for divisor in (4, 3, 2):
        centre = top / divisor
        low, high = max(2, math.floor(0.9 * centre)), math.ceil(1.1 * centre) + 1
        if centre >= 4:
            near = low + int(np.argmax(power[low:high]))
            local = power[near] >= max(power[near - 1], power[near + 1])
            if local and power[near] > _FUNDAMENTAL * power[top]:
                top = near
                break
    if top + 1 >= power.size or top < 2:
        return float(frequency[top])
    left, middle, right = np.log(np.maximum(power[top - 1 : top + 2], 1e-300))
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float(frequency[top] + np.clip(shift, -0.5, 0.5) * (frequency[1] - frequency[0]))
