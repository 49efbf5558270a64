"""Several samplers on the same recordings: one step ahead, in the long run, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.lifting.learner import TransitionLearner
from foretell.dynamics.lifting.transitions import as_recordings, cut
from foretell.dynamics.longrun.ensembles import (
    energy_distance,
    energy_score,
    rank_histogram,
    spread_skill,
)

Array = NDArray[np.float64]

_DRAWS = 32
_CASES = 1000
_RESAMPLES = 2000


@dataclass(frozen=True)
class SamplerScore:
    """How one sampler did on held-out recordings, everything in standard deviations.

    Attributes
    ----------
    name : str
    energy_score : float
        One step ahead, mean over transitions; lower is better.
    behind : tuple of float
        How much worse than the best one, with its 95 % interval over recordings.
    spread_skill : float
        1 where the draws are as wide as the error of their mean.
    rank_chi_square : float
        About 1 where ranks are flat.
    distances : tuple of float
        Energy distance of runs to recordings at each lead.
    evaluations : int
        Network evaluations a step.
    seconds : float
        Process time of the fit; NaN where it came fitted.
    """

    name: str
    energy_score: float
    behind: tuple[float, float, float]
    spread_skill: float
    rank_chi_square: float
    distances: tuple[float, ...]
    evaluations: int
    seconds: float

    @property
    def within_noise(self) -> bool:
        """Whether the recordings cannot tell it from the best one step ahead."""
        return self.behind[1] <= 0


@dataclass(frozen=True)
class Comparison:
    """Samplers side by side; ``print`` it for the table.

    Attributes
    ----------
    scores : tuple of SamplerScore
        In the order given.
    leads : tuple of int
        Steps at which runs were compared.
    best : str
        Of those within the noise one step ahead, the one whose runs stay nearest.
    advice : str
        The same as a sentence.
    """

    scores: tuple[SamplerScore, ...]
    leads: tuple[int, ...]
    best: str
    advice: str

    def __str__(self) -> str:
        wide = max(len(s.name) for s in self.scores)
        leads = "".join(f"{f'step {k}':>10}" for k in self.leads)
        lines = [f"{'sampler':{wide}}  score 1 step  spread/skill  ranks {leads}  evals  fit s"]
        for s in self.scores:
            far = "".join(f"{d:10.3g}" for d in s.distances)
            lines.append(
                f"{s.name:{wide}}  {s.energy_score:12.4g}  {s.spread_skill:12.3g}  "
                f"{s.rank_chi_square:5.2g} {far}  {s.evaluations:5d}  {s.seconds:5.3g}"
            )
        return "\n".join([*lines, self.advice])


def compare_samplers(
    samplers: Mapping[str, TransitionLearner],
    train: Trajectories | ArrayLike,
    test: Trajectories | ArrayLike,
    *,
    leads: Sequence[int] = (1, 10, 50),
    n_members: int = 20,
    random_state: int = 0,
) -> Comparison:
    """Fit samplers to the same recordings and judge them on others.

    Parameters
    ----------
    samplers : mapping of str to sampler
        Not fitted, or fitted already; put the simpler ones first.
    train, test : Trajectories or arrays
        As in ``fit``; several recordings of each where there are.
    leads : sequence of int
        Steps at which runs are compared with recordings.
    n_members : int
        Runs from each start.
    random_state : int

    Raises
    ------
    DataError
        No held-out recording is as long as the longest lead.

    Examples
    --------
    >>> from foretell.dynamics.lifting import AnalogueTransition
    >>> rng = np.random.default_rng(0)
    >>> paths = rng.normal(size=(30, 21, 1)).cumsum(axis=1)
    >>> samplers = {f"{k} analogues": AnalogueTransition(k=k) for k in (5, 50)}
    >>> found = compare_samplers(samplers, paths[:20], paths[20:], leads=(1, 10))
    >>> [s.name for s in found.scores]
    ['5 analogues', '50 analogues']
    """
    if not samplers:
        raise ParameterError("there is no sampler to compare. Give for instance "
                             '{"analogue": AnalogueTransition()}.')  # fmt: skip
    recordings, _ = as_recordings(test, None)
    starts, later = _stretches(recordings, max(leads))
    rows, cases = [], []
    for name, sampler in samplers.items():
        seconds = float("nan")
        if not hasattr(sampler, "n_features_in_"):
            begin = time.process_time()
            sampler.fit(train)
            seconds = time.process_time() - begin
        row, scores = _judge(name, sampler, recordings, (starts, later), leads, n_members,
                             random_state, seconds)  # fmt: skip
        rows.append(row)
        cases.append(scores)
    groups = cut(recordings, int(next(iter(samplers.values())).history)).group
    return _ranked(rows, cases, _thin(groups), tuple(int(k) for k in leads), random_state)


def _stretches(recordings: Trajectories, longest: int) -> tuple[Array, Array]:
    """Starts (B, n) and what followed them (B, longest + 1, n), none overlapping another."""
    found: list[Array] = []
    for values in recordings.values:
        for row in range(0, len(values) - longest, longest + 1):
            stretch = values[row : row + longest + 1]
            if np.isfinite(stretch).all():
                found.append(stretch)
    if len(found) < 2:
        raise DataError(
            f"there are {len(found)} held-out stretches of {longest + 1} complete rows; at least "
            f"2 are needed. Give longer recordings, or leads=(1, {max(longest // 4, 2)})."
        )
    all_ = np.array(found)
    return all_[:, 0], all_


def _thin(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most a thousand, evenly spread."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, _CASES).astype(np.int64))]


def _judge(
    name: str, sampler: TransitionLearner, recordings: Trajectories,
    stretches: tuple[Array, Array], leads: Sequence[int], n_members: int, seed: int,
    seconds: float,
) -> tuple[SamplerScore, Array]:  # fmt: skip
    found = cut(recordings, int(sampler.history))
    found = found.take(_thin(np.arange(len(found))))
    scaled = sampler.scale_.states
    draws, after = scaled(sampler.draw(found, _DRAWS, seed)), scaled(found.following)
    scores = energy_score(draws, after)
    distances: tuple[float, ...] = ()
    if not sampler.control_names_:
        starts, later = stretches
        shaped = starts.reshape(len(starts), *sampler.shape_)
        runs = sampler.rollout(shaped, max(leads), n_members, seed)
        runs = scaled(runs.reshape(-1, max(leads) + 1, starts.shape[1]))
        distances = tuple(energy_distance(runs[:, k], scaled(later[:, k])) for k in leads)
    row = SamplerScore(
        name=name,
        energy_score=float(scores.mean()),
        behind=(0.0, 0.0, 0.0),
        spread_skill=spread_skill(draws, after).ratio,
        rank_chi_square=rank_histogram(draws, after).chi_square,
        distances=distances,
        evaluations=sampler.evaluations_per_step,
        seconds=seconds,
    )
    return row, scores


def _ranked(
    rows: list[SamplerScore], cases: list[Array], groups: NDArray[np.int64],
    leads: tuple[int, ...], seed: int,
) -> Comparison:  # fmt: skip
    first = int(np.argmin([r.energy_score for r in rows]))
    names = np.unique(groups)
    counts = np.random.default_rng(seed).multinomial(
        names.size, np.full(names.size, 1 / names.size), size=_RESAMPLES
    )
    size = np.array([np.sum(groups == g) for g in names])
    judged = []
    for row, scores in zip(rows, cases, strict=True):
        n = min(len(scores), len(groups), len(cases[first]))
        worse = scores[:n] - cases[first][:n]
        sums = np.array([worse[groups[:n] == g].sum() for g in names])
        means = counts @ sums / np.maximum(counts @ size, 1)
        low, high = np.quantile(means, [0.025, 0.975])
        behind = (float(worse.mean()), float(low), float(high))
        judged.append(SamplerScore(**{**vars(row), "behind": behind}))
    near = [s for s in judged if s.within_noise]
    best = min(near, key=lambda s: (round(max(s.distances, default=0.0), 2), judged.index(s)))
    others = [s.name for s in near if s is not best]
    said = f"{best.name}: one step ahead "
    said += f"as good as {', '.join(others)}" if others else "better than the others"
    said += (
        f", in the long run energy distance {max(0.0, *best.distances):.2g}"
        if best.distances
        else ""
    )
    if not 0.8 <= best.spread_skill <= 1.25:
        wide = "narrow" if best.spread_skill < 1 else "wide"
        said += f"; its draws are too {wide} (spread/skill {best.spread_skill:.2g})"
    return Comparison(tuple(judged), leads, best.name, said + ".")
