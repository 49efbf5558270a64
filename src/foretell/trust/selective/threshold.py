"""`SelectiveThreshold`: one threshold on one score, with a guarantee that is named exactly.

Paper: Wang, Aniri, Chen, Zhang, Shen, Shi and Xu, "LEC: Linear Expectation Constraints for
Selection-Conditioned Risk Control in Selective Prediction and Routing Systems", arXiv:2512.01556.
Idea: sort labelled cases by uncertainty, and take the largest threshold below which the number of
errors satisfies a condition. The condition decides what is promised (``feasible.py``).

Differs from the paper: its promise, P(wrong | accepted) <= alpha in finite samples, cannot be kept
by any rule (docs/trust/impossible.md); its rule is here as "plugin", with that said. The other
four guarantees are theorems.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from numbers import Real
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NotFittedError, ParameterError
from foretell.core.estimator import Estimator
from foretell.trust.boundary import check_count, check_level
from foretell.trust.bounds import GUARANTEES, Guarantee, binomial_interval
from foretell.trust.decision import Action, Certificate, Decision
from foretell.trust.selective import checks, feasible, rules
from foretell.trust.selective.feasible import Choice, SortedCases
from foretell.trust.selective.identity import Direction, ScoreIdentity, ScoreProfile, ScoreShift
from foretell.trust.selective.performance import Performance
from foretell.trust.selective.statements import certificate

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

FEWEST = 20  # accepted cases, by default, where the guarantee is about the share among them
WIDE_POOL = 100  # unlabelled cases from which that floor applies to "fdr" as well


class SelectiveThreshold(Estimator):
    """Accept answers whose score is sure enough, and withhold the rest.

    Parameters
    ----------
    alpha : float
        The share of wrong answers to stay below, between 0 and 1.
    guarantee : {"pac", "fdr", "marginal", "plugin_corrected", "plugin"}, optional
        What is promised; see the page "Which guarantee do I want". By default "fdr" if
        unlabelled scores are given to `fit`, else "pac".
    delta : float
        For "pac": the probability that the promise fails.
    min_retention : float, optional
        The smallest share of cases worth accepting. Thresholds below are not considered, which
        raises the others. Default 0.1 for "pac" and "plugin_corrected", 0.01 for "fdr" with at
        least 100 unlabelled cases, else 0.
    min_accept : int, optional
        The same as a number of cases. Default 20 for "pac", "plugin_corrected" and for "fdr" with
        at least 100 unlabelled cases; else 1.
    assume_monotone : bool
        For "pac": whether less sure answers are at least as often wrong, in truth. If you cannot
        assume that, False gives a smaller threshold that holds for any score.
    test_at : sequence of numbers, optional
        For "pac": thresholds that were chosen **without the calibration cases**, for instance by
        `choose_thresholds` on others. They are tested from the surest on, until the first that
        fails. Holds for any score, and is the strongest of the three ways of "pac".
    score : str or ScoreIdentity
        Name of the score, remembered by the rule. Give a ScoreIdentity for a version as well.
    direction : {"lower_is_surer", "higher_is_surer"}
        Which scores are sure ones; must agree with that of a ScoreIdentity.

    Attributes
    ----------
    threshold_ : float or None
        Accepted is a score at or below it (at or above, where higher is surer); None: nothing.
    n_accepted_, n_errors_ : int, float
        Accepted calibration cases, and their errors. For "fdr": accepted unlabelled cases, and
        the wrong calibration cases below the threshold.
    retention_, retention_interval_ : float, pair of float
        Accepted share with its exact 95 % interval; the choice of the threshold is not in it.
    certificate_ : Certificate

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> uncertainty = rng.uniform(size=1000)
    >>> wrong = rng.uniform(size=1000) < uncertainty**2
    >>> rule = SelectiveThreshold(alpha=0.1).fit(uncertainty, wrong)
    >>> rule.predict([0.05, 0.4, 0.9])
    array([ True, False, False])
    >>> print(rule.certificate_.statement)
    With probability at least 0.9 over the draw of the calibration cases, at most a share of 0.1 of the cases that the threshold accepts is wrong.
    """  # noqa: E501

    threshold_: float | None
    certificate_: Certificate

    def __init__(
        self,
        *,
        alpha: float,
        guarantee: Guarantee | None = None,
        delta: float = 0.1,
        min_retention: float | None = None,
        min_accept: int | None = None,
        assume_monotone: bool = True,
        test_at: Sequence[float] | None = None,
        score: str | ScoreIdentity = "score",
        direction: Direction = "lower_is_surer",
    ) -> None:
        self.alpha = alpha
        self.guarantee = guarantee
        self.delta = delta
        self.min_retention = min_retention
        self.min_accept = min_accept
        self.assume_monotone = assume_monotone
        self.test_at = test_at
        self.score = score
        self.direction = direction

    def fit(
        self,
        scores: ArrayLike,
        errors: ArrayLike,
        *,
        unlabeled_scores: ArrayLike | None = None,
        case_ids: ArrayLike | None = None,
    ) -> SelectiveThreshold:
        """Find the threshold from labelled cases.

        Parameters
        ----------
        scores : array of shape (n,)
        errors : array of shape (n,)
            1 where the answer is wrong, else 0. Losses between 0 and 1 are possible for
            "marginal", and for "pac" with ``assume_monotone=False``.
        unlabeled_scores : array of shape (m,), optional
            For "fdr": the scores of the cases to decide on, or of many like them.
        case_ids : array of shape (n,), optional
            To be warned about cases that stand twice.

        Raises
        ------
        DataError, ParameterError
            Naming the row, or the argument.
        """
        guarantee = self._validated(unlabeled_scores is not None)
        any_score = not self.assume_monotone or self.test_at is not None
        fractional = guarantee == "marginal" or (guarantee == "pac" and any_score)
        raw = checks.scores_array(scores)
        checks.refuse_reordered(scores, errors)
        losses = checks.errors_array(errors, raw.size, fractional=fractional)
        pool = None if unlabeled_scores is None else self._pool(guarantee, unlabeled_scores)
        if case_ids is not None:
            checks.warn_about_ids(case_ids, raw.size)
        self.identity_ = self._identity()
        cases = SortedCases.of(self.identity_.sign * raw, losses)
        checks.warn_about_cases(
            cases, guarantee, self.alpha, self.delta, told_apart=case_ids is not None
        )
        k0 = self._floor(guarantee, cases.n, None if pool is None else pool.size)
        self.guarantee_, self.floor_, self.n_calibration_ = guarantee, k0, cases.n
        self.wrong_scores_ = cases.u[cases.loss > 0]
        self.profile_ = ScoreProfile.of(cases.u)
        shift = None if pool is None else self.profile_.tally().update(pool).result()
        if shift is not None:
            rules.judge_shift(shift, self.identity_, "unlabeled_scores")
        self.calibration_hash_ = checks.fingerprint(raw)
        choice = self._choose(guarantee, cases, pool, k0)
        self._keep(choice)
        self.certificate_ = certificate(
            guarantee,
            choice,
            cases,
            alpha=self.alpha,
            delta=self.delta,
            k0=k0,
            assume_monotone=self.assume_monotone,
            given=self.test_at is not None,
            pool=pool,
            shift=shift,
        )
        return self

    def predict(
        self, scores: ArrayLike, *, score: str | ScoreIdentity | None = None, check: bool = True
    ) -> Mask:
        """Which of these cases are accepted.

        Parameters
        ----------
        scores : array of shape (m,)
        score : str or ScoreIdentity, optional
            What these scores are, a text as name or name@version; refused unless it is what the
            rule was calibrated on (a fingerprint needs a ScoreIdentity). Left out, you vouch for
            it.
        check : bool
            Refuse scores that look turned around, and warn where they look different from those
            of the calibration, or are those of the calibration.

        Returns
        -------
        array of bool of shape (m,)
        """
        self._fitted()
        if score is not None:
            self.identity_.refuse_other(self._as_identity(score))
        raw = checks.scores_array(scores, empty=True)
        if check:
            rules.judge_shift(self.shift(raw), self.identity_, "scores")
            rules.warn_if_calibration(raw, self.n_calibration_, self.calibration_hash_)
        if self._limit is None:
            return np.zeros(raw.size, dtype=bool)
        return np.asarray(self.identity_.sign * raw <= self._limit)

    def select(self, batch_scores: ArrayLike) -> Mask:
        """Which cases of a batch are accepted, so that the false discovery rate of *this* batch holds.

        On average over calibration samples and batches at most a share alpha of the accepted is
        wrong (0 where none is). The batch takes the place of ``unlabeled_scores``: judge it as a
        whole, once; cases that arrive one by one are not a batch.

        Raises
        ------
        ParameterError
            For a rule with another guarantee.
        """  # noqa: E501
        self._fitted()
        if self.guarantee_ != "fdr":
            raise ParameterError(
                f"select() judges batches by the false discovery rate, and this rule has "
                f"guarantee={self.guarantee_!r}. Use predict(), or calibrate with guarantee='fdr'."
            )
        batch = self.identity_.sign * checks.scores_array(batch_scores, empty=True)
        if not batch.size:
            return np.zeros(0, dtype=bool)
        _, choice = feasible.fdr(
            self.wrong_scores_, self.n_calibration_, np.sort(batch), self.alpha, 1
        )
        return batch <= (-math.inf if choice is None else choice.threshold)

    def decide(self, score: float) -> Decision:
        """What to do with one case."""
        accepted = bool(self.predict([score], check=False)[0])
        action: Action = "accept" if accepted else "withhold"
        return Decision(action, float(score), self.threshold_, self.certificate_)

    def evaluate(self, scores: ArrayLike, errors: ArrayLike) -> Performance:
        """What the rule does on labelled cases that it has not seen.

        Examples
        --------
        >>> rule = SelectiveThreshold(alpha=0.2, guarantee="marginal").fit(range(9), [0] * 8 + [1])
        >>> rule.evaluate([0.5, 1.5, 8.5], [0, 1, 1])
        Performance(2 of 3 accepted, risk 0.5 [0.01258, 0.9874], power 0.3333)
        """
        checks.refuse_reordered(scores, errors)
        return Performance.of(self.predict(scores), errors)

    def shift(self, scores: ArrayLike) -> ScoreShift:
        """How these scores compare with those of the calibration; needs no labels."""
        self._fitted()
        raw = checks.scores_array(scores, empty=True)
        return self.profile_.tally().update(self.identity_.sign * raw).result()

    def to_dict(self) -> dict[str, Any]:
        """The fitted rule as JSON values, with the identity and the profile of its score."""
        self._fitted()
        return rules.describe(self)

    @classmethod
    def from_dict(cls, content: Any) -> SelectiveThreshold:
        """The rule that `to_dict` described; an ArtifactError where it was changed."""
        return rules.restore(cls, content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted rule to a JSON file.

        Examples
        --------
        >>> rule = SelectiveThreshold(alpha=0.2, guarantee="marginal", score="entropy")
        >>> rule.fit([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1]).save("rule.json")
        >>> SelectiveThreshold.load("rule.json").predict([0.2, 1.0], score="perplexity")
        Traceback (most recent call last):
        ...
        foretell.core.errors.ParameterError: This rule was calibrated on a score of name 'entropy'; ...
        """  # noqa: E501
        rules.save(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SelectiveThreshold:
        """Read a rule back; an ArtifactError where the file is not one, newer, or changed."""
        return cls.from_dict(rules.read(path))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")

    def _fitted(self) -> None:
        if not hasattr(self, "certificate_"):
            raise NotFittedError(
                "This rule has no threshold yet. Call fit(scores, errors) first, or load one with "
                "SelectiveThreshold.load(path)."
            )

    def _validated(self, has_pool: bool) -> Guarantee:
        check_level("alpha", self.alpha)
        check_level("delta", self.delta)
        guarantee = self.guarantee or ("fdr" if has_pool else "pac")
        if guarantee not in get_args(Guarantee):
            raise ParameterError(
                f"guarantee={self.guarantee!r} is not one of {', '.join(GUARANTEES)}."
            )
        if guarantee == "fdr" and not has_pool:
            raise ParameterError(
                "guarantee='fdr' needs the scores of unlabelled cases: fit(scores, errors, "
                "unlabeled_scores=...). Without any, use guarantee='pac'."
            )
        if self.min_accept is not None:
            check_count("min_accept", self.min_accept)
        if self.test_at is not None and guarantee != "pac":
            raise ParameterError(
                f"test_at is used by guarantee='pac' only, and this is {guarantee!r}. Leave it out."
            )
        share = self.min_retention
        number = isinstance(share, Real) and not isinstance(share, bool)
        if share is not None and not (number and 0 <= share <= 1):
            raise ParameterError(f"min_retention={share!r} is not a share between 0 and 1.")
        return guarantee

    def _pool(self, guarantee: Guarantee, values: ArrayLike) -> Array:
        if guarantee != "fdr":
            raise ParameterError(
                f"unlabeled_scores are used by guarantee='fdr' only, and this is {guarantee!r}. "
                "Leave them out, or leave out the guarantee."
            )
        pool = self._identity().sign * checks.scores_array(values, "unlabeled_scores")
        rules.warn_if_small_pool(pool.size, self.alpha)
        return np.sort(pool)

    def _thresholds(self) -> Array:
        """The thresholds to test, on the scale where lower is surer, from the surest on."""
        values = checks.scores_array(np.asarray(self.test_at), "test_at")
        return np.unique(self.identity_.sign * values)

    def _floor(self, guarantee: Guarantee, n: int, pool: int | None) -> int:
        """k0: fewest accepted cases, of the pool for "fdr", else of the calibration."""
        of = n if pool is None else pool
        wide = guarantee in ("pac", "plugin_corrected")
        wide_pool = guarantee == "fdr" and of >= WIDE_POOL
        usual = 0.1 if wide else 0.01 if wide_pool else 0.0
        share = usual if self.min_retention is None else self.min_retention
        floored = wide or wide_pool
        fewest = self.min_accept if self.min_accept is not None else (FEWEST if floored else 1)
        if self.min_accept is not None and self.min_accept > of:
            raise ParameterError(
                f"min_accept={self.min_accept} is more than the {of} cases there are. Write "
                f"min_accept={of} or less, or give more cases."
            )
        return min(of, max(fewest, math.ceil(share * of - 1e-9), 1))

    def _choose(
        self, guarantee: Guarantee, cases: SortedCases, pool: Array | None, k0: int
    ) -> Choice | None:
        if guarantee == "fdr":
            assert pool is not None
            return feasible.fdr(cases.u[cases.loss > 0], cases.n, pool, self.alpha, k0)[0]
        if guarantee == "pac" and self.test_at is not None:
            return feasible.pac_sequence(cases, self.alpha, self.delta, self._thresholds())
        if guarantee == "pac":
            method = feasible.pac_monotone if self.assume_monotone else feasible.pac_any
            return method(cases, self.alpha, self.delta, k0)
        plain = {
            "marginal": feasible.marginal,
            "plugin": feasible.plugin,
            "plugin_corrected": feasible.plugin_corrected,
        }[guarantee]
        return plain(cases, self.alpha, k0)

    def _keep(self, choice: Choice | None) -> None:
        self._limit = None if choice is None else choice.threshold
        sign = self.identity_.sign
        self.threshold_ = None if choice is None else sign * choice.threshold
        accepted, of = (0, self.n_calibration_) if choice is None else (choice.accepted, choice.of)
        self.n_accepted_, self.n_errors_ = accepted, 0.0 if choice is None else choice.loss
        low, high = binomial_interval(accepted, of)
        self.retention_ = accepted / of
        self.retention_interval_ = (float(low), float(high))

    def _identity(self) -> ScoreIdentity:
        if isinstance(self.score, ScoreIdentity):
            identity = self.score
            if self.direction != "lower_is_surer" and self.direction != identity.direction:
                raise ParameterError(
                    f"direction={self.direction!r} and the direction of the score, "
                    f"{identity.direction!r}, differ. Leave out direction."
                )
        else:
            identity = ScoreIdentity(self.score, direction=self.direction)
        identity.check()
        return identity

    def _as_identity(self, score: str | ScoreIdentity) -> ScoreIdentity:
        if isinstance(score, ScoreIdentity):
            score.check()
            return score
        return ScoreIdentity.parse(score, self.identity_.direction)
