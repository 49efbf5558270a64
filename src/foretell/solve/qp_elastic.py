"""Least squares with elastic bounds on linear outputs: the solution, and its derivative.

    minimise over w, s >= 0   1/2 w' P w - q' w + mu / (2 m) |s|^2
    subject to                |M w + c| <= delta + s

Bounds that give way are always feasible. Without s this is

    1/2 w' P w - q' w + mu / (2 m) sum relu(|M w + c| - delta)^2,

piecewise quadratic and strictly convex. Newton's method on it solves one linear system for each
guess of the active bounds, and ends exactly when the guess repeats.

Where no |M w + c| equals its delta, the active set is locally constant, so that the solution is a
smooth function of all arguments; ``ElasticSolution.gradient`` is its exact adjoint, for the price
of one more solve with the same matrix. On a boundary it is a one-sided derivative.

P is often kron(I, G) with a small G: an objective that falls apart into rows sharing one matrix.
Give that G, and the work is that of G. With fewer active bounds than variables the system is
solved in the space of the bounds (Woodbury).

Legend: n variables, m bounds, k = mu / m, act the active bounds, sg the side on which each lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.qp import checked_hessian, checked_vector, factor

Array = NDArray[np.float64]

_NEWTON_STEPS = 60
_DAMP_AFTER = 12


@dataclass(frozen=True, eq=False)
class ElasticGradient:
    """Derivative of a scalar by the arguments of `solve_elastic`, given dscalar/dw.

    ``G`` has the shape of the matrix that was given, symmetrised.
    """

    G: Array
    q: Array
    M: Array
    c: Array
    delta: Array


class ElasticSolution:
    """Solution of an elastic program; make one with `solve_elastic`.

    Attributes
    ----------
    w : array (n,)
    active : boolean array (m,)
        Bounds that are exceeded, and therefore pull.
    slack : array (m,)
        By how much.
    iterations : int
        Linear systems solved.
    """

    def __init__(
        self, block: _Block, M: Array, c: Array, delta: Array, k: float, w: Array, side: Array,
        iterations: int,
    ) -> None:  # fmt: skip
        self._block, self._M, self._k, self._side = block, M, k, side
        self.w, self.iterations = w, iterations
        residual = M @ w + c
        self.active = side != 0
        self._over = residual - side * delta
        self.slack = np.maximum(np.abs(residual) - delta, 0.0)

    def __repr__(self) -> str:
        return (
            f"ElasticSolution({self.w.size} variables, {int(self.active.sum())} of "
            f"{self.active.size} bounds active, {self.iterations} linear systems)"
        )

    def gradient(self, dw: ArrayLike) -> ElasticGradient:
        """Carry dscalar/dw (n,) back to the arguments."""
        given = checked_vector(dw, self.w.size, "dw")
        M, act, k = self._M[self.active], self.active, self._k
        y = self._block.solve(given, M, k)
        My, over = M @ y, self._over[act]
        dM, dc, ddelta = np.zeros_like(self._M), np.zeros(act.size), np.zeros(act.size)
        dM[act] = -k * (np.outer(over, y) + np.outer(My, self.w))
        dc[act] = -k * My
        ddelta[act] = k * self._side[act] * My
        return ElasticGradient(self._block.outer(-y, self.w), y, dM, dc, ddelta)


def solve_elastic(
    G: ArrayLike,
    q: ArrayLike,
    M: ArrayLike,
    c: ArrayLike,
    delta: ArrayLike,
    *,
    mu: float = 1.0,
    start: ArrayLike | None = None,
) -> ElasticSolution:
    """Minimise 1/2 w'Pw - q'w + mu/(2m) sum relu(|Mw + c| - delta)^2, with P = kron(I, G).

    Parameters
    ----------
    G : array (g, g)
        Symmetric and positive definite; g divides n. With g = n it is P itself.
    q : array (n,)
    M, c, delta : arrays (m, n), (m,), (m,)
        Bounds; delta is zero or more.
    mu : float
        Price of exceeding a bound, positive.
    start : array (n,), optional
        First guess of w.

    Raises
    ------
    ParameterError
        Shapes do not fit, numbers are not finite, G is not positive definite, mu is not positive.
    NumericalError
        The active set did not settle.

    Examples
    --------
    >>> found = solve_elastic(np.eye(1), [3.0], [[1.0]], [0.0], [1.0], mu=1.0)
    >>> found.w, found.active
    (array([2.]), array([ True]))
    """
    q = np.asarray(q, dtype=np.float64)
    n = q.size
    block = _Block(checked_hessian(G), n)
    q = checked_vector(q, n, "q")
    M = np.asarray(M, dtype=np.float64)
    if M.ndim != 2 or M.shape[1] != n or not np.isfinite(M).all():
        raise ParameterError(f"M has shape {M.shape}; needed are finite rows of {n} numbers.")
    m = len(M)
    c, delta = checked_vector(c, m, "c"), checked_vector(delta, m, "delta")
    if (delta < 0).any():
        raise ParameterError(f"delta[{int(delta.argmin())}]={delta.min():.6g} is below zero.")
    if not 0 < mu < np.inf:
        raise ParameterError(f"mu={mu!r}; the price of exceeding a bound must be positive.")
    k = mu / max(m, 1)
    w = block.solve(q, M[:0], k) if start is None else checked_vector(start, n, "start")
    side = _sides(M @ w + c, delta)
    for step in range(1, _NEWTON_STEPS + 1):
        act = side != 0
        right = q - k * (M[act].T @ (c - side * delta)[act])
        goal = block.solve(right, M[act], k)
        found = _sides(M @ goal + c, delta)
        if (found == side).all():
            return ElasticSolution(block, M, c, delta, k, goal, side, step)
        if step > _DAMP_AFTER:  # the guess goes round in circles
            goal = w + _line(block, M, c, delta, k, q, w, goal) * (goal - w)
            found = _sides(M @ goal + c, delta)
        w, side = goal, found
    raise NumericalError(
        f"the active bounds did not settle in {_NEWTON_STEPS} Newton steps. Scale the rows of M "
        "alike, or lower mu."
    )


def _sides(residual: Array, delta: Array) -> Array:
    """+1 or -1 where a bound is exceeded above or below, else 0."""
    return np.where(np.abs(residual) > delta, np.sign(residual), 0.0)


def _line(
    block: _Block, M: Array, c: Array, delta: Array, k: float, q: Array, w: Array, goal: Array
) -> float:
    """The share of a Newton step that minimises the objective along it, by its monotone slope."""
    d = goal - w
    r, Md = M @ w + c, M @ d
    flat, curved = float(d @ (block.times(w) - q)), float(d @ block.times(d))
    low, high = 0.0, 1.0
    for _ in range(40):
        t = 0.5 * (low + high)
        at = r + t * Md
        over = np.sign(at) * np.maximum(np.abs(at) - delta, 0.0)
        if flat + t * curved + k * float(over @ Md) > 0:
            high = t
        else:
            low = t
    return high


class _Block:
    """kron(I, G) + k M'M as an operator that can be solved."""

    def __init__(self, G: Array, n: int) -> None:
        g = len(G)
        if g == 0 or n % g:
            raise ParameterError(f"G has shape {G.shape}, and its size must divide n={n}.")
        self._G, self._L, self._n, self._copies = G, (factor(G), True), n, n // g

    def times(self, w: Array) -> Array:
        """P w."""
        return np.asarray((w.reshape(self._copies, -1) @ self._G).ravel())

    def outer(self, y: Array, w: Array) -> Array:
        """The derivative of y'P w by G, symmetrised."""
        full = y.reshape(self._copies, -1).T @ w.reshape(self._copies, -1)
        return np.asarray(0.5 * (full + full.T))

    def solve(self, right: Array, M: Array, k: float) -> Array:
        """(P + k M'M)^-1 right."""
        if len(M) == 0:
            return np.asarray(self._inverse(right[None])[0])
        if len(M) < self._n:
            both = self._inverse(np.vstack([right, M]))
            free, spread = both[0], both[1:]
            small = M @ spread.T
            small[np.diag_indices(len(M))] += 1.0 / k
            return np.asarray(free - spread.T @ _positive_solve(small, M @ free))
        full = k * (M.T @ M)
        g = len(self._G)
        for i in range(self._copies):
            full[i * g : (i + 1) * g, i * g : (i + 1) * g] += self._G
        return _positive_solve(full, right)

    def _inverse(self, rows: Array) -> Array:
        """P^-1 of every row."""
        stacked = rows.reshape(-1, len(self._G))
        return np.asarray(cho_solve(self._L, stacked.T, check_finite=False).T.reshape(rows.shape))


def _positive_solve(matrix: Array, right: Array) -> Array:
    return np.asarray(cho_solve((factor(matrix), True), right, check_finite=False))
