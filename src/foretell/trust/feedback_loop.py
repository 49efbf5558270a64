"""A closed loop of ranker, regulator and simulated users, to try a policy before people meet it.

The users click by a softmax over the slate and an outside option, tire of what they were shown a
lot, and drift towards what they click; the ranker learns from the clicks. So a loop narrows by
itself. The utility of item i of category c is

    weight * base[u, i] + ln(C preference[u, c]) - fatigue[u] * exposure[u, c]

Legend: U users of the model, B users of a run, I items, C categories, k slots, T steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError, Transition, as_generator
from foretell.trust import exposure_metrics as metrics
from foretell.trust.event_log import checked_categories
from foretell.trust.exposure import ExposureRegulator
from foretell.trust.saturation import SaturationState

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class UserState:
    """Where the users of a run are.

    Parameters
    ----------
    users : int array (B,)
        Rows of the user model.
    preference : array (B, C)
        What each likes now; rows sum to 1.
    exposure : array (B, C)
        Recent shares of the slots, fading.
    step : int
    """

    users: Index
    preference: Array
    exposure: Array
    step: int = 0

    def __repr__(self) -> str:
        return f"UserState({self.users.size} users at step {self.step})"


class SimulatedUsers:
    """Users who click, tire and drift: a `foretell.core.Process`.

    Parameters
    ----------
    utility : array (U, I)
        How much each user values each item, in any unit.
    categories : int array (I,)
        Category of each item.
    preference : array (U, C)
        Shares of the categories that each user likes at first.
    fatigue : float or array (U,)
        How much a category shown in every slot loses, in units of utility.
    drift : float or array (U,)
        How far one click moves the preference towards its category.
    outside : float
        Utility of clicking nothing.
    weight : float
        Weight of ``utility``.
    memory : float
        Weight of the newest slate in the fading exposure.
    shock_step : int, optional
        At this step everyone's preference is mixed half and half with ``shock``.
    shock : array (C,), optional
        Shares that a shock brings.

    Examples
    --------
    >>> users = SimulatedUsers(np.zeros((2, 4)), [0, 0, 1, 1], np.full((2, 2), 0.5))
    >>> rng = np.random.default_rng(0)
    >>> state = users.reset(2, rng)
    >>> users.step(state, np.array([[0, 2], [1, 3]]), rng)
    Transition(2 copies, mean reward ...)
    """

    def __init__(
        self,
        utility: ArrayLike,
        categories: ArrayLike,
        preference: ArrayLike,
        *,
        fatigue: float | ArrayLike = 0.0,
        drift: float | ArrayLike = 0.05,
        outside: float = 1.5,
        weight: float = 0.6,
        memory: float = 0.1,
        shock_step: int | None = None,
        shock: ArrayLike | None = None,
    ) -> None:
        self.utility = np.asarray(utility, dtype=np.float64)
        self.preference = np.asarray(preference, dtype=np.float64)
        if self.utility.ndim != 2 or self.preference.ndim != 2:
            raise DataError(
                "needed are tables: utility (users, items), preference (users, categories)."
            )
        U, n_items = self.utility.shape
        C = self.preference.shape[1]
        self.categories = checked_categories(categories, n_items, C)
        if self.preference.shape[0] != U or not np.allclose(self.preference.sum(1), 1.0):
            raise DataError(
                f"preference has the shape {self.preference.shape}; needed are {U} rows of shares "
                "that sum to 1."
            )
        for name, value in (("drift", np.asarray(drift)), ("memory", np.asarray(memory))):
            if not ((value >= 0) & (value <= 1)).all():
                raise ParameterError(f"{name}={value.tolist()!r}; needed are shares in [0, 1].")
        self.fatigue = np.broadcast_to(np.asarray(fatigue, dtype=np.float64), (U,))
        self.drift = np.broadcast_to(np.asarray(drift, dtype=np.float64), (U,))
        self.outside, self.weight, self.memory = outside, weight, memory
        self.shock_step = shock_step
        self.shock = None if shock is None else np.asarray(shock, dtype=np.float64)

    def reset(self, n: int, generator: np.random.Generator) -> UserState:
        """Draw n different users of the model, rested.

        Raises
        ------
        ParameterError
            For more users than the model has.
        """
        U, C = self.preference.shape
        if not 1 <= n <= U:
            raise ParameterError(f"n={n} users; the model has {U}.")
        users = np.arange(U) if n == U else generator.choice(U, n, replace=False)
        return UserState(users, self.preference[users].copy(), np.zeros((n, C)))

    def step(
        self, state: UserState, action: NDArray[Any], generator: np.random.Generator
    ) -> Transition[UserState, Index]:
        """Show slates of item indices (B, k); the observation is the slot clicked, -1 for none.

        The reward is 1 for a click. The luck depends on the generator and the slots only, so two
        policies with generators of one seed meet the same users in the same mood.
        """
        slate = np.asarray(action, dtype=np.int64)
        kind = self.categories[slate]
        C = state.preference.shape[1]
        liking = np.log(np.maximum(C * np.take_along_axis(state.preference, kind, 1), 1e-12))
        tired = self.fatigue[state.users, None] * np.take_along_axis(state.exposure, kind, 1)
        worth = self.weight * self.utility[state.users[:, None], slate] + liking - tired
        luck = generator.gumbel(size=(slate.shape[0], slate.shape[1] + 1))
        slot = np.concatenate([worth, np.full((slate.shape[0], 1), self.outside)], axis=1)
        choice = (slot + luck).argmax(1)
        clicked = choice < slate.shape[1]
        preference = state.preference.copy()
        row = np.flatnonzero(clicked)
        drift = self.drift[state.users[row]]
        preference[row] *= 1.0 - drift[:, None]
        preference[row, kind[row, choice[row]]] += drift
        if self.shock_step == state.step and self.shock is not None:
            preference = 0.5 * preference + 0.5 * self.shock
        cell = (kind + C * np.arange(slate.shape[0])[:, None]).ravel()
        shown = np.bincount(cell, minlength=preference.size).reshape(-1, C) / slate.shape[1]
        exposure = (1.0 - self.memory) * state.exposure + self.memory * shown
        after = replace(state, preference=preference, exposure=exposure, step=state.step + 1)
        return Transition(after, np.where(clicked, choice, -1), clicked.astype(np.float64))


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


@dataclass(frozen=True)
class LoopRun:
    """What happened in a closed loop.

    Parameters
    ----------
    users : int array (B,)
        Rows of the user model.
    clicked : int array (T, B)
        Category clicked, -1 for none.
    saturation, limit : array (T, B), array (B,)
        D after each step in the world that judges, and the limit.
    slates : int array (T, B, k)
        Categories shown.
    item_exposure : array (I,)
        Slots that each item got.
    changed : array (T, B)
        Share of the slots that the policy changed.
    n_categories : int
    """

    users: Index
    clicked: Index
    saturation: Array
    limit: Array
    slates: Index
    item_exposure: Array
    changed: Array
    n_categories: int

    def __repr__(self) -> str:
        return (
            f"LoopRun({self.users.size} users, {self.clicked.shape[0]} steps: "
            f"{self.reward:.3g} clicks a user, {self.violation_rate:.3f} above the limit)"
        )

    @property
    def violated(self) -> NDArray[np.bool_]:
        """Steps above the limit, shape (T, B)."""
        return np.asarray(self.saturation > self.limit)

    @property
    def reward(self) -> float:
        """Clicks of a user, mean."""
        return metrics.cumulative_reward(self.clicked >= 0)

    @property
    def violation_rate(self) -> float:
        """Share of steps above the limit."""
        return metrics.violation_rate(self.violated)

    def summary(self) -> dict[str, float]:
        """Every measure of the run by name: rewards, violations, and concentration.

        The last five do not use the excitation model.
        """
        shown = np.bincount(self.slates.ravel(), minlength=self.n_categories)
        recovery = metrics.recovery_time(self.violated)
        k = self.slates.shape[2]
        return {
            "clicks": self.reward,
            "late_ctr": metrics.late_ctr(self.clicked >= 0),
            "violations": self.violation_rate,
            "recovery_steps": recovery.mean,
            "unfinished": float(recovery.censored),
            "changed_slots": float(self.changed.mean()),
            "coverage": metrics.category_coverage(self.clicked, self.n_categories),
            "entropy": metrics.exposure_entropy(shown),
            "gini_categories": metrics.exposure_gini(shown),
            "gini_items": metrics.exposure_gini(self.item_exposure),
            "slate_distance": (
                metrics.slate_distance(self.slates.reshape(-1, k)) if k > 1 else 0.0
            ),
        }

    def frame(self) -> Any:
        """One row for each step and user, as a pandas data frame.

        Raises
        ------
        MissingExtraError
            When pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            from foretell.core import MissingExtraError

            raise MissingExtraError("pandas", "tables", "make a data frame") from error

        T, B = self.clicked.shape
        return pd.DataFrame(
            {
                "step": np.repeat(np.arange(T), B),
                "user": np.tile(self.users, T),
                "clicked": self.clicked.ravel(),
                "saturation": self.saturation.ravel(),
                "relative": (self.saturation / self.limit).ravel(),
                "violated": self.violated.ravel(),
                "changed": self.changed.ravel(),
            }
        )


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
