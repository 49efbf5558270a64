"""The directions of a sign sketch: one row for each bit.

    orthogonal   rows of a random rotation; above d rows, an equal-norm tight frame (the rows of
                 a random matrix with orthonormal columns, scaled to unit length)
    gaussian     independent standard normal entries, as in SimHash
    hadamard     rows of H D3 H D2 H D1 (H a Walsh-Hadamard matrix, D random signs), cut to d
                 columns: nearly orthogonal, and applied in O(d log d)

Sources: M. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002
(gaussian); F. Mezzadri, Notices AMS 54 (2007), for rotations by QR with the signs put right;
Ailon and Chazelle, STOC 2006, for random signs and Hadamard matrices. The frame is ours: its
variance is that of whole stacked rotations also when the number of bits is no multiple of d.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

KINDS = ("orthogonal", "gaussian", "hadamard")
_ROUNDS = 3


def orthogonal(n_bits: int, d: int, generator: np.random.Generator) -> Array:
    """Unit rows (n_bits, d): orthonormal up to d of them, a tight frame above."""
    tall, wide = max(n_bits, d), min(n_bits, d)
    q, r = np.linalg.qr(generator.standard_normal((tall, wide)))
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    rows = np.ascontiguousarray(q if n_bits >= d else q.T)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def gaussian(n_bits: int, d: int, generator: np.random.Generator) -> Array:
    """Independent standard normal entries (n_bits, d)."""
    return generator.standard_normal((n_bits, d))


def hadamard_signs(n_bits: int, d: int, generator: np.random.Generator) -> Array:
    """Random signs (stacks, 3, D), D the power of two from d on; each stack gives D bits."""
    size = 1 << max(d - 1, 0).bit_length()
    stacks = -(-n_bits // size)
    return np.where(generator.random((stacks, _ROUNDS, size)) < 0.5, -1.0, 1.0)


def hadamard_project(X: Array, signs: Array, n_bits: int) -> Array:
    """Projections (n, n_bits) of the rows of X (n, d) by fast transforms."""
    stacks, _, size = signs.shape
    out = np.empty((X.shape[0], stacks * size))
    for stack in range(stacks):
        part = np.zeros((X.shape[0], size))
        part[:, : X.shape[1]] = X
        for flips in signs[stack]:
            part *= flips
            _fast_hadamard(part)
        out[:, stack * size : (stack + 1) * size] = part
    return out[:, :n_bits]


@njit(cache=True, nogil=True)
def _fast_hadamard(rows: Array) -> None:
    """Orthonormal Walsh-Hadamard transform of each row in place; the length is a power of two."""
    n, size = rows.shape
    norm = 1.0 / np.sqrt(size)
    for i in range(n):
        row = rows[i]
        half = 1
        while half < size:
            for begin in range(0, size, 2 * half):
                for k in range(begin, begin + half):
                    a, b = row[k], row[k + half]
                    row[k] = a + b
                    row[k + half] = a - b
            half *= 2
        for k in range(size):
            row[k] *= norm
