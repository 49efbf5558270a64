"""`ConvexReLUClassifier`: a two-layer ReLU network whose training is a convex programme.

Paper: Feng, Tan and Pilanci, "Convex Language Detection", ICML 2026, arXiv:2605.23235.
Idea: fix the activity patterns of the neurons by random directions; the weights are then the
minimum of a convex programme on one-hot targets, found by ADMM (`foretell.solve.admm`) with a gap
that says how far from the minimum one may still be. Weights that are known bound how fast the
scores change, which certifies a radius around every answer.

Differs from the paper: exact factorised steps, a stopping test, standardised columns with a bias, a
price beta that follows from the data, probabilities, and sharper radii. The programme is that of
the drawn patterns; its minimum is not the global optimum of a ReLU network, and is not unique.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from foretell.converse.language.fitting import ConvexReLU, one_per_row, path_of
from foretell.converse.language.network import Bound, radii
from foretell.converse.language.results import RegularizationPath
from foretell.converse.language.temperature import fit_temperature, held_out
from foretell.core.errors import DataError, ParameterError
from foretell.core.random import as_generator

Array = NDArray[np.float64]


class ConvexReLUClassifier(ClassifierMixin, ConvexReLU):
    """A small ReLU network without learning rate, epochs or seeds to try.

    Parameters
    ----------
    n_gates : int
        Activity patterns, hence at most ``2 n_gates`` neurons a class.
    beta : float or "auto"
        Price of the norms of the weights; the loss is a sum over rows, so it grows with them.
        "auto" is 0.03 of the price from which all weights are zero.
    rho : float or "auto"
        Penalty of ADMM. "auto" balances it; a number is kept.
    loss : {"squared", "logistic"}
        Of one-hot targets, or cross entropy (slower).
    solver : {"auto", "direct", "pcg"}
        Factor an n x n matrix, or conjugate gradients; "auto" factors up to 4000 rows.
    max_iter : int
    tol : float
        Relative duality gap, and violation of the cones, at which ADMM stops.
    fit_intercept, standardize : bool
        Append a constant; centre the columns and divide them by their deviation and sqrt(d).
    calibrate : bool
        Fit the temperature of `predict_proba` on a held-out fifth, which costs a second fit.
        Otherwise it is fitted on the training rows, and probabilities are too sure.
    random_state : int, numpy Generator or None
        For the directions that give the patterns.

    Attributes
    ----------
    classes_ : array (K,)
    network_ : ReLUNetwork
        On scaled rows; ``gates_`` has the pattern that each neuron comes from.
    objective_, dual_gap_, feasibility_, n_iter_, converged_
        How good the solution of the programme is; `foretell.solve.admm.Solution`.
    beta_, beta_max_ : float
    temperature_ : float
    lipschitz_ : array (K,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConvexReLUClassifier(random_state=0).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.96
    >>> bool(model.certified_radius(X[1:4]).min() > 0)
    True
    """

    def __init__(
        self,
        *,
        n_gates: int = 32,
        beta: float | Literal["auto"] = "auto",
        rho: float | Literal["auto"] = "auto",
        loss: Literal["squared", "logistic"] = "squared",
        solver: Literal["auto", "direct", "pcg"] = "auto",
        max_iter: int = 2000,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        standardize: bool = True,
        calibrate: bool = True,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_gates = n_gates
        self.beta = beta
        self.rho = rho
        self.loss = loss
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.calibrate = calibrate
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> ConvexReLUClassifier:
        """Fit the weights and the temperature.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,)
            Classes, two or more.
        sample_weight : array (n,), optional
            A weight of 2 is the same as the row twice, and 0 as leaving it out.
        groups : array (n,), optional
            Speaker or source of each row; the held-out part then consists of whole groups.

        Raises
        ------
        DataError
            NaN or infinite values, one class only, lengths that differ.
        ParameterError
            A constructor argument is impossible.
        """
        X_, codes, w, groups_ = self._examples(X, y, sample_weight, groups)
        rng = as_generator(self.random_state)
        self._solve(X_, w, self._one_hot(codes), rng, logistic=self.loss == "logistic")
        self._set_temperature(X_, codes, w, groups_, rng)
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores, (n, K); for two classes their difference, (n,)."""
        scores = self._outputs(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of the largest score."""
        best = np.argmax(self._outputs(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Softmax of the scores over the temperature, (n, K)."""
        return np.asarray(softmax(self._outputs(X) / self.temperature_, axis=1))

    def certified_radius(
        self,
        X: ArrayLike,
        bound: Bound = "spectral",
        *,
        units: Literal["input", "scaled"] = "input",
    ) -> Array:
        """Euclidean distance within which the predicted class certainly stays, (n,).

        Parameters
        ----------
        X : array (n, d)
        bound : {"spectral", "pairwise", "total"}
            From the sharpest to that of the paper; see `foretell.converse.language.network`.
        units : {"input", "scaled"}
            Distances between rows of X, or between standardised rows over sqrt(d).

        Notes
        -----
        The radius is about the features. What a noise in the sound does to them is another
        question; compare with the movement that real disturbances cause.
        """
        scores = self._outputs(X)
        if units not in ("input", "scaled"):
            raise ParameterError(f"units={units!r} is not one of input, scaled.")
        network = self.network_ if units == "scaled" else self.scaling_.raw(self.network_)
        return radii(scores, network.pair_lipschitz(bound))

    def certified_accuracy(
        self,
        X: ArrayLike,
        y: ArrayLike,
        radii: ArrayLike,
        bound: Bound = "spectral",
        *,
        units: Literal["input", "scaled"] = "input",
    ) -> Array:
        """Share of rows that are right and stay so within each of the distances.

        Raises
        ------
        DataError
            For a label that `fit` did not see, or lengths that differ.
        """
        reach = self.certified_radius(X, bound, units=units)
        truth = one_per_row(y, "y", len(reach))
        unseen = set(truth.tolist()) - set(self.classes_.tolist())
        if unseen:
            raise DataError(
                f"y has labels that the model never saw: {sorted(map(str, unseen))[:5]}. Known are "
                f"{self.classes_.tolist()}. Leave those rows out, or fit again with them."
            )
        right = self.predict(X) == truth
        distances = np.atleast_1d(np.asarray(radii, dtype=np.float64))
        return np.array([np.mean(right & (reach > distance)) for distance in distances])

    def regularization_path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        betas: Sequence[float] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> RegularizationPath:
        """Models for falling beta, each started from the one before.

        Parameters
        ----------
        betas : sequence of float, optional
            By default ten, from 0.5 to 0.005 of the largest useful one.
        """
        worker = copy(self)
        X_, codes, w, _ = worker._examples(X, y, sample_weight, None)
        found = worker._path(X_, w, worker._one_hot(codes), betas, self.loss == "logistic")
        models = []
        for beta, solution in found:
            model = copy(worker)
            model.beta, model.beta_ = beta, beta
            model._keep(solution)
            model.temperature_ = fit_temperature(model._outputs(X_), codes, w)
            models.append(model)
        return path_of(found, models)

    def _examples(
        self, X: Any, y: Any, sample_weight: Any, groups: Any
    ) -> tuple[Array, NDArray[np.int64], Array, NDArray[Any] | None]:
        self._check_parameters()
        if self.loss not in ("squared", "logistic"):
            raise ParameterError(f"loss={self.loss!r} is not one of squared, logistic.")
        n = len(X) if hasattr(X, "__len__") else 0
        together = None if groups is None else one_per_row(groups, "groups", n)
        weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        X_, y_, w = self._checked(X, y, sample_weight, multi_output=False)
        check_classification_targets(y_)
        self.classes_, codes = np.unique(column_or_1d(y_, warn=True), return_inverse=True)
        if self.classes_.size < 2:
            raise DataError(
                f"y has 1 class only, {self.classes_[0]!r}; needed are rows of at least two "
                "classes."
            )
        if together is not None:
            together = together[weights > 0]
        return X_, codes, w, together

    def _one_hot(self, codes: NDArray[np.int64]) -> Array:
        return np.eye(self.classes_.size)[codes]

    def _set_temperature(
        self,
        X: Array,
        codes: NDArray[np.int64],
        w: Array,
        groups: NDArray[Any] | None,
        rng: np.random.Generator,
    ) -> None:
        kept_out = held_out(X, codes, groups) if self.calibrate else np.zeros(len(X), bool)
        judge = self
        if kept_out.any():
            judge = copy(self)
            train = ~kept_out
            if self.beta != "auto":
                judge.beta = float(self.beta) * float(w[train].sum() / w.sum())
            judge._solve(
                X[train], w[train], self._one_hot(codes[train]), rng,
                logistic=self.loss == "logistic", quiet=True,
            )  # fmt: skip
            X, codes, w = X[kept_out], codes[kept_out], w[kept_out]
        self.temperature_ = fit_temperature(judge._outputs(X), codes, w)

    def _saved_fields(self) -> dict[str, Any]:
        kind = "str" if self.classes_.dtype.kind in "UO" else str(self.classes_.dtype)
        more = {"classes": self.classes_.tolist(), "kind": kind, "temperature": self.temperature_}
        return {**super()._saved_fields(), **more}

    def _restore(self, fields: Any, arrays: Any) -> None:
        self.classes_ = np.asarray(fields["classes"], dtype=fields["kind"])
        if self.classes_.size != self.network_.n_outputs:
            raise ValueError(
                f"{self.classes_.size} class names for {self.network_.n_outputs} outputs"
            )
        self.temperature_ = float(fields["temperature"])
        check_is_fitted(self, "temperature_")
