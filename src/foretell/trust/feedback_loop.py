"""A closed loop of ranker, regulator and simulated users, which narrows by itself.

The users are those of ``simulated_users``; the ranker learns from what they click.

Legend: U users of the model, B users of a run, I items, C categories, k slots, T steps.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError, as_generator
from foretell.trust.exposure import ExposureRegulator
from foretell.trust.loop_run import LoopRun
from foretell.trust.saturation import SaturationState
from foretell.trust.simulated_users import SimulatedUsers

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Ranker(Protocol):
    """What a loop needs of a recommender."""

    def begin(self, users: Index) -> None:
        """A run with these rows of the user model begins."""
        ...

    def scores(self) -> tuple[Index, Array]:
        """Candidates (B, n) as item indices, and their scores (B, n)."""
        ...

    def learn(self, categories: Index) -> None:
        """What each user clicked, as categories (B,), -1 for nothing."""
        ...


class EchoRanker:
    """Item scores plus a learned liking for categories, which feeds back what was clicked.

    Parameters
    ----------
    base : array (U, I)
        Scores of the items, for instance from matrix factorisation.
    categories : int array (I,)
    liking : array (U, C)
        Shares of the categories to start from.
    weight, rate : float
        Weight of ``base``, and how far one click moves the liking.
    pool : int
        Candidates of each user, the best by ``base``, of whatever category.

    Examples
    --------
    >>> ranker = EchoRanker(np.eye(3), [0, 1, 1], np.full((3, 2), 0.5), pool=2)
    >>> ranker.begin(np.array([0]))
    >>> ranker.scores()[0]
    array([[0, 1]])
    """

    def __init__(
        self,
        base: ArrayLike,
        categories: ArrayLike,
        liking: ArrayLike,
        *,
        weight: float = 0.6,
        rate: float = 0.05,
        pool: int = 200,
    ) -> None:
        self.base, self.liking = np.asarray(base, dtype=float), np.asarray(liking, dtype=float)
        self.categories = np.asarray(categories, dtype=np.int64)
        self.weight, self.rate, self.pool = weight, rate, pool

    def begin(self, users: Index) -> None:
        """Start from the shares given, with the pool of each user fixed for the run."""
        self._liking = self.liking[users].copy()
        base = self.base[users]
        pool = min(self.pool, base.shape[1])
        self._items = np.argsort(-base, axis=1, kind="stable")[:, :pool]
        self._base = self.weight * np.take_along_axis(base, self._items, axis=1)
        self._kinds = self.categories[self._items]

    def scores(self) -> tuple[Index, Array]:
        """Candidates and their scores now."""
        return self._items, self._base + np.take_along_axis(self._log_liking(), self._kinds, 1)

    def learn(self, categories: Index) -> None:
        """Move the liking towards what was clicked."""
        row = np.flatnonzero(categories >= 0)
        self._liking[row] *= 1.0 - self.rate
        self._liking[row, categories[row]] += self.rate

    def _log_liking(self) -> Array:
        return np.asarray(np.log(np.maximum(self._liking.shape[1] * self._liking, 1e-12)))


class ClosedLoopSimulator:
    """Run users, ranker and regulator against each other.

    Parameters
    ----------
    users : SimulatedUsers
        Or any `foretell.core.Process` whose state has ``users``, whose action is a slate of item
        indices and whose observation is the slot clicked.
    ranker : Ranker
    regulator : ExposureRegulator or None
        Fitted, with one label for each row of the user model; None for the ranker alone. Its state
        after the run is discarded.
    world : SaturationState
        Measures D, by a model that need not be the regulator's. Labels as the regulator's.
    limit : float or array (U,)
        The limit that violations are counted against.
    slots : int
        Items in a slate.
    delay : int
        Steps that feedback needs to reach ranker and regulator.

    Examples
    --------
    >>> from foretell.trust import EventLog, ExcitationModel
    >>> rng = np.random.default_rng(0)
    >>> columns = np.repeat(np.arange(30), 60), np.repeat(rng.integers(3, size=450), 4)
    >>> log = EventLog.from_columns(*columns)
    >>> regulator = ExposureRegulator(ExcitationModel(decay=0.2)).fit(log, warm=False)
    >>> kinds, flat = np.arange(60) % 3, np.full((30, 3), 1 / 3)
    >>> users = SimulatedUsers(rng.normal(size=(30, 60)), kinds, flat)
    >>> ranker = EchoRanker(users.utility, kinds, flat)
    >>> simulator = ClosedLoopSimulator(users, ranker, regulator)
    >>> simulator.run(n_users=20, n_steps=5, random_state=0)
    LoopRun(20 users, 5 steps: ... clicks a user, ... above the limit)
    """

    def __init__(
        self,
        users: SimulatedUsers,
        ranker: Ranker,
        regulator: ExposureRegulator | None,
        *,
        world: SaturationState | None = None,
        limit: float | ArrayLike | None = None,
        slots: int = 5,
        delay: int = 0,
    ) -> None:
        if regulator is None and (world is None or limit is None):
            raise ParameterError("without a regulator, give world=... and limit=... to measure by.")
        self.users, self.ranker, self.regulator = users, ranker, regulator
        self.world = world if world is not None or regulator is None else regulator.state_
        self.limit = limit if limit is not None or regulator is None else regulator.limit_
        self.slots, self.delay = slots, delay

    def run(
        self,
        n_users: int,
        n_steps: int,
        *,
        random_state: int | np.random.Generator | None = None,
    ) -> LoopRun:
        """Steps of slate, click and learning for n_users drawn from the model."""
        from copy import deepcopy

        assert self.world is not None
        rng = as_generator(random_state)
        state = self.users.reset(n_users, rng)
        world = deepcopy(self.world)
        regulator = deepcopy(self.regulator)
        labels = world.labels_[state.users]
        limit = np.broadcast_to(np.asarray(self.limit, float), world.labels_.shape)[state.users]
        kinds = self.users.categories
        self.ranker.begin(state.users)
        T, k = n_steps, self.slots
        clicked, D = np.full((T, n_users), -1, dtype=np.int64), np.zeros((T, n_users))
        slates, changed = np.zeros((T, n_users, k), dtype=np.int64), np.zeros((T, n_users))
        exposure = np.zeros(kinds.size)
        shown_first = np.zeros((T, n_users), dtype=np.int64)
        for t in range(T):
            items, scores = self.ranker.scores()
            slate = _best(items, scores, k)
            if regulator is not None:
                plain = slate
                slate = regulator.rerank(labels, items, scores, kinds[items], k)
                changed[t] = (slate != plain).mean(1)
            moved = self.users.step(state, slate, rng)
            state, slot = moved.state, moved.observation
            shown = kinds[slate]
            hit = slot >= 0
            clicked[t, hit] = shown[hit, slot[hit]]
            shown_first[t] = np.where(hit, clicked[t], shown[:, 0])
            world.update(labels, shown_first[t], hit)
            D[t], slates[t] = world.saturation(labels), shown
            exposure += np.bincount(slate.ravel(), minlength=kinds.size)
            known = t - self.delay
            if known >= 0:
                self.ranker.learn(clicked[known])
                if regulator is not None:
                    regulator.update(labels, shown_first[known], clicked[known] >= 0)
            elif regulator is not None:
                regulator.update(labels, None)
        return LoopRun(
            state.users, clicked, D, limit.copy(), slates, exposure, changed, world.n_categories
        )


def _best(items: Index, scores: Array, k: int) -> Index:
    """The k items of the highest scores, best first."""
    top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, top, 1), axis=1, kind="stable")
    return np.take_along_axis(items, np.take_along_axis(top, order, 1), 1)
