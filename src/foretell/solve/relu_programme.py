"""The convex programme of a two-layer ReLU network: gates, operators and two losses.

A network of one hidden ReLU layer becomes convex once the patterns of active neurons are fixed.
With D_p = diag(1[X g_p >= 0]) for P drawn directions g_p and E_p = 2 D_p - 1, every output k has

    minimise  loss(F u, y) + beta sum_p (|u_1p| + |u_2p|),   F u = sum_p D_p X (u_1p - u_2p)
    where     E_p X u_jp >= 0   for j = 1, 2

The constraints say that neuron (j, p) is active exactly in the rows of its pattern, so that on the
training rows D_p X u = relu(X u). Outputs share the patterns and do not meet otherwise.

Everything happens in the principal axes of X = Z V': norms of groups do not change, what is
orthogonal to the rows of X is zero at the minimum, and I + Z'Z is diagonal. E_p has entries of +-1,
so the constraints' operator G has G'G = I (x) Z'Z exactly, and with K = Z (I + Z'Z)^-1 Z'

    F (I + G'G)^-1 F' = 2 K o (D D')     (o: elementwise),   n x n, and the same for all outputs.

Weights of rows are factors sqrt(w) of the rows of X and y; the patterns and cones do not change.

Sources: Pilanci and Ergen, "Neural networks are convex regularizers", ICML 2020; Feng, Frangella
and Pilanci, "CRONOS", NeurIPS 2024, arXiv:2411.01088 (the splitting). Differs from them: the exact
solve by one n x n factorisation instead of preconditioned conjugate gradients.

Legend: n rows, d columns, r <= min(n, d) axes, K outputs, P gates. Groups (axis, output, sign,
gate) are arrays of shape (r, K, 2, P), their images by rows (n, K, 2, P).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp, softmax, xlogy

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_ROWS_DIRECT = 4000
_RANK_TOL = 1e-10
_DRAWS = 20  # times n_gates, before fewer distinct patterns are accepted
_CG_STEPS, _CG_TOL = 100, 1e-10


def draw_gates(X: Array, n_gates: int, rng: np.random.Generator) -> Mask:
    """Distinct patterns of activity 1[X g >= 0] for normal g.

    Parameters
    ----------
    X : array (n, d)
    n_gates : int
        How many at most; there are fewer where X has few patterns.
    rng : numpy.random.Generator

    Returns
    -------
    array of bool (n, P)
        Columns in the order drawn, without repeats and without the pattern that is never active.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.5]])
    >>> draw_gates(X, 3, np.random.default_rng(0)).shape
    (2, 3)
    """
    found: dict[bytes, Mask] = {}
    for _ in range(_DRAWS):
        patterns = X @ rng.standard_normal((X.shape[1], n_gates)) >= 0
        for column in patterns.T:
            if column.any():
                found.setdefault(np.packbits(column).tobytes(), column)
        if len(found) >= n_gates:
            break
    chosen = list(found.values())[:n_gates] or [np.ones(len(X), dtype=bool)]
    return np.column_stack(chosen)


class Loss(Protocol):
    """A smooth loss of the outputs z, (n, K), of rows that are scaled by the roots of weights."""

    @property
    def curvature(self) -> float:
        """An upper bound of the second derivative."""
        ...

    def value(self, z: Array) -> Array:
        """Loss of every output (K,), or of all (1,) where they are not separable."""
        ...

    def slope(self, z: Array) -> Array:
        """The negative gradient, (n, K): a dual point."""
        ...

    def dual(self, slope: Array, room: Array) -> Array:
        """The best dual value of t * slope over the admissible 0 <= t <= room, like `value`."""
        ...


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    """1/2 |z - y|^2 for every output.

    Parameters
    ----------
    y : array (n, K)
        Targets, times the roots of the weights.
    """

    y: Array
    curvature: float = 1.0

    def value(self, z: Array) -> Array:
        """1/2 |z - y|^2, (K,)."""
        return np.asarray(0.5 * np.sum((z - self.y) ** 2, axis=0))

    def slope(self, z: Array) -> Array:
        """y - z."""
        return np.asarray(self.y - z)

    def dual(self, slope: Array, room: Array) -> Array:
        """1/2 |y|^2 - 1/2 |y - t slope|^2, (K,)."""
        square = np.sum(slope**2, axis=0)
        inner = np.sum(slope * self.y, axis=0)
        best = np.divide(inner, square, out=np.zeros_like(inner), where=square > 0)
        t = np.clip(best, 0.0, room)
        return np.asarray(t * inner - 0.5 * t**2 * square)


@dataclass(frozen=True, eq=False)
class LogisticLoss:
    """Cross entropy of softmax(z / sqrt(w)), weighted; curvature at most 1/2 (Boehning 1992).

    Parameters
    ----------
    labels : array (n, K)
        One-hot rows.
    weights : array (n,)
        Weights of the rows, positive.
    """

    labels: Array
    weights: Array
    curvature: float = 0.5

    def _logits(self, z: Array) -> Array:
        return np.asarray(z / np.sqrt(self.weights)[:, None])

    def value(self, z: Array) -> Array:
        """Sum over the rows, (1,)."""
        logits = self._logits(z)
        loss = logsumexp(logits, axis=1) - np.sum(logits * self.labels, axis=1)
        return np.asarray([self.weights @ loss])

    def slope(self, z: Array) -> Array:
        """sqrt(w) (labels - softmax)."""
        root = np.sqrt(self.weights)[:, None]
        return np.asarray(root * (self.labels - softmax(self._logits(z), axis=1)))

    def dual(self, slope: Array, room: Array) -> Array:
        """Entropy of the mixture of labels and softmax at t, (1,); grows with t up to 1."""
        root = np.sqrt(self.weights)[:, None]
        t = min(1.0, float(np.min(room)))
        p = np.clip(self.labels - t * slope / root, 0.0, 1.0)
        return np.asarray([-self.weights @ np.sum(xlogy(p, p), axis=1)])


class Programme:
    """The operators of the programme for given rows and gates.

    Parameters
    ----------
    X : array (n, d)
    gates : array of bool (n, P)
    weights : array (n,), optional
        Positive weights of the rows.
    solver : {"auto", "direct", "pcg"}
        How systems with I + (2/rho) K o (D D') are solved: by a Cholesky factor, n x n, or by
        conjugate gradients without forming it. "auto" is direct up to 4000 rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 3))
    >>> programme = Programme(X, draw_gates(X, 4, rng))
    >>> programme.n_rows, programme.n_axes, programme.n_gates
    (20, 3, 4)
    """

    def __init__(
        self,
        X: Array,
        gates: Mask,
        *,
        weights: Array | None = None,
        solver: Literal["auto", "direct", "pcg"] = "auto",
    ) -> None:
        self.roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
        U, scale, Vt = np.linalg.svd(self.roots[:, None] * X, full_matrices=False)
        kept = scale > _RANK_TOL * max(float(scale[0]), np.finfo(float).tiny)
        self.Z = np.ascontiguousarray(U[:, kept] * scale[kept])
        self.V = np.ascontiguousarray(Vt[kept].T)
        self.D = gates.astype(np.float64)
        self.E = 2.0 * self.D - 1.0
        self.n_rows, self.n_axes, self.n_gates = len(X), self.Z.shape[1], gates.shape[1]
        self.direct = solver == "direct" or (solver == "auto" and len(X) <= MOST_ROWS_DIRECT)
        self._inverse = 1.0 / (1.0 + scale[kept] ** 2)  # of the diagonal I + Z'Z
        if self.direct:
            K = (self.Z * self._inverse) @ self.Z.T
            self._coupling = K * (self.D @ self.D.T)
        else:
            diagonal = np.sum(self.Z**2 * self._inverse, axis=1)
            self._coupling_diagonal = diagonal * self.D.sum(axis=1)
        self._factors: dict[float, Array] = {}
        self._last: Array | None = None

    def images(self, u: Array) -> Array:
        """X u for every group: (n, K, 2, P)."""
        return np.asarray((self.Z @ u.reshape(self.n_axes, -1)).reshape(-1, *u.shape[1:]))

    def back(self, t: Array) -> Array:
        """X' t for every group: (r, K, 2, P)."""
        return np.asarray((self.Z.T @ t.reshape(self.n_rows, -1)).reshape(-1, *t.shape[1:]))

    def outputs(self, images: Array) -> Array:
        """F u from the images of u: (n, K)."""
        signed = images[:, :, 0] - images[:, :, 1]
        return np.asarray(np.matmul(signed, self.D[:, :, None])[:, :, 0])

    def spread(self, slope: Array) -> Array:
        """The rows' side of F' r, so that F' r = `back` of it: (n, K, 2, P)."""
        one = slope[:, :, None] * self.D[:, None, :]
        return np.stack([one, -one], axis=2)

    def minimise_quadratic(self, q: Array, t: Array, rho: float) -> tuple[Array, Array, Array]:
        """Solve (I + G'G + F'F / rho) u = q + X' t; returns u, its images and F u."""
        inverse = self._inverse[:, None, None, None]
        y0 = inverse * (q + self.back(t))
        images = self.images(y0)
        r = self._solve(self.outputs(images) / rho, rho)
        pulled = inverse[..., 0] * self.back(r[:, :, None] * self.D[:, None, :])
        moved = self.images(pulled)
        sign = np.array([1.0, -1.0])[:, None]
        u = y0 - pulled[:, :, None] * sign
        return u, images - moved[:, :, None] * sign, rho * r

    def forget_start(self) -> None:
        """Drop the start of conjugate gradients, so that results do not depend on the past."""
        self._last = None

    def _solve(self, c: Array, rho: float) -> Array:
        if not self.direct:
            self._last = self._conjugate_gradients(c, rho)
            return self._last
        if rho not in self._factors:
            matrix = (2.0 / rho) * self._coupling
            matrix[np.diag_indices_from(matrix)] += 1.0
            self._factors = {rho: cho_factor(matrix, lower=True, overwrite_a=True)[0]}
        return np.asarray(cho_solve((self._factors[rho], True), c, check_finite=False))

    def _conjugate_gradients(self, c: Array, rho: float) -> Array:
        def apply(x: Array) -> Array:
            pulled = self._inverse[:, None, None] * self.back(x[:, :, None] * self.D[:, None, :])
            both = np.matmul(self.images(pulled), self.D[:, :, None])[:, :, 0]
            return np.asarray(x + (2.0 / rho) * both)

        jacobi = 1.0 / (1.0 + (2.0 / rho) * self._coupling_diagonal)[:, None]
        start = self._last is not None and self._last.shape == c.shape
        x = self._last.copy() if start and self._last is not None else jacobi * c
        residual = c - apply(x)
        z = jacobi * residual
        p, rz = z, np.sum(residual * z, axis=0)
        enough = _CG_TOL * np.linalg.norm(c, axis=0)
        for _ in range(_CG_STEPS):
            if (np.linalg.norm(residual, axis=0) <= enough).all():
                break
            Ap = apply(p)
            curvature = np.sum(p * Ap, axis=0)
            step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
            x, residual = x + step * p, residual - step * Ap
            z = jacobi * residual
            rz, before = np.sum(residual * z, axis=0), rz
            p = z + p * np.divide(rz, before, out=np.zeros_like(rz), where=before > 0)
        return np.asarray(x)
