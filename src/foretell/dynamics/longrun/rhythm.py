"""The rhythm of a recording: the frequency with the largest power, also at irregular stamps.

Source of the non-uniform Fourier sum: Greengard and Lee, "Accelerating the nonuniform fast Fourier
transform", SIAM Review 2004. Source of the sum over harmonics: Hermes, "Measurement of pitch by
subharmonic summation", Journal of the Acoustical Society of America 1988.

Legend: T samples, N variables, F frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.dynamics.longrun.stretches import Recordings, Stretch, as_stretches

Array = NDArray[np.float64]

_PERIODS = 25
_MOST_SEGMENTS = 64


def dominant_frequency(
    recordings: Recordings,
    dt: float | None = None,
    *,
    times: ArrayLike | None = None,
    variable: int | None = None,
    harmonics: int = 1,
    segments: int | None = None,
    max_frequency: float | None = None,
) -> float:
    """Frequency with the largest power, per time unit, at equal or irregular intervals.

    Recordings are cut into segments; each loses its trend, is tapered and transformed, and powers
    are added, over variables in units of their spread. The peak is refined between grid
    frequencies. The Fourier sum runs over the true stamps; nothing is interpolated.

    Parameters
    ----------
    recordings : Trajectories or arrays of shape (T, N) or (T,), or lists of them
        Missing cells are left out.
    dt : float, optional
        Sampling interval of arrays; default 1.
    times : array of shape (T,), optional
        Stamps of one array, instead of ``dt``. A `Trajectories` brings its own.
    variable : int, optional
        Only this column.
    harmonics : int
        With 1, the strongest line. With more, the fundamental: a frequency also earns the power at
        its multiples, 0.7 as much for each further one. A pulse often has a second harmonic
        stronger than the beat itself; harmonics=3 finds the beat.
    segments : int, optional
        More segments make the peak of an unsteady rhythm less erratic and less sharp. Default:
        about 25 periods to a segment, at most 64 segments.
    max_frequency : float, optional
        Default: half the inverse median interval.

    Returns
    -------
    float
        0.0 when nothing moves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stamps = np.sort(rng.uniform(0.0, 40.0, 900))
    >>> round(dominant_frequency(np.sin(2 * np.pi * 1.25 * stamps), times=stamps), 2)
    1.25
    >>> round(dominant_frequency(np.sin(2 * np.pi * 1.25 * np.arange(0, 40, 0.01)), 0.01), 2)
    1.25
    """
    if harmonics < 1 or (segments is not None and segments < 1):
        raise ParameterError(f"harmonics={harmonics} and segments={segments} must be at least 1.")
    stretches = _stamped(as_stretches(recordings, "recordings"), dt, times)
    spans = [s.stamps(1.0) for s in stretches]
    duration = max(float(t[-1] - t[0]) for t in spans)
    if not duration > 0:
        raise DataError("recordings last no time; give at least two rows with increasing stamps.")
    if max_frequency is None:
        max_frequency = 0.5 / float(np.median(np.concatenate([np.diff(t) for t in spans])))
    columns = range(stretches[0].values.shape[1]) if variable is None else [variable]
    frequency = _strongest(stretches, columns, segments or 1, harmonics, max_frequency)
    if segments is None and frequency > 0:
        n = int(np.clip(duration * frequency / _PERIODS, 1, _MOST_SEGMENTS))
        frequency = _strongest(stretches, columns, n, harmonics, max_frequency)
    return frequency


def _strongest(
    stretches: list[Stretch],
    columns: Sequence[int],
    segments: int,
    harmonics: int,
    max_frequency: float,
) -> float:
    pieces = [s.part(i, segments) for s in stretches for i in range(segments)]
    pieces = [p for p in pieces if len(p.values) >= 4]
    if not pieces:
        return 0.0
    df = 0.25 / max(float(np.ptp(p.stamps(1.0))) for p in pieces)
    power_F = np.zeros(int(max_frequency / df) + 1)
    for column in columns:
        series = _moving(pieces, column)
        for values, times in series:
            power_F += np.abs(_fourier_sum(values, times, df, power_F.size)) ** 2
    score_F = power_F.copy()
    for h in range(2, harmonics + 1):
        multiples = power_F[::h]
        score_F[: multiples.size] += 0.7 ** (h - 1) * multiples
    lowest = min(6, power_F.size - 1)  # below one and a half periods a peak is a trend
    peak = lowest + int(np.argmax(score_F[lowest:]))
    return df * (peak + _parabola(score_F, peak)) if score_F[peak] > 0 else 0.0


def _moving(pieces: list[Stretch], column: int) -> list[tuple[Array, Array]]:
    """Tapered values and stamps of one variable, in units of its spread; none when it is still."""
    series, size = [], 0.0
    for piece in pieces:
        seen = np.isfinite(piece.values[:, column])
        if np.count_nonzero(seen) >= 4:
            values, times = piece.values[seen, column], piece.stamps(1.0)[seen]
            size = max(size, float(np.abs(values).max()))
            series.append((_level(values, times), times))
    spread = math.sqrt(sum(float(v @ v) for v, _ in series))
    if spread <= 1e-12 * size:
        return []
    return [(_tapered(v / spread, t), t) for v, t in series]


def _stamped(stretches: list[Stretch], dt: float | None, times: ArrayLike | None) -> list[Stretch]:
    if times is not None:
        stamps = np.asarray(times, dtype=np.float64)
        if len(stretches) != 1 or stamps.shape != (len(stretches[0].values),):
            raise DataError(
                f"times has shape {stamps.shape}; needed is one stamp per row of one recording. "
                "For several recordings pass a Trajectories."
            )
        stretches = [Stretch(stretches[0].values, stamps)]
    step = 1.0 if dt is None else dt
    if not step > 0:
        raise ParameterError(f"dt={dt} must be above 0.")
    return [Stretch(s.values, s.stamps(step)) for s in stretches]


def _level(values: Array, times: Array) -> Array:
    """Values without their straight-line trend."""
    t = times - times.mean()
    centred = values - values.mean()
    return np.asarray(centred - t * (t @ centred) / (t @ t))


def _tapered(values: Array, times: Array) -> Array:
    window = np.sin(np.pi * (times - times[0]) / (times[-1] - times[0])) ** 2
    return np.asarray(window * (values - (window @ values) / window.sum()))


def _fourier_sum(values: Array, times: Array, df: float, n: int) -> NDArray[np.complex128]:
    """Sum of values * exp(-2 pi i f t) at f = 0, df, .. (n - 1) df, to about six digits.

    Every sample is spread over a fine grid with a Gaussian, the grid is transformed, and the
    Gaussian is divided out.
    """
    n_grid = 4 * n
    reach = 6
    tau = math.pi * reach / (4 * n * n * 2 * 1.5)
    x = 2 * math.pi * np.mod((times - times[0]) * df, 1.0)
    centre = np.round(x * n_grid / (2 * math.pi)).astype(np.int64)
    grid = np.zeros(n_grid)
    for offset in range(-reach, reach + 1):
        distance = x - (centre + offset) * (2 * math.pi / n_grid)
        weight = values * np.exp(-(distance**2) / (4 * tau))
        grid += np.bincount((centre + offset) % n_grid, weights=weight, minlength=n_grid)
    k = np.arange(n)
    transformed = np.fft.rfft(grid)[:n] / n_grid
    return np.asarray(transformed * math.sqrt(math.pi / tau) * np.exp(tau * k**2))


def _parabola(power: Array, peak: int) -> float:
    """Offset of the maximum of a parabola through three logarithms, in bins."""
    if not 0 < peak < len(power) - 1 or power[peak - 1] <= 0 or power[peak + 1] <= 0:
        return 0.0
    left, middle, right = np.log(power[peak - 1 : peak + 2])
    bend = left - 2 * middle + right
    return float(0.5 * (left - right) / bend) if bend < 0 else 0.0
