"""Kernels on tensors of order p: add rank-one items, carve the core, score fillers.

Legend: n items or paths, V fillers, p order, d and s sizes of a mode. Factors have the shape
(p, n, d): mode first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.float32]

_BLOCK = 4_000_000  # numbers of a temporary table
_CACHED = 100_000  # numbers of a table that stays in the cache of a core


def orthonormal_frames(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal columns from normal numbers (..., d, s), uniformly distributed.

    The diagonal of R is made positive, so that the result does not depend on the QR's signs.
    """
    q, r = np.linalg.qr(normals)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return q * np.where(diagonal < 0, -1.0, 1.0)[..., None, :]


def products(factors: NDArray[Any]) -> NDArray[Any]:
    """The tensor product of each item's factors (p, n, d), flattened: shape (n, d^p)."""
    rows: NDArray[Any] = factors[0]
    for factor in factors[1:]:
        rows = (rows[:, :, None] * factor[:, None, :]).reshape(len(rows), -1)
    return rows


def add_products(cells: NDArray[Any], factors: Rows, weights: Array) -> None:
    """Add the weighted sum of the items' tensor products to the cells, in place."""
    first = (factors[0] * weights[:, None]).astype(cells.dtype, copy=False)
    rest = products(factors[1:]).astype(cells.dtype, copy=False)
    cells += (first.T @ rest).reshape(cells.shape)


def contract(tensor: NDArray[Any], vectors: Iterable[NDArray[Any]]) -> Array:
    """The tensor contracted with a vector in each of its first modes."""
    left = tensor
    for vector in vectors:
        left = (vector @ left.reshape(len(vector), -1)).reshape(left.shape[1:])
    return np.asarray(left, dtype=np.float64)


def leave_one_out(tensor: NDArray[Any], factors: NDArray[Any]) -> tuple[float, Array]:
    """The contraction with factors (p, d), and |what all factors but one leave|^2, shape (p,)."""
    squares = np.empty(len(factors))
    score = 0.0
    for j, factor in enumerate(factors):
        others = [factors[i] for i in range(len(factors)) if i != j]
        left = contract(np.moveaxis(tensor, j, -1), others)
        squares[j] = float(left @ left)
        score = float(left @ factor)
    return score, squares


def score_core(core: NDArray[Any], fillers: NDArray[Any]) -> Array:
    """<core, product of a filler's coordinates> for all fillers (p, V, s)."""
    p, V, s = fillers.shape
    flat, scores = core.reshape(s, -1), np.empty(V)
    step = max(16, _CACHED // s ** (p - 1))
    for start in range(0, V, step):
        part = slice(start, start + step)
        rest = products(fillers[1:, part])
        scores[part] = np.einsum("vr,vr->v", fillers[0, part] @ flat, rest)
    return scores


def score_shared(cores: Sequence[NDArray[Any]], fillers: NDArray[Any]) -> Array:
    """Scores (n, V) of fillers whose coordinates (p, V, s) are the same for every core."""
    n, (p, V, s) = len(cores), fillers.shape
    scores = np.empty((n, V))
    if n < 4:
        for row, core in enumerate(cores):
            scores[row] = score_core(core, fillers)
        return scores
    flat = np.stack([core.ravel() for core in cores])
    step = max(1, _BLOCK // s**p)
    for start in range(0, V, step):
        part = slice(start, start + step)
        scores[:, part] = flat @ products(fillers[:, part]).T
    return scores
