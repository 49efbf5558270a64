"""How long a forecast from a recorded state can be used.

Legend: S starts, T samples from each start (the first is the start itself), N variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.dynamics.longrun.stretches import Recordings, Stretch, as_pair, points

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ValidPredictionTime:
    """How long forecasts stay below the error limit.

    Attributes
    ----------
    times : array of shape (S,)
        Time from each start to the first sample above the limit, in time units; where the limit
        was never reached, the length of the forecast.
    reached : boolean array of shape (S,)
        Whether the limit was reached. Where it was not, the true time is longer.
    median : float
        Median of ``times``; a lower bound when half or more never reached the limit.
    lyapunov_times : float or None
        The median in units of 1 / (largest Lyapunov exponent), when that was given.
    threshold : float
    """

    times: Array
    reached: NDArray[np.bool_]
    median: float
    lyapunov_times: float | None
    threshold: float

    def __repr__(self) -> str:
        bound = ">= " if 2 * np.count_nonzero(self.reached) <= self.reached.size else ""
        text = f"<ValidPredictionTime: median {bound}{self.median:.4g}"
        if self.lyapunov_times is not None:
            text += f" ({bound}{self.lyapunov_times:.3g} Lyapunov times)"
        return text + f" over {self.times.size} starts, limit {self.threshold:g}>"


def prediction_error(true: Recordings, predicted: Recordings, *, steps: int = 20) -> float:
    """Mean absolute error over the first ``steps`` samples after each start.

    Parameters
    ----------
    true, predicted : arrays of shape (S, T, N), or lists of arrays of shape (T, N)
        One forecast per start; row 0 is the start itself and does not count. Missing true cells
        do not count either; a prediction that is not finite makes the error infinite.
    steps : int
        Forecasts that are shorter count as far as they go.

    Examples
    --------
    >>> true = np.zeros((2, 4, 1))
    >>> predicted = np.array([[0.0, 1.0, 2.0, 9.0], [0.0, 3.0, 2.0, 9.0]])[:, :, None]
    >>> prediction_error(true, predicted, steps=2)
    2.0
    """
    if steps < 1:
        raise ParameterError(f"steps={steps} must be at least 1.")
    pairs = [(t[1 : steps + 1], p[1 : steps + 1]) for t, p in _forecasts(true, predicted)]
    errors = np.concatenate([np.abs(p - t)[np.isfinite(t)] for t, p in pairs])
    if not errors.size:
        raise DataError("No observed cell follows any start; give longer forecasts.")
    return float(errors.mean()) if np.isfinite(errors).all() else float("inf")


def valid_prediction_time(
    true: Recordings,
    predicted: Recordings,
    *,
    dt: float = 1.0,
    times: ArrayLike | None = None,
    threshold: float = 0.4,
    scale: ArrayLike | None = None,
    lyapunov_exponent: float | None = None,
) -> ValidPredictionTime:
    """Time until the error of a forecast passes ``threshold`` standard deviations.

    The error is the root mean square over the observed variables, each divided by its standard
    deviation; it crosses the limit at the first sample above it.

    Parameters
    ----------
    true, predicted : Trajectories, arrays of shape (S, T, N), or lists of arrays of shape (T, N)
        One forecast per start, row 0 being the start itself.
    dt : float
        Sampling interval. A `Trajectories` in ``true`` brings its own stamps.
    times : array of shape (T,), optional
        Stamps that all forecasts share, instead of ``dt``.
    threshold : float
        In standard deviations.
    scale : array of shape (N,), optional
        The standard deviations; pass those of the whole recording. Default: those of ``true``,
        which short forecasts underestimate.
    lyapunov_exponent : float, optional
        The largest, per time unit.

    Examples
    --------
    >>> t = np.arange(0.0, 5.0, 0.01)
    >>> drifting = np.sin(t) + 0.2 * t
    >>> valid_prediction_time(np.sin(t), drifting, dt=0.01, scale=[0.7])
    <ValidPredictionTime: median 1.41 over 1 starts, limit 0.4>
    """
    if not threshold > 0 or (lyapunov_exponent is not None and not lyapunov_exponent > 0):
        raise ParameterError(
            f"threshold={threshold} and lyapunov_exponent={lyapunov_exponent} must be above 0."
        )
    first, _ = as_pair(true, predicted)
    pairs = _forecasts(true, predicted)
    spread = np.nanstd(points(first), axis=0) if scale is None else np.asarray(scale, float)
    if spread.shape != (first[0].values.shape[1],) or not (spread > 0).all():
        raise ParameterError(
            f"scale={spread} needs one standard deviation above 0 per variable; leave constant "
            "variables out."
        )
    found = [
        _first_above(t, p, _stamps(s, dt, times), threshold, spread)
        for s, (t, p) in zip(first, pairs, strict=True)
    ]
    valid = np.array([time for time, _ in found])
    median = float(np.median(valid))
    return ValidPredictionTime(
        times=valid,
        reached=np.array([reached for _, reached in found]),
        median=median,
        lyapunov_times=None if lyapunov_exponent is None else median * lyapunov_exponent,
        threshold=threshold,
    )


def _forecasts(true: Recordings, predicted: Recordings) -> list[tuple[Array, Array]]:
    first, second = as_pair(true, predicted)
    lengths = [[len(s.values) for s in stretches] for stretches in (first, second)]
    if lengths[0] != lengths[1]:
        raise DataError(
            f"true has forecasts of {lengths[0][:5]} samples and predicted of {lengths[1][:5]}; "
            "give one prediction per start, as long as the true stretch."
        )
    return [(t.values, p.values) for t, p in zip(first, second, strict=True)]


def _stamps(stretch: Stretch, dt: float, times: ArrayLike | None) -> Array:
    if times is not None:
        stamps = np.asarray(times, dtype=np.float64)
        if stamps.shape != (len(stretch.values),):
            raise DataError(
                f"times has shape {stamps.shape}; needed is ({len(stretch.values)},), one stamp "
                "per sample of every forecast."
            )
        return stamps
    return stretch.stamps(dt)


def _first_above(
    true: Array, predicted: Array, stamps: Array, threshold: float, spread: Array
) -> tuple[float, bool]:
    seen = np.isfinite(true)
    squares = np.where(seen, (np.where(seen, predicted, 0.0) - np.where(seen, true, 0.0)) ** 2, 0.0)
    counts = np.maximum(seen.sum(axis=1), 1)
    error = np.sqrt((squares / spread**2).sum(axis=1) / counts)
    above = np.flatnonzero(~(error[1:] <= threshold))  # NaN counts as above
    last = 1 + int(above[0]) if above.size else len(stamps) - 1
    return float(stamps[last] - stamps[0]), bool(above.size)
