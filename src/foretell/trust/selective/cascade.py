"""`CascadeRouter`: several models, from the cheapest on, under one guarantee for the whole system.

Paper: arXiv:2512.01556, section on two-model routing. Idea: ask the cheap model; if it is not sure
enough, ask the next one; accept the last answer if it is sure enough.

Differs from the paper: a joint search over the thresholds of all models has no finite-sample
theorem, whatever the guarantee of one threshold. Here the route and a score of the whole system,
the estimated probability of error of the model that answers, are fixed on tuning cases; then one
`SelectiveThreshold` is calibrated on other cases, and its certificate is that of the system
(``mode="path"``). The joint search is there as ``mode="joint"``, and called empirical.

Legend: n cases, K models from cheap to dear, u_NK uncertainty, e_NK errors, p_NK estimated
probability of error, tau_K stop at model k when p <= tau_k (the last model always stops).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, NotFittedError, ParameterError
from foretell.core.estimator import Estimator
from foretell.trust.boundary import check_level
from foretell.trust.bounds import Guarantee
from foretell.trust.decision import Certificate, Decision
from foretell.trust.selective import checks
from foretell.trust.selective.errorcurve import ErrorCurve
from foretell.trust.selective.identity import ScoreIdentity
from foretell.trust.selective.joint import joint_routes, joint_search
from foretell.trust.selective.threshold import SelectiveThreshold

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 24  # candidate stopping levels per model in the tuning of the path
TUNED_ON = 20_000  # cases that the search looks at, at most


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """What a router does with each case.

    Parameters
    ----------
    model : integers of shape (n,)
        Index of the model whose answer counts.
    accepted : booleans of shape (n,)
    risk : array of shape (n,)
        Estimated probability of error of that answer (in joint mode: its uncertainty).
    cost : array of shape (n,)
        Sum of the costs of the models that were asked.
    """

    model: Integers = field(repr=False)
    accepted: NDArray[np.bool_] = field(repr=False)
    risk: Array = field(repr=False)
    cost: Array = field(repr=False)

    def __repr__(self) -> str:
        shares = np.bincount(self.model) / max(self.model.size, 1)
        routed = ", ".join(f"{share:.1%}" for share in shares)
        return (
            f"Routes({self.model.size} cases, answered by {routed}; "
            f"{np.mean(self.accepted) if self.model.size else 0:.1%} accepted, mean cost "
            f"{np.mean(self.cost) if self.model.size else 0:.4g})"
        )


class CascadeRouter(Estimator):
    """Route cases through models of rising cost, and accept what is sure enough.

    Parameters
    ----------
    alpha : float
        Share of wrong answers of the whole system to stay below.
    costs : sequence of K numbers, optional
        Cost of asking each model, in the order they are asked; 1 each by default.
    guarantee, delta, min_retention, min_accept, assume_monotone
        As for `SelectiveThreshold`.
    mode : {"path", "joint"}
        "path" is certified; "joint" maximises acceptance on the calibration cases under the
        published condition, with nothing guaranteed.
    stop_at : sequence of K - 1 numbers, optional
        Estimated probability of error at which the route ends with model k. By default chosen on
        the tuning cases: the cheapest among the routes that accept nearly as much as the best.
    tolerance : float
        How much less acceptance, as a share of all cases, a cheaper route may have.

    Attributes
    ----------
    mode_ : {"path", "joint"}
    stop_at_ : tuple of float
    rule_ : SelectiveThreshold
        Of the estimated probability of error, in path mode.
    certificate_ : Certificate

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> difficulty = rng.uniform(size=(3000, 1))
    >>> wrong = rng.uniform(size=(3000, 2)) < difficulty * [0.6, 0.3]
    >>> scores = difficulty + rng.normal(0, 0.05, size=(3000, 2))
    >>> router = CascadeRouter(alpha=0.1, costs=[1, 20]).fit_path(scores[:1000], wrong[:1000])
    >>> router.fit(scores[1000:2000], wrong[1000:2000])
    CascadeRouter(alpha=0.1, costs=[1, 20])
    >>> routes = router.route(scores[2000:])
    >>> bool(routes.accepted.mean() > 0.25), bool(routes.cost.mean() < 21)
    (True, True)
    """

    def __init__(
        self,
        *,
        alpha: float,
        costs: Sequence[float] | None = None,
        guarantee: Guarantee | None = None,
        delta: float = 0.1,
        min_retention: float | None = None,
        min_accept: int | None = None,
        assume_monotone: bool = True,
        mode: Literal["path", "joint"] = "path",
        stop_at: Sequence[float] | None = None,
        tolerance: float = 0.01,
    ) -> None:
        self.alpha = alpha
        self.costs = costs
        self.guarantee = guarantee
        self.delta = delta
        self.min_retention = min_retention
        self.min_accept = min_accept
        self.assume_monotone = assume_monotone
        self.mode = mode
        self.stop_at = stop_at
        self.tolerance = tolerance

    def fit_path(self, scores: ArrayLike, errors: ArrayLike) -> CascadeRouter:
        """Learn the route from tuning cases; they must not be used for `fit` again.

        Parameters
        ----------
        scores, errors : arrays of shape (n, K)
            Uncertainty (lower = surer) and errors (0 or 1) of every model on every case.
        """
        self._validate()
        u_NK, e_NK = _table(scores, "scores"), _table(errors, "errors")
        if u_NK.shape != e_NK.shape:
            raise DataError(
                f"scores has shape {u_NK.shape} and errors {e_NK.shape}; both need n x K."
            )
        if u_NK.shape[1] < 2:
            raise DataError("One column of scores is one model: use SelectiveThreshold for it.")
        for k in range(u_NK.shape[1]):
            checks.errors_array(e_NK[:, k], u_NK.shape[0], fractional=False)
        costs = self._costs(u_NK.shape[1])
        self.curves_ = tuple(ErrorCurve.fit(u_NK[:, k], e_NK[:, k]) for k in range(u_NK.shape[1]))
        p_NK = self._probabilities(u_NK)
        self.stop_at_ = (
            _given(self.stop_at, u_NK.shape[1])
            if self.stop_at is not None
            else _best_stops(p_NK, e_NK, costs, self.alpha, self.tolerance)
        )
        self.tuning_hash_ = checks.fingerprint(u_NK)
        return self

    def fit(
        self, scores: ArrayLike, errors: ArrayLike, *, unlabeled_scores: ArrayLike | None = None
    ) -> CascadeRouter:
        """Calibrate the acceptance of the whole system on labelled cases that are new to it.

        Parameters
        ----------
        scores, errors : arrays of shape (n, K)
        unlabeled_scores : array of shape (m, K), optional
            For ``guarantee="fdr"``.
        """
        self._validate()
        u_NK, e_NK = _table(scores, "scores"), _table(errors, "errors")
        if u_NK.shape != e_NK.shape:
            raise DataError(
                f"scores has shape {u_NK.shape} and errors {e_NK.shape}; both need n x K."
            )
        self.mode_ = self.mode
        if self.mode == "joint":
            return self._fit_joint(u_NK, e_NK)
        self._has_path(u_NK.shape[1])
        if checks.fingerprint(u_NK) == self.tuning_hash_:
            raise DataError(
                "These are the cases that the route was learnt on. The certificate needs others: "
                "split them, for instance fit_path(scores[:n], errors[:n]) and "
                "fit(scores[n:], errors[n:])."
            )
        model, risk = self._follow(u_NK)
        pool = (
            None
            if unlabeled_scores is None
            else self._follow(_table(unlabeled_scores, "unlabeled_scores"))[1]
        )
        self.rule_ = SelectiveThreshold(
            alpha=self.alpha,
            guarantee=self.guarantee,
            delta=self.delta,
            min_retention=self.min_retention,
            min_accept=self.min_accept,
            assume_monotone=self.assume_monotone,
            score=ScoreIdentity("estimated error of the route", fingerprint=self.tuning_hash_),
        )
        self.rule_.fit(risk, e_NK[np.arange(model.size), model], unlabeled_scores=pool)
        self.certificate_ = self.rule_.certificate_
        return self

    def route(self, scores: ArrayLike) -> Routes:
        """Route cases for which every model has a score.

        Parameters
        ----------
        scores : array of shape (m, K)
            Scores of models that are not reached do not matter, but must be finite.
        """
        self._fitted()
        u_NK = _table(scores, "scores")
        if self.mode_ == "path":
            self._has_path(u_NK.shape[1])
        costs = np.cumsum(self._costs(u_NK.shape[1]))
        if self.mode_ == "joint":
            model, accepted = joint_routes(u_NK, self.limits_)
            return Routes(model, accepted, u_NK[np.arange(model.size), model], costs[model])
        model, risk = self._follow(u_NK)
        return Routes(model, self.rule_.predict(risk, check=False), risk, costs[model])

    def answer(
        self, case: Any, models: Sequence[Callable[[Any], tuple[Any, float]]]
    ) -> tuple[Any, Decision]:
        """Ask the models one after the other, only as far as needed.

        Parameters
        ----------
        case : anything
            What the models take.
        models : sequence of K functions
            Each returns an answer and its uncertainty.

        Returns
        -------
        answer, decision
            The answer is None where it is withheld.
        """
        self._fitted()
        if self.mode_ == "joint":
            raise ParameterError("answer() needs the certified mode: CascadeRouter(mode='path').")
        self._has_path(len(models))
        for k, model in enumerate(models):
            found, u = model(case)
            risk = float(self.curves_[k](checks.scores_array([u], f"the score of model {k}"))[0])
            if k == len(models) - 1 or risk <= self.stop_at_[k]:
                break
        decision = self.rule_.decide(risk)
        decision = Decision(decision.action, risk, decision.threshold, decision.certificate, k)
        return (found if decision.accepted else None), decision

    def _follow(self, u_NK: Array) -> tuple[Integers, Array]:
        self._has_path(u_NK.shape[1])
        return _path(self._probabilities(u_NK), self.stop_at_)

    def _probabilities(self, u_NK: Array) -> Array:
        return np.column_stack([curve(u_NK[:, k]) for k, curve in enumerate(self.curves_)])

    def _fit_joint(self, u_NK: Array, e_NK: Array) -> CascadeRouter:
        n = u_NK.shape[0]
        self.limits_ = joint_search(u_NK, e_NK, self.alpha)
        feasible = self.limits_ is not None
        self.certificate_ = Certificate(
            kind="empirical",
            statement=(
                f"On the {n} calibration cases the accepted errors stay below a share of "
                f"{self.alpha:.6g}; nothing is guaranteed for new cases."
                if feasible
                else f"No thresholds could be found on {n} cases, so everything is withheld."
            ),
            assumptions=(),
            n=n,
            level=self.alpha,
            confidence=None,
            abstentions="They are withheld.",
            feasible=feasible,
            remarks=("For a certificate use mode='path'.",),
        )
        return self

    def _validate(self) -> None:
        check_level("alpha", self.alpha)
        if self.mode not in ("path", "joint"):
            raise ParameterError(f"mode={self.mode!r} is not 'path' or 'joint'.")

    def _costs(self, n_models: int) -> Array:
        costs = np.ones(n_models) if self.costs is None else np.asarray(self.costs, np.float64)
        if costs.shape != (n_models,) or not (costs >= 0).all():
            raise ParameterError(
                f"costs={self.costs!r}; needed are {n_models} numbers >= 0, one per model."
            )
        return costs

    def _has_path(self, n_models: int) -> None:
        if not hasattr(self, "curves_"):
            raise NotFittedError(
                "The route is not known yet. Call fit_path(scores, errors) on tuning cases first."
            )
        if n_models != len(self.curves_):
            raise DataError(
                f"{n_models} models given; the route was learnt for {len(self.curves_)}."
            )

    def _fitted(self) -> None:
        if not hasattr(self, "certificate_"):
            raise NotFittedError("Call fit(scores, errors) on calibration cases first.")


def _path(p_NK: Array, stops: Sequence[float]) -> tuple[Integers, Array]:
    """The model at which each route ends, and its estimated probability of error."""
    ends = np.column_stack([p_NK[:, :-1] <= np.asarray(stops), np.ones(p_NK.shape[0], dtype=bool)])
    model = ends.argmax(axis=1)
    return model, p_NK[np.arange(model.size), model]


def _best_stops(
    p_NK: Array, e_NK: Array, costs: Array, alpha: float, tolerance: float
) -> tuple[float, ...]:
    """Coordinate search, twice over the models, for acceptance first and cost second."""
    n_models = p_NK.shape[1]
    grids = [
        np.unique(np.append(np.quantile(p_NK[:, k], np.linspace(0, 1, GRID)), [-1.0, alpha]))
        for k in range(n_models - 1)
    ]
    total = np.cumsum(costs)
    stops = [-1.0] * (n_models - 1)  # begin with the last model for every case
    if p_NK.shape[0] > TUNED_ON:
        some = np.random.default_rng(0).permutation(p_NK.shape[0])[:TUNED_ON]
        p_NK, e_NK = p_NK[some], e_NK[some]
    for _ in range(min(2, n_models - 1)):
        for k, grid in enumerate(grids):
            trials = []
            for value in grid.tolist():
                stops[k] = value
                model, risk = _path(p_NK, stops)
                errors = e_NK[np.arange(model.size), model][np.argsort(risk, kind="stable")]
                fits = np.cumsum(errors) <= alpha * np.arange(1, errors.size + 1)
                passing = np.flatnonzero(fits)
                kept = (passing[-1] + 1) / errors.size if passing.size else 0.0
                trials.append((kept, float(total[model].mean()), value))
            most = max(kept for kept, _, _ in trials)
            stops[k] = min(
                (cost, -kept, value) for kept, cost, value in trials if kept >= most - tolerance
            )[2]
    return tuple(stops)


def _given(stop_at: Sequence[float], n_models: int) -> tuple[float, ...]:
    stops = tuple(float(value) for value in stop_at)
    if len(stops) != n_models - 1:
        raise ParameterError(
            f"stop_at has {len(stops)} values; needed are {n_models - 1}, one for each model but "
            "the last."
        )
    return stops


def _table(values: ArrayLike, name: str) -> Array:
    table = np.asarray(values)
    if table.ndim != 2:
        raise DataError(
            f"{name} has shape {table.shape}; needed is one row per case and one column per model."
        )
    columns = [checks.scores_array(table[:, k], f"{name}[:, {k}]") for k in range(table.shape[1])]
    return np.column_stack(columns)
