r"""What a user consumes now makes some categories likelier next: a self-exciting model of marks.

Paper: N. Bisht, L. Guo, X. Gong, H. Huo, G. Xu, "CORAL: uncertainty-aware regulation of exposure
concentration in recommender systems", ICML 2026.

Idea: every engagement with category q raises the intensity of category k by alpha[k, q], and the
rise fades by exp(-beta) a step. The excitation alpha and the decay beta are shared by all users,
what is usual (mu) is each user's own, shrunk towards everyone's; so a hundred events of a user are
enough. The fit maximises the probability of which category came next, by EM, and a gate on held-out
events decides whether excitation is there at all.

    S_q  <-  e^{-beta dt} S_q          then  S_q += 1 when q was engaged with
    lam_k =  mu_k + sum_q alpha[k, q] S_q

Legend: U users, C categories; mu (U, C) with rows summing to 1, alpha (C, C) >= 0, S (U, C).

Differs from the paper in: parameters shared by all users where it fits C*C + C + 1 for each; EM to
convergence where it takes 50 small gradient steps; the probability of the next mark where it puts
the integral of continuous time into a sum over events; choices on held-out events.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import (
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
    as_generator,
)
from foretell.core.estimator import Estimator
from foretell.trust._excitation_fit import (
    Excitation,
    Marks,
    decayed_counts,
    fitted,
    mark_losses,
    maximised,
    standard_errors,
)
from foretell.trust._habits import (
    clear_gain,
    engagements_of,
    group_priors,
    marks_of,
    merged_groups,
    priors,
    shares,
    shrunk,
    without_excitation,
)
from foretell.trust.event_log import EventLog
from foretell.trust.mark_scores import Gate, MarkScore

Array = NDArray[np.float64]

DECAYS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
STRENGTHS = (20.0, 50.0, 100.0, 200.0)
KINDS = ("full", "diag", "diag+lowrank")


class ExcitationModel(Estimator):
    """Self-excitation between categories, shared by all users.

    Parameters
    ----------
    decay : float or "grid"
        How fast excitation fades: by exp(-decay) a step. "grid" tries 0.02 to 1 on held-out events.
    prior_strength : float or "grid"
        Weight of everyone's shares in a user's usual shares, in events. "grid" tries 20 to 200.
    kind : {"full", "diag", "diag+lowrank"}
        Which excitations may differ from zero; "diag" has C of them, "full" C * C.
    rank : int
        Rank of the part beside the diagonal for "diag+lowrank".
    n_iterations : int
        EM passes.
    validation : float
        Last share of each user's events that the grid and the gate are judged on.
    random_state : int, Generator or None
        Start of the low-rank factors; the other kinds draw nothing.

    Attributes
    ----------
    baseline_ : array (U, C)
        Usual shares of each user of the log; rows sum to 1.
    prior_ : array (C,)
        Shares of all users together, which a new user starts with.
    excitation_ : array (C, C)
        Entry [k, q]: what one engagement with q adds to the intensity of k. Part of the clustering
        of a user's events is absorbed by ``baseline_``, so entries tend to be too low; their
        ratios (``relative_excitation_``) are more reliable than their size.
    standard_errors_ : array (C, C)
        Of ``excitation_``, with the usual shares taken as known.
    decay_, prior_strength_ : float
        As given or as chosen.
    gate_ : Gate
        What held-out events said.
    state_ : array (U, C)
        Decayed counts of each user after the last event of the log.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users = np.repeat(np.arange(60), 80)
    >>> taste = rng.integers(3, size=60)[users]
    >>> mood = np.repeat(rng.integers(3, size=600), 8)  # eight of a kind in a row, then another
    >>> categories = np.where(rng.random(4800) < 0.8, mood, taste)
    >>> model = ExcitationModel().fit(EventLog.from_columns(users, categories))
    >>> model.gate_.passed, bool(model.excitation_[0, 0] > 3 * model.excitation_[0, 1])
    (True, True)
    """

    users_: NDArray[Any]
    groups_: NDArray[Any] | None
    baseline_: Array
    prior_: Array
    excitation_: Array
    standard_errors_: Array
    decay_: float
    prior_strength_: float
    gate_: Gate
    state_: Array
    counts_: Array
    counted_: Array
    exposure_: Array
    engagements_: Array

    def __init__(
        self,
        *,
        decay: float | str = "grid",
        prior_strength: float | str = 50.0,
        kind: str = "full",
        rank: int = 2,
        n_iterations: int = 40,
        validation: float = 0.2,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.decay = decay
        self.prior_strength = prior_strength
        self.kind = kind
        self.rank = rank
        self.n_iterations = n_iterations
        self.validation = validation
        self.random_state = random_state

    def fit(self, log: EventLog) -> ExcitationModel:
        """Choose decay and prior strength on the last events of each user, then fit to all.

        Parameters
        ----------
        log : EventLog
            Events of at least one user; about a thousand are needed for the gate to mean something.

        Raises
        ------
        ParameterError
            For an impossible argument.

        Warns
        -----
        ForetellWarning
            When excitation does not predict held-out events better than habits do, by more than two
            standard errors. Then
            ``excitation_`` becomes ``(1 - exp(-decay)) * I``, and saturation measures how far the
            recent share of a category exceeds its usual share.
        """
        decays, strengths = self._checked(log)
        early = log.early(1.0 - self.validation)
        if not (~early).any():
            raise DataError(
                f"no user has an event in the last {self.validation:.0%} of the log ({log!r}); "
                "needed are users with several events each."
            )
        counts = log.counts(early)
        choice: tuple[float, float, float, Array] | None = None
        for decay in decays:
            S, _ = decayed_counts(log, decay)
            for strength in strengths:
                alpha = self._em(S, log, early, counts, strength).matrix
                mu = shrunk(counts, priors(log, counts), strength)[log.user_of_row]
                losses = mark_losses(S[~early], mu[~early], alpha, log.categories[~early])
                loss = float(losses.mean())
                if choice is None or loss < choice[0]:
                    choice = loss, decay, strength, losses
        assert choice is not None
        loss, self.decay_, self.prior_strength_, losses = choice
        habits, everyone = without_excitation(log, early, STRENGTHS)
        passed = clear_gain(losses, habits, log.user_of_row[~early])
        self.gate_ = Gate(passed, loss, float(habits.mean()), everyone, losses.size)
        self._settle(log)
        return self

    def update(self, log: EventLog, *, forgetting: float = 1.0) -> ExcitationModel:
        """Go on from the fitted statistics with later events, in one pass.

        Parameters
        ----------
        log : EventLog
            Later events; new users are added.
        forgetting : float
            Weight of everything known so far, in (0, 1].

        Raises
        ------
        ParameterError
            For another number of categories, or for ``kind="diag+lowrank"``, whose factors cannot
            be added up.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> columns = np.repeat(np.arange(40), 60), rng.integers(3, size=2400)
        >>> log = EventLog.from_columns(*columns)
        >>> model = ExcitationModel(decay=0.2, kind="diag")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", ForetellWarning)  # these categories are random
        ...     model.fit(log).update(EventLog.from_columns([0, 99], [1, 2], n_categories=3))
        ExcitationModel(decay=0.2, kind='diag')
        >>> model.users_.size
        41
        """
        self._require_fitted()
        if not 0 < forgetting <= 1:
            raise ParameterError(f"forgetting={forgetting!r}; needed is a number in (0, 1].")
        if self.kind == "diag+lowrank":
            raise ParameterError(
                'update adds up the statistics of kind="full" or "diag"; this model has '
                'kind="diag+lowrank". Fit again on the longer log.'
            )
        self._require_categories(log)
        users = np.union1d(self.users_, log.labels)
        counts, state = (np.zeros((users.size, log.n_categories)) for _ in range(2))
        old, new = np.searchsorted(users, self.users_), np.searchsorted(users, log.labels)
        counts[old], state[old] = forgetting * self.counts_, self.state_
        groups = merged_groups(self.groups_, old, log.groups, new, users.size)
        prior = shares(counts.sum(0) + log.counts().sum(0))
        S, state[new] = decayed_counts(log, self.decay_, state[new])
        mu = shrunk(counts, prior, self.prior_strength_)[new][log.user_of_row]
        marks = Marks.of(
            S, mu[np.arange(S.shape[0]), log.categories], log.categories, log.n_categories
        )
        G, h = marks.statistics(self.excitation_)
        counts[new] += log.counts()
        self.users_, self.counts_, self.state_, self.groups_ = users, counts, state, groups
        self.counted_ = forgetting * self.counted_ + self.excitation_ * G
        self.exposure_ = forgetting * self.exposure_ + h
        self.engagements_ = forgetting * self.engagements_ + engagements_of(log)
        self._set_baseline()
        if self.gate_.passed:
            free = self.excitation_ > 0
            self.excitation_ = np.where(free, maximised(self.counted_, self.exposure_), 0.0)
        return self

    def mark_nll(self, log: EventLog, *, last: float = 1.0) -> MarkScore:
        """How well the categories of a log are predicted, each from what came before it.

        Parameters
        ----------
        log : EventLog
            Whole histories; users that the fit has not seen are given everyone's shares.
        last : float
            Only the last share of each user's events counts; the earlier ones set the state.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> runs = np.repeat(rng.integers(3, size=125), 8)
        >>> log = EventLog.from_columns(np.repeat([0, 1], 500), runs)
        >>> ExcitationModel().fit(log.first(0.8)).mark_nll(log, last=0.2)
        MarkScore(... nats an event, 200 events)
        """
        self._require_fitted()
        self._require_categories(log)
        S, _ = decayed_counts(log, self.decay_)
        mu = self.usual(log.labels)[log.user_of_row]
        losses = mark_losses(S, mu, self.excitation_, log.categories)
        counted = np.ones(losses.size, dtype=bool) if last == 1.0 else ~log.early(1.0 - last)
        user = log.user_of_row[counted]
        return MarkScore(
            float(losses[counted].mean()),
            np.asarray(np.bincount(user, weights=losses[counted], minlength=log.n_users)),
            np.bincount(user, minlength=log.n_users).astype(np.float64),
        )

    def score(self, log: EventLog) -> float:
        """Mean log probability of an event's category (higher is better).

        Examples
        --------
        >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
        >>> model = ExcitationModel(decay=1.0).fit(log)
        >>> model.score(log) == -model.mark_nll(log).nll
        True
        """
        return -self.mark_nll(log).nll

    def sample(
        self,
        n_users: int,
        n_events: int,
        *,
        random_state: int | np.random.Generator | None = None,
    ) -> EventLog:
        """A log of new users drawn from the model: every event is engaged with.

        Parameters
        ----------
        n_users, n_events : int
            Users, and events of each. Usual shares are drawn from the prior, as concentrated as
            the fit says.
        random_state : int, Generator or None
            Where the randomness comes from.

        Examples
        --------
        >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
        >>> ExcitationModel(decay=1.0).fit(log).sample(3, 10, random_state=0)
        EventLog(30 events of 3 users, 2 categories, 100% engaged)
        """
        self._require_fitted()
        rng = as_generator(random_state)
        C = self.prior_.size
        mu = rng.dirichlet(self.prior_strength_ * self.prior_, size=n_users)
        S, marks = np.zeros((n_users, C)), np.zeros((n_users, n_events), dtype=np.int64)
        fade = np.exp(-self.decay_)
        for t in range(n_events):
            S *= fade
            lam = mu + S @ self.excitation_.T
            marks[:, t] = (np.log(lam) + rng.gumbel(size=lam.shape)).argmax(1)
            S[np.arange(n_users), marks[:, t]] += 1.0
        users = np.repeat(np.arange(n_users), n_events)
        return EventLog.from_columns(users, marks.ravel(), n_categories=C)

    def usual(self, users: NDArray[Any]) -> Array:
        """Usual shares of users by label, shape (len(users), C); unknown ones get the prior.

        Examples
        --------
        >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
        >>> ExcitationModel(decay=1.0).fit(log).usual([7])
        array([[0.5, 0.5]])
        """
        self._require_fitted()
        labels = np.asarray(users)
        place = np.minimum(np.searchsorted(self.users_, labels), self.users_.size - 1)
        known = self.users_[place] == labels
        return np.where(known[:, None], self.baseline_[place], self.prior_)

    @property
    def relative_excitation_(self) -> Array:
        """Excitation divided by its mean over all pairs, shape (C, C): what is identified best."""
        self._require_fitted()
        return np.asarray(self.excitation_ / self.excitation_.mean())

    def _checked(self, log: EventLog) -> tuple[tuple[float, ...], tuple[float, ...]]:
        if not isinstance(log, EventLog):
            raise DataError(
                f"fit was given {type(log).__name__}; needed is an EventLog. Write "
                "EventLog.from_columns(users, categories, times=times)."
            )
        if self.kind not in KINDS:
            raise ParameterError(f"kind={self.kind!r} is not known; use one of {', '.join(KINDS)}.")
        for name, least in (("rank", 1), ("n_iterations", 1)):
            if not (isinstance(getattr(self, name), int) and getattr(self, name) >= least):
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}; needed is a whole number >= {least}."
                )
        if not 0 < self.validation < 1:
            raise ParameterError(f"validation={self.validation!r}; needed is a share in (0, 1).")
        return (
            _grid("decay", self.decay, DECAYS),
            _grid("prior_strength", self.prior_strength, STRENGTHS),
        )

    def _em(
        self,
        S: Array,
        log: EventLog,
        rows: NDArray[np.bool_],
        counts: Array,
        strength: float,
        kind: str | None = None,
    ) -> Excitation:
        marks = marks_of(S, log, rows, counts, strength)
        rng = as_generator(self.random_state)
        return fitted(marks, kind or self.kind, self.rank, self.n_iterations, rng)

    def _settle(self, log: EventLog) -> None:
        """Fit everything that lasts to the whole log."""
        rows = np.ones(log.categories.size, dtype=bool)
        self.users_, self.groups_ = log.labels, log.groups
        self.counts_ = log.counts()
        self.engagements_ = engagements_of(log)
        S, self.state_ = decayed_counts(log, self.decay_)
        C = log.n_categories
        if self.gate_.passed:
            alpha = self._em(S, log, rows, self.counts_, self.prior_strength_).matrix
        else:
            alpha = (1.0 - np.exp(-self.decay_)) * np.eye(C)
            warnings.warn(
                "excitation predicts held-out categories not clearly better than habits do "
                f"({self.gate_}). Saturation falls back to the excess of recent over usual shares "
                f"(excitation_ = {alpha[0, 0]:.3g} * I). Are the events in their true order?",
                ForetellWarning,
                stacklevel=3,
            )
        marks = marks_of(S, log, rows, self.counts_, self.prior_strength_)
        G, self.exposure_ = marks.statistics(alpha)
        self.counted_ = alpha * G
        self.excitation_ = alpha
        diagonal = self.kind == "diag" or not self.gate_.passed
        free = np.eye(C, dtype=bool) if diagonal else np.ones((C, C), dtype=bool)
        self.standard_errors_ = standard_errors(marks, np.maximum(alpha, 1e-12), free)
        self._set_baseline()

    def _set_baseline(self) -> None:
        self.prior_ = shares(self.counts_.sum(0))
        towards = group_priors(self.groups_, self.counts_, self.prior_, self.prior_strength_)
        self.baseline_ = shrunk(self.counts_, towards, self.prior_strength_)

    def _require_fitted(self) -> None:
        if not hasattr(self, "excitation_"):
            raise NotFittedError("this ExcitationModel was not fitted. Call fit(log) first.")

    def _require_categories(self, log: EventLog) -> None:
        if log.n_categories != self.prior_.size:
            raise ParameterError(
                f"the log has {log.n_categories} categories, the model {self.prior_.size}. Write "
                f"n_categories={self.prior_.size} when making the log."
            )


def _grid(name: str, value: float | str, grid: tuple[float, ...]) -> tuple[float, ...]:
    if value == "grid":
        return grid
    if isinstance(value, str) or not (np.isfinite(value) and value > 0):
        raise ParameterError(f'{name}={value!r}; needed is a positive number, or "grid".')
    return (float(value),)
