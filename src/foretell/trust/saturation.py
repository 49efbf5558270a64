"""How saturated each user is with what was shown, and what one more engagement would do.

    D = sum over categories of max(0, lam_k - rho mu_k),   lam = mu + alpha S

D is 0 while every category is less than rho times as intense as usual. One step of time multiplies
S by exp(-beta dt), an engagement adds 1 to the entry of its category (or the item's membership
vector), so that the D after the next step is known exactly for every category that could be shown.

Legend: U users, B users asked about, C categories; mu (U, C), alpha (C, C), S (U, C).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.trust.event_log import EventLog, checked_categories, plain
from foretell.trust.excitation import ExcitationModel

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


class SaturationState:
    """Decayed counts of every user, kept in arrays and moved on in batches.

    Parameters
    ----------
    model : ExcitationModel
        Fitted; gives what is usual, the excitation and the decay.
    rho : float
        How many times its usual intensity a category may have before it counts, at least 1.
    users : array, optional
        Labels of the users to hold; those of the model's log when left out. Users that the model
        does not know start with everyone's usual shares.
    warm : bool
        Start from where the model's log ended; otherwise every user starts unexcited.

    Attributes
    ----------
    labels_ : array (U,)
        The users, sorted; row of every other array.
    S_ : array (U, C)
        Decayed counts.

    Examples
    --------
    >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
    >>> state = SaturationState(ExcitationModel(decay=1.0).fit(log), rho=1.2, warm=False)
    >>> for _ in range(3):
    ...     state = state.update([1], [0])
    >>> state.saturation([1]) > 0
    array([ True])
    >>> ahead = state.lookahead([1])  # after one more of category 0, or after one of category 1
    >>> bool(ahead[0, 0] > ahead[0, 1])
    True
    """

    def __init__(
        self,
        model: ExcitationModel,
        *,
        rho: float = 2.0,
        users: ArrayLike | None = None,
        warm: bool = True,
    ) -> None:
        if not (np.isfinite(rho) and rho >= 1):
            raise ParameterError(f"rho={rho!r}; needed is a number >= 1, for instance 2.")
        self.model, self.rho = model, float(rho)
        self.labels_ = model.users_ if users is None else np.unique(np.asarray(users))
        self.mu_ = model.usual(self.labels_)
        self.S_ = np.zeros_like(self.mu_)
        if warm:
            place = np.searchsorted(model.users_, self.labels_)
            place = np.minimum(place, model.users_.size - 1)
            known = model.users_[place] == self.labels_
            self.S_[known] = model.state_[place[known]]
        self._slack = (self.rho - 1.0) * self.mu_
        self._alpha = model.excitation_

    def __repr__(self) -> str:
        return f"SaturationState({self.labels_.size} users, {self.n_categories} categories)"

    @property
    def n_categories(self) -> int:
        """Number of categories C."""
        return int(self.mu_.shape[1])

    def rows(self, users: ArrayLike | None) -> Rows:
        """Rows of users given by label; every row for None.

        Raises
        ------
        ParameterError
            For a label that is not held, naming it and how to add it.
        """
        if users is None:
            return np.arange(self.labels_.size)
        labels = np.atleast_1d(np.asarray(users))
        found = np.searchsorted(self.labels_, labels)
        place: Rows = np.minimum(found, self.labels_.size - 1)
        unknown = self.labels_[place] != labels
        if unknown.any():
            first = plain(labels[int(np.argmax(unknown))])
            raise ParameterError(
                f"user {first!r} is not held here. Call add([...]) "
                "first, which starts a user with everyone's usual shares."
            )
        return place

    def add(self, users: ArrayLike) -> SaturationState:
        """Hold further users: unexcited, with everyone's usual shares unless the model knows them.

        Examples
        --------
        >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
        >>> SaturationState(ExcitationModel(decay=1.0).fit(log)).add([7, 8])
        SaturationState(3 users, 2 categories)
        """
        labels = np.union1d(self.labels_, np.asarray(users))
        old = np.searchsorted(labels, self.labels_)
        mu, S = self.model.usual(labels), np.zeros((labels.size, self.n_categories))
        mu[old], S[old] = self.mu_, self.S_
        self.labels_, self.mu_, self.S_ = labels, mu, S
        self._slack = (self.rho - 1.0) * mu
        return self

    def reset(self, users: ArrayLike | None = None) -> SaturationState:
        """Forget every excitation of these users (of all users for None)."""
        self.S_[self.rows(users)] = 0.0
        return self

    def update(
        self,
        users: ArrayLike,
        categories: ArrayLike | None,
        engaged: ArrayLike | None = None,
        *,
        dt: ArrayLike = 1.0,
    ) -> SaturationState:
        """Let time pass for these users and book what they engaged with.

        Parameters
        ----------
        users : array (B,) of labels
            Each user at most once.
        categories : int array (B,), float array (B, C) or None
            Category of what each was shown, -1 for nothing; or membership vectors, rows summing
            to 1; None when only time passes.
        engaged : array (B,) of 0 and 1, optional
            Whether each engaged; all with a category did when left out.
        dt : float or array (B,)
            Time since the last update, >= 0, in steps or in the log's time unit.

        Raises
        ------
        ParameterError
            For an unknown user or one that stands twice, or a dt that is negative or not finite.
        DataError
            For a category out of range or feedback that is not 0 or 1, naming the entry.
        """
        rows = self.rows(users)
        ordered = np.sort(rows)
        if (ordered[1:] == ordered[:-1]).any():
            raise ParameterError(
                "a user stands twice in one update. Call update once for each event, in order of "
                "time."
            )
        fade = self._fade(rows, dt)
        jumps = 0.0 if categories is None else self._jumps(rows.size, categories, engaged)
        self.S_[rows] = fade * self.S_[rows] + jumps  # nothing moves before all is checked
        return self

    def saturation(self, users: ArrayLike | None = None) -> Array:
        """D of these users now, shape (B,)."""
        return np.asarray(self.excess(self.rows(users)).sum(1))

    def excess(self, rows: Rows, *, fade: float = 1.0) -> Array:
        """By how much each category is above rho times its usual intensity, shape (B, C).

        ``fade`` multiplies the excitation first, for instance exp(-decay) for the next step.
        """
        return np.maximum(fade * (self.S_[rows] @ self._alpha.T) - self._slack[rows], 0.0)

    def lookahead(
        self,
        users: ArrayLike | None = None,
        *,
        dt: float = 1.0,
        excitation: Array | None = None,
        memberships: Array | None = None,
    ) -> Array:
        """D after the next step if the user engages with each category, shape (B, C).

        Parameters
        ----------
        users : array (B,), optional
            Everyone when left out.
        dt : float
            Length of the step.
        excitation : array (C, C), optional
            In place of the fitted one, for instance an upper bound of it.
        memberships : array (K, C), optional
            Look ahead for K kinds of item with these memberships instead; the result is (B, K).
        """
        return self._ahead(self.rows(users), dt, excitation, memberships)

    def _ahead(self, rows: Rows, dt: float, alpha: Array | None, kinds: Array | None) -> Array:
        alpha = self._alpha if alpha is None else alpha
        jumps = alpha if kinds is None else alpha @ kinds.T
        faded = np.exp(-self.model.decay_ * dt) * (self.S_[rows] @ alpha.T) - self._slack[rows]
        return np.asarray(summed_excess(faded, np.ascontiguousarray(jumps)))

    def smallest_limit(self, rows: Rows | None = None) -> Array:
        """The least limit that every step can keep, whatever happened before, shape (B,).

        From any D <= L there is then a category with D <= L after an engagement with it.
        """
        slack = self._slack if rows is None else self._slack[rows]
        fade = np.exp(-self.model.decay_)
        least = np.full(slack.shape[0], np.inf)
        for q in range(self.n_categories):
            jump = np.maximum(self._alpha[:, q] - (1.0 - fade) * slack, 0.0).sum(1)
            least = np.minimum(least, jump)
        return np.asarray(least / (1.0 - fade))

    def replay(self, log: EventLog) -> Array:
        """D after every event of a log, shape (N,), each user starting unexcited.

        The state held here does not change.
        """
        from foretell.trust._excitation_fit import decayed_counts

        before, _ = decayed_counts(log, self.model.decay_)
        user = log.user_of_row
        mu = self.model.usual(log.labels)
        lifted = before @ self._alpha.T + log.engaged[:, None] * self._alpha.T[log.categories]
        return np.asarray(np.maximum(lifted - (self.rho - 1.0) * mu[user], 0.0).sum(1))

    def _fade(self, rows: Rows, dt: ArrayLike) -> Array:
        waited = np.asarray(dt, dtype=np.float64)
        if waited.ndim > 1 or (waited.ndim == 1 and waited.size != rows.size):
            raise ParameterError(
                f"dt has the shape {waited.shape}; needed is one number, or {rows.size}."
            )
        wrong = ~(np.isfinite(waited) & (waited >= 0))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ParameterError(
                f"dt={np.atleast_1d(waited)[place]:.6g}; time since the last update is a finite "
                "number >= 0. Bring the events of a user in order of time."
            )
        faded = np.exp(-self.model.decay_ * np.broadcast_to(waited, rows.shape))
        return np.asarray(faded[:, None])

    def _jumps(self, n: int, categories: ArrayLike, engaged: ArrayLike | None) -> Array:
        active = np.ones(n) if engaged is None else np.asarray(engaged, dtype=np.float64)
        active = np.atleast_1d(active)
        wrong = (active != 0) & (active != 1)
        if active.shape != (n,) or wrong.any():
            shown = active[int(np.argmax(wrong))] if wrong.any() else active.shape
            raise DataError(f"engaged holds {shown!r}; needed are {n} values, each 0 or 1.")
        given = np.atleast_1d(np.asarray(categories))
        if given.ndim == 2:
            return active[:, None] * checked_memberships(given, n, self.n_categories)
        nothing = given == -1
        index = checked_categories(np.where(nothing, 0, given), n, self.n_categories)
        jumps = np.zeros((n, self.n_categories))
        jumps[np.arange(n), index] = active * ~nothing
        return jumps


@njit(cache=True)
def summed_excess(faded_BC, jumps_CK):  # type: ignore[no-untyped-def]
    """Sum over categories of max(0, faded + jump), shape (B, K)."""
    B, C = faded_BC.shape
    K = jumps_CK.shape[1]
    total = np.zeros((B, K))
    for b in range(B):
        for c in range(C):
            for k in range(K):
                total[b, k] += max(0.0, faded_BC[b, c] + jumps_CK[c, k])
    return total


def checked_memberships(memberships: NDArray[Any], n: int, n_categories: int) -> Array:
    """Membership vectors of shape (n, C) whose rows sum to 1, or a DataError naming the row."""
    given = np.asarray(memberships, dtype=np.float64)
    if given.shape != (n, n_categories):
        raise DataError(
            f"memberships have the shape {given.shape}; needed is ({n}, {n_categories})."
        )
    wrong = ~((given >= 0).all(1) & (np.abs(given.sum(1) - 1.0) < 1e-6))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"memberships[{row}] sums to {given[row].sum():.6g}; needed are shares >= 0 that sum "
            "to 1. Write memberships / memberships.sum(1, keepdims=True)."
        )
    return given
