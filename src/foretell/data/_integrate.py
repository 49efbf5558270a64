"""Compiled integrators behind `foretell.data.systems`.

Arrays are copied by a loop: an assignment to a slice takes the compiler seconds.

Legend: T samples, D state dimension, S stages, M units, P rectified units.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

LORENZ63, LORENZ96, ROSSLER = 0, 1, 2


@njit(cache=True)
def _copy(target: Array, source: Array) -> None:
    for d in range(source.size):
        target[d] = source[d]


@njit(cache=True)
def derivative(system: int, p: Array, x: Array, out: Array) -> None:
    """Write dx/dt of one system into `out`."""
    if system == 0:
        out[0] = p[0] * (x[1] - x[0])
        out[1] = x[0] * (p[1] - x[2]) - x[1]
        out[2] = x[0] * x[1] - p[2] * x[2]
    elif system == 1:
        n = x.size
        for i in range(n):
            out[i] = (x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + p[0]
    else:
        out[0] = -x[1] - x[2]
        out[1] = x[0] + p[0] * x[1]
        out[2] = p[1] + x[2] * (x[0] - p[2])


@njit(cache=True)
def smooth(
    system: int,
    p: Array,
    stages_SS: Array,
    weights_S: Array,
    start_D: Array,
    step: float,
    n_samples: int,
    substeps: int,
) -> Array:
    """States (T, D) by an explicit Runge-Kutta rule with `substeps` equal steps per sample."""
    S, D = weights_S.size, start_D.size
    h = step / substeps
    states = np.empty((n_samples, D))
    slopes = np.empty((S, D))
    x, y = start_D.copy(), np.empty(D)
    _copy(states[0], x)
    for k in range(1, n_samples):
        for _ in range(substeps):
            for s in range(S):
                _copy(y, x)
                for r in range(s):
                    if stages_SS[s, r] != 0.0:
                        for d in range(D):
                            y[d] += h * stages_SS[s, r] * slopes[r, d]
                derivative(system, p, y, slopes[s])
            for s in range(S):
                for d in range(D):
                    x[d] += h * weights_S[s] * slopes[s, d]
        _copy(states[k], x)
    return states


@njit(cache=True)
def _affine_flow(matrix: Array, drive: Array, z: Array, duration: float) -> Array:
    """State after `duration` under dz/dt = matrix z + drive, by Taylor series."""
    result = z.copy()
    term = duration * (matrix @ z + drive)
    for k in range(2, 200):
        result += term
        if np.abs(term).max() <= 1e-18 * (1.0 + np.abs(result).max()):
            break
        term = (duration / k) * (matrix @ term)
    return result


@njit(cache=True)
def _region(A: Array, W: Array, code_P: Array) -> Array:
    M, P = A.size, code_P.size
    matrix = W.copy()
    for i in range(P):
        matrix[:, M - P + i] *= code_P[i]
    for i in range(M):
        matrix[i, i] += A[i]
    return matrix


@njit(cache=True)
def _code_holds(z: Array, code_P: Array) -> bool:
    """Whether no rectified unit lies on the other side than the code says."""
    first = z.size - code_P.size
    for i in range(code_P.size):
        if (code_P[i] > 0.0 and z[first + i] < 0.0) or (code_P[i] == 0.0 and z[first + i] > 0.0):
            return False
    return True


@njit(cache=True)
def piecewise_linear(
    A: Array,
    W: Array,
    h: Array,
    n_relu: int,
    start_M: Array,
    step: float,
    n_samples: int,
    substeps: int,
) -> Array:
    """States (T, M) of dz/dt = A z + W phi(z) + h; region by region, boundaries by bisection.

    A piece that ends in another region is halved until the crossing time is known to rounding
    error. The field is continuous, so an error e of that time moves later states by O(e^2) only.
    """
    M = A.size
    z = start_M.copy()
    code = np.zeros(n_relu)
    for i in range(n_relu):
        code[i] = 1.0 if z[M - n_relu + i] > 0.0 else 0.0
    matrix = _region(A, W, code)
    states = np.empty((n_samples, M))
    _copy(states[0], z)
    piece = step / substeps
    for k in range(1, n_samples):
        for _ in range(substeps):
            left = piece
            while left > 0.0:
                new = _affine_flow(matrix, h, z, left)
                if _code_holds(new, code):
                    z, left = new, 0.0
                    continue
                low, high = 0.0, left
                while high - low > 1e-15 * piece + 4e-16 * high:
                    middle = 0.5 * (low + high)
                    if _code_holds(_affine_flow(matrix, h, z, middle), code):
                        low = middle
                    else:
                        high = middle
                z = _affine_flow(matrix, h, z, high)
                left -= high
                for i in range(n_relu):
                    code[i] = 1.0 if z[M - n_relu + i] > 0.0 else 0.0
                matrix = _region(A, W, code)
        _copy(states[k], z)
    return states
