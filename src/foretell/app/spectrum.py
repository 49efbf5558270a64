"""Power spectrum and dominant frequency of a recording, also with irregular stamps.

Irregular stamps are first interpolated to an even grid of the median interval; stretches with a
gap longer than ten intervals are left out. Then overlapping windowed segments are averaged. The
dominant frequency comes from the whole recording at its true stamps.

Every spectrum has a largest value. It is a rhythm if it stands out from that of an autoregressive
process of order one with the same power and memory (Torrence and Compo 1998, section 4), in
segments or in the whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.app.study import Spectrum
from foretell.data import Trajectories

Array = NDArray[np.float64]

_FALSE_ALARM = 0.01  # that a process without rhythm is said to have one, for each of two looks
_HARMONICS = 3  # a pulse often has more power at twice its rate than at the rate itself


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

    from foretell.dynamics.longrun import dominant_frequency

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
    peak = dominant_frequency(data, variable=variable, harmonics=_HARMONICS)
    one = max(stretches, key=len)
    rhythmic = any(
        _stands_out(one, peak * dt, n) for n in sorted({min(length, one.size), one.size})
    )
    return Spectrum(frequency, power / whole, peak, rhythmic)


def _stands_out(signal: Array, peak: float, length: int) -> bool:
    """Whether the power at ``peak`` (per sample) is too much for a process without rhythm."""
    from scipy.signal import detrend, welch
    from scipy.stats import chi2

    frequency, power = (v[1:] for v in welch(signal, nperseg=length, detrend="linear"))
    x = detrend(signal)
    memory = float(np.clip((x[1:] @ x[:-1]) / max(float(x @ x), 1e-300), 0.0, 0.9999))
    usual = 1 / (1 + memory**2 - 2 * memory * np.cos(2 * np.pi * frequency))
    ratio = power / (usual * power.sum() / usual.sum())
    segments = max(1, 2 * signal.size // length - 1)
    freedom = 2 * segments / (1 + (segments - 1) / (18 * segments))  # Welch 1967, half overlaps
    least = chi2.ppf(1 - _FALSE_ALARM / frequency.size, freedom) / freedom
    near = np.abs(frequency - peak) <= 1.5 * frequency[0]
    return bool(near.any() and ratio[near].max() > least)


def _even(times: Array, values: Array, step: float) -> list[Array]:
    pieces = np.split(np.arange(times.size), np.flatnonzero(np.diff(times) > 10 * step) + 1)
    even = []
    for piece in pieces:
        if piece.size >= 16:
            t = times[piece]
            grid = np.arange(t[0], t[-1] + 0.5 * step, step)
            even.append(np.interp(grid, t, values[piece]))
    return even
