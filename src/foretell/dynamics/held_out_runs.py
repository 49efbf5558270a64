"""Free runs of models beside recordings, block by block, and their scores.

Of free runs, pairs (state, state ``lag`` rows later) are compared by their energy distance; with
inputs the root mean square error counts. Both are kept as sums over blocks, so that any weights of
the blocks, those of a bootstrap for instance, give a score without running anything again.

Legend: N variables, D draws of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from foretell.core import DataError, NumericalError
from foretell.data import Trajectories
from foretell.dynamics.evidence import decorrelation_rows
from foretell.dynamics.sequences import complete_rows

Array = NDArray[np.float64]

_BLOCKS, _FEWEST_BLOCKS, _SHORTEST = 12, 3, 20
_DRIVEN_SHORTEST = 60  # rows; with inputs a run has to show what they do in the long run
_POINTS, _MOST_POINTS = 150, 1800  # pairs that are compared: of a block, and of all of them
_MOST_BLOCKS = 60  # whole recordings that are run through
_FAR = 10.0  # standard deviations; a run that left the data counts as being there
_RUN_UP = 8  # with inputs the first eighth of a block is not counted
_COPIES = 4  # runs through a whole recording; a model without noise repeats itself
_LASTING, _SHIFTS = 4, 8  # blocks that another run lasts, and the places at which it may begin
_EVEN = 1e-6  # share of the interval by which stamps may be off for runs to share them


def make_judge(test: Trajectories, train: Trajectories) -> RunJudge:
    """The judge for these recordings; ``train`` gives the scale."""
    blocks = _blocks(test)
    centre, spread = _scale(train)
    if test.controls is not None:
        return DrivenJudge(blocks, test, spread)
    lag = max(min(decorrelation_rows(train) // 2, (blocks[0].stop - blocks[0].start) // 4), 1)
    paired = [b for b in blocks if _pair_rows(test.values[b.recording][b.rows], lag, 1).size]
    return FreeJudge(_enough(paired, test), test, centre, spread, lag)


@dataclass(frozen=True)
class Block:
    """Rows ``start`` to ``stop`` of a recording, of which the first one is complete."""

    recording: int
    start: int
    stop: int

    @property
    def rows(self) -> slice:
        """The rows as a slice."""
        return slice(self.start, self.stop)


class RunJudge:
    """Runs of the candidates along recordings, and their scores under weights of the blocks."""

    measure = ""

    def __init__(self, blocks: list[Block], test: Trajectories) -> None:
        self.blocks, self._test = blocks, test
        steps = np.concatenate([np.diff(t) for t in test.times])
        self._even = float(np.ptp(steps)) <= _EVEN * float(np.median(steps))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model along the recordings."""
        raise NotImplementedError

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        raise NotImplementedError

    def _runs(self, model: Any, starts: list[Block], random_state: int | None) -> list[Array]:
        """Runs from the first row of each of ``starts`` to its last; NaN after an escape."""
        test = self._test
        if test.controls is None and self._even:  # all at once, each as long as the longest
            longest = max(starts, key=lambda b: b.stop - b.start)
            times = test.times[longest.recording][longest.rows]
            x0 = np.array([test.values[b.recording][b.start] for b in starts])
            rng = None if random_state is None else np.random.default_rng(random_state)
            try:
                runs = list(model.simulate(x0, times, random_state=rng).values)
                return [self._full(run, b) for run, b in zip(runs, starts, strict=True)]
            except NumericalError:  # one of them leaves the range of the model at once
                pass
        return [self._run(model, b, n, random_state) for n, b in enumerate(starts)]

    def _run(self, model: Any, start: Block, n: int, random_state: int | None) -> Array:
        test, r = self._test, start.recording
        rng = None if random_state is None else np.random.default_rng([random_state, n])
        d = int(getattr(model, "n_delays", 0))
        first = max(start.start, d)  # a model with delays begins where it knows them
        rows = slice(first, start.stop)
        controls = None if test.controls is None else test.controls[r][rows]
        x0: Any = test.values[r][first]
        if d:
            x0 = test.select(r).take_rows([slice(first - d, first + 1)])
        try:
            run = model.simulate(x0, test.times[r][rows], controls=controls, random_state=rng)
            after = run.values[0]
        except NumericalError:
            after = test.values[r][first : first + 1]
        return self._full(np.vstack([test.values[r][start.start : first], after]), start)

    def _full(self, run: Array, start: Block) -> Array:
        n = start.stop - start.start
        rows = np.full((n, self._test.n_variables), np.nan)
        rows[: len(run)] = run[:n]
        return rows


