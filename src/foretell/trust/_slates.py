"""Filling slates greedily, slot by slot, for a whole batch: one compiled pass over the candidates.

Legend: B users, n candidates, K kinds, k slots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.trust.diversify import SlateCosts

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """Each user's candidates, cut to the pool, in the caller's order.

    ``columns`` says where in the caller's arrays a candidate stands; ``z`` is its standardised
    score, -inf where the caller forbade it.
    """

    columns: Index  # (B, n)
    z: Array  # (B, n)
    kinds: Index  # (B, n)

    @classmethod
    def of(cls, scores: Array, kinds: Index, allowed: Flags | None, pool: int) -> Candidates:
        value = scores if allowed is None else np.where(allowed, scores, -np.inf)
        B, n = value.shape
        if pool >= n:
            every = np.broadcast_to(np.arange(n), (B, n))
            return cls(every, standardised(value), np.broadcast_to(kinds, (B, n)))
        top = np.argpartition(-value, pool - 1, axis=1)[:, :pool]
        top.sort(axis=1)  # so that equal scores keep the caller's order
        kind = kinds[top] if kinds.ndim == 1 else np.take_along_axis(kinds, top, axis=1)
        return cls(top, standardised(np.take_along_axis(value, top, axis=1)), kind)

    def best(self, k: int) -> Index:
        """Places of the k highest scores, best first, shape (B, k): what the ranker would show."""
        return np.argsort(-self.z, axis=1, kind="stable")[:, :k]


def standardised(value: Array) -> Array:
    """Scores minus their mean, over their standard deviation, per row; -inf stays."""
    finite = np.isfinite(value)
    count = np.maximum(finite.sum(1, keepdims=True), 1)
    kept = np.where(finite, value, 0.0)
    mean = kept.sum(1, keepdims=True) / count
    centred = np.where(finite, value - mean, 0.0)
    spread = np.sqrt((centred**2).sum(1, keepdims=True) / count)
    level = spread <= 1e-12 * np.abs(kept).max(axis=1, keepdims=True)
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
    B = candidates.z.shape[0]
    kind_of = np.array(candidates.kinds, order="C")  # of one layout, whatever the caller has
    left = candidates.z.copy()
    chosen, kinds = np.empty((B, k), dtype=np.int64), np.empty((B, k), dtype=np.int64)
    fenced = prices.barred is not None and prices.lookahead is not None
    barred = prices.barred if fenced else np.zeros((1, 1), dtype=np.bool_)
    lookahead = prices.lookahead if fenced else np.zeros((1, 1))
    for slot in range(k):
        cost = variety.costs() + score_weight * prices.penalty
        place = _best_left(left, kind_of, score_weight, cost, fenced, barred, lookahead)
        chosen[:, slot] = place
        kinds[:, slot] = kind_of[np.arange(B), place]
        variety.take(kinds[:, slot])
    return chosen, kinds


@njit(cache=True)
def _best_left(left, kinds, weight, cost, fenced, barred, lookahead):  # type: ignore[no-untyped-def]
    """The candidate of each row to take next; takes it out by setting its score to -inf.

    With a fence, candidates of kinds that are not barred come first; among barred ones the least
    lookahead wins, and the score decides between equals.
    """
    B, n = left.shape
    place = np.empty(B, dtype=np.int64)
    for b in range(B):
        best, found, best_rank = -np.inf, -1, np.inf
        for i in range(n):
            if left[b, i] == -np.inf:
                continue
            kind = kinds[b, i]
            value = weight * left[b, i] - cost[b, kind]
            rank = lookahead[b, kind] if fenced and barred[b, kind] else -np.inf
            if rank < best_rank or (rank == best_rank and value > best) or found < 0:
                best, found, best_rank = value, i, rank
        place[b] = found
        left[b, found] = -np.inf
    return place
