"""Try several learners on a part of the recordings and keep the simplest of the good ones.

Every candidate is fitted to the first part and runs freely on the rest, once from the beginning of
each block, with the stamps and the inputs of the block. What is compared are pairs (state, state
some rows later), of the recording and of the run: where the system is, and how it moves on.

    score = sqrt( energy distance / (2 E|X - Y|) ),   between 0 (the same law) and 1.

With inputs a run can follow the recording, and the score is its root mean square error in standard
deviations. Blocks are drawn with replacement for the interval; two candidates are compared on the
same draws. The simplest candidate that is not worse than the best one beyond that noise is taken.

Sources: Székely and Rizzo, "Energy statistics" (2013); the rule of one standard error is that of
Breiman et al., "Classification and Regression Trees" (1984).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from foretell.core import DataError, ForetellError, ForetellWarning, ParameterError, as_generator
from foretell.data import Trajectories
from foretell.dynamics.evidence import Evidence, decorrelation_rows, look_at
from foretell.dynamics.model import Model

Array = NDArray[np.float64]

_BLOCKS, _FEWEST_BLOCKS, _SHORTEST = 12, 3, 20
_DRIVEN_SHORTEST = 60  # rows; with inputs a run has to show what they do in the long run
_POINTS = 150  # pairs of a block that are compared
_DRAWS = 400
_LEVEL = 0.9  # of the intervals
_FAR = 10.0  # standard deviations; a run that left the data counts as being there
_RUN_UP = 8  # with inputs the first eighth of a block is not counted
_COPIES = 4  # runs from each start; a model without noise repeats itself


@dataclass(frozen=True)
class Tried:
    """One candidate on the held-out part.

    Parameters
    ----------
    name : str
        Key of the candidate.
    score, low, high : float
        Lower is better, with its 90 % interval over blocks; infinite where it failed.
    worse_by : tuple of float
        By how much it is worse than the best, and the 90 % interval of that, on the same blocks.
    seconds : float
        CPU time of fit and runs.
    note : str
        Why it failed, or empty.
    """

    name: str
    score: float
    low: float
    high: float
    worse_by: tuple[float, float, float]
    seconds: float
    note: str = ""

    @property
    def as_good(self) -> bool:
        """Whether it is not worse than the best beyond the noise."""
        return bool(np.isfinite(self.score) and self.worse_by[1] <= 0)


@dataclass(frozen=True)
class Chosen:
    """What was tried, and what was taken.

    Parameters
    ----------
    name : str
        The candidate taken.
    model : Model
        That candidate, fitted to the first part.
    tried : tuple of Tried
        In the order of the candidates, the simplest first.
    left_out : dict of str to str
        Candidates that were not fitted, with the reason.
    evidence : Evidence
        What the recordings show.
    measure : str
        What the score is.
    """

    name: str
    model: Any
    tried: tuple[Tried, ...]
    left_out: dict[str, str]
    evidence: Evidence
    measure: str

    @property
    def why(self) -> str:
        """The reason in a sentence."""
        good = [t for t in self.tried if np.isfinite(t.score)]
        best = min(good, key=lambda t: t.score)
        own = next(t for t in self.tried if t.name == self.name)
        if len(good) == 1:
            return f"{self.name} is the only one of {len(self.tried)} whose run could be compared"
        if best is own:
            return (
                f"its free runs are nearest to the held-out part ({own.score:.2g}; "
                f"{_others(good, own)})"
            )
        return (
            f"{best.name} scores {best.score:.2g} and {own.name} {own.score:.2g}, which is the "
            f"same within the noise of the comparison; {own.name} is the simpler one"
        )

    def __repr__(self) -> str:
        return f"Chosen({self.name}, of {len(self.tried)} tried, {len(self.left_out)} left out)"


def choose(
    recordings: Trajectories,
    candidates: Mapping[str, Model],
    *,
    left_out: Mapping[str, str] | None = None,
    fraction: float = 0.7,
    budget: float = float("inf"),
    random_state: int | None = 0,
    on_try: Callable[[str], None] | None = None,
) -> Chosen:
    """Fit every candidate to the first part of the recordings and compare on the rest.

    Parameters
    ----------
    recordings : Trajectories
        Cut in time; with at least six recordings, whole recordings are held out instead.
    candidates : mapping of str to Model
        Not yet fitted, from the simplest to the most complex.
    left_out : mapping of str to str, optional
        Names and reasons to be told with the result.
    fraction : float
        Share of the first part.
    budget : float
        CPU seconds; a candidate is not begun once they are spent.
    random_state : int, optional
        For the draws of blocks and the noise of the runs.
    on_try : callable, optional
        Hears the name of each candidate before it is fitted.

    Raises
    ------
    DataError
        The held-out part has fewer than three blocks of twenty rows.
    ParameterError
        There is no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell import ALRNN, Trajectories
    >>> t = np.arange(600) * 0.1
    >>> wave = Trajectories.from_arrays(np.column_stack([np.sin(t), np.cos(t)]), t)
    >>> small = {"sequence_length": 30, "max_updates": 60, "random_state": 0}
    >>> units = {f"{n} units": ALRNN(latent_dim=n, n_relu=1, **small) for n in (3, 5)}
    >>> chosen = choose(wave, units)
    >>> chosen, len(chosen.tried)
    (Chosen(3 units, of 2 tried, 0 left out), 2)
    """
    if not candidates:
        raise ParameterError("there is no candidate. Give at least one, {'name': model}.")
    train, test = hold_out(recordings, fraction)
    blocks = _blocks(test)
    lag = max(min(decorrelation_rows(train) // 2, len(blocks[0].times[0]) // 4), 1)
    centre, spread = _scale(train)
    judge: _Judge = (
        _Free(blocks, centre, spread, lag) if test.controls is None else _Driven(blocks, spread)
    )
    omitted, spent = dict(left_out or {}), 0.0
    fitted: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, model in candidates.items():
        if spent >= budget and fitted:
            omitted[name] = f"the budget of {budget:.0f} s was spent"
            continue
        if on_try is not None:
            on_try(name)
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ForetellWarning)
                fitted[name] = judge.add(name, model.fit(train), random_state)
        except ForetellError as error:
            notes[name] = str(error)
        seconds[name] = time.process_time() - begin
        spent += seconds[name]
    if not fitted:
        raise DataError(
            "no candidate could be fitted. "
            + " ".join(f"{name}: {note}" for name, note in notes.items())
        )
    tried = _compare(judge, list(seconds), seconds, notes, random_state)
    name = next(t.name for t in tried if t.as_good)
    return Chosen(name, fitted[name], tried, omitted, look_at(recordings), judge.measure)


def hold_out(recordings: Trajectories, fraction: float) -> tuple[Trajectories, Trajectories]:
    """Whole recordings where there are six or more, else the later part of each."""
    if len(recordings) >= 6:
        n = min(max(round(fraction * len(recordings)), 1), len(recordings) - 1)
        every = list(range(len(recordings)))
        return recordings.select(every[:n]), recordings.select(every[n:])
    return recordings.split(fraction)


def _compare(
    judge: _Judge,
    names: list[str],
    seconds: dict[str, float],
    notes: dict[str, str],
    random_state: int | None,
) -> tuple[Tried, ...]:
    rng = as_generator(random_state)
    n = judge.n_blocks
    weights = np.vstack([np.full(n, 1 / n), rng.multinomial(n, np.full(n, 1 / n), _DRAWS) / n])
    scores = {name: judge.scores(name, weights) for name in names if name not in notes}
    best = min(scores, key=lambda name: scores[name][0])
    ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    tried = []
    for name in names:
        if name in notes:
            endless = (np.inf, np.inf, np.inf)
            tried.append(Tried(name, *endless, endless, seconds[name], notes[name]))
            continue
        own = scores[name]
        low, high = np.quantile(own[1:], ends)
        apart = own - scores[best]
        less, more = np.quantile(apart[1:], ends)
        tried.append(
            Tried(name, float(own[0]), float(low), float(high),
                  (float(apart[0]), float(less), float(more)), seconds[name])
        )  # fmt: skip
    return tuple(tried)


class _Judge:
    """Runs of the candidates, block by block, and their scores under weights of the blocks."""

    measure = ""

    def __init__(self, blocks: list[Trajectories]) -> None:
        self.blocks = blocks

    @property
    def n_blocks(self) -> int:
        return len(self.blocks)

    def add(self, name: str, model: Any, random_state: int | None) -> Any:
        """Run the fitted model through every block."""
        raise NotImplementedError

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        raise NotImplementedError

    def _runs(self, model: Any, block: Trajectories, seed: int | None, copies: int) -> list[Array]:
        """Runs with the stamps of a block; rows after an escape are NaN."""
        controls = None if block.controls is None else block.controls[0]
        runs = model.simulate(
            block.values[0][0], block.times[0], controls=controls, n_samples=copies,
            random_state=seed,
        ).values  # fmt: skip
        full = []
        for run in runs:
            rows = np.full(block.values[0].shape, np.nan)
            rows[: len(run)] = run
            full.append(rows)
        return full


class _Driven(_Judge):
    measure = "root mean square error of a run on the inputs, in standard deviations"

    def __init__(self, blocks: list[Trajectories], spread: Array) -> None:
        super().__init__(blocks)
        self._spread = spread
        self._errors: dict[str, Array] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> Any:
        errors = []
        for block in self.blocks:
            run = self._runs(model, block, random_state, 1)[0]
            apart = np.clip(np.abs(run - block.values[0]) / self._spread, 0.0, _FAR)
            apart[np.isnan(run)] = _FAR
            errors.append(float(np.nanmean(apart[len(apart) // _RUN_UP :] ** 2)))
        self._errors[name] = np.array(errors)
        return model

    def scores(self, name: str, weights: Array) -> Array:
        return np.sqrt(weights @ self._errors[name])


class _Free(_Judge):
    measure = "distance between pairs of states of free runs and of the recording, 0 to 1"

    def __init__(self, blocks: list[Trajectories], centre: Array, spread: Array, lag: int) -> None:
        super().__init__(blocks)
        self._centre, self._spread, self._lag = centre, spread, lag
        self._rows = [_pair_rows(block.values[0], lag) for block in blocks]
        self._truth = [self._cloud([b.values[0]], n) for n, b in enumerate(blocks)]
        self._inside = _mean_distances(self._truth)
        self._other: dict[str, tuple[Array, Array]] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> Any:
        clouds = [
            self._cloud(self._runs(model, block, random_state, _COPIES), n)
            for n, block in enumerate(self.blocks)
        ]
        self._other[name] = _mean_distances(self._truth, clouds), _mean_distances(clouds)
        return model

    def scores(self, name: str, weights: Array) -> Array:
        between, within = self._other[name]

        def mean(distances: Array) -> Array:
            return np.asarray(np.einsum("da,ab,db->d", weights, distances, weights))

        apart = 2 * mean(between)
        excess = apart - mean(within) - mean(self._inside)
        return np.sqrt(np.clip(excess / np.maximum(apart, 1e-12), 0.0, 1.0))

    def _cloud(self, runs: list[Array], block: int) -> Array:
        """Pairs (state, state ``lag`` rows later), in standard deviations."""
        rows = self._rows[block]
        clouds = []
        for run in runs:
            scaled = np.clip((run - self._centre) / self._spread, -_FAR, _FAR)
            scaled[np.isnan(scaled)] = _FAR
            clouds.append(np.hstack([scaled[rows], scaled[rows + self._lag]]))
        return np.concatenate(clouds)


def _pair_rows(values: Array, lag: int) -> NDArray[np.intp]:
    """At most ``_POINTS`` rows that are complete, as the rows ``lag`` later are."""
    seen = np.isfinite(values).all(axis=1)
    rows = np.flatnonzero(seen[:-lag] & seen[lag:])
    return rows[np.linspace(0, rows.size - 1, min(rows.size, _POINTS)).astype(np.intp)]


def _mean_distances(one: list[Array], two: list[Array] | None = None) -> Array:
    """Mean distance between the points of every two blocks; no point with itself."""
    if two is not None:
        return np.array([[float(cdist(a, b).mean()) for b in two] for a in one])
    means = _mean_distances(one, one)
    for n, cloud in enumerate(one):
        means[n, n] *= len(cloud) / max(len(cloud) - 1, 1)
    return means


def _scale(train: Trajectories) -> tuple[Array, Array]:
    rows = np.concatenate(train.values)
    spread = np.nanstd(rows, axis=0)
    return np.nanmean(rows, axis=0), np.where(spread > 0, spread, 1.0)


def _blocks(test: Trajectories) -> list[Trajectories]:
    """Stretches of equal length, each beginning at a complete row."""
    length = max(test.n_samples // _BLOCKS, _SHORTEST)
    if test.controls is not None:
        longest = max(t.size for t in test.times)
        length = max(length, min(_DRIVEN_SHORTEST, longest // _FEWEST_BLOCKS))
    blocks = []
    for n in range(len(test)):
        complete = np.isfinite(test.values[n]).all(axis=1)
        at = 0
        while at + _SHORTEST <= len(complete):
            if not complete[at]:
                at += 1
                continue
            stop = min(at + length, len(complete))
            blocks.append(test.select([n]).take_rows([slice(at, stop)]))
            at = stop
    if len(blocks) < _FEWEST_BLOCKS:
        raise DataError(
            f"the held-out part has {test.n_samples} rows, which makes {len(blocks)} blocks of "
            f"{_SHORTEST} or more; {_FEWEST_BLOCKS} are needed to compare learners. Record longer, "
            "or name the learner."
        )
    return blocks


def _others(good: list[Tried], own: Tried) -> str:
    rest = [t for t in good if t is not own]
    return ", ".join(f"{t.name} {t.score:.2g}" for t in rest)
