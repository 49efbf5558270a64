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

from foretell.core import DataError, ForetellError, ForetellWarning, ParameterError, as_generator
from foretell.data import Trajectories
from foretell.dynamics.evidence import Evidence, look_at
from foretell.dynamics.held_out_runs import RunJudge, make_judge
from foretell.dynamics.model import Model

Array = NDArray[np.float64]

_DRAWS = 400
WHOLE_FROM = 6  # recordings from which on whole ones are held out
_LEVEL = 0.68  # of the intervals: one standard error


@dataclass(frozen=True)
class Tried:
    """One candidate on the held-out part.

    Parameters
    ----------
    name : str
        Key of the candidate.
    score, low, high : float
        Lower is better, with one standard error to both sides; infinite where it failed.
    worse_by : tuple of float
        By how much it is worse than the best, and one standard error to both sides of that, on
        the same blocks.
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
        """Whether it is not worse than the best by more than one standard error."""
        return bool(np.isfinite(self.score) and self.worse_by[1] <= 0)


@dataclass(frozen=True)
class Chosen:
    """What was tried, and what was taken.

    Parameters
    ----------
    name : str
        The candidate taken.
    models : dict of str to Model
        Every candidate that could be fitted, fitted to the first part.
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
    models: dict[str, Any]
    tried: tuple[Tried, ...]
    left_out: dict[str, str]
    evidence: Evidence
    measure: str

    @property
    def model(self) -> Any:
        """The candidate taken, fitted to the first part."""
        return self.models[self.name]

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
    judge = make_judge(test, train)
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
                model.fit(train)
                judge.add(name, model, random_state)
            fitted[name] = model
        except ForetellError as error:
            notes[name] = str(error)
        seconds[name] = time.process_time() - begin
        spent += seconds[name]
    if not fitted:
        raise DataError(
            "no candidate could be fitted. "
            + " ".join(f"{name}: {note}" for name, note in notes.items())
        )
    tried = _compare(judge, seconds, notes, random_state)
    name = next(t.name for t in tried if t.as_good)
    return Chosen(name, fitted, tried, omitted, look_at(recordings), judge.measure)


def compare(
    models: Mapping[str, Model],
    test: Trajectories,
    train: Trajectories,
    *,
    random_state: int | None = 0,
) -> tuple[Tried, ...]:
    """Score fitted models on recordings, as ``choose`` does.

    Parameters
    ----------
    models : mapping of str to Model
        Fitted.
    test : Trajectories
        What the runs are compared with, in about twelve blocks.
    train : Trajectories
        Gives the standard deviations, and how far apart the states of a pair are.
    random_state : int, optional
        For the draws of blocks and the noise of the runs.

    Raises
    ------
    DataError
        The recordings have fewer than three blocks of twenty rows.
    """
    judge = make_judge(test, train)
    seconds: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, model in models.items():
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ForetellWarning)
                judge.add(name, model, random_state)
        except ForetellError as error:
            notes[name] = str(error)
        seconds[name] = time.process_time() - begin
    return _compare(judge, seconds, notes, random_state)


def hold_out(recordings: Trajectories, fraction: float) -> tuple[Trajectories, Trajectories]:
    """The last of the recordings where there are six or more, else the later part of each."""
    if len(recordings) >= WHOLE_FROM:
        n = min(max(round(fraction * len(recordings)), 1), len(recordings) - 1)
        every = list(range(len(recordings)))
        return recordings.select(every[:n]), recordings.select(every[n:])
    return recordings.split(fraction)


def _compare(
    judge: RunJudge,
    seconds: dict[str, float],
    notes: dict[str, str],
    random_state: int | None,
) -> tuple[Tried, ...]:
    rng = as_generator(random_state)
    n = judge.n_blocks
    weights = np.vstack([np.full(n, 1 / n), rng.multinomial(n, np.full(n, 1 / n), _DRAWS) / n])
    scores = {name: judge.scores(name, weights) for name in seconds if name not in notes}
    best = min(scores, key=lambda name: scores[name][0])
    ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
    tried = []
    for name in seconds:
        if name in notes:
            endless = (np.inf, np.inf, np.inf)
            tried.append(Tried(name, *endless, endless, seconds[name], notes[name]))
            continue
        own = scores[name]
        low, high = own[0] + np.quantile(own[1:] - np.median(own[1:]), ends)  # drawing adds to it
        apart = own - scores[best]
        less, more = np.quantile(apart[1:], ends)
        tried.append(
            Tried(name, float(own[0]), max(float(low), 0.0), float(high),
                  (float(apart[0]), float(less), float(more)), seconds[name])
        )  # fmt: skip
    return tuple(tried)


def _others(good: list[Tried], own: Tried) -> str:
    rest = [t for t in good if t is not own]
    return ", ".join(f"{t.name} {t.score:.2g}" for t in rest)
