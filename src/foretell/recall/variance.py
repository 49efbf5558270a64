"""Closed-form variances of cosine estimates from sign bits.

    m Var(rho_hat)    in the limit of many bits, rho the true cosine, f = min(m / d, 1)

For rows that are independent and Gaussian (f = 0) they are variances of averages of independent
terms. Orthogonal rows make sum z_j^2, sum z_j t_j and sum t_j^2 known numbers when m = d (they are
|x|^2, <x, q> and |q|^2), so that only the part of each term that is not explained by them is left:
Var = Var(term) - f c' S^-1 c, with S the covariance of (z^2, z t, t^2) and c that of the term with
them. Carried out:

    hamming      (1 - r^2) [pi^2/4 - arcsin(r)^2 - f (1 - r^2)]
    linear       pi/2 - r^2 - f (1 - r^2/2)
    normalized   pi/2 - 5/2 r^2 + r^4 - f (1 - r^2)^2
    mle          (1 - r^2)^3 / I(kappa) - f (1 - r^2)^2 (1 - r^2/2)
    stored-norm  (1 - r^2) (pi/2 - 1), m = d only

Sources: f = 0 after Charikar 2002, Dong, Charikar and Li 2008, Li and Li 2019; stored-norm after
Gao and Long 2024; f > 0 is ours, and tests/theory checks each by simulation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError

Array = NDArray[np.float64]

METHODS = ("hamming", "linear", "normalized", "mle", "stored-norm")
_NODES, _WEIGHTS = 200, 12.0


def scaled_variance(method: str, rho: ArrayLike, *, bits_per_dimension: float = 0.0) -> Array:
    """Variance of an estimated cosine times the number of bits.

    Parameters
    ----------
    method : {"hamming", "linear", "normalized", "mle", "stored-norm"}
        "stored-norm" divides by <b, Px>, kept for each vector (RaBitQ); it needs m = d.
    rho : array
        True cosines in (-1, 1).
    bits_per_dimension : float
        m / d of orthogonal rows; above 1 counts as 1. Zero means independent Gaussian rows.

    Raises
    ------
    ParameterError
        For an unknown method or cosines outside of (-1, 1).

    Examples
    --------
    >>> round(float(scaled_variance("linear", 0.0)) ** 0.5, 3)
    1.253
    >>> round(float(scaled_variance("linear", 0.0, bits_per_dimension=1.0)) ** 0.5, 3)
    0.756
    """
    r = np.asarray(rho, dtype=np.float64)
    if not (np.abs(r) < 1).all():
        raise ParameterError("Cosines must lie in (-1, 1). Clip: numpy.clip(rho, -0.99, 0.99)")
    f = float(min(max(bits_per_dimension, 0.0), 1.0))
    rest = 1 - r**2
    if method == "hamming":
        return np.asarray(rest * (np.pi**2 / 4 - np.arcsin(r) ** 2 - f * rest))
    if method == "linear":
        return np.asarray(np.pi / 2 - r**2 - f * (1 - r**2 / 2))
    if method == "normalized":
        return np.asarray(np.pi / 2 - 2.5 * r**2 + r**4 - f * rest**2)
    if method == "mle":
        information = probit_information(r / np.sqrt(rest))
        return np.asarray(rest**3 / information - f * rest**2 * (1 - r**2 / 2))
    if method == "stored-norm" and f == 1.0:
        return np.asarray(rest * (np.pi / 2 - 1))
    raise ParameterError(
        f"There is no closed form for method={method!r} at bits_per_dimension="
        f"{bits_per_dimension}. Methods: {', '.join(METHODS)} (the last one at 1)."
    )


def probit_information(kappa: ArrayLike) -> Array:
    """I(kappa) = E[t^2 phi(kappa t)^2 / (Phi(kappa t) Phi(-kappa t))], t standard normal.

    Examples
    --------
    >>> round(float(probit_information(0.0)) * 3.14159265 / 2, 6)
    1.0
    """
    from scipy.special import log_ndtr

    k = np.asarray(kappa, dtype=np.float64)[..., None]
    # In u = t sqrt(1 + kappa^2 / 2) the integrand keeps its width for every kappa.
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    u = _WEIGHTS * (node + 1) / 2
    t = u / np.sqrt(1 + k**2 / 2)
    z = k * t
    log_value = (
        -(z**2) - np.log(2 * np.pi) - log_ndtr(z) - log_ndtr(-z) - t**2 / 2
        - np.log(2 * np.pi) / 2
    )  # fmt: skip
    jacobian = _WEIGHTS / 2 / np.sqrt(1 + k[..., 0] ** 2 / 2)
    return np.asarray(2 * jacobian * (weight * t**2 * np.exp(log_value)).sum(axis=-1))
