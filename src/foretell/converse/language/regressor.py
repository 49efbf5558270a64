"""`ConvexReLURegressor`: the convex ReLU network for numbers; see `classifier` for the method."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from foretell.converse.language.fitting import ConvexReLU, path_of
from foretell.converse.language.results import RegularizationPath
from foretell.core.random import as_generator

Array = NDArray[np.float64]


class ConvexReLURegressor(RegressorMixin, ConvexReLU):
    """Least squares by a two-layer ReLU network whose training is a convex programme.

    Parameters
    ----------
    n_gates, beta, rho, solver, max_iter, tol, fit_intercept, standardize, random_state
        As for `ConvexReLUClassifier`. Targets are standardised, and tolerances refer to that.

    Attributes
    ----------
    network_, objective_, dual_gap_, feasibility_, n_iter_, converged_, beta_, beta_max_
        As for `ConvexReLUClassifier`.
    target_mean_, target_scale_ : array (K,)

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = np.abs(X[:, 0])
    >>> model = ConvexReLURegressor(n_gates=64, beta=1.0, tol=0.01, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        n_gates: int = 32,
        beta: float | Literal["auto"] = "auto",
        rho: float | Literal["auto"] = "auto",
        solver: Literal["auto", "direct", "pcg"] = "auto",
        max_iter: int = 2000,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        standardize: bool = True,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_gates = n_gates
        self.beta = beta
        self.rho = rho
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> ConvexReLURegressor:
        """Fit the weights.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,) or (n, K)
        sample_weight : array (n,), optional

        Raises
        ------
        DataError, ParameterError
            As for `ConvexReLUClassifier.fit`.
        """
        X_, targets, w = self._examples(X, y, sample_weight)
        self._solve(X_, w, targets, as_generator(self.random_state), logistic=False)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Values, (n,) or (n, K) as in `fit`."""
        values = self._outputs(X) * self.target_scale_ + self.target_mean_
        return np.asarray(values[:, 0] if self.one_target_ else values)

    @property
    def lipschitz_(self) -> Array:
        """Largest change of each target for a change of X of Euclidean norm 1, (K,)."""
        return np.asarray(super().lipschitz_ * self.target_scale_)

    def to_relu_network(self, *, dtype: Any = None) -> Any:
        """The fitted function of raw rows as ``torch.nn.Sequential``; the last layer has a bias."""
        network = super().to_relu_network(dtype=dtype)
        import torch

        scale = torch.from_numpy(self.target_scale_)[:, None]
        last = network[2]
        with torch.no_grad():
            last.weight.copy_(last.weight * scale.to(last.weight.dtype))
            last.bias = torch.nn.Parameter(
                torch.from_numpy(self.target_mean_.copy()).to(last.weight.dtype)
            )
        return network

    def regularization_path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        betas: Sequence[float] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> RegularizationPath:
        """Models for falling beta; see `ConvexReLUClassifier.regularization_path`."""
        worker = copy(self)
        X_, targets, w = worker._examples(X, y, sample_weight)
        found = worker._path(X_, w, targets, betas, logistic=False)
        models = []
        for beta, solution in found:
            model = copy(worker)
            model.beta, model.beta_ = beta, beta
            model._keep(solution)
            models.append(model)
        return path_of(found, models)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        self._check_parameters()
        X_, y_, w = self._checked(X, y, sample_weight, multi_output=True, y_numeric=True)
        self.one_target_ = y_.ndim == 1
        values = np.asarray(y_, dtype=np.float64).reshape(len(y_), -1)
        self.target_mean_ = w @ values / w.sum()
        spread = np.sqrt(w @ (values - self.target_mean_) ** 2 / w.sum())
        self.target_scale_ = np.where(spread > 0, spread, 1.0)
        return X_, (values - self.target_mean_) / self.target_scale_, w

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        more = {"target_mean": self.target_mean_, "target_scale": self.target_scale_}
        return {**super()._saved_arrays(), **more}

    def _saved_fields(self) -> dict[str, Any]:
        return {**super()._saved_fields(), "one_target": self.one_target_}

    def _restore(self, fields: Any, arrays: Any) -> None:
        self.target_mean_ = np.asarray(arrays["target_mean"])
        self.target_scale_ = np.asarray(arrays["target_scale"])
        self.one_target_ = bool(fields["one_target"])
