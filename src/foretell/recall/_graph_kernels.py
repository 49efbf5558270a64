"""Compiled loops of the navigable graph: search, insertion, and the three ways to score a row.

    base (N, 2M)      links of every node on the ground floor, -1 behind the last one
    upper (U, M)      links on the floors above; floor l of node i is row upper_start[i] + l - 1
    pool (ef,)        the best rows so far, as sorted keys: distance, row, one bit for "expanded"
    seen (N,), epoch  seen[i] == epoch when row i was met in this search

A scorer tells how near a row is to what is searched, as a distance to be made small:

    FLOATS   minus the inner product with a vector           rows are float32 vectors
    TABLES   minus the sum of one table entry per byte       rows are codes
    BITS     number of different bits                        rows are codes

so that one graph serves vectors while it is built and codes while it is searched. Nothing is
checked here. A search may run while one writer inserts: rows from ``n`` on are not looked at, and
links are single words, so a half-changed list is only a list of true rows.

Source: Malkov and Yashunin, IEEE TPAMI 2020, Algorithms 1 to 5, with the pool as one sorted array.
"""

# Numba compiles for the types it meets; the annotations would only repeat the legend.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from foretell.recall._native import (
    bytes_at,
    float_of,
    floats_at,
    ordered_bits,
    popcount,
    prefetch,
    words_at,
)

FLOATS, TABLES, BITS = 0, 1, 2
EXPANDED = 1
LINE = 64  # bytes of a cache line


@njit(cache=True, fastmath=True)
def _negative_dot(address, query):
    n = query.size
    row = floats_at(address, n)
    total = np.float32(0.0)
    for i in range(n):
        total += row[i] * query[i]
    return -total


