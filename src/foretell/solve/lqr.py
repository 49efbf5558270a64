"""The linear quadratic regulator of a linear model, u = -gain z; no bounds.

Source: Anderson and Moore, "Optimal Control: Linear Quadratic Methods" (1990).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_discrete_are

from foretell.core.errors import NumericalError

Array = NDArray[np.float64]

_UNSTEERED = 1e-8  # smallest singular value of [A - lam I, B] of a mode that can be steered


def regulator(A: ArrayLike, B: ArrayLike, Q: ArrayLike, R: ArrayLike) -> Array:
    """The gain of u = -gain z that minimises the sum of z'Qz + u'Ru for z+ = A z + B u.

    Raises
    ------
    NumericalError
        The pair cannot be stabilised; the message names the mode.

    Examples
    --------
    >>> regulator([[1.0]], [[1.0]], [[1.0]], [[1.0]]).round(3)
    array([[0.618]])
    """
    a, b = np.asarray(A, float), np.asarray(B, float)
    for mode in np.linalg.eigvals(a):
        if abs(mode) < 1 - 1e-9:
            continue
        both = np.hstack([a - mode * np.eye(len(a)), b])
        if np.linalg.svd(both, compute_uv=False)[-1] < _UNSTEERED * max(1.0, np.abs(a).max()):
            raise NumericalError(
                f"the mode with eigenvalue {mode:.6g} neither decays nor can it be steered, so "
                "that no regulator exists. Use a controller with a finite horizon (LinearMPC, "
                "KoopmanMPC), or discount=0.99."
            )
    try:
        P = solve_discrete_are(a, b, np.asarray(Q, float), np.asarray(R, float))
    except (np.linalg.LinAlgError, ValueError) as error:
        raise NumericalError(
            f"the Riccati equation has no usable solution ({error}). Use a controller with "
            "a finite horizon (LinearMPC, KoopmanMPC), or discount=0.99."
        ) from error
    return np.asarray(np.linalg.solve(np.asarray(R) + b.T @ P @ b, b.T @ P @ a))
