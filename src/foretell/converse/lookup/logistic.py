"""A logistic model of a few named features that is kept as JSON and evaluated without scikit-learn.

Each feature enters as it is and as hinges at quantiles of the training data, so that its effect may
bend; the penalty keeps the bends small where the data do not ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ArtifactError, DataError

Array = NDArray[np.float64]
FORMAT, SCHEMA = "foretell-logistic", 1
_KNOTS = (0.2, 0.4, 0.6, 0.8)


class LogisticModel:
    """Probability of an event, from named features.

    Parameters
    ----------
    names : sequence of str
        Of the features, in the order of the columns.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> model = LogisticModel(["x"]).fit(X, X[:, 0] > 0)
    >>> model.probability([[-2.0], [2.0]]).round()
    array([0., 1.])
    >>> LogisticModel.from_dict(model.to_dict()).one([2.0]) == model.one([2.0])
    True
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def fit(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, penalty: float = 3.0
    ) -> LogisticModel:
        """Learn from rows of features X (n, p) and outcomes y (n,), 0 or 1.

        Raises
        ------
        DataError
            When columns are missing, values are not finite, or only one outcome occurs.
        """
        from sklearn.linear_model import LogisticRegression

        X, y = self._rows(X), np.asarray(y, dtype=bool)
        if y.shape != (len(X),):
            raise DataError(f"y has shape {y.shape} and X {X.shape}; needed is one for each row.")
        if y.all() or not y.any():
            raise DataError(
                f"All {y.size} outcomes are {bool(y[:1].any())}, so there is nothing to learn. "
                "Give questions of both kinds."
            )
        self.knots_ = np.quantile(X, _KNOTS, axis=0)
        bent = self._bent(X)
        self.centre_, self.scale_ = bent.mean(axis=0), bent.std(axis=0)
        self.scale_[self.scale_ < 1e-9] = 1.0
        model = LogisticRegression(C=1 / penalty, max_iter=2000)
        model.fit((bent - self.centre_) / self.scale_, y, sample_weight=weights)
        self.coefficients_ = np.asarray(model.coef_[0], dtype=np.float64)
        self.intercept_ = float(model.intercept_[0])
        return self

    def probability(self, X: ArrayLike) -> Array:
        """Probability for each row, shape (n,)."""
        z = (self._bent(self._rows(X)) - self.centre_) / self.scale_
        return np.asarray(1 / (1 + np.exp(-(z @ self.coefficients_ + self.intercept_))))

    def one(self, features: Sequence[float]) -> float:
        """Probability for one row."""
        return float(self.probability([features])[0])

    def to_dict(self) -> dict[str, Any]:
        """The fitted model as JSON values."""
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "names": list(self.names),
            "knots": self.knots_.tolist(),
            "centre": self.centre_.tolist(),
            "scale": self.scale_.tolist(),
            "coefficients": self.coefficients_.tolist(),
            "intercept": self.intercept_,
        }

    @classmethod
    def from_dict(cls, content: Any) -> LogisticModel:
        """The model that `to_dict` described; an ArtifactError for anything else."""
        try:
            if content["format"] != FORMAT or content["schema"] != SCHEMA:
                raise ValueError(f"format {content['format']!r}, schema {content['schema']!r}")
            model = cls(content["names"])
            model.knots_ = np.array(content["knots"], dtype=np.float64)
            model.centre_ = np.array(content["centre"], dtype=np.float64)
            model.scale_ = np.array(content["scale"], dtype=np.float64)
            model.coefficients_ = np.array(content["coefficients"], dtype=np.float64)
            model.intercept_ = float(content["intercept"])
            model.one([0.0] * len(model.names))
        except (TypeError, KeyError, ValueError) as error:
            raise ArtifactError(
                f"This is not a fitted model of schema {SCHEMA}: {error}. Fit and save it again."
            ) from error
        return model

    def _rows(self, X: ArrayLike) -> Array:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise DataError(
                f"The features have shape {rows.shape}; needed are {len(self.names)} columns: "
                f"{', '.join(self.names)}."
            )
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise DataError(f"Row {row} has {rows[row, column]} as {self.names[column]!r}.")
        return rows

    def _bent(self, X: Array) -> Array:
        hinges = np.maximum(X[:, None, :] - self.knots_, 0.0)
        return np.concatenate([X, hinges.reshape(len(X), -1)], axis=1)
