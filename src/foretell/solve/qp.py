"""Strictly convex quadratic programs by a dual active set, factored once and solved many times.

    minimise 1/2 x' P x + q' x   subject to   A x <= b

With P = L L' and y = L' x the rows become B = A L^-T, and x is the point nearest to -L^-1 q that
satisfies them. The search starts at the unconstrained minimum and adds the row that is violated
most, dropping rows whose multiplier would change its sign; every step raises the dual objective,
so that it ends with the exact solution or with a proof that there is none. Only the Gram matrix
K = B B' is needed, which does not depend on q and b: a controller prepares it once.

A start from a former active set is exact as well: rows with negative multipliers are dropped until
the remaining ones are a dual feasible point, from which the same search goes on.

Source: Goldfarb and Idnani, "A numerically stable dual method for solving strictly convex quadratic
programs", Mathematical Programming 27 (1983).

Legend: n variables, m rows, W the active rows, lam their multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve._qp_kernel import CONTRADICTION, DEPENDENT, SETTLED, UNSETTLED, search

Array = NDArray[np.float64]

_CHANGES_PER_ROW = 20
_ENDS = {
    CONTRADICTION: "no point satisfies all rows: some of them contradict each other. Soften or "
    "widen the constraints.",
    UNSETTLED: "the active set does not settle; the rows are nearly dependent. Remove constraints "
    "that follow from others, or scale them alike.",
    DEPENDENT: "the active rows became dependent. Remove constraints that follow from others.",
}


@dataclass(frozen=True, eq=False)
class QPSolution:
    """The minimum of a quadratic program.

    Attributes
    ----------
    x : array (n,)
    multipliers : array (m,)
        Of the rows, zero or more; positive only where the row holds with equality.
    active : tuple of int
        Rows that hold with equality; hand them to the next ``solve`` as its start.
    iterations : int
        Changes of the active set.
    """

    x: Array
    multipliers: Array
    active: tuple[int, ...]
    iterations: int

    def __repr__(self) -> str:
        return (
            f"QPSolution({self.x.size} variables, {len(self.active)} of "
            f"{self.multipliers.size} rows active, {self.iterations} changes)"
        )


class PreparedQP:
    """A quadratic program whose matrices stay while its vectors change.

    Parameters
    ----------
    P : array (n, n)
        Symmetric and positive definite.
    A : array (m, n)
        Rows of the constraints; m may be zero.

    Raises
    ------
    ParameterError
        Shapes do not fit, numbers are not finite, or P is not positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> qp = PreparedQP(np.eye(2), [[1.0, 1.0]])
    >>> qp.solve([-1.0, -3.0], [2.0]).x
    array([0., 2.])
    """

    def __init__(self, P: ArrayLike, A: ArrayLike) -> None:
        self.P, self.A = checked_hessian(P), np.asarray(A, dtype=np.float64)
        n = len(self.P)
        if self.A.ndim != 2 or self.A.shape[1] != n or not np.isfinite(self.A).all():
            raise ParameterError(
                f"A has shape {self.A.shape}; needed are finite rows of {n} numbers, one column "
                "for each variable."
            )
        self._L = factor(self.P)
        self._B = solve_triangular(self._L, self.A.T, lower=True).T if len(self.A) else self.A
        self._K = self._B @ self._B.T
        self._norm = np.sqrt(np.maximum(np.diag(self._K), np.finfo(float).tiny))

    def solve(self, q: ArrayLike, b: ArrayLike, *, start: Sequence[int] = ()) -> QPSolution:
        """Find the minimum.

        Parameters
        ----------
        q : array (n,)
        b : array (m,)
        start : sequence of int
            Rows that are probably active, those of a similar problem for instance.

        Raises
        ------
        ParameterError
            A vector has the wrong size or is not finite.
        NumericalError
            No x satisfies all rows.
        """
        n, m = len(self.P), len(self.A)
        q, b = checked_vector(q, n, "q"), checked_vector(b, m, "b")
        y0 = -solve_triangular(self._L, q, lower=True)
        over = self._B @ y0 - b  # of the unconstrained minimum
        rows, known = np.zeros(m, np.int64), [w for w in dict.fromkeys(start) if 0 <= w < m]
        rows[: len(known)] = known
        small = 1e-12 * max(1.0, float(np.abs(over / self._norm).max(initial=0.0)))
        limit = _CHANGES_PER_ROW * (m + 1)
        ended, k, lam, changes = search(self._K, self._norm, over, rows, len(known), small, limit)
        if ended != SETTLED:
            raise NumericalError(_ENDS[ended])
        rows, multipliers = rows[:k], np.zeros(m)
        multipliers[rows] = lam[:k]
        x = solve_triangular(self._L, y0 - self._B[rows].T @ lam[:k], lower=True, trans="T")
        return QPSolution(x, multipliers, tuple(rows.tolist()), int(changes))


def solve_qp(P: ArrayLike, q: ArrayLike, A: ArrayLike, b: ArrayLike) -> QPSolution:
    """Minimise 1/2 x'Px + q'x subject to A x <= b, once; see `PreparedQP`.

    Examples
    --------
    >>> solve_qp(2 * np.eye(1), [-4.0], [[1.0]], [1.5])
    QPSolution(1 variables, 1 of 1 rows active, 1 changes)
    """
    return PreparedQP(P, A).solve(q, b)


def checked_hessian(P: ArrayLike) -> Array:
    """A finite symmetric matrix (n, n)."""
    matrix = np.asarray(P, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise ParameterError(
            f"P has shape {matrix.shape}; needed is a square matrix of finite numbers."
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max(initial=0.0)):
        raise ParameterError("P is not symmetric. Give (P + P.T) / 2.")
    return matrix


def factor(P: Array) -> Array:
    """The lower Cholesky factor of P."""
    try:
        return np.asarray(cholesky(P, lower=True))
    except np.linalg.LinAlgError as error:
        raise ParameterError(
            "P is not positive definite, so that the minimum is not unique. Add a small multiple "
            "of the identity: P + 1e-9 * np.eye(len(P))."
        ) from error


def checked_vector(values: ArrayLike, size: int, name: str) -> Array:
    """A finite vector of that size."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise ParameterError(
            f"{name} has shape {vector.shape}; needed are {size} finite numbers in one axis."
        )
    return vector
