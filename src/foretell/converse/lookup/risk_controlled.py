"""Freeze the evidence before the question is over, at a risk that is calibrated.

The loss of a question is 1 where the frozen evidence lacks what the final evidence has. With a
threshold lam on the score, the evidence is frozen at the first prefix whose score reaches it. A
smaller lam freezes earlier and may be wrong where a larger one was not, and the other way round;
counted against a question is any mistake at lam *or above*. That loss does not fall as lam falls,
so it is decided by one number for each question, the largest threshold at which it goes wrong, and
the calibration is that of `SelectiveThreshold`: a question "accepted" is one that was frozen early.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.prefix import FEATURES, Look
from foretell.converse.lookup.reflectors import Call, Unit
from foretell.core.errors import ArtifactError, DataError, NotFittedError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.trust.bounds import smallest_n
from foretell.trust.decision import Certificate

if TYPE_CHECKING:
    from foretell.trust import SelectiveThreshold

FORMAT, SCHEMA = "foretell-early-commit", 1
Array = NDArray[np.float64]


class RiskControlled:
    """Documents shared between calls, and evidence that may be frozen early.

    Parameters
    ----------
    alpha : float
        Level of the loss of evidence, in (0, 1).
    guarantee : {"marginal", "pac"}
        "marginal": of all questions, at most a share alpha loses evidence, on average. "pac": with
        probability ``1 - delta`` at most a share alpha of those frozen early does.
    delta : float
        For "pac".
    ttl_s, size
        See `DocumentStore`.

    Examples
    --------
    >>> rule = RiskControlled(0.2)
    >>> scores = [[0.1, 0.8], [0.3, 0.9], [0.2, 0.7], [0.6, 0.6]]  # four questions, two prefixes
    >>> errors = [[1, 0], [1, 0], [0, 0], [1, 1]]
    >>> rule.fit(np.ravel(scores), np.ravel(errors), groups=[0, 0, 1, 1, 2, 2, 3, 3]).threshold_
    0.7
    >>> print(rule.certificate_.statement)
    The probability that a new case is wrong and accepted is at most 0.2.
    """

    unit: ClassVar[Unit] = "document"
    single: ClassVar[bool] = False
    final_query: ClassVar[bool] = True

    rule_: SelectiveThreshold

    def __init__(
        self,
        alpha: float,
        *,
        guarantee: Literal["marginal", "pac"] = "marginal",
        delta: float = 0.1,
        ttl_s: float = 600.0,
        size: int = 1000,
    ) -> None:
        number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
        if not number or not 0 < alpha < 1:
            raise ParameterError(f"alpha={alpha!r}; needed is a number between 0 and 1, as 0.05.")
        if guarantee not in ("marginal", "pac"):
            raise ParameterError(f"guarantee={guarantee!r} is not one of marginal, pac.")
        self.alpha, self.guarantee, self.delta = float(alpha), guarantee, delta
        self.ttl_s, self.size = ttl_s, size
        self.model_: LogisticModel | None = None

    def fit_score(
        self, looks: Sequence[Look], errors: ArrayLike, groups: ArrayLike
    ) -> RiskControlled:
        """Learn the score, the probability that freezing loses nothing, from other questions.

        Parameters
        ----------
        looks : sequence of Look
            From `StreamingLookup.looks`, of questions that are **not** used in `fit`.
        errors : array (n,)
            1 where freezing at that look would lose evidence; see `evidence_errors`.
        groups : array (n,)
            The question of each look; every question counts the same.
        """
        names, counts, of = _questions(groups, len(looks), "looks")
        weights = 1 / counts[of]
        lost = _errors(errors, len(looks))
        X = [look.features for look in looks]
        self.model_ = LogisticModel(FEATURES).fit(X, lost == 0, weights * len(looks) / len(names))
        return self

    def scores(self, looks: Sequence[Look]) -> Array:
        """Score of each look, shape (n,), in [0, 1]; 0 where nothing was found."""
        if self.model_ is None:
            raise NotFittedError("The score is not fitted. Call fit_score(looks, errors, groups).")
        if not looks:
            return np.zeros(0)
        found = np.array([bool(look.ids) for look in looks])
        return np.asarray(self.model_.probability([look.features for look in looks]) * found)

    def fit(self, scores: ArrayLike, errors: ArrayLike, groups: ArrayLike) -> RiskControlled:
        """Find the threshold.

        Parameters
        ----------
        scores : array (n,)
            Of the prefixes of the calibration questions, each question's in the order heard.
        errors : array (n,)
            1 where freezing at that prefix would lose evidence.
        groups : array (n,)
            The question of each prefix. Whole questions are what is counted: prefixes of one
            question depend on each other.

        Raises
        ------
        DataError
            When there are too few questions for any threshold; says how many are needed.
        """
        u = np.asarray(scores, dtype=np.float64)
        if u.ndim != 1 or not np.isfinite(u).all():
            raise DataError("scores must be finite numbers, one for each prefix.")
        cases, lost = question_cases(u, _errors(errors, u.size), groups)
        least = smallest_n(self.guarantee, self.alpha, self.delta)
        if cases.size < least:
            raise DataError(
                f"{cases.size} calibration questions are too few for alpha={self.alpha:g}: no "
                f"threshold can be certified with fewer than {least}, even if none loses evidence. "
                f"Give at least {least}."
            )
        from foretell.trust import SelectiveThreshold  # with scikit-learn, which takes time

        self.rule_ = SelectiveThreshold(
            alpha=self.alpha,
            guarantee=self.guarantee,
            delta=self.delta,
            score="sufficiency",
            direction="higher_is_surer",
        )
        self.rule_.fit(cases, lost, case_ids=np.arange(cases.size))
        self.fitted_on_ = datetime.date.today().isoformat()
        return self

    @property
    def threshold_(self) -> float | None:
        """The score from which on the evidence is frozen; None: never."""
        self._fitted()
        return self.rule_.threshold_

    @property
    def certificate_(self) -> Certificate:
        """What the threshold promises; "wrong and accepted" is "frozen early and evidence lost"."""
        self._fitted()
        return self.rule_.certificate_

    def sufficient(self, look: Look) -> bool:
        """Whether the evidence may be frozen at this look."""
        limit = self.threshold_
        return limit is not None and float(self.scores([look])[0]) >= limit

    def chosen(self, calls: Sequence[Call], final: Call) -> Call:
        """Where nothing was frozen: the final call."""
        return final

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted score and the calibration to a JSON file."""
        self._fitted()
        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "fitted_on": self.fitted_on_,
            "n": self.rule_.n_calibration_,
            "parameters": {
                "alpha": self.alpha,
                "guarantee": self.guarantee,
                "delta": self.delta,
                "ttl_s": self.ttl_s,
                "size": self.size,
            },
            "score": None if self.model_ is None else self.model_.to_dict(),
            "rule": self.rule_.to_dict(),
        }
        return write_text_atomic(path, json.dumps(content, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RiskControlled:
        """Read it back; an ArtifactError where the file is not one, newer, or changed."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
        except ValueError as error:
            raise ArtifactError(f"{path} is not a JSON file: {error}.") from error
        ours = isinstance(content, dict) and content.get("format") == FORMAT
        if not ours or content.get("schema") != SCHEMA:
            raise ArtifactError(
                f"{path} is no early-commit rule of schema {SCHEMA}. Make one with "
                "RiskControlled(...).fit(...).save(path)."
            )
        parameters = dict(content["parameters"])
        rule = cls(parameters.pop("alpha"), **parameters)
        from foretell.trust import SelectiveThreshold

        rule.rule_ = SelectiveThreshold.from_dict(content["rule"])
        rule.fitted_on_ = content["fitted_on"]
        if content["score"] is not None:
            rule.model_ = LogisticModel.from_dict(content["score"])
        return rule

    def _fitted(self) -> None:
        if not hasattr(self, "rule_"):
            raise NotFittedError(
                "The threshold is not calibrated. Call fit(scores, errors, groups) with questions "
                "that the score was not learned from."
            )

    def __repr__(self) -> str:
        state = f"threshold {self.threshold_}" if hasattr(self, "rule_") else "not fitted"
        return f"RiskControlled(alpha={self.alpha:g}, {self.guarantee}, {state})"


def evidence_errors(
    prefix_ids: Sequence[Sequence[str]], final_ids: Sequence[str], gold: Sequence[str] | None = None
) -> list[int]:
    """For the prefixes of one question: 1 where the evidence there lacks what the final one has.

    Parameters
    ----------
    prefix_ids : sequence of sequence of str
    final_ids : sequence of str
    gold : sequence of str, optional
        The right passages. Without any, the first of the final evidence counts as right.

    Examples
    --------
    >>> evidence_errors([["a"], ["a", "b"]], ["b", "c"], gold=["b"])
    [1, 0]
    >>> evidence_errors([["a"], ["b"]], ["c"], gold=["b"])  # what the end has not cannot be lost
    [0, 0]
    """
    wanted = set(final_ids[:1] if gold is None else gold) & set(final_ids)
    return [int(bool(wanted) and not wanted & set(ids)) for ids in prefix_ids]


def question_cases(scores: Array, errors: Array, groups: ArrayLike) -> tuple[Array, Array]:
    """Score and loss of each question, from those of its prefixes in the order heard.

    A question that goes wrong at some threshold gets the largest such threshold and the loss 1;
    any other gets its highest score and the loss 0.

    Examples
    --------
    >>> question_cases(np.array([0.5, 0.4, 0.9]), np.array([1.0, 1.0, 0.0]), [7, 7, 7])
    (array([0.5]), array([1.]))
    """
    names, counts, of = _questions(groups, scores.size, "scores")
    order = np.argsort(of, kind="stable")
    of, u, wrong = of[order], scores[order], errors[order] > 0
    rank = np.unique(u, return_inverse=True)[1] + of * (u.size + 1)  # later questions rank higher
    before = np.append(-1, np.maximum.accumulate(rank)[:-1])
    wrong &= (rank > before) & (u > -np.inf)  # reached first here
    cases = np.maximum.reduceat(u, np.cumsum(counts) - counts)
    lost = np.zeros(len(names))
    lost[of[wrong]] = 1.0
    worst = np.full(len(names), -np.inf)
    np.maximum.at(worst, of[wrong], u[wrong])
    cases = np.where(lost > 0, worst, cases)
    return cases, lost


def _questions(
    groups: ArrayLike, n: int, what: str
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    ids = np.asarray(groups)
    if ids.shape != (n,):
        raise DataError(
            f"groups has shape {ids.shape} and there are {n} {what}; name the question of each."
        )
    if not n:
        raise DataError(f"There are no {what}. Give the prefixes of at least one question.")
    names, of, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return names, counts.astype(np.int64), of.astype(np.int64)


def _errors(errors: ArrayLike, n: int) -> Array:
    e = np.asarray(errors, dtype=np.float64)
    if e.shape != (n,) or not np.isin(e, (0.0, 1.0)).all():
        raise DataError(f"errors must be {n} values, each 0 or 1: one for each prefix.")
    return e