class DrivenJudge(RunJudge):
    """With inputs: the error of runs that are given them."""

    measure = "root mean square error of a run on the inputs, in standard deviations"

    def __init__(self, blocks: list[Block], test: Trajectories, spread: Array) -> None:
        super().__init__(blocks, test)
        self._spread = spread
        self._errors: dict[str, Array] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model through every block."""
        errors = []
        runs = self._runs(model, self.blocks, random_state)
        for block, run in zip(self.blocks, runs, strict=True):
            seen = self._test.values[block.recording][block.rows]
            apart = np.clip(np.abs(run - seen) / self._spread, 0.0, _FAR)
            apart[np.isnan(run)] = _FAR
            errors.append(float(np.nanmean(apart[len(apart) // _RUN_UP :] ** 2)))
        self._errors[name] = np.array(errors)

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        return np.sqrt(weights @ self._errors[name])


class FreeJudge(RunJudge):
    """Without inputs: the distance between the laws of pairs of states.

    A run lasts several blocks; each of its pairs counts in the block that it lies in. Runs begin
    at shifted places, such that those of one shift go through every recording once. Whole
    recordings are run through from their beginning instead.
    """

    measure = "distance between pairs of states of free runs and of the recording, 0 to 1"

    def __init__(
        self, blocks: list[Block], test: Trajectories, centre: Array, spread: Array, lag: int
    ) -> None:
        super().__init__(blocks, test)
        self._centre, self._spread, self._lag = centre, spread, lag
        self._owner = [np.full(t.size, -1) for t in test.times]  # block of a pair that counts
        most = min(_POINTS, max(_MOST_POINTS // len(blocks), 1))
        for n, block in enumerate(blocks):
            rows = block.start + _pair_rows(test.values[block.recording][block.rows], lag, most)
            self._owner[block.recording][rows] = n
        recorded = [(r, 0, self._scaled(values)) for r, values in enumerate(test.values)]
        self._truth = self._clouds(recorded)
        self._inside = _mean_distances(self._truth)
        self._other: dict[str, tuple[Array, Array]] = {}

    def add(self, name: str, model: Any, random_state: int | None) -> None:
        """Run the fitted model along the recordings."""
        starts = _starts(self.blocks, self._test)
        runs = self._runs(model, starts, random_state)
        clouds = self._clouds(
            [(b.recording, b.start, self._scaled(run)) for b, run in zip(starts, runs, strict=True)]
        )
        self._other[name] = _mean_distances(self._truth, clouds), _mean_distances(clouds)

    def scores(self, name: str, weights: Array) -> Array:
        """Score (D,) under weights (D, blocks) that sum to one."""
        between, within = self._other[name]

        def mean(distances: Array) -> Array:
            return np.asarray(np.einsum("da,ab,db->d", weights, distances, weights))

        apart = 2 * mean(between)
        excess = apart - mean(within) - mean(self._inside)
        return np.sqrt(np.clip(excess / np.maximum(apart, 1e-12), 0.0, 1.0))

    def other_recording(self, judge: FreeJudge) -> float:
        """The square of the score of another recording; may be below 0, as no root is taken."""
        between = float(_mean_distances(self._truth, judge._truth).mean())
        inside = float(self._inside.mean() + judge._inside.mean())
        return (2 * between - inside) / max(2 * between, 1e-12)

    def _scaled(self, run: Array) -> Array:
        scaled = np.clip((run - self._centre) / self._spread, -_FAR, _FAR)
        scaled[np.isnan(scaled)] = _FAR
        return np.asarray(scaled)

    def _clouds(self, runs: list[tuple[int, int, Array]]) -> list[Array]:
        """Pairs (state, state ``lag`` rows later) of each block; of recording, first row, run."""
        pairs: list[list[Array]] = [[] for _ in self.blocks]
        for recording, start, run in runs:
            owner = self._owner[recording][start : start + len(run) - self._lag]
            for n in np.unique(owner[owner >= 0]):
                rows = np.flatnonzero(owner == n)
                pairs[n].append(np.hstack([run[rows], run[rows + self._lag]]))
        return [np.concatenate(parts) for parts in pairs]


def _starts(blocks: list[Block], test: Trajectories) -> list[Block]:
    """The stretches that runs go through."""
    if len(test) >= _FEWEST_BLOCKS:
        return blocks * max(_COPIES * _BLOCKS // max(len(blocks), _BLOCKS), 1)
    lasting = _LASTING * (blocks[0].stop - blocks[0].start)
    found = []
    for r, values in enumerate(test.values):
        complete = np.flatnonzero(complete_rows(values))
        if not complete.size:
            continue
        for shift in range(_SHIFTS):
            ends = np.arange(shift * lasting // _SHIFTS, len(values) + lasting, lasting)
            for low, high in zip([0, *ends], [*ends, len(values)], strict=False):
                begin = complete[np.searchsorted(complete, low) :][:1]
                stop = min(high, len(values))
                if begin.size and begin[0] < stop:
                    found.append(Block(r, int(begin[0]), int(stop)))
    return found


def _pair_rows(values: Array, lag: int, most: int) -> NDArray[np.intp]:
    """At most that many rows that are complete, as the rows ``lag`` later are."""
    seen = complete_rows(values)
    rows = np.flatnonzero(seen[:-lag] & seen[lag:])
    return rows[np.linspace(0, rows.size - 1, min(rows.size, most)).astype(np.intp)]


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


def _blocks(test: Trajectories) -> list[Block]:
    """Stretches of equal length, each beginning at a complete row."""
    longest = max(t.size for t in test.times)
    length = max(test.n_samples // _BLOCKS, _SHORTEST)
    if len(test) >= _FEWEST_BLOCKS:  # a run through a whole recording
        length = max(length, longest)
    elif test.controls is not None:
        length = max(length, min(_DRIVEN_SHORTEST, longest // _FEWEST_BLOCKS))
    blocks: list[Block] = []
    few = np.linspace(0, len(test) - 1, min(len(test), _MOST_BLOCKS)).astype(int)
    for n in map(int, few):
        complete = complete_rows(test.values[n])
        at = 0
        while at + _SHORTEST <= len(complete):
            if not complete[at]:
                at += 1
                continue
            stop = min(at + length, len(complete))
            blocks.append(Block(n, at, stop))
            at = stop
    return _enough(blocks, test)


def _enough(blocks: list[Block], test: Trajectories) -> list[Block]:
    if len(blocks) < _FEWEST_BLOCKS:
        raise DataError(
            f"the held-out part has {test.n_samples} rows, which makes {len(blocks)} blocks of "
            f"{_SHORTEST} or more; {_FEWEST_BLOCKS} are needed to compare learners. Record longer, "
            "or name the learner."
        )
    return blocks
