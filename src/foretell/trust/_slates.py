"""Filling slates greedily: the best remaining item of each kind, slot by slot, for a whole batch.

Legend: B users, n candidates, K kinds, k slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.trust.diversify import SlateCosts

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """Each user's candidates, best first, cut to the pool.

    ``columns`` says where in the caller's arrays a candidate stands; ``z`` is its standardised
    score, -inf where the caller forbade it.
    """

    columns: Index  # (B, n)
    z: Array  # (B, n), not increasing along a row
    kinds: Index  # (B, n)

    @classmethod
    def of(cls, scores: Array, kinds: Index, allowed: Flags | None, pool: int) -> Candidates:
        value = scores if allowed is None else np.where(allowed, scores, -np.inf)
        n = value.shape[1]
        if pool < n:
            top = np.argpartition(-value, pool - 1, axis=1)[:, :pool]
            top.sort(axis=1)  # so that equal scores keep the caller's order
            value = np.take_along_axis(value, top, axis=1)
        order = np.argsort(-value, axis=1, kind="stable")
        value = np.take_along_axis(value, order, axis=1)
        columns = order if pool >= n else np.take_along_axis(top, order, axis=1)
        kind = kinds[columns] if kinds.ndim == 1 else np.take_along_axis(kinds, columns, axis=1)
        return cls(columns, _standardised(value), kind)


def _standardised(value: Array) -> Array:
    """Scores minus their mean, over their standard deviation, per row; -inf stays."""
    finite = np.isfinite(value)
    count = np.maximum(finite.sum(1, keepdims=True), 1)
    kept = np.where(finite, value, 0.0)
    mean = kept.sum(1, keepdims=True) / count
    centred = np.where(finite, value - mean, 0.0)
    spread = np.sqrt((centred**2).sum(1, keepdims=True) / count)
    scale = np.abs(mean) + np.abs(kept).max(axis=1, keepdims=True)
    level = spread <= 1e-12 * scale
    return np.where(finite, centred / np.where(level, 1.0, spread), -np.inf)


@dataclass(frozen=True)
class Prices:
    """What each kind costs beside its variety: shapes (B, K)."""

    penalty: Array
    barred: Flags | None = None  # only taken when nothing else is left, the least lookahead first
    lookahead: Array | None = None


def filled(
    candidates: Candidates, k: int, score_weight: float, variety: SlateCosts, prices: Prices
) -> tuple[Index, Index]:
    """Places in the candidates and kinds of the k chosen, both (B, k)."""
    B, _ = candidates.z.shape
    K = prices.penalty.shape[1]
    small = np.int16 if K <= np.iinfo(np.int16).max else np.int64  # 16 bits are sorted by radix
    by_kind = np.argsort(candidates.kinds.astype(small), axis=1, kind="stable")
    z = np.take_along_axis(candidates.z, by_kind, axis=1)
    row = np.arange(B)
    total = _counts(candidates.kinds, K)
    size = _counts(candidates.kinds, K, np.isfinite(candidates.z))
    start = np.cumsum(total, axis=1) - total
    used = np.zeros((B, K), dtype=np.int64)
    chosen, kinds = np.empty((B, k), dtype=np.int64), np.empty((B, k), dtype=np.int64)
    last = z.shape[1] - 1
    for slot in range(k):
        left = used < size
        best = np.take_along_axis(z, np.minimum(start + used, last), axis=1)
        value = score_weight * (np.where(left, best, 0.0) - prices.penalty) - variety.costs()
        value = np.where(left, value, -np.inf)
        if prices.barred is not None and prices.lookahead is not None:
            value = _fenced(value, left, prices.barred, prices.lookahead)
        kind = value.argmax(1)
        chosen[:, slot] = by_kind[row, start[row, kind] + used[row, kind]]
        kinds[:, slot] = kind
        used[row, kind] += 1
        variety.take(kind)
    return chosen, kinds


def _fenced(value: Array, left: Flags, barred: Flags, lookahead: Array) -> Array:
    """Barred kinds out while another is left; the barred one of least lookahead otherwise."""
    inside = left & ~barred
    some = inside.any(1, keepdims=True)
    return np.where(some, np.where(inside, value, -np.inf), np.where(left, -lookahead, -np.inf))


def _counts(kinds: Index, K: int, counted: Flags | None = None) -> Index:
    """Candidates of each kind, shape (B, K), of all or of the marked ones."""
    B = kinds.shape[0]
    flat = kinds + K * np.arange(B)[:, None]
    kept = flat.ravel() if counted is None else flat[counted]
    return np.bincount(kept, minlength=B * K).reshape(B, K)
