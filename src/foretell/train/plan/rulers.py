"""Offsets of a cyclic placement: modular Golomb rulers, for one common host of shards at most.

Offsets O are such a ruler modulo N when all r (r - 1) differences of two of them are distinct
modulo N, which needs r (r - 1) <= N - 1. An ordinary ruler of length below N / 2 always works.

Rulers are not alike. The marks of a short one lie close together, so that neighbouring shards have
few hosts between them. Where there is room, many rulers are drawn, and that one is taken whose
shards spread the widest, by its ``second_value``. Else, in this order: the shortest known rulers,
windows of Singer's and Bose's sets, those sets themselves when N is their modulus, an exhaustive
search with a budget, one random ruler.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from foretell.train.plan._fields import bose, prime_power, singer

Index = NDArray[np.int64]

SHORT_RULERS = {
    1: (0,),
    2: (0, 1),
    3: (0, 1, 3),
    4: (0, 1, 4, 6),
    5: (0, 1, 4, 9, 11),
    6: (0, 1, 4, 10, 12, 17),
    7: (0, 1, 4, 10, 18, 23, 25),
    8: (0, 1, 4, 9, 15, 22, 32, 34),
    9: (0, 1, 5, 12, 25, 27, 35, 41, 44),
    10: (0, 1, 6, 10, 23, 26, 34, 41, 53, 55),
    11: (0, 1, 4, 13, 28, 33, 47, 54, 64, 70, 72),
    12: (0, 2, 6, 24, 29, 40, 43, 55, 68, 75, 76, 85),
    20: (0, 1, 8, 11, 68, 77, 94, 116, 121, 156, 158, 179, 194, 208, 212, 228, 240, 253, 259, 283),
}
_LARGEST_FIELD = 60_000
_SEARCH_NODES = 50_000
_GREEDY_TRIES = 40
_DRAWS, _ROOM = 64, 2  # rulers to choose from, where r (r - 1) is at most half of N


def is_golomb(offsets: Index | tuple[int, ...], n: int) -> bool:
    """Whether all differences of two offsets are distinct modulo ``n``.

    Examples
    --------
    >>> is_golomb((0, 1, 3), 7), is_golomb((0, 1, 2), 7)
    (True, False)
    """
    o = np.asarray(offsets, dtype=np.int64) % n
    differences = (o[:, None] - o[None, :])[~np.eye(o.size, dtype=bool)] % n
    return bool(np.unique(differences).size == o.size * (o.size - 1)) and bool((differences).all())


def overlaps(offsets: Index | tuple[int, ...], n: int) -> Index:
    """How many hosts two shards at distance 1, 2, ..., n - 1 share.

    Examples
    --------
    >>> overlaps((0, 1, 2), 7).tolist()
    [2, 1, 0, 0, 1, 2]
    """
    o = np.asarray(offsets, dtype=np.int64) % n
    differences = (o[:, None] - o[None, :])[~np.eye(o.size, dtype=bool)] % n
    counts: Index = np.bincount(differences, minlength=n)[1:].astype(np.int64)
    return counts


def second_value(offsets: Index | tuple[int, ...], n: int) -> float:
    """Second singular value of shards x hosts, max |sum over O of exp(2 pi i o t / n)|, t not 0.

    With it, lambda, any m shards have at least r^2 m / (lambda^2 + (r^2 - lambda^2) m / n) hosts
    (Tanner, SIAM J. Algebraic Discrete Methods 5, 1984). It is r where the work of some shards
    cannot spread over all groups.

    Examples
    --------
    >>> round(second_value((0, 1, 3), 7), 3), round(second_value((0, 2, 6), 14), 3)
    (1.414, 3.0)
    """
    marks = np.zeros(n)
    marks[np.asarray(offsets) % n] = 1.0
    return float(np.abs(np.fft.rfft(marks))[1:].max()) if n > 1 else 0.0


def largest_redundancy(n: int) -> int:
    """The largest r with r (r - 1) <= n - 1: no modular Golomb ruler has more marks.

    Examples
    --------
    >>> largest_redundancy(7), largest_redundancy(600)
    (3, 24)
    """
    r = int((1 + (4 * n - 3) ** 0.5) / 2)
    while r * (r - 1) > n - 1:
        r -= 1
    return max(r, 1)


@lru_cache(maxsize=256)
def golomb_offsets(n: int, r: int, seed: int = 0) -> tuple[int, ...] | None:
    """A modular Golomb ruler of ``r`` marks, first 0, or None where none was found.

    Parameters
    ----------
    n : int
        Modulus, the number of groups.
    r : int
        Marks, with ``r (r - 1) <= n - 1``.
    seed : int
        Of what is drawn.

    Examples
    --------
    >>> golomb_offsets(13, 4), is_golomb(golomb_offsets(600, 4), 600)
    ((0, 1, 4, 6), True)
    >>> [round(second_value(o, 600), 2) for o in (golomb_offsets(600, 4), (0, 1, 4, 6))]
    [3.82, 4.0]
    >>> len(golomb_offsets(307, 18))  # Singer's set of q = 17 fills Z_307
    18
    """
    if r * (r - 1) > n - 1:
        return None
    found = _widest(n, r, seed)
    if found is not None:
        return found
    for ruler in (SHORT_RULERS.get(r), _short_ruler(r)):
        if ruler is not None and is_golomb(ruler, n):
            return ruler
    for numbers, v in _sets(r):
        if v == n:
            start = numbers[0]
            return tuple(int(x - start) for x in numbers[:r])
    found = _exhaustive(n, r)
    if found is not None:
        return found
    rng = np.random.default_rng([seed, n, r])
    drawn = (_drawn(n, r, rng) for _ in range(_GREEDY_TRIES))
    return next((ruler for ruler in drawn if ruler is not None), None)


@lru_cache(maxsize=64)
def offsets_apart(n: int, r: int, apart: int) -> tuple[int, ...] | None:
    """A modular Golomb ruler whose marks are distinct modulo ``apart`` as well, or None.

    With groups dealt out so that slot s lies in failure domain s modulo ``apart``, a divisor of n,
    no shard then has two hosts in one domain.

    Examples
    --------
    >>> offsets_apart(12, 3, 3)
    (0, 4, 11)
    """
    found = _widest(n, r, 0, apart) or (_exhaustive(n, r, apart) if n <= 100 else None)
    if found is not None:
        return found
    for marks in _windows(r):
        distinct = np.unique(marks % apart).size == r
        if distinct and (2 * marks[-1] < n or is_golomb(marks, n)):
            return tuple(int(x) for x in marks)
    return _exhaustive(n, r, apart)


def spread_offsets(n: int, r: int, seed: int = 0) -> tuple[int, ...]:
    """Offsets with a small largest overlap, for where there is no ruler.

    Examples
    --------
    >>> int(overlaps(spread_offsets(200, 14), 200).max())
    2
    """
    rng = np.random.default_rng([seed, n, r])
    best: tuple[tuple[int, int], tuple[int, ...]] | None = None
    for _ in range(40):
        chosen, used = [0], np.zeros(n, dtype=np.int64)
        while len(chosen) < r:
            free = np.setdiff1d(np.arange(n), chosen)
            rng.shuffle(free)
            ahead = (free[:, None] - np.array(chosen)[None, :]) % n
            cost = np.maximum(used[ahead], used[-ahead % n])
            pick = np.lexsort((cost.sum(1), cost.max(1)))[0]
            np.add.at(used, np.r_[ahead[pick], -ahead[pick] % n], 1)
            chosen.append(int(free[pick]))
        found = overlaps(tuple(chosen), n)
        score = int(found.max()), int((found > 1).sum())
        if best is None or score < best[0]:
            best = score, tuple(sorted(chosen))
    assert best is not None
    return best[1]


def _sets(r: int) -> list[tuple[tuple[int, ...], int]]:
    """The sets of Singer and Bose with at least ``r`` numbers, of a few fields above ``r``."""
    found = []
    for q in range(max(r - 1, 2), r + 8):
        if prime_power(q) is None:
            continue
        if q**3 <= _LARGEST_FIELD:
            found.append(singer(q))
        if q >= r and q * q <= _LARGEST_FIELD:
            found.append(bose(q))
    return found


@lru_cache(maxsize=64)
def _short_ruler(r: int) -> tuple[int, ...] | None:
    """The shortest window of ``r`` marks in any multiple of these sets."""
    best = min(_windows(r, shortest=True), key=lambda marks: int(marks[-1]), default=None)
    return None if best is None else tuple(int(x) for x in best)


def _windows(r: int, *, shortest: bool = False) -> Iterator[Index]:
    """Every ``r`` neighbours in every multiple of the sets, moved to 0; or the shortest of each."""
    for numbers, v in _sets(r):
        base = np.array(numbers, dtype=np.int64)
        for factor in range(1, v // 2 + 1):
            if gcd(factor, v) != 1:
                continue
            marks = np.sort(base * factor % v)
            twice = np.r_[marks, marks + v]
            starts = range(marks.size)
            if shortest:
                starts = range(
                    at := int((twice[r - 1 : r - 1 + marks.size] - marks).argmin()), at + 1
                )
            for start in starts:
                yield twice[start : start + r] - twice[start]


def _exhaustive(n: int, r: int, apart: int = 0) -> tuple[int, ...] | None:
    """Search marks in ascending order, with a limit on the number of tries."""
    used, chosen, budget = [apart > 0 and d % apart == 0 for d in range(n)], [0], _SEARCH_NODES

    def extend(start: int) -> bool:
        nonlocal budget
        if len(chosen) == r:
            return True
        for x in range(start, n - (r - len(chosen)) + 1):
            budget -= 1
            if budget < 0:
                return False
            new = [d for y in chosen for d in (x - y, n - x + y)]
            if len(set(new)) < len(new) or any(used[d] for d in new):
                continue
            for d in new:
                used[d] = True
            chosen.append(x)
            if extend(x + 1):
                return True
            chosen.pop()
            for d in new:
                used[d] = False
        return False

    return tuple(chosen) if extend(1) else None


def _widest(n: int, r: int, seed: int, apart: int = 0) -> tuple[int, ...] | None:
    """Of many random rulers the one with the smallest second value, where there is room."""
    if r < 3 or _ROOM * r * (r - 1) > n or 0 < apart < r:
        return None
    rng = np.random.default_rng([seed, n, r, apart])
    drawn = [ruler for _ in range(_DRAWS) if (ruler := _drawn(n, r, rng, apart)) is not None]
    return min(drawn, key=lambda ruler: second_value(ruler, n), default=None)


def _drawn(n: int, r: int, rng: np.random.Generator, apart: int = 0) -> tuple[int, ...] | None:
    """A random ruler, mark by mark, or None where the marks ran out."""
    chosen: list[int] = [0]
    used = np.zeros(n, dtype=bool)
    used[:: apart or n] = True
    for x in rng.permutation(np.arange(1, n)).tolist():
        new = [d % n for y in chosen for d in (x - y, y - x)]
        if len(set(new)) == len(new) and not used[new].any():
            used[new] = True
            chosen.append(x)
            if len(chosen) == r:
                return tuple(sorted(chosen))
    return None
