"""Floquet multipliers of a product of region exponentials, without forming the product.

The monodromy matrix of a cycle is a product of many propagators E_n ... E_1 whose eigenvalues may
span hundreds of orders of magnitude; plain multiplication loses all but the largest. Orthogonal
iteration around the cycle, E_k Q_{k-1} = Q_k R_k, brings the product into block triangular form
while only its factors are ever held; the logarithms of the diagonal blocks are summed. Blocks of
equal modulus (complex pairs among them) stay together and are multiplied with their scale split
off.

Legend: M units, n propagators; logarithms are complex, log |mu| + i arg mu.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from foretell.solve.piecewise.field import Array, PiecewiseLinearField
from foretell.solve.piecewise.sensitivity import Segment

Complex = NDArray[np.complex128]

SPREAD = 12.0  # largest log condition number of one propagator
MOST_PARTS = 2000  # of one stay
SWEEPS = 100
DECOUPLED = 1e-12


def propagators(field: PiecewiseLinearField, stays: Sequence[Segment]) -> list[Array]:
    """expm(W_s T_s) of the stays, each cut into equal parts of bounded condition number."""
    factors: list[Array] = []
    for stay in stays:
        matrix = field.matrix(stay.code)
        growth = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
        spread = float(growth[-1] - growth[0]) * stay.duration
        parts = int(np.clip(np.ceil(spread / SPREAD), 1, MOST_PARTS))
        factors.extend([expm(matrix * (stay.duration / parts))] * parts)
    return factors


def log_multipliers(factors: Sequence[Array]) -> Complex:
    """Logarithms of the eigenvalues of factors[-1] @ ... @ factors[0].

    Parameters
    ----------
    factors : sequence of arrays of shape (M, M)
        In order of application; each regular.

    Returns
    -------
    complex array of shape (M,)
        By descending real part; imaginary parts in (-pi, pi].

    Examples
    --------
    >>> import numpy as np
    >>> factors = [np.diag([2.0, 1e-200])] * 3
    >>> log_multipliers(factors).real / np.log(10)
    array([   0.90308999, -600.        ])
    """
    M = factors[0].shape[0]
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(M, M)))[0]
    coupling = np.full(M - 1, np.inf)
    for sweep in range(SWEEPS):
        start, triangles = Q, []
        for factor in factors:
            Q, R = np.linalg.qr(factor @ Q)
            triangles.append(R)
        turn = start.T @ Q
        before, coupling = coupling, np.array([np.abs(turn[i:, :i]).max() for i in range(1, M)])
        open_ = coupling > DECOUPLED
        if not open_.any() or (sweep >= 10 and (coupling[open_] > 0.5 * before[open_]).all()):
            break
    edges = [0, *(np.flatnonzero(~open_) + 1), M] if M > 1 else [0, 1]
    logs = [
        _log_eigenvalues([R[a:b, a:b] for R in triangles], turn[a:b, a:b])
        for a, b in pairwise(edges)
    ]
    joined = np.concatenate(logs)
    order = np.lexsort((-joined.imag, -np.round(joined.real, 9)))
    ordered: Complex = joined[order]
    return ordered


def _log_eigenvalues(blocks: Sequence[Array], turn: Array) -> Complex:
    """Logarithms of the eigenvalues of turn @ blocks[-1] @ ... @ blocks[0]."""
    product, log_scale = np.eye(turn.shape[0]), 0.0
    for block in blocks:
        product = block @ product
        size = float(np.abs(product).max())
        log_scale += float(np.log(size))
        product = product / size
    values = np.linalg.eigvals(turn @ product).astype(np.complex128)
    return np.asarray(np.log(values) + log_scale, dtype=np.complex128)
