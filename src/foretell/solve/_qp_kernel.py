"""The search of `qp` on the Gram matrix of its rows, compiled: no allocation inside the loops.

Legend: m rows, k active ones named by ``rows[:k]``, with multipliers ``lam[:k]``; violations
are over - K[:, rows] lam.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SETTLED, CONTRADICTION, UNSETTLED, DEPENDENT = 0, 1, 2, 3
_SPAN = 1e-11  # share of a row that must not lie in the span of the active ones


@njit(cache=True)
def _factor(K: Array, rows: Ints, k: int, L: Array) -> bool:
    """Cholesky factor of K[rows[:k], rows[:k]] in the lower triangle of L."""
    for i in range(k):
        for j in range(i + 1):
            total = K[rows[i], rows[j]]
            for s in range(j):
                total -= L[i, s] * L[j, s]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total <= 1e-14 * K[rows[i], rows[i]]:
                return False
            else:
                L[i, i] = np.sqrt(total)
    return True


@njit(cache=True)
def _solve(L: Array, k: int, x: Array) -> None:
    """Put (L L')^-1 x in the place of x."""
    for i in range(k):
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] /= L[i, i]
    for i in range(k - 1, -1, -1):
        for j in range(i + 1, k):
            x[i] -= L[j, i] * x[j]
        x[i] /= L[i, i]


@njit(cache=True)
def _add(total: Array, factor: float, row: Array) -> None:
    for j in range(total.size):
        total[j] += factor * row[j]


@njit(cache=True)
def _without(rows: Ints, lam: Array, k: int, out: int) -> int:
    """Take row number ``out`` out of the first k; how many are left."""
    for i in range(out, k - 1):
        rows[i], lam[i] = rows[i + 1], lam[i + 1]
    return k - 1


@njit(cache=True)
def _warm(K: Array, over: Array, rows: Ints, lam: Array, k: int, L: Array) -> tuple[int, int]:
    """Drop rows until all multipliers are zero or more; the number kept, and of changes."""
    changes = 0
    while k > 0:
        if not _factor(K, rows, k, L):
            return 0, changes
        for i in range(k):
            lam[i] = over[rows[i]]
        _solve(L, k, lam)
        out: Any = np.int64(0)  # as a constant it would compile _without anew
        for i in range(k):
            if lam[i] < lam[out]:
                out = i
        if lam[out] >= 0.0:
            return k, changes
        k = _without(rows, lam, k, out)
        changes += 1
    return 0, changes


@njit(cache=True)
def search(
    K: Array, norm: Array, over: Array, rows: Ints, k: int, small: float, limit: int
) -> tuple[int, int, Array, int]:
    """The active rows of the solution; ``rows`` (m,) holds a start in its first k places.

    Returns how it ended, k, the multipliers of ``rows[:k]`` and the number of changes.
    """
    m = over.size
    L, lam, r = np.empty((m, m)), np.empty(m), np.empty(m)
    excess, active = over.copy(), np.zeros(m, np.bool_)
    k, changes = _warm(K, over, rows, lam, k, L)
    for i in range(k):
        active[rows[i]] = True
        _add(excess, -lam[i], K[rows[i]])
    while True:
        p = -1
        most = small
        for i in range(m):
            if not active[i] and excess[i] > most * norm[i]:
                most, p = excess[i] / norm[i], i
        if p < 0:
            break
        new = 0.0
        while True:
            changes += 1
            if changes > limit:
                return UNSETTLED, k, lam, changes
            if not _factor(K, rows, k, L):
                return DEPENDENT, k, lam, changes
            for i in range(k):
                r[i] = K[p, rows[i]]
            _solve(L, k, r)
            curvature = K[p, p]
            for i in range(k):
                curvature -= K[p, rows[i]] * r[i]
            step = np.inf
            out: Any = np.int64(-1)
            if curvature > _SPAN * K[p, p]:
                step = excess[p] / curvature
            for i in range(k):
                if r[i] > 0.0 and lam[i] < step * r[i]:
                    step, out = lam[i] / r[i], i
            if step == np.inf:
                return CONTRADICTION, k, lam, changes
            new += step
            _add(excess, -step, K[p])
            for i in range(k):
                lam[i] -= step * r[i]
                _add(excess, step * r[i], K[rows[i]])
            if out < 0:
                rows[k], lam[k] = p, new
                active[p] = True
                k += 1
                break
            active[rows[out]] = False
            k = _without(rows, lam, k, out)
    if k > 0 and _factor(K, rows, k, L):  # solved afresh, and once more for the rounding
        for i in range(k):
            lam[i] = over[rows[i]]
        _solve(L, k, lam)
        for i in range(k):
            r[i] = over[rows[i]]
            for j in range(k):
                r[i] -= K[rows[i], rows[j]] * lam[j]
        _solve(L, k, r)
        for i in range(k):
            lam[i] = max(lam[i] + r[i], 0.0)
    return SETTLED, k, lam, changes
