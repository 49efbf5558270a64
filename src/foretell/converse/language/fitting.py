"""What the classifier and the regressor share: checks, the fit by ADMM, folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from foretell.converse.language.network import ReLUNetwork
from foretell.converse.language.results import RegularizationPath
from foretell.converse.language.scaling import Scaling
from foretell.core.artifact import Artifact
from foretell.core.errors import (
    ArtifactError,
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
)
from foretell.core.random import as_generator
from foretell.solve.admm import Solution, State, largest_useful_beta, solve
from foretell.solve.relu_programme import LogisticLoss, Loss, Programme, SquaredLoss, draw_gates

Array = NDArray[np.float64]

AUTO_SHARE = 0.03  # of the beta from which all weights are zero
_SOLVERS = ("auto", "direct", "pcg")
_ARRAYS = ("weights", "biases", "signs", "owners", "gates", "mean", "scale", "kept")


class ConvexReLU(BaseEstimator):
    """Fit, network and folders of `ConvexReLUClassifier` and `ConvexReLURegressor`."""

    n_gates: int
    beta: float | Literal["auto"]
    rho: float | Literal["auto"]
    solver: Literal["auto", "direct", "pcg"]
    max_iter: int
    tol: float
    fit_intercept: bool
    standardize: bool
    random_state: int | np.random.Generator | None
    n_features_in_: int
    _extra: ClassVar[tuple[str, ...]] = ()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a folder: weights and settings, no training rows, no pickle.

        Raises
        ------
        NotFittedError, ArtifactError
            Before `fit`; when the folder cannot be written.
        """
        if not hasattr(self, "network_"):
            raise NotFittedError(
                f"{type(self).__name__} is not fitted, so there is nothing to save. Call fit(X, y)."
            )
        parameters = self.get_params()
        if not isinstance(parameters.get("random_state"), (int, type(None))):
            parameters["random_state"] = None
        return Artifact(
            model_class=type(self).__name__,
            arrays=self._saved_arrays(),
            parameters=parameters,
            fields=self._saved_fields(),
            citations=("cld",),
        ).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a folder that `save` wrote; an ArtifactError says what is wrong with another."""
        return cls._from_artifact(Artifact.open(path, classes=[cls.__name__]), Path(path))

    def to_relu_network(self, *, dtype: Any = None) -> Any:
        """The fitted function of raw rows as ``torch.nn.Sequential(Linear, ReLU, Linear)``.

        Parameters
        ----------
        dtype : torch.dtype, optional
            By default that of torch. Certificates hold for the numbers here, not for rounded ones.

        Raises
        ------
        MissingExtraError
            Without torch.
        """
        check_is_fitted(self, "network_")
        return self.scaling_.raw(self.network_).to_torch(dtype)

    @property
    def lipschitz_(self) -> Array:
        """Largest change of each output for a change of X of Euclidean norm 1, (K,)."""
        check_is_fitted(self, "network_")
        return self.scaling_.raw(self.network_).lipschitz()

    # Fitting -------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        for name in ("n_gates", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ParameterError(f"{name}={value!r} is not a whole number >= 1.")
        for name in ("beta", "rho", "tol"):
            value = getattr(self, name)
            if value == "auto" and name != "tol":
                continue
            if not (isinstance(value, Real) and 0 < float(value) < np.inf):
                auto = "" if name == "tol" else f' or write {name}="auto"'
                raise ParameterError(f"{name}={value!r} is not a positive number. Give one{auto}.")
        if self.solver not in _SOLVERS:
            raise ParameterError(f"solver={self.solver!r} is not one of {', '.join(_SOLVERS)}.")

    def _checked(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Any, Array]:
        """X, y without rows of weight zero, and the weights."""
        if y is None:
            raise DataError("y is None, and fit requires y to be passed, but the target y is None.")
        try:
            X, y = validate_data(self, X, y, dtype=np.float64, **how)
            w = _check_sample_weight(sample_weight, X, dtype=np.float64)
        except ValueError as error:
            raise DataError(f"{error}{_first_bad_cell(X)}") from error
        if (w < 0).any():
            raise DataError(f"sample_weight has {int((w < 0).sum())} negative entries.")
        used = w > 0
        if not used.any():
            raise DataError("Every sample_weight is zero, so no row is left to fit.")
        return X[used], y[used], w[used]

    def _given(self, X: Any) -> Array:
        check_is_fitted(self, "network_")
        try:
            return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        except ValueError as error:
            raise DataError(f"{error}{_first_bad_cell(X)}") from error

    def _outputs(self, X: Any) -> Array:
        X_ = self._given(X)
        return self.network_(self.scaling_(X_))

    def _solve(
        self,
        X: Array,
        w: Array,
        targets: Array,
        rng: np.random.Generator,
        *,
        logistic: bool,
        quiet: bool = False,
    ) -> None:
        """Scale, draw gates, minimise, keep the network."""
        with warnings.catch_warnings():
            if quiet:
                warnings.simplefilter("ignore", ForetellWarning)
            programme, loss = self._programme(X, w, targets, rng, logistic)
            self.beta_max_ = largest_useful_beta(programme, loss)
            beta = AUTO_SHARE * self.beta_max_ if self.beta == "auto" else float(self.beta)
            self.beta_ = beta if beta > 0 else np.finfo(float).tiny ** 0.5
            self._keep(self._minimise(programme, loss, self.beta_, None))
            if not quiet:
                self._warn()

    def _programme(
        self, X: Array, w: Array, targets: Array, rng: np.random.Generator, logistic: bool
    ) -> tuple[Programme, Loss]:
        self.scaling_ = Scaling.of(X, w, standardize=self.standardize, intercept=self.fit_intercept)
        Z = self.scaling_.with_constant(X)
        gates = draw_gates(Z, self.n_gates, rng)
        loss: Loss = SquaredLoss(np.sqrt(w)[:, None] * targets)
        if logistic:
            loss = LogisticLoss(targets, w)
        return Programme(Z, gates, weights=w, solver=self.solver), loss

    def _minimise(
        self, programme: Programme, loss: Loss, beta: float, start: State | None
    ) -> Solution:
        rho = None if self.rho == "auto" else float(self.rho)
        return solve(
            programme, loss, beta, rho=rho, max_iter=self.max_iter, tol=self.tol, start=start
        )

    def _keep(self, found: Solution) -> None:
        self.network_, self.gates_ = self.scaling_.network(found.v)
        self.objective_ = found.objective
        self.dual_gap_ = found.gap
        self.feasibility_ = found.violation
        self.n_iter_ = found.n_iter
        self.converged_ = found.converged
        self.history_ = found.history

    def _warn(self) -> None:
        if not len(self.network_.weights) and (self.converged_ or self.rho != "auto"):
            rho = "" if self.rho == "auto" else f" and rho={self.rho!r}"
            warnings.warn(
                f"All weights are zero: beta={self.beta_:.3g}{rho} is too much for these rows, "
                f"whose largest useful beta is {self.beta_max_:.3g}. Take beta below "
                f"{0.1 * self.beta_max_:.2g} and rho='auto'.",
                ForetellWarning,
                stacklevel=4,
            )
        elif not self.converged_:
            share = abs(self.dual_gap_) / max(abs(self.objective_), np.finfo(float).tiny)
            warnings.warn(
                f"After {self.n_iter_} iterations the objective is within {share:.1e} of the "
                f"optimum and the cones within {self.feasibility_:.1e}; tol={self.tol:g} asked for "
                "less. The model is usable; raise max_iter or tol for a certified optimum.",
                ForetellWarning,
                stacklevel=4,
            )

    def _path(
        self, X: Array, w: Array, targets: Array, betas: Sequence[float] | None, logistic: bool
    ) -> list[tuple[float, Solution]]:
        programme, loss = self._programme(X, w, targets, as_generator(self.random_state), logistic)
        top = largest_useful_beta(programme, loss)
        chosen = list(top * np.geomspace(0.5, 0.005, 10)) if betas is None else list(betas)
        if not chosen or not all(np.isfinite(beta) and beta > 0 for beta in chosen):
            raise ParameterError(f"betas={betas!r} must be positive numbers, at least one.")
        found: list[tuple[float, Solution]] = []
        for beta in sorted(chosen, reverse=True):
            start = found[-1][1].state if found else None
            found.append((float(beta), self._minimise(programme, loss, float(beta), start)))
        return found

    # Folders -------------------------------------------------------------------------------------

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        net, scaling = self.network_, self.scaling_
        return {
            "weights": net.weights,
            "biases": net.biases,
            "signs": net.signs,
            "owners": net.owners,
            "gates": self.gates_,
            "mean": scaling.mean,
            "scale": scaling.scale,
            "kept": scaling.kept,
        }

    def _saved_fields(self) -> dict[str, Any]:
        return {
            "n_outputs": self.network_.n_outputs,
            "n_features": self.scaling_.n_features,
            "intercept": self.scaling_.intercept,
            "beta": self.beta_,
            "beta_max": self.beta_max_,
            "objective": self.objective_,
            "dual_gap": self.dual_gap_,
            "feasibility": self.feasibility_,
            "n_iter": self.n_iter_,
            "converged": self.converged_,
        }

    @classmethod
    def _from_artifact(cls, artifact: Artifact, path: Path) -> Self:
        arrays, fields = artifact.arrays, artifact.fields
        try:
            model = cls(**artifact.parameters)
            parts = {name: np.asarray(arrays[name]) for name in _ARRAYS}
            m, kept = len(parts["biases"]), len(parts["kept"])
            fits = parts["weights"].shape == (m, kept) and len(parts["owners"]) == m
            fits &= not m or int(parts["owners"].max()) < fields["n_outputs"]
            if not fits or len(parts["mean"]) != kept or len(parts["signs"]) != m:
                raise ValueError("shapes of the arrays do not fit each other")
            model.network_ = ReLUNetwork(
                parts["weights"], parts["biases"], parts["signs"], parts["owners"],
                int(fields["n_outputs"]),
            )  # fmt: skip
            model.scaling_ = Scaling(
                parts["mean"], parts["scale"], parts["kept"], int(fields["n_features"]),
                bool(fields["intercept"]),
            )  # fmt: skip
            model.gates_ = parts["gates"]
            model.n_features_in_ = int(fields["n_features"])
            for name in ("beta", "beta_max", "objective", "dual_gap", "feasibility", "n_iter"):
                setattr(model, f"{name}_", fields[name])
            model.converged_ = bool(fields["converged"])
            model.history_ = []
            model._restore(fields, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(
                f"{path} is no usable {cls.__name__}: {error}. Fit and save the model again."
            ) from error
        return model

    def _restore(self, fields: Any, arrays: Any) -> None:
        """What the heirs add to the folder."""


def path_of(
    found: list[tuple[float, Solution]], models: Sequence[ConvexReLU]
) -> RegularizationPath:
    """The path as a result."""
    return RegularizationPath(
        betas=tuple(beta for beta, _ in found),
        models=tuple(models),
        objectives=tuple(solution.objective for _, solution in found),
        gaps=tuple(solution.gap for _, solution in found),
        violations=tuple(solution.violation for _, solution in found),
        n_neurons=tuple(len(model.network_.weights) for model in models),
    )


def one_per_row(values: ArrayLike, name: str, n: int) -> NDArray[Any]:
    """An array of n entries, or a DataError with both numbers."""
    array = np.asarray(values)
    if array.ndim != 1 or len(array) != n:
        raise DataError(
            f"{name} has the shape {array.shape} where X has {n} rows. Give one entry for each row."
        )
    return array


def _first_bad_cell(X: Any) -> str:
    """Where the first NaN or infinite value is, as the end of a message."""
    try:
        given = np.asarray(X)
        values = np.empty(0) if given.dtype.kind == "c" else given.astype(np.float64)
    except (TypeError, ValueError):
        return ""
    if values.ndim != 2 or np.isfinite(values).all():
        return ""
    row, column = np.argwhere(~np.isfinite(values))[0]
    return (
        f"\nThe first such value is {values[row, column]} in row {row}, column {column}. Drop that "
        "row, or fill it, for instance with sklearn.impute.SimpleImputer."
    )
