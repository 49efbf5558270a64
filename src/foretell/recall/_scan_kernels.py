"""Compiled loops over all codes, and over the vectors of candidates.

    tables (q, B, 256)   16-bit table entry of every value of every byte of a code
    codes (n, B)         one piece of the rows, the first of which is row ``start``
    heap                 per query the best scores so far, smallest on top, with their rows

Nothing is checked here.
"""

# Numba compiles for the types it meets; the annotations would only repeat the legend.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from foretell.recall._graph_kernels import _address, _negative_dot, _negative_look_up
from foretell.recall._native import prefetch

CHUNK = 2048  # codes that stay in the cache while every query looks at them
AHEAD = 4


@njit(cache=True)
def _sift_down(scores, rows, size, score, row):
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and scores[child + 1] < scores[child]:
            child += 1
        if scores[child] >= score:
            break
        scores[at], rows[at] = scores[child], rows[child]
        at = child
    scores[at], rows[at] = score, row


@njit(cache=True)
def _sift_up(scores, rows, at, score, row):
    while at > 0:
        parent = (at - 1) // 2
        if scores[parent] <= score:
            break
        scores[at], rows[at] = scores[parent], rows[parent]
        at = parent
    scores[at], rows[at] = score, row


@njit(cache=True, nogil=True)
def scan_top(address, n, row_bytes, start, tables, alive, norms, scales, scores, rows, sizes):
    """Go on with the heaps of every query over one piece of codes.

    ``alive`` and ``norms`` belong to the piece, or are empty; with norms, the score of a code is
    scale * norm * sum - norm^2 / 2 (see `QueryPlan.centred`), and else the sum.
    """
    count = scores.shape[1]
    for first in range(0, n, CHUNK):
        last = min(first + CHUNK, n)
        for q in range(tables.shape[0]):
            table, heap, heap_rows, size = tables[q], scores[q], rows[q], sizes[q]
            for i in range(first, last):
                if alive.size and not alive[i]:
                    continue
                score = -_negative_look_up(address + i * row_bytes, table)
                if norms.size:
                    score *= norms[i] * scales[q]
                    score -= np.float32(0.5) * norms[i] * norms[i]
                if size < count:
                    _sift_up(heap, heap_rows, size, score, start + i)
                    size += 1
                elif score > heap[0]:
                    _sift_down(heap, heap_rows, count, score, start + i)
            sizes[q] = size


@njit(cache=True, nogil=True)
def score_rows(codes, candidates, tables, scores):
    """Table sums of candidates (q, c); what is -1 is left as it is."""
    for q in range(candidates.shape[0]):
        for c in range(candidates.shape[1]):
            if candidates[q, c] >= 0:
                scores[q, c] = -_negative_look_up(_address(codes, candidates[q, c]), tables[q])


@njit(cache=True, nogil=True)
def exact_top(queries, vectors, candidates, out_rows, out_cosines):
    """The k nearest of the candidates (q, c) by inner product with float32 vectors."""
    k = out_rows.shape[1]
    row_bytes = vectors[2]
    for q in range(queries.shape[0]):
        found = 0
        count = candidates.shape[1]
        for c in range(count):
            row = candidates[q, c]
            if row < 0:
                continue
            later = c + AHEAD
            if later < count and candidates[q, later] >= 0:
                address = _address(vectors, candidates[q, later])
                for line in range(0, row_bytes, 64):
                    prefetch(address + line)
            score = -_negative_dot(_address(vectors, row), queries[q])
            if found == k and score <= out_cosines[q, k - 1]:
                continue
            at = found if found < k else k - 1
            while at > 0 and out_cosines[q, at - 1] < score:
                out_cosines[q, at] = out_cosines[q, at - 1]
                out_rows[q, at] = out_rows[q, at - 1]
                at -= 1
            out_cosines[q, at], out_rows[q, at] = score, row
            if found < k:
                found += 1
