"""Ensembles of a stochastic model beside held-out recordings: are they near, and wide enough?

Many runs start from each of several recorded states. What was recorded should look like one more of
them: inside the 80 % band four times in five, at any rank among the runs, as far from their mean as
the runs are themselves.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ForetellError, ForetellWarning
from foretell.data import Trajectories
from foretell.dynamics.model import Model, Stochastic

Array = NDArray[np.float64]

_STARTS, _MEMBERS, _MEAN_OF = 24, 40, 20
_MOST_STEPS, _FEWEST_STEPS = 60, 5
_BINS = 8
SHARES = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Ensembles:
    """Ensembles from held-out starts.

    Attributes
    ----------
    n_starts, n_members : int
    lead : array (H,)
        Lead times, from the start.
    spread, skill : arrays (H,)
        Width of the ensembles and error of their means, in standard deviations.
    ratio : float
        Spread over skill, all lead times together.
    ranks : integer array (n_bins,)
        Recorded values by their rank among the runs.
    inside : float
        Share of the recorded values in the band of 80 % of the runs.
    times, observed : arrays (H,)
        One start, first variable, data units.
    bands : array (2, 3, H)
        Lower and upper ends of the bands of 50, 80 and 95 % there.
    middle : array (H,)
        Median there.
    """

    n_starts: int
    n_members: int
    lead: Array
    spread: Array
    skill: Array
    ratio: float
    ranks: NDArray[np.int64]
    inside: float
    times: Array
    observed: Array
    bands: Array
    middle: Array


def ensembles(model: Model, test: Trajectories, scale: Array) -> Ensembles | None:
    """Compare ensembles of a stochastic model with a held-out recording.

    None where the model is not stochastic, or the recording has no stretch of complete rows.
    """
    if not isinstance(model, Stochastic):
        return None
    found = _draw(model, test)
    if found is None:
        return None
    starts, n_steps, runs = found
    truth = np.array([test.values[r][s : s + n_steps + 1] for r, s in starts])
    return _judged(test, starts, runs, truth, scale)


def mean_run(model: Any, x0: Array, times: Array, controls: Array | None) -> Array:
    """One run of a model without chance; the mean of twenty of a stochastic one."""
    if not isinstance(model, Stochastic):
        run: Array = model.simulate(x0, times, controls=controls).values[0]
        return run
    runs = model.simulate(  # type: ignore[attr-defined]
        x0, times, controls=controls, n_samples=_MEAN_OF, random_state=0
    )
    shortest = min(len(values) for values in runs.values)
    return np.asarray(np.mean([values[:shortest] for values in runs.values], axis=0))


def _draw(model: Any, test: Trajectories) -> tuple[list[tuple[int, int]], int, Array] | None:
    """Starts (recording, row), steps and runs from each; spread over all recordings."""
    n_steps = min(_MOST_STEPS, (len(test.values[0]) - 1) // 4)
    if n_steps < _FEWEST_STEPS:
        return None
    usable = []
    for r, values in enumerate(test.values):
        whole = np.asarray(np.isfinite(values).all(axis=1), dtype=np.int64)
        if len(whole) > n_steps:
            sums = np.convolve(whole, np.ones(n_steps + 1, dtype=np.int64), "valid")
            usable += [(r, int(row)) for row in np.flatnonzero(sums == n_steps + 1)]
    if len(usable) < 2:
        return None
    kept, runs = [], []
    for n in np.unique(np.linspace(0, len(usable) - 1, _STARTS).astype(np.intp)):
        r, start = usable[n]
        rows = slice(start, start + n_steps + 1)
        inputs = None if test.controls is None else test.controls[r][rows]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ForetellWarning)
                drawn = model.simulate(test.values[r][start], test.times[r][rows], controls=inputs,
                                       n_samples=_MEMBERS, random_state=start)  # fmt: skip
        except ForetellError:
            continue
        if all(len(run) == n_steps + 1 for run in drawn.values):
            kept.append((r, start))
            runs.append(np.array(drawn.values))
    return (kept, n_steps, np.array(runs)) if len(kept) > 1 else None


def _judged(
    test: Trajectories,
    starts: list[tuple[int, int]],
    runs: Array,
    truth: Array,
    scale: Array,
) -> Ensembles:
    from foretell.dynamics.longrun import rank_histogram, spread_skill

    F, y = runs / scale, truth / scale
    B, S, T, n = F.shape
    steps = [spread_skill(F[:, :, k], y[:, k]) for k in range(1, T)]
    after_F = F[:, :, 1:].swapaxes(1, 2).reshape(-1, S, n)
    after_y = y[:, 1:].reshape(-1, n)
    low, high = np.quantile(after_F, [0.1, 0.9], axis=1)
    shown = B // 2
    ends = [[0.5 - s / 2 for s in SHARES], [0.5 + s / 2 for s in SHARES]]
    recording, start = starts[shown]
    times = test.times[recording][start : start + T]
    return Ensembles(
        n_starts=B,
        n_members=S,
        lead=np.asarray(test.median_interval * np.arange(T)),
        spread=np.array([0.0, *(s.spread for s in steps)]),
        skill=np.array([0.0, *(s.skill for s in steps)]),
        ratio=spread_skill(after_F, after_y).ratio,
        ranks=rank_histogram(after_F, after_y, n_bins=_BINS).counts,
        inside=float(((after_y >= low) & (after_y <= high)).mean()),
        times=times,
        observed=truth[shown, :, 0],
        bands=np.array([[np.quantile(runs[shown, :, :, 0], q, axis=0) for q in e] for e in ends]),
        middle=np.median(runs[shown, :, :, 0], axis=0),
    )
