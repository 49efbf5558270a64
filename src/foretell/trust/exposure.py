r"""Keep what a user is shown from narrowing: re-rank any recommender under a limit on saturation.

Paper: N. Bisht, L. Guo, X. Gong, H. Huo, G. Xu, "CORAL: uncertainty-aware regulation of exposure
concentration in recommender systems", ICML 2026.

Idea: a self-exciting state for each user (``SaturationState``) says how saturated the user is (D).
The limit L is a quantile of D over the recorded past, so it means "no more saturated than the most
saturated tenth of what users did by themselves". Before a slate is shown, the D that an engagement
with each category would lead to is known exactly, and categories that would break the limit are
barred ("barrier") or priced ("dual", "penalty"). Variety within the slate is a term of its own.

    price_c = w * risk_c * (1 + max(0, D+_c - L) / L)
    risk_c  = q_c [D+_c > L] + (1 - q_c) [D0 > L]
    w      <- max(0, w + eta ([D > L] - eps))       after every step

Legend: U users, B users of a batch, n candidates, K kinds of item, C categories, k slots. D0 and
D+_c are D after the next step without an engagement and with one in c; q_c bounds the probability
of an engagement.

Differs from the paper in: risk one step ahead in place of a bound on the past, which does not bound
the next step; parameters shared by users; a limit in units of the users' own history; statistics
that are updated in use; one scale for scores and penalties; slates that are not one category each.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, NotFittedError, ParameterError
from foretell.core.estimator import Estimator, unfitted
from foretell.trust._candidate_checks import check_slots, checked_scores, labels_at
from foretell.trust._exposure_files import opened, saved
from foretell.trust._guards import Guard, guards_of
from foretell.trust._limits import checked_settings, limits_of_users, refuse_infeasible
from foretell.trust._slates import Candidates, Prices, filled
from foretell.trust.bounds import binomial_upper
from foretell.trust.diversify import MMR, Diversifier, ScoresOnly
from foretell.trust.event_log import EventLog, checked_categories, plain
from foretell.trust.excitation import ExcitationModel
from foretell.trust.risk_cells import SaturationCells
from foretell.trust.saturation import SaturationState, checked_memberships
from foretell.trust.slate_results import Feedback, Slate

__all__ = ["ExcitationModel", "ExposureRegulator", "SaturationState"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_STEEPEST = 100.0  # the paper's cap on its penalty 1 / (1 - D / L)


class ExposureRegulator(Estimator):
    """Re-rank the scores of any recommender so that saturation stays under a limit.

    Parameters
    ----------
    model : ExcitationModel, optional
        Fitted or not; with its defaults when left out.
    limit : float or {"quantile": q}
        The limit L of D, or the quantile of D over the events of the log that sets it.
    mode : {"dual", "barrier", "penalty"}
        "barrier" never shows a category that could break the limit while another is left; it is
        as good as the fitted decay (see ``also_decays``). "dual" prices such categories by a
        weight that each user's violations raise and lower. "penalty" is the paper's form, with a
        bound of past violations that holds.
    target_violation : float
        Share of steps above the limit that "dual" steers to, in [0, 1).
    diversifier : Diversifier or None
        Variety within a slate: MMR, SteckCalibration, DPP, CategoryCap; None for scores only.
    delta : float
        Probability that a bound on engagement or violation probabilities fails.
    rho : float
        How many times its usual intensity a category may have before it counts.
    risk : {"lookahead", "cells"}
        What "dual" prices: the step ahead, or the bound of past violations by category and
        saturation, for those who do not trust the excitation model.
    caution : float
        Looks ahead with excitation + caution * standard error.
    step, start_weight : float
        Step size of the weight, in standard deviations of a user's scores, and its first value.
    pool : int
        Only this many best candidates of each user are considered.
    exploration : float
        kappa of "penalty" mode.
    cold_start : {None, "prior"}
        What to do with unknown users: refuse them, or start them with everyone's usual shares.
    allow_infeasible : bool
        Let barrier mode begin although the limit cannot be kept from every state; the least
        saturating categories are then shown where all would break it.
    also_decays : list of float
        Barrier mode also keeps the limit of models whose decay is this many times the fitted one,
        for instance (0.5, 2.0), each with the same quantile of its own saturation. For those who
        are not sure of the decay.

    Attributes
    ----------
    model_ : ExcitationModel
    state_ : SaturationState
    limit_ : array (U,)
        L of each user.
    weight_ : array (U,)
        w of each user.
    engagement_bound_ : array (C,)
        Upper bound of the probability that a shown category is engaged with.
    cells_ : SaturationCells
        Violations by category and saturation, booked at every step.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> runs = np.repeat(rng.integers(4, size=1000), 5)  # five of a kind in a row
    >>> log = EventLog.from_columns(np.repeat(np.arange(50), 100), runs)
    >>> regulator = ExposureRegulator(mode="barrier", diversifier=MMR(0.7)).fit(log)
    >>> items, categories = np.arange(8), [0, 0, 0, 1, 1, 2, 2, 3]
    >>> regulator.rerank(0, items, -np.arange(8.0), categories, k=3)
    array([0, 3, 5])
    >>> regulator.update(0, 0)  # user 0 engaged with category 0
    Feedback(1 users, 0 above the limit)
    """

    model_: ExcitationModel
    state_: SaturationState
    limit_: Array
    weight_: Array
    engagement_bound_: Array
    cells_: SaturationCells
    guards_: list[Guard]

    def __init__(
        self,
        model: ExcitationModel | None = None,
        *,
        limit: float | Mapping[str, float] | None = None,
        mode: str = "dual",
        target_violation: float = 0.05,
        diversifier: Diversifier | None = MMR(0.7),  # noqa: B008  (frozen)
        delta: float = 0.1,
        rho: float = 2.0,
        risk: str = "lookahead",
        caution: float = 0.0,
        step: float = 1.0,
        start_weight: float = 2.0,
        pool: int = 200,
        exploration: float = 1.0,
        cold_start: str | None = None,
        allow_infeasible: bool = False,
        also_decays: Sequence[float] = (),
    ) -> None:
        self.model = model
        self.limit = limit
        self.mode = mode
        self.target_violation = target_violation
        self.diversifier = diversifier
        self.delta = delta
        self.rho = rho
        self.risk = risk
        self.caution = caution
        self.step = step
        self.start_weight = start_weight
        self.pool = pool
        self.exploration = exploration
        self.cold_start = cold_start
        self.allow_infeasible = allow_infeasible
        self.also_decays = also_decays

    def fit(self, log: EventLog, *, warm: bool = True) -> ExposureRegulator:
        """Learn the excitation (unless the model is fitted), the limit and the engagement bounds.

        Parameters
        ----------
        log : EventLog
            What users did. The limit is a quantile over these events.
        warm : bool
            Start users where the log ends, not unexcited.

        Raises
        ------
        ParameterError
            For an impossible setting; in barrier mode also for a limit that cannot be kept from
            every state, with the smallest one that can.
        """
        checked_settings(self)
        model = ExcitationModel() if self.model is None else self.model
        self.model_ = model if hasattr(model, "excitation_") else unfitted(model).fit(log)
        self.state_ = SaturationState(self.model_, rho=self.rho, users=log.labels, warm=warm)
        self.limit_, self.common_limit_ = limits_of_users(self.limit, self.state_.replay(log), log)
        if self.mode == "barrier" and not self.allow_infeasible:
            refuse_infeasible(self.state_, self.limit_)
        self.weight_ = np.full(log.n_users, float(self.start_weight))
        engaged, shown = self.model_.engagements_
        self.engagement_bound_ = binomial_upper(np.round(engaged), np.round(shown), self.delta)
        self.cells_ = SaturationCells(log.n_categories, delta=self.delta)
        self.guards_ = guards_of(self, log, warm)
        errors = self.model_.standard_errors_
        self._excitation = self.model_.excitation_ + self.caution * errors
        return self

    def rerank(
        self,
        users: Any,
        item_ids: ArrayLike,
        scores: ArrayLike,
        categories: ArrayLike,
        k: int = 5,
        *,
        mask: ArrayLike | None = None,
        return_reasons: bool = False,
    ) -> Any:
        """The k items to show to a user, or to each user of a batch.

        Parameters
        ----------
        users : label, or array (B,) of labels
        item_ids : array (n,) or (B, n)
            Labels of the candidates.
        scores : array (n,) or (B, n)
            What the ranker gives, higher is better, on any scale.
        categories : int array (n,) or (B, n), or float array (n, C)
            Category of each candidate, or its membership in each category, rows summing to 1.
        k : int
            Slots.
        mask : bool array like scores, optional
            False where a candidate must not be shown, whatever its score.
        return_reasons : bool
            Return a `Slate`, whose ``moves(row)`` says why items were moved.

        Returns
        -------
        array (k,) or (B, k) of item labels, or Slate

        Raises
        ------
        ParameterError
            For more slots than candidates, or an unknown user without ``cold_start="prior"``.
        DataError
            For scores that are not finite, or a candidate without a category, naming it.
        """
        self._require_fitted()
        one = np.ndim(users) == 0
        labels = np.atleast_1d(np.asarray(users))
        rows = self._rows(labels)
        value = checked_scores(scores, labels.size, mask)
        allowed = None if mask is None else np.broadcast_to(np.asarray(mask, bool), value.shape)
        kinds, memberships = self._kinds(categories, value.shape)
        check_slots(k, value, allowed)
        candidates = Candidates.of(value, kinds, allowed, max(int(self.pool), k))
        limit = self.limit_[rows]
        idle = self.state_.excess(rows, fade=float(np.exp(-self.model_.decay_))).sum(1)
        ahead = self.state_.lookahead(labels, excitation=self._excitation, memberships=memberships)
        relative = ahead / limit[:, None]
        for guard in self.guards_:
            relative = np.maximum(relative, guard.relative(labels, memberships))
        barrier = self.mode == "barrier"
        prices = (
            Prices(np.zeros_like(ahead), relative > 1.0, relative)
            if barrier
            else self._prices(rows, idle, ahead, memberships)
        )
        diversifier = self.diversifier if self.diversifier is not None else ScoresOnly()
        variety = diversifier.begin(
            np.eye(ahead.shape[1]) if memberships is None else memberships, self.state_.mu_[rows]
        )
        place, kind = filled(candidates, k, diversifier.score_weight, variety, prices)
        ids = np.asarray(item_ids)
        shown = labels_at(ids, np.take_along_axis(candidates.columns, place, axis=1), value.shape)
        if not return_reasons:
            return shown[0] if one else shown
        plain = candidates.best(k)
        plain_kind = np.take_along_axis(candidates.kinds, plain, axis=1)
        chosen_ahead = np.take_along_axis(relative, kind, axis=1)
        return Slate(
            items=shown,
            columns=np.take_along_axis(candidates.columns, place, axis=1),
            plain=labels_at(
                ids, np.take_along_axis(candidates.columns, plain, axis=1), value.shape
            ),
            relative=idle / limit,
            ahead=chosen_ahead,
            ahead_plain=np.take_along_axis(relative, plain_kind, axis=1),
            weight=self.weight_[rows].copy(),
            forced=np.asarray((chosen_ahead > 1.0).any(1) & barrier, dtype=np.bool_),
        )

    def update(
        self,
        users: Any,
        categories: ArrayLike | None,
        engaged: ArrayLike | None = None,
        *,
        dt: ArrayLike = 1.0,
    ) -> Feedback:
        """Book what users did with what they were shown: one step.

        Parameters
        ----------
        users : label, or array (B,) of labels
            Each user once.
        categories : int or int array (B,), float array (B, C), or None
            What each engaged with, or was shown in vain; -1 or None for nothing.
        engaged : array (B,) of 0 and 1, optional
            Whether they engaged.
        dt : float or array (B,)
            Time since the last update.

        Returns
        -------
        Feedback
            D, whether it is above the limit, and the new weights.
        """
        self._require_fitted()
        labels = np.atleast_1d(np.asarray(users))
        rows = self._rows(labels)
        limit = self.limit_[rows]
        before = self.state_.saturation(labels) / limit
        shown = None if categories is None else np.atleast_1d(np.asarray(categories))
        self.state_.update(labels, shown, engaged, dt=dt)
        for guard in self.guards_:
            guard.update(labels, shown, engaged, dt)
        D = self.state_.saturation(labels)
        violated = D > limit
        self.weight_[rows] = np.maximum(
            0.0, self.weight_[rows] + self.step * (violated - self.target_violation)
        )
        if shown is not None:
            main = shown.argmax(1) if shown.ndim == 2 else shown.astype(np.int64)
            known = main >= 0
            self.cells_.update(main[known], before[known], violated[known])
        return Feedback(D, violated, self.weight_[rows].copy())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the regulator and the state of every user to a folder (see `Artifact`).

        Groups of users are kept as each user's limit; updating the model later needs its log.
        """
        self._require_fitted()
        return saved(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> ExposureRegulator:
        """Go on where ``save`` left off.

        Examples
        --------
        >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
        >>> regulator = ExposureRegulator(ExcitationModel(decay=1.0), rho=1.2).fit(log)
        >>> again = ExposureRegulator.load(regulator.save("feed"))
        >>> bool((again.state_.S_ == regulator.state_.S_).all())
        True
        """
        return opened(path)

    def _prices(self, rows: Index, idle: Array, ahead: Array, M_KC: Array | None) -> Prices:
        limit = self.limit_[rows][:, None]
        weight = self.weight_[rows][:, None]
        now = self.state_.excess(rows).sum(1) / self.limit_[rows]
        if self.mode == "penalty":
            steep = np.minimum(_STEEPEST, 1.0 / np.maximum(1e-6, 1.0 - now))[:, None]
            booked = self.cells_.counts.sum(1)
            bonus = np.sqrt(np.log(max(booked.sum(), 1.0)) / np.maximum(booked, 1.0))
            price = steep * self.cells_.upper(now) - self.exploration * bonus
            return Prices(price if M_KC is None else price @ M_KC.T)
        if self.risk == "cells":
            price = weight * self.cells_.upper(now)
            return Prices(price if M_KC is None else price @ M_KC.T)
        q = self.engagement_bound_ if M_KC is None else M_KC @ self.engagement_bound_
        risk = q * (ahead > limit) + (1.0 - q) * (idle[:, None] > limit)
        return Prices(weight * risk * (1.0 + np.maximum(0.0, ahead - limit) / limit))

    def _rows(self, labels: NDArray[Any]) -> Index:
        held = self.state_.labels_
        place = np.minimum(np.searchsorted(held, labels), held.size - 1)
        unknown = held[place] != labels
        if not unknown.any():
            return np.asarray(place)
        if self.cold_start != "prior":
            first = plain(labels[int(np.argmax(unknown))])
            raise ParameterError(
                f"user {first!r} is unknown. To start unknown users with "
                'everyone\'s usual shares, write ExposureRegulator(cold_start="prior").'
            )
        self.state_.add(labels[unknown])
        for guard in self.guards_:
            guard.add(labels[unknown])
        now = self.state_.labels_
        old = np.searchsorted(now, held)
        limit, weight = np.full(now.size, self.common_limit_), np.full(now.size, self.start_weight)
        limit[old], weight[old] = self.limit_, self.weight_
        self.limit_, self.weight_ = limit, weight * 1.0
        return np.searchsorted(now, labels)

    def _kinds(self, categories: ArrayLike, shape: tuple[int, ...]) -> tuple[Index, Array | None]:
        """Kind of each candidate, (n,) or (B, n), and the kinds' memberships if not categories."""
        C, n = self.state_.n_categories, shape[1]
        given = np.asarray(categories)
        if given.ndim == 2 and given.dtype.kind == "f" and given.shape == (n, C):
            rows, kinds = np.unique(checked_memberships(given, n, C), axis=0, return_inverse=True)
            return kinds.ravel(), rows
        if given.shape not in ((n,), shape):
            raise DataError(
                f"categories have the shape {given.shape}; needed are indices of shape ({n},) or "
                f"{shape}, or memberships (floats) of shape ({n}, {C})."
            )
        return checked_categories(given.ravel(), given.size, C).reshape(given.shape), None

    def _require_fitted(self) -> None:
        if not hasattr(self, "state_"):
            raise NotFittedError("this ExposureRegulator was not fitted. Call fit(log) first.")
