"""Users who click, tire and drift, to try a policy before people meet it.

They click by a softmax over the slate and an outside option, tire of what they were shown a lot,
and drift towards what they click. The utility of item i of category c is

    weight * base[u, i] + ln(C preference[u, c]) - fatigue[u] * exposure[u, c]

Legend: U users of the model, B users of a run, I items, C categories, k slots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError, Transition
from foretell.trust.event_log import checked_categories

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
