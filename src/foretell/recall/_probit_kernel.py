"""The maximum of the likelihood of `likelihood`, in compiled code.

y   signed projections (C, m)    kappa   rho / sqrt(1 - rho^2)
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LARGEST = 40.0  # kappa of a cosine of 0.9997
_ITERATIONS, _TOLERANCE = 50, 1e-10
_ROOT, _HALF_ROOT = 1 / math.sqrt(2 * math.pi), 1 / math.sqrt(2)


@njit(cache=True, nogil=True)
def newton(y: Array, kappa: Array) -> None:
    """The concave log-likelihood's maximum for every row, with steps of at most one."""
    for c in range(y.shape[0]):
        lowest, highest = y[c].min(), y[c].max()
        if lowest >= 0 or highest <= 0:  # without bound
            kappa[c] = _LARGEST if lowest >= 0 else -_LARGEST
            continue
        k = 0.0
        for _ in range(_ITERATIONS):
            gradient = curvature = 0.0
            for value in y[c]:
                z = k * value
                ratio = _mills(z)
                gradient += ratio * value
                curvature += ratio * (z + ratio) * value * value
            step = min(max(gradient / max(curvature, 1e-300), -1.0), 1.0)
            k = min(max(k + step, -_LARGEST), _LARGEST)
            if abs(step) < _TOLERANCE:
                break
        kappa[c] = k


@njit(cache=True, nogil=True)
def _mills(z: float) -> float:
    """phi(z) / Phi(z), also far to the left, where both vanish."""
    if z > -20.0:
        return _ROOT * math.exp(-0.5 * z * z) / (0.5 * math.erfc(-z * _HALF_ROOT))
    inverse = 1.0 / (z * z)
    return -z / (1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse)))
