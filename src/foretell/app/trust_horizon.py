"""How far ahead a model may be trusted: the horizon at which accepted forecasts keep a level.

A forecast is wrong at a horizon if it has left the tolerance by then. The held-out recordings are
cut into blocks that do not overlap and lie about one period apart; one forecast is tried in each.
The distance varies between a half and one and a half periods, so that the starts take every phase
of a rhythm. A forecast is accepted by how close its start lies to a training state, a score that
needs no truth. For one horizon after the other, from the shortest on, a threshold on that score is
calibrated with the guarantee "pac"; the first horizon without a threshold ends the search. Testing
in an order that is fixed in advance needs no correction: a wrong horizon is certified with
probability at most delta, if the blocks are independent draws.

Differs from testing windows at every row: those overlap, so a hundred of them may hold the
information of five.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from foretell.app.starts import start_at
from foretell.app.study import HorizonTrial, TrustHorizon
from foretell.core.errors import ForetellWarning, NumericalError
from foretell.data import Trajectories
from foretell.dynamics.model import Model
from foretell.trust import SelectiveThreshold, smallest_n

Array = NDArray[np.float64]

LEVEL, DELTA = 0.1, 0.1  # one forecast in ten wrong; one recording in ten that misleads
TOLERANCE = 0.4  # mean error over the variables, in standard deviations
RETENTION = 0.5  # a score that accepts less than half of the starts is of little use
HORIZONS = 12
MOST_STARTS = 240
_REFERENCE = 20_000  # training states that distances are measured to
_FEWEST_ROWS = 3  # in a block
_GAP_FACTOR = 10.0
_GOLDEN = (5**0.5 - 1) / 2


def trust_horizon(
    model: Model,
    train: Trajectories,
    test: Trajectories,
    *,
    period: float,
    n_scored: int | None = None,
    run_up: int = 0,
    level: float = LEVEL,
    delta: float = DELTA,
    tolerance: float = TOLERANCE,
) -> TrustHorizon:
    """The largest horizon that the held-out recordings certify.

    Parameters
    ----------
    model : Model
        Fitted. With inputs, a forecast is given those that were recorded, and starts after a run-up
        along the rows before it.
    train, test : Trajectories
        In model coordinates.
    period : float
        Dominant period of the recording, in its unit of time; 0 where there is none, and then the
        time until the first variable has forgotten its present is taken.
    n_scored : int, optional
        The error is that of the first ones of the variables; default all.
    run_up : int
        Rows of a recording before the first start.
    level, delta, tolerance : float
        Share of wrong forecasts among the accepted, probability of a misleading certificate, and
        error (standard deviations of the training part) beyond which a forecast is wrong.
    """
    spacing = period if period > 0 else forgetting_time(test)
    scale: Array = np.nanstd(np.concatenate(train.values), axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    horizons = _horizons(test, spacing)
    starts = _Starts(model, train, test, scale, n_scored or test.n_variables, tolerance)
    needed = smallest_n("pac", level, delta)
    trials: list[HorizonTrial] = []
    best: HorizonTrial | None = None
    for horizon in horizons:
        blocks = spaced_blocks(test, horizon, spacing, first=run_up)
        if len(blocks) > MOST_STARTS:
            chosen = np.linspace(0, len(blocks) - 1, MOST_STARTS).round().astype(np.intp)
            blocks = [blocks[i] for i in chosen]
        if len(blocks) < needed:
            trials.append(HorizonTrial(horizon, len(blocks), needed=needed))
            break
        wrong, distance = starts.outcomes(blocks, horizon)
        trials.append(_tested(horizon, wrong, distance, level, delta))
        if trials[-1].threshold is None:
            break
        best = trials[-1]
    return TrustHorizon(
        horizon=None if best is None else best.horizon,
        trials=tuple(trials),
        level=level,
        confidence=1 - delta,
        tolerance=tolerance,
        spacing=spacing,
        needed=needed,
        dependence=(
            0.0 if best is None else starts.dependence(test, best.horizon, spacing, run_up)
        ),
        given_inputs=test.controls is not None,
    )


def spaced_blocks(
    test: Trajectories, horizon: float, spacing: float, *, first: int = 0
) -> list[tuple[int, slice]]:
    """Blocks of one horizon that do not overlap, with 0.5 to 1.5 times the spacing between them.

    ``first`` rows of every recording are left out.

    Returns
    -------
    list of (recording, rows)
        The first row is complete; no gap wider than ten median intervals is inside.

    Examples
    --------
    >>> recording = Trajectories.from_arrays(np.arange(100.0) % 7, np.arange(100.0))
    >>> [(rows.start, rows.stop) for _, rows in spaced_blocks(recording, 10.0, 25.0)]
    [(0, 11), (23, 34), (61, 72)]
    """
    found: list[tuple[int, slice]] = []
    widest = max(_GAP_FACTOR * test.median_interval, 0.5 * horizon)
    for r, (times, values) in enumerate(zip(test.times, test.values, strict=True)):
        whole = np.isfinite(values).all(axis=1)
        earliest, wait = -np.inf, 0.0
        for row in np.flatnonzero(whole).tolist():
            if times[row] < earliest or row < first:
                continue
            end = times[row] + horizon * (1 + 1e-9)
            if end > times[-1] + 2e-9 * horizon:
                break
            stop = int(np.searchsorted(times, end, side="right"))
            steps = np.diff(times[row : stop + 1])  # the step out of the block as well
            if stop - row < _FEWEST_ROWS or float(steps.max()) > widest:
                continue
            found.append((r, slice(row, stop)))
            earliest = times[row] + horizon + spacing * (0.5 + wait)
            wait = (wait + _GOLDEN) % 1.0
    return found


def forgetting_time(data: Trajectories) -> float:
    """Time until the autocorrelation of the first variable falls below 1/e, on the longest part."""
    longest = int(np.argmax([t.size for t in data.times]))
    times, x = data.times[longest], data.values[longest][:, 0]
    seen = np.isfinite(x)
    step = data.median_interval
    even = np.interp(np.arange(times[0], times[-1], step), times[seen], x[seen])
    even = even - even.mean()
    n = even.size
    power = np.abs(np.fft.rfft(even, 2 * n)) ** 2
    correlation = np.fft.irfft(power)[: n // 2 + 1]
    if not correlation[0] > 0:
        return float(step)
    below = np.flatnonzero(correlation < correlation[0] / np.e)
    return float(step * (below[0] if below.size else n // 2))


class _Starts:
    """Forecasts from held-out starts, each made once, as far as it was asked for."""

    def __init__(
        self,
        model: Model,
        train: Trajectories,
        test: Trajectories,
        scale: Array,
        n_scored: int,
        tolerance: float,
    ) -> None:
        self.model, self.test, self.scale = model, test, scale
        self.n_scored, self.tolerance = n_scored, tolerance
        self._left: dict[tuple[int, int], tuple[float, float]] = {}
        self._distances = _distances(train, test, scale)

    def outcomes(
        self, blocks: Sequence[tuple[int, slice]], horizon: float
    ) -> tuple[NDArray[np.bool_], Array]:
        """Whether the forecast of each block left the tolerance, and how strange its start is."""
        left = [self._leaves(r, rows, horizon) <= horizon * (1 + 1e-9) for r, rows in blocks]
        return np.array(left), np.array([self._distances[r][rows.start] for r, rows in blocks])

    def dependence(self, test: Trajectories, horizon: float, spacing: float, run_up: int) -> float:
        """Correlation between neighbouring blocks of how soon they are left, in standard errors."""
        blocks = spaced_blocks(test, horizon, spacing, first=run_up)
        known = [(r, rows) for r, rows in blocks if (r, rows.start) in self._left]
        times = np.array([min(self._leaves(r, rows, horizon), 2 * horizon) for r, rows in known])
        if times.size < 10 or float(np.ptp(times)) == 0.0:
            return 0.0
        centred = times - times.mean()
        r1 = float(centred[1:] @ centred[:-1] / (centred @ centred))
        return r1 * float(np.sqrt(times.size))

    def _leaves(self, r: int, rows: slice, horizon: float) -> float:
        """Time after the start at which the error first exceeds the tolerance; inf if not seen."""
        key = (r, rows.start)
        reach, left = self._left.get(key, (0.0, np.inf))
        if reach >= horizon or left <= reach:
            return left
        times, truth = self.test.times[r][rows], self.test.values[r][rows]
        run = np.full_like(truth, np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForetellWarning)
            with suppress(NumericalError):  # it left the range of the model at once: wrong
                start = start_at(self.model, self.test, r, rows.start)
                controls = None if self.test.controls is None else self.test.controls[r][rows]
                reached = self.model.simulate(start, times, controls=controls).values[0]
                run[: len(reached)] = reached
        seen = np.isfinite(truth[:, : self.n_scored])
        miss = np.abs(run - truth)[:, : self.n_scored] / self.scale[: self.n_scored]
        miss = np.where(np.isfinite(miss), miss, np.inf)
        counted = seen.sum(axis=1)
        error = np.where(seen, miss, 0.0).sum(axis=1) / np.maximum(counted, 1)
        beyond = np.flatnonzero((error > self.tolerance) & (counted > 0))
        left = float(times[beyond[0]] - times[0]) if beyond.size else np.inf
        self._left[key] = (horizon, left)
        return left


def _horizons(test: Trajectories, spacing: float) -> list[float]:
    """Candidates in geometric steps, fixed before any error is seen."""
    longest = max(float(t[-1] - t[0]) for t in test.times)
    shortest = max(_FEWEST_ROWS * test.median_interval, spacing / 32)
    if shortest >= longest:
        return [float(longest)]
    return [float(h) for h in np.geomspace(shortest, max(longest / 4, 2 * shortest), HORIZONS)]


def _tested(
    horizon: float, wrong: NDArray[np.bool_], distance: Array, level: float, delta: float
) -> HorizonTrial:
    rule = SelectiveThreshold(
        alpha=level, guarantee="pac", delta=delta, min_retention=RETENTION, score="distance"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        rule.fit(distance, wrong)
    accepted = (
        np.zeros(wrong.size, dtype=bool) if rule.threshold_ is None else distance <= rule.threshold_
    )
    share = float(wrong[accepted].mean()) if accepted.any() else float(wrong.mean())
    return HorizonTrial(
        horizon=horizon,
        n_blocks=int(wrong.size),
        threshold=rule.threshold_,
        accepted=float(accepted.mean()),
        wrong=share,
        wrong_overall=float(wrong.mean()),
        needed=rule.certificate_.needed_n,
    )


def _distances(train: Trajectories, test: Trajectories, scale: Array) -> list[Array]:
    """Distance of every held-out state to the nearest training state, in standard deviations."""
    from scipy.spatial import cKDTree

    known = np.concatenate(train.values) / scale
    known = known[np.isfinite(known).all(axis=1)]
    if len(known) > _REFERENCE:
        known = known[np.linspace(0, len(known) - 1, _REFERENCE).astype(np.intp)]
    tree = cKDTree(known) if len(known) else None
    found = []
    for values in test.values:
        distance = np.full(len(values), np.inf)
        whole = np.isfinite(values).all(axis=1)
        if tree is not None and whole.any():
            distance[whole] = tree.query(values[whole] / scale)[0]
        found.append(distance)
    return found
