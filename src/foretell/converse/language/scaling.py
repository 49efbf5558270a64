"""Standardised columns over sqrt(d) with a constant for the bias, and the way back to raw units."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.converse.language.network import ReLUNetwork
from foretell.core.errors import DataError, ForetellWarning

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """(x - mean) / scale in the kept columns; mean and scale have one number for each of them.

    Parameters
    ----------
    mean, scale : array (kept,)
    kept : array of int (kept,)
        Columns that vary.
    n_features : int
        Columns that are given.
    intercept : bool
        Whether a constant column follows.
    """

    mean: Array
    scale: Array
    kept: NDArray[np.int64]
    n_features: int
    intercept: bool

    @classmethod
    def of(cls, X: Array, w: Array, *, standardize: bool, intercept: bool) -> Scaling:
        """From training rows (n, d) and their positive weights (n,)."""
        mean = w @ X / w.sum()
        spread = np.sqrt(w @ (X - mean) ** 2 / w.sum())
        size = np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
        varies = spread > 1e-10 * size
        if not varies.all():
            _about_constant(np.flatnonzero(~varies), X.shape[1], intercept)
        kept = np.flatnonzero(varies)
        root = np.sqrt(max(1, kept.size))
        if not standardize:
            return cls(np.zeros(kept.size), np.ones(kept.size), kept, X.shape[1], intercept)
        return cls(mean[kept], spread[kept] * root, kept, X.shape[1], intercept)

    def __call__(self, X: Array) -> Array:
        """Scaled rows."""
        return np.asarray((X[:, self.kept] - self.mean) / self.scale)

    def with_constant(self, X: Array) -> Array:
        """Scaled rows, and the constant column last where there is one."""
        scaled = self(X)
        return np.column_stack([scaled, np.ones(len(X))]) if self.intercept else scaled

    def network(self, groups: Array) -> tuple[ReLUNetwork, NDArray[np.int64]]:
        """Neurons of groups (axes, K, 2, P) that are not zero, on scaled rows, and their gates."""
        owner, side, gate = np.nonzero(np.linalg.norm(groups, axis=0) > 0)
        atoms = groups[:, owner, side, gate].T
        biases = atoms[:, -1] if self.intercept else np.zeros(len(atoms))
        weights = atoms[:, :-1] if self.intercept else atoms
        signs = np.where(side == 0, 1.0, -1.0)
        network = ReLUNetwork(weights.copy(), biases.copy(), signs, owner, groups.shape[1])
        return network, gate

    def raw(self, network: ReLUNetwork) -> ReLUNetwork:
        """The same function of unscaled rows."""
        slopes = network.weights / self.scale
        weights = np.zeros((len(slopes), self.n_features))
        weights[:, self.kept] = slopes
        biases = network.biases - slopes @ self.mean
        return ReLUNetwork(weights, biases, network.signs, network.owners, network.n_outputs)


def _about_constant(columns: NDArray[np.int64], d: int, intercept: bool) -> None:
    shown = ", ".join(map(str, columns[:5])) + (", ..." if columns.size > 5 else "")
    if columns.size == d and not intercept:
        raise DataError(
            f"All {d} columns of X are constant, so that nothing can be learnt from them without "
            "fit_intercept=True."
        )
    warnings.warn(
        f"{columns.size} of {d} columns of X are constant and are left out: {shown}.",
        ForetellWarning,
        stacklevel=5,
    )
