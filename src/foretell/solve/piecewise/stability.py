"""Words for the stability of an equilibrium, from the eigenvalues of its Jacobian.

The leading eigenvalue of a side (stable or unstable) is the one nearest to the imaginary axis:
it governs the last approach and the first departure. An equilibrium is called a focus when its
leading eigenvalue is complex, and a node otherwise, so the word describes what is seen in a plot
whatever the other M - 2 directions do (Shilnikov's convention).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.solve.piecewise.field import Array

Complex = NDArray[np.complex128]

NEUTRAL = 1e-9  # real parts below this fraction of the largest modulus count as zero


def sorted_eigenvalues(matrix_MM: Array) -> Complex:
    """Eigenvalues in descending order of real part, each pair with its positive partner first."""
    values: Complex = np.linalg.eigvals(matrix_MM).astype(np.complex128)
    order = np.lexsort((-values.imag, -np.round(values.real, 12)))
    return values[order]


def unstable_dimension(eigenvalues: Complex) -> int:
    """How many eigenvalues have a positive real part, neutral ones not counted."""
    return int(np.sum(eigenvalues.real > _neutral_band(eigenvalues)))


def classify(eigenvalues: Complex) -> str:
    """The kind of an equilibrium in words.

    Parameters
    ----------
    eigenvalues : complex array of shape (M,)
        Eigenvalues of the Jacobian.

    Returns
    -------
    str
        "stable node", "stable focus", "unstable node", "unstable focus", "saddle",
        "saddle-focus" or "centre-like"; the last one says how many directions are unstable
        where any is.

    Examples
    --------
    >>> import numpy as np
    >>> classify(np.array([-0.1 + 2j, -0.1 - 2j, -5.0]))
    'stable focus'
    >>> classify(np.array([1j, -1j]))
    'centre-like'
    """
    band = _neutral_band(eigenvalues)
    stable = eigenvalues[eigenvalues.real < -band]
    unstable = eigenvalues[eigenvalues.real > band]
    if stable.size + unstable.size < eigenvalues.size:
        return f"centre-like, {unstable.size} unstable" if unstable.size else "centre-like"
    spirals = [_leads_complex(side) for side in (stable, unstable) if side.size]
    if stable.size and unstable.size:
        return "saddle-focus" if any(spirals) else "saddle"
    return f"{'stable' if stable.size else 'unstable'} {'focus' if any(spirals) else 'node'}"


def share_quadratic_lyapunov_function(matrices_SMM: Array) -> bool:
    """Whether one quadratic form proves stability of all the given linear systems.

    The form solves the Lyapunov equation of their mean. True is a proof of stability of a
    boundary equilibrium that has these Jacobians around it; False decides nothing.
    """
    from scipy.linalg import solve_continuous_lyapunov

    mean_MM = matrices_SMM.mean(axis=0)
    if np.linalg.eigvals(mean_MM).real.max() >= 0:
        return False
    form_MM = solve_continuous_lyapunov(mean_MM.T, -np.eye(len(mean_MM)))
    form_MM = 0.5 * (form_MM + form_MM.T)
    decay_SMM = np.swapaxes(matrices_SMM, 1, 2) @ form_MM + form_MM @ matrices_SMM
    bound = 1e-10 * float(np.abs(decay_SMM).max())
    positive = np.linalg.eigvalsh(form_MM).min() > 0
    return bool(positive and np.linalg.eigvalsh(decay_SMM).max() < -bound)


def _neutral_band(eigenvalues: Complex) -> float:
    return NEUTRAL * float(np.abs(eigenvalues).max(initial=0.0))


def _leads_complex(side: Complex) -> bool:
    nearest = side[np.argmin(np.abs(side.real))]
    return bool(abs(nearest.imag) > NEUTRAL * abs(nearest))
