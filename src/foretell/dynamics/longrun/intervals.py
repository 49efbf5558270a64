"""Events in recordings (spikes, beats, switches) and the intervals between them.

Legend: T samples, E events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError

Array = NDArray[np.float64]


def event_times(
    values: ArrayLike,
    times: ArrayLike | None = None,
    *,
    threshold: float,
    direction: Literal["up", "down"] = "up",
) -> Array:
    """When a series passes a threshold, interpolated linearly between samples.

    Parameters
    ----------
    values : array of shape (T,)
        Missing samples (NaN) are skipped.
    times : array of shape (T,), optional
        Default 0, 1, 2, ...
    threshold : float
        In the unit of ``values``.
    direction : {"up", "down"}

    Returns
    -------
    array of shape (E,)

    Examples
    --------
    >>> event_times([0.0, 1.0, 0.0, 2.0], threshold=0.5)
    array([0.5 , 2.25])
    """
    if direction not in ("up", "down"):
        raise ParameterError(f'direction={direction!r} is not "up" or "down".')
    series = np.asarray(values, dtype=np.float64)
    stamps = np.arange(series.size) if times is None else np.asarray(times, dtype=np.float64)
    if series.ndim != 1 or stamps.shape != series.shape:
        raise DataError(
            f"values has shape {series.shape} and times {stamps.shape}; needed is one column and "
            "one stamp per sample, for instance values[:, 0]."
        )
    seen = np.isfinite(series)
    above = (series[seen] - threshold) * (1.0 if direction == "up" else -1.0)
    stamps = stamps[seen]
    at = np.flatnonzero((above[:-1] <= 0) & (above[1:] > 0))
    part = above[at] / (above[at] - above[at + 1])
    return np.asarray(stamps[at] + part * (stamps[at + 1] - stamps[at]))


def interval_histogram_distance(
    true: ArrayLike | Sequence[ArrayLike], generated: ArrayLike | Sequence[ArrayLike]
) -> float:
    """Distance of the distributions of inter-event intervals, in mean true intervals.

    The earth mover's distance of the two histograms in the limit of fine bins, divided by the mean
    true interval: 0.03 says that intervals would have to change by 3 % of the mean, on average, to
    match. It needs no bin width, so that a sharp period compares as well as a broad distribution.

    Parameters
    ----------
    true, generated : arrays of event times, or lists with one array per recording
        For instance from `event_times`, in one time unit. Intervals never cross recordings.

    Returns
    -------
    float
        Infinite when ``generated`` has no interval.

    Examples
    --------
    >>> round(interval_histogram_distance([0.0, 1.0, 2.0, 3.0], [0.0, 1.1, 2.2, 3.3]), 6)
    0.1
    """
    expected, found = _intervals(true, "true"), _intervals(generated, "generated")
    if not expected.size:
        raise DataError("true has no recording with two events; lower the threshold.")
    if not found.size:
        return math.inf
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(expected, found) / expected.mean())


def _intervals(events: ArrayLike | Sequence[ArrayLike], name: str) -> Array:
    items: list[Any] = [events]
    if isinstance(events, (list, tuple)) and any(np.ndim(item) == 1 for item in events):
        items = list(events)
    gaps = [np.diff(np.asarray(item, dtype=np.float64)) for item in items]
    for i, gap in enumerate(gaps):
        if gap.ndim != 1 or not (gap > 0).all():
            raise DataError(f"{name}: event times of recording {i} must be one increasing list.")
    return np.concatenate(gaps) if gaps else np.zeros(0)
