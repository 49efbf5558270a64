"""`SelectiveEstimator`: any scikit-learn classifier or regressor with a certified right to abstain.

A part of the rows trains the model, the rest calibrates a `SelectiveThreshold` on the uncertainty
of its answers. An answer of a regressor counts as wrong where it is off by more than `tolerance`.
"""

from __future__ import annotations

import numbers
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_predict
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted

from foretell.core.errors import DataError, ParameterError
from foretell.core.random import as_generator
from foretell.trust.bounds import Guarantee
from foretell.trust.decision import Decision
from foretell.trust.selective.checks import fingerprint
from foretell.trust.selective.identity import ScoreIdentity
from foretell.trust.selective.threshold import SelectiveThreshold
from foretell.trust.selective.uncertainty import (
    NeighbourSpread,
    Score,
    ScoreName,
    score_function,
    uncertainty_of,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def _has(method: str) -> Any:
    def check(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), method)

    return check


class SelectiveEstimator(MetaEstimatorMixin, BaseEstimator):
    """A model that answers where it is sure enough.

    Parameters
    ----------
    estimator : scikit-learn classifier or regressor
        A clone is trained. A fitted one in ``FrozenEstimator`` is used as it is; all rows then
        calibrate.
    alpha : float
        Share of wrong answers to stay below.
    guarantee, delta, min_retention, min_accept, assume_monotone
        As for `SelectiveThreshold`. The default guarantee is "pac".
    uncertainty : {"auto", "max_proba", "entropy", "margin", "std", "neighbours"} or function
        Uncertainty of an answer, lower = surer: a function of (estimator, X). "auto" is
        "max_proba" or "margin" for classifiers, and "neighbours" for regressors: the mean size of
        out-of-fold residuals near the row. "std" calls ``predict(X, return_std=True)``.
    tolerance : float, optional
        Regressors: the largest error that counts as right, in the unit of y. By default one
        standard deviation of the training values; give your own.
    calibration_size : float
        Share of the rows that calibrate.
    abstain_value : label or number, optional
        What `predict` returns where the answer is withheld, for instance -1, "unsure" or
        ``float("nan")``. By default `predict` **answers every row**, as scikit-learn expects;
        `accept` tells which answers may be used.
    random_state : int or numpy Generator, optional
        For the split.

    Attributes
    ----------
    estimator_ : the fitted model
    rule_ : SelectiveThreshold
    certificate_ : Certificate
    tolerance_ : float
        Of a regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_new, y, y_new = train_test_split(X, y, random_state=0)
    >>> model = SelectiveEstimator(GaussianNB(), alpha=0.1, abstain_value=-1, random_state=0)
    >>> answers = model.fit(X, y).predict(X_new)
    >>> kept = answers != -1
    >>> round(float(kept.mean()), 2), round(float((answers != y_new)[kept].mean()), 3)
    (0.86, 0.088)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float,
        guarantee: Guarantee | None = None,
        delta: float = 0.1,
        min_retention: float | None = None,
        min_accept: int | None = None,
        assume_monotone: bool = True,
        uncertainty: ScoreName | Score = "auto",
        tolerance: float | None = None,
        calibration_size: float = 0.4,
        abstain_value: Any = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.guarantee = guarantee
        self.delta = delta
        self.min_retention = min_retention
        self.min_accept = min_accept
        self.assume_monotone = assume_monotone
        self.uncertainty = uncertainty
        self.tolerance = tolerance
        self.calibration_size = calibration_size
        self.abstain_value = abstain_value
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, *, X_unlabeled: Any = None) -> SelectiveEstimator:
        """Train on a part of the rows, calibrate on the rest.

        Parameters
        ----------
        X : array of shape (n, features), or what the model takes
        y : array of shape (n,)
        X_unlabeled : like X, optional
            Rows without labels, for ``guarantee="fdr"``.
        """
        y_ = self._checked(X, y)
        (X,) = indexable(X)
        frozen, classifier = isinstance(self.estimator, FrozenEstimator), is_classifier(self)
        self.estimator_ = self.estimator if frozen else clone(self.estimator)
        name = score_function(self.uncertainty, self.estimator_, classifier=classifier)
        spread = name == "neighbours"
        train, rest = self._split(y_, classifier) if not frozen or spread else (None, None)
        X_train, y_train = _rows(X, y_, train)
        X_rest, y_rest = _rows(X, y_, rest)
        residuals = None
        if not frozen:
            if spread:
                residuals = self._residuals(X_train, y_train)
            self.estimator_.fit(X_train, y_train)
        elif spread:
            residuals = y_train - self.estimator_.predict(X_train)
        self.spread_ = None if residuals is None else NeighbourSpread(X_train, residuals)
        self.score_name_ = name
        if not classifier:
            scale = float(np.std(y_train)) or 1.0
            self.tolerance_ = scale if self.tolerance is None else float(self.tolerance)
        self._refuse_class_as_abstention()
        wrong = self._wrong(y_rest, self.estimator_.predict(X_rest))
        scores = self._uncertainty(X_rest)
        label = name if isinstance(name, str) else getattr(name, "__name__", "function")
        self.rule_ = SelectiveThreshold(
            alpha=self.alpha,
            guarantee=self.guarantee,
            delta=self.delta,
            min_retention=self.min_retention,
            min_accept=self.min_accept,
            assume_monotone=self.assume_monotone,
            score=ScoreIdentity(
                label, version=type(self.estimator).__name__, fingerprint=fingerprint(scores)
            ),
        ).fit(
            scores,
            wrong,
            unlabeled_scores=None if X_unlabeled is None else self._uncertainty(X_unlabeled),
        )
        self.certificate_ = self.rule_.certificate_
        return self

    def predict(self, X: Any) -> Any:
        """The answers; `abstain_value` where one is set and the answer is withheld."""
        check_is_fitted(self, "certificate_")
        answers = np.asarray(self.estimator_.predict(X))
        if self.abstain_value is None:
            return answers
        return _with(answers, ~self.accept(X), self.abstain_value)

    def accept(self, X: Any, *, check: bool = True) -> NDArray[np.bool_]:
        """Which rows have an answer that may be used; see `SelectiveThreshold.predict`."""
        check_is_fitted(self, "certificate_")
        return self.rule_.predict(self._uncertainty(X), check=check)

    def select(self, X: Any) -> NDArray[np.bool_]:
        """Which rows of a batch may be used, for ``guarantee="fdr"``."""
        check_is_fitted(self, "certificate_")
        return self.rule_.select(self._uncertainty(X))

    def decide(self, X: Any) -> list[Decision]:
        """A decision for each row, with the certificate behind it."""
        check_is_fitted(self, "certificate_")
        return [self.rule_.decide(u) for u in self._uncertainty(X).tolist()]

    def score(self, X: Any, y: ArrayLike) -> float:
        """With an `abstain_value`, the share accepted and right; else accuracy or R squared."""
        check_is_fitted(self, "certificate_")
        answers, truth = self.estimator_.predict(X), np.asarray(y)
        if self.abstain_value is not None:
            right = self._wrong(truth, answers) == 0
            return float(np.mean(right & self.accept(X)))
        if is_classifier(self):
            return float(np.mean(answers == truth))
        return float(r2_score(truth, answers))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Those of the model, for every row."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.predict_proba(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """That of the model, for every row."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.decision_function(X)

    @property
    def classes_(self) -> Any:
        """The classes of a fitted classifier."""
        return self.estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X, where the model counts them."""
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, where it had any."""
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = deepcopy(inner.classifier_tags)
        tags.regressor_tags = deepcopy(inner.regressor_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        tags.target_tags.required = True
        tags.target_tags.multi_output = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    def _checked(self, X: Any, y: ArrayLike) -> Any:
        if not (is_classifier(self) or is_regressor(self)):
            raise ParameterError(
                f"estimator={self.estimator!r} is neither a classifier nor a regressor."
            )
        if y is None:
            raise DataError("y is None, and fit requires y to be passed, but the target y is None.")
        check_consistent_length(X, y)
        values = column_or_1d(y, warn=True)
        if _num_samples(X) < 2:
            raise DataError(
                f"Found array with {_num_samples(X)} sample(s) (n_samples={_num_samples(X)}) while "
                "a minimum of 2 is required: one to train and one to calibrate."
            )
        assert_all_finite(values, input_name="y")
        if is_classifier(self):
            check_classification_targets(values)
        else:
            values = np.asarray(values, dtype=np.float64)
        size = self.calibration_size
        if not (isinstance(size, numbers.Real) and 0 < size < 1):
            raise ParameterError(
                f"calibration_size={size!r} is not a share between 0 and 1. Write for instance "
                "calibration_size=0.4."
            )
        tolerance = self.tolerance
        if tolerance is not None and not (
            isinstance(tolerance, numbers.Real) and 0 <= tolerance < np.inf
        ):
            raise ParameterError(f"tolerance={tolerance!r} is not a number >= 0.")
        return values

    def _split(self, y: Any, classifier: bool) -> tuple[Integers, Integers]:
        """Rows to train and to calibrate; a class keeps at least one row to train."""
        rng = as_generator(self.random_state)
        order = rng.permutation(y.size)
        groups = (
            np.unique(y, return_inverse=True)[1][order] if classifier else np.zeros(y.size, int)
        )
        rest = np.zeros(y.size, dtype=bool)
        for group in range(int(groups.max()) + 1):
            rows = order[groups == group]
            at_most = rows.size - 1
            rest[rows[: min(at_most, round(self.calibration_size * rows.size))]] = True
        if not rest.any():
            raise DataError(
                f"{y.size} rows are too few to keep one of each class for training and one to "
                "calibrate."
            )
        return np.flatnonzero(~rest), np.flatnonzero(rest)

    def _residuals(self, X: Any, y: Array) -> Array:
        if y.size < 10:
            return np.asarray(y - clone(self.estimator).fit(X, y).predict(X))
        return np.asarray(y - cross_val_predict(clone(self.estimator), X, y, cv=5))

    def _uncertainty(self, X: Any) -> Array:
        return uncertainty_of(self.score_name_, self.estimator_, X, self.spread_)

    def _wrong(self, truth: Any, answers: Any) -> Integers:
        if is_classifier(self):
            return np.asarray(answers != truth).astype(np.int64)
        off = np.abs(np.asarray(answers, dtype=np.float64) - truth)
        return np.asarray(off > self.tolerance_).astype(np.int64)

    def _refuse_class_as_abstention(self) -> None:
        if self.abstain_value is None or not is_classifier(self):
            return
        if any(self.abstain_value == label for label in self.estimator_.classes_):
            raise ParameterError(
                f"abstain_value={self.abstain_value!r} is one of the classes. Choose another one, "
                "for instance -1 or 'unsure'."
            )


def _rows(X: Any, y: Any, rows: Integers | None) -> tuple[Any, Any]:
    return (X, y) if rows is None else (_safe_indexing(X, rows), y[rows])


def _with(answers: Any, where: NDArray[np.bool_], value: Any) -> Any:
    """The answers with another value in some places, in a type that can hold both."""
    kind = np.result_type(answers, np.asarray(value)) if answers.dtype.kind != "O" else object
    if (answers.dtype.kind in "US") != (np.asarray(value).dtype.kind in "US"):
        kind = object
    out = answers.astype(kind)
    out[where] = value
    return out
