"""Uncertainty of the answers of a fitted scikit-learn model: one number per row, lower = surer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError

Array = NDArray[np.float64]
ScoreName = Literal["auto", "max_proba", "entropy", "margin", "std", "neighbours"]
Score = Callable[[Any, Any], Any]


def score_function(score: ScoreName | Score, model: Any, *, classifier: bool) -> ScoreName | Score:
    """Resolve "auto", and refuse a score that the model cannot give.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> score_function("auto", LinearSVC(), classifier=True)
    'margin'
    """
    if callable(score):
        return score
    if score not in get_args(ScoreName):
        raise ParameterError(
            f"uncertainty={score!r} is not one of {', '.join(get_args(ScoreName))} or a function "
            "of (estimator, X)."
        )
    if score == "auto":
        if not classifier:
            return "neighbours"
        return "max_proba" if hasattr(model, "predict_proba") else "margin"
    needs = {
        "max_proba": "predict_proba",
        "entropy": "predict_proba",
        "margin": "decision_function",
    }
    method = needs.get(score)
    if method is not None and not hasattr(model, method):
        raise ParameterError(
            f"uncertainty={score!r} needs {method}, which {type(model).__name__} does not have. "
            "Use uncertainty='auto' or a function of (estimator, X)."
        )
    return score


def uncertainty_of(score: ScoreName | Score, model: Any, X: Any, spread: Any = None) -> Array:
    """The score of each row; `spread` is the fitted neighbour model where one is needed."""
    if callable(score):
        found = np.asarray(score(model, X), dtype=np.float64)
    elif score in ("max_proba", "entropy"):
        p = np.asarray(model.predict_proba(X), dtype=np.float64)
        found = 1 - p.max(axis=1) if score == "max_proba" else _entropy(p)
    elif score == "margin":
        d = np.asarray(model.decision_function(X), dtype=np.float64)
        found = -np.abs(d) if d.ndim == 1 else -np.diff(np.sort(d, axis=1)[:, -2:])[:, 0]
    elif score == "std":
        found = np.asarray(model.predict(X, return_std=True)[1], dtype=np.float64)
    else:
        found = spread.predict(X)
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if found.shape != (rows,):
        raise DataError(
            f"The score gave shape {found.shape} for {rows} rows; needed is one number per row."
        )
    return found


class NeighbourSpread:
    """Typical size of the residuals of a regressor near a point: the mean over its neighbours."""

    def __init__(self, X: Any, residuals: Array) -> None:
        from sklearn.neighbors import KNeighborsRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        neighbours = int(np.clip(np.sqrt(residuals.size), 1, 50))
        self._model = make_pipeline(
            StandardScaler(with_mean=False),
            KNeighborsRegressor(n_neighbors=neighbours, weights="distance"),
        ).fit(X, np.abs(residuals))

    def predict(self, X: Any) -> Array:
        """Mean absolute residual of the nearest training rows."""
        return np.asarray(self._model.predict(X), dtype=np.float64)


def _entropy(p: Array) -> Array:
    from scipy.special import xlogy

    return np.asarray(-xlogy(p, p).sum(axis=1), dtype=np.float64)