@njit(cache=True)
def _negative_look_up(address, table):
    n = table.shape[0]
    total = np.int32(0)
    if n % 8 == 0:
        words = words_at(address, n // 8)
        for w in range(n // 8):
            word = words[w]
            for b in range(8):
                total += table[8 * w + b, np.uint8(word >> np.uint64(8 * b))]
    else:
        row = bytes_at(address, n)
        for b in range(n):
            total += table[b, row[b]]
    return np.float32(-total)


@njit(cache=True)
def _different_bits(address, code):
    n = code.size
    row = bytes_at(address, n)
    count = np.uint64(0)
    for b in range(n):
        count += popcount(np.uint64(row[b] ^ code[b]))
    return np.float32(count)


@njit(cache=True)
def distance(kind, address, query, table, code):
    """Distance of what is searched to the row at an address."""
    if kind == TABLES:
        return _negative_look_up(address, table)
    if kind == FLOATS:
        return _negative_dot(address, query)
    return _different_bits(address, code)


@njit(cache=True, inline="always")
def _address(rows, row):
    """Rows are (addresses of the blocks, shift, bytes of a row)."""
    addresses, shift, row_bytes = rows
    block = row >> shift
    return addresses[block] + (row - (block << shift)) * row_bytes


@njit(cache=True, inline="always")
def _key(d, row):
    return (np.int64(ordered_bits(d)) << 32) | (np.int64(row) << 1)


@njit(cache=True, inline="always")
def _row(key):
    return (key & np.int64(0xFFFFFFFF)) >> 1


@njit(cache=True)
def _put(pool, count, key):
    """Insert a key into the sorted pool, which may lose its last one; where it went."""
    ef = pool.size
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < key:
            low = middle + 1
        else:
            high = middle
    last = count if count < ef else ef - 1
    for i in range(last, low, -1):
        pool[i] = pool[i - 1]
    pool[low] = key
    return low


@njit(cache=True)
def search_floor(links, first, floor, n, rows, scorer, entry, pool, seen, epoch, fresh):
    """Fill the pool from one floor of the graph; returns how many it holds and how many scored."""
    kind, query, table, code = scorer
    ef = pool.size
    two_lines = rows[2] % LINE != 0
    pool[0] = _key(distance(kind, _address(rows, entry), query, table, code), entry)
    seen[entry] = epoch
    count, scored, at = 1, 1, 0
    while at < count:
        if pool[at] & EXPANDED:
            at += 1
            continue
        pool[at] |= EXPANDED
        node = _row(pool[at])
        line = node if floor == 0 else first[node] + floor - 1
        met = 0
        for j in range(links.shape[1]):
            neighbour = links[line, j]
            if neighbour < 0:
                break
            if neighbour < n and seen[neighbour] != epoch:
                seen[neighbour] = epoch
                fresh[met] = neighbour
                met += 1
                address = _address(rows, neighbour)
                prefetch(address)
                if two_lines:
                    prefetch(address + rows[2] - 1)
        lowest = count
        for j in range(met):
            neighbour = fresh[j]
            d = distance(kind, _address(rows, neighbour), query, table, code)
            key = _key(d, neighbour)
            if count == ef and key >= pool[ef - 1]:
                continue
            place = _put(pool, count, key)
            if count < ef:
                count += 1
            if place < lowest:
                lowest = place
        scored += met
        at = min(lowest, at + 1)
    return count, scored


@njit(cache=True)
def descend(upper, upper_start, n, rows, scorer, entry, top, floor):
    """Walk to the nearest node on each floor above ``floor``; returns where that ends."""
    kind, query, table, code = scorer
    best = distance(kind, _address(rows, entry), query, table, code)
    for level in range(top, floor, -1):
        moved = True
        while moved:
            moved = False
            line = upper_start[entry] + level - 1
            for j in range(upper.shape[1]):
                neighbour = upper[line, j]
                if neighbour < 0:
                    break
                if neighbour >= n:
                    continue
                d = distance(kind, _address(rows, neighbour), query, table, code)
                if d < best:
                    best, entry, moved = d, neighbour, True
    return entry


@njit(cache=True, nogil=True)
def search(graph, n, entry, top, rows, scorers, pool, seen, epoch, fresh, out_rows, out_distances):
    """Nearest rows of several queries, each with its own scorer; returns the rows scored by each.

    ``scorers`` is (kind, queries (q, d), tables (q, B, 256), codes (q, B)), of which the kind uses
    one. ``epoch`` is the last one used; the caller clears ``seen`` before it would pass 255.
    """
    base, upper, upper_start = graph
    kind, queries, tables, codes = scorers
    scored = np.zeros(out_rows.shape[0], np.int64)
    for q in range(out_rows.shape[0]):
        scorer = (kind, queries[q], tables[q], codes[q])
        if epoch == 255:
            seen[:] = 0
            epoch = 0
        epoch += 1
        start = descend(upper, upper_start, n, rows, scorer, entry, top, 0)
        count, scored[q] = search_floor(
            base, upper_start, 0, n, rows, scorer, start, pool, seen, epoch, fresh
        )
        for i in range(out_rows.shape[1]):
            out_rows[q, i] = _row(pool[i]) if i < count else -1
            if i < count:
                bits = np.int32(pool[i] >> 32)
                out_distances[q, i] = float_of(bits)
    return scored, epoch


@njit(cache=True)
def _scorer_of(kind, rows, row, width):
    """The scorer that looks for an existing row."""
    address = _address(rows, row)
    table = np.empty((0, 256), np.int16)
    if kind == FLOATS:
        return (kind, floats_at(address, width), table, np.empty(0, np.uint8))
    return (kind, np.empty(0, np.float32), table, bytes_at(address, width))


@njit(cache=True)
def _select(keys, count, wanted, kind, rows, width, chosen):
    """Of sorted candidates those that are nearer to the node than to any chosen one."""
    picked = 0
    for i in range(count):
        if picked == wanted:
            break
        row = _row(keys[i])
        d = float_of(np.int32(keys[i] >> 32))
        _, query, table, code = _scorer_of(kind, rows, row, width)
        keep = True
        for j in range(picked):
            if distance(kind, _address(rows, chosen[j]), query, table, code) < d:
                keep = False
                break
        if keep:
            chosen[picked] = row
            picked += 1
    return picked


@njit(cache=True)
def _link_back(links, line, node, new, kind, rows, width, keys, chosen):
    """Add a link node -> new; a full list keeps the best of its links and the new one."""
    size = links.shape[1]
    count = 0
    while count < size and links[line, count] >= 0:
        count += 1
    if count < size:
        links[line, count] = new
        return
    _, query, table, code = _scorer_of(kind, rows, node, width)
    found = 0
    for j in range(size + 1):
        row = links[line, j] if j < size else new
        d = distance(kind, _address(rows, row), query, table, code)
        _put(keys, found, _key(d, row))
        found += 1
    picked = _select(keys, size + 1, size, kind, rows, width, chosen)
    for j in range(size):
        links[line, j] = chosen[j] if j < picked else -1


@njit(cache=True, nogil=True)
def insert(graph, levels, start, stop, entry, top, rows, kind, width, ef, seen, epoch):
    """Add the rows from start to stop to the graph; returns its entry, top floor and the epoch."""
    base, upper, upper_start = graph
    m = upper.shape[1]
    pool = np.empty(ef, np.int64)
    fresh = np.empty(base.shape[1], np.int64)
    chosen = np.empty(base.shape[1], np.int64)
    keys = np.empty(base.shape[1] + 1, np.int64)
    for new in range(start, stop):
        level = levels[new]
        if entry < 0:
            entry, top = new, level
            continue
        scorer = _scorer_of(kind, rows, new, width)
        here = descend(upper, upper_start, new, rows, scorer, entry, top, level)
        for floor in range(min(level, top), -1, -1):
            if epoch == 255:
                seen[:] = 0
                epoch = 0
            epoch += 1
            links = base if floor == 0 else upper
            count, _ = search_floor(
                links, upper_start, floor, new, rows, scorer, here, pool, seen, epoch, fresh
            )
            picked = _select(pool, count, m, kind, rows, width, chosen)
            line = new if floor == 0 else upper_start[new] + floor - 1
            for j in range(picked):
                links[line, j] = chosen[j]
            here = _row(pool[0])
            for j in range(picked):
                node = links[line, j]
                back = node if floor == 0 else upper_start[node] + floor - 1
                _link_back(links, back, node, new, kind, rows, width, keys, chosen)
        if level > top:
            entry, top = new, level
    return entry, top, epoch
