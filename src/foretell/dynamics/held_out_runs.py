"""Free runs of models beside recordings, block by block, and their scores.

Of free runs, pairs (state, state ``lag`` rows later) are compared by their energy distance; with
inputs the root mean square error counts. Both are kept as sums over blocks, so that any weights of
the blocks, those of a bootstrap for instance, give a score without running anything again.

Legend: N variables, D draws of weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from foretell.core import DataError
from foretell.data import Trajectories
from foretell.dynamics.evidence import decorrelation_rows
from foretell.dynamics.sequences import complete_rows

Array = NDArray[np.float64]

_BLOCKS, _FEWEST_BLOCKS, _SHORTEST = 12, 3, 20
_DRIVEN_SHORTEST = 60  # rows; with inputs a run has to show what they do in the long run
_POINTS = 150  # pairs of a block that are compared
_FAR = 10.0  # standard deviations; a run that left the data counts as being there
_RUN_UP = 8  # with inputs the first eighth of a block is not counted
_COPIES = 4  # runs from each start; a model without noise repeats itself


def make_judge(test: Trajectories, train: Trajectories) -> RunJudge:
    """The judge for these recordings; ``train`` gives the scale."""
    blocks = _blocks(test)
    centre, spread = _scale(train)
    if test.controls is not None:
        return DrivenJudge(blocks, spread)
    lag = max(min(decorrelation_rows(train) // 2, len(blocks[0].times[0]) // 4), 1)
    return FreeJudge(blocks, centre, spread, lag)


class RunJudge:
    """Runs of the candidates, block by block, and their scores under weights of the blocks."""

    measure = ""

    def __init__(self, blocks: list[Trajectories]) -> None:
        self.blocks = blocks

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model through every block."""
        raise NotImplementedError

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        raise NotImplementedError

    def _runs(self, model: Any, n: int, random_state: int | None, copies: int) -> list[Array]:
        """Runs with the stamps of block ``n``; rows after an escape are NaN."""
        block = self.blocks[n]
        rng = None if random_state is None else np.random.default_rng([random_state, n])
        controls = None if block.controls is None else block.controls[0]
        runs = model.simulate(
            block.values[0][0], block.times[0], controls=controls, n_samples=copies,
            random_state=rng,
        ).values  # fmt: skip
        full = []
        for run in runs:
            rows = np.full(block.values[0].shape, np.nan)
            rows[: len(run)] = run
            full.append(rows)
        return full


class DrivenJudge(RunJudge):
    """With inputs: the error of runs that are given them."""

    measure = "root mean square error of a run on the inputs, in standard deviations"

    def __init__(self, blocks: list[Trajectories], spread: Array) -> None:
        super().__init__(blocks)
        self._spread = spread
        self._errors: dict[str, Array] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model through every block."""
        errors = []
        for n, block in enumerate(self.blocks):
            run = self._runs(model, n, random_state, 1)[0]
            apart = np.clip(np.abs(run - block.values[0]) / self._spread, 0.0, _FAR)
            apart[np.isnan(run)] = _FAR
            errors.append(float(np.nanmean(apart[len(apart) // _RUN_UP :] ** 2)))
        self._errors[name] = np.array(errors)

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        return np.sqrt(weights @ self._errors[name])


class FreeJudge(RunJudge):
    """Without inputs: the distance between the laws of pairs of states."""

    measure = "distance between pairs of states of free runs and of the recording, 0 to 1"

    def __init__(self, blocks: list[Trajectories], centre: Array, spread: Array, lag: int) -> None:
        super().__init__(blocks)
        self._centre, self._spread, self._lag = centre, spread, lag
        self._rows = [_pair_rows(block.values[0], lag) for block in blocks]
        self._truth = [self._cloud([b.values[0]], n) for n, b in enumerate(blocks)]
        self._inside = _mean_distances(self._truth)
        self._other: dict[str, tuple[Array, Array]] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model through every block."""
        clouds = [
            self._cloud(self._runs(model, n, random_state, _COPIES), n)
            for n in range(self.n_blocks)
        ]
        self._other[name] = _mean_distances(self._truth, clouds), _mean_distances(clouds)

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
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
    seen = complete_rows(values)
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
    longest = max(t.size for t in test.times)
    length = max(test.n_samples // _BLOCKS, _SHORTEST)
    if len(test) >= _FEWEST_BLOCKS:  # a run through a whole recording
        length = max(length, longest)
    elif test.controls is not None:
        length = max(length, min(_DRIVEN_SHORTEST, longest // _FEWEST_BLOCKS))
    blocks = []
    for n in range(len(test)):
        complete = complete_rows(test.values[n])
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
