"""Failure domains: which slot each group takes, so that no shard has two hosts in one domain.

A rack, a power supply or a switch fails as a whole. A placement joins slots whose distance is a
difference of its offsets; groups of one domain usually are neighbours. Giving group g the slot
with g = slot * stride (mod N) pulls them apart. Where no stride is clean, slots are swapped one
pair at a time as long as that removes conflicts.

A conflict is a pair of hosts of one shard within one domain. None is possible only if the largest
domain holds at most N / r groups; that is necessary, not sufficient.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

_SWAPS = 3000


def slots_of_groups(offsets: tuple[int, ...], domains: Index, seed: int) -> Index:
    """A slot for every group, with few conflicts, none where one is found.

    Parameters
    ----------
    offsets : tuple of int
        Of a cyclic placement over N slots.
    domains : int array (N,)
        The domain of each group, counted from 0.
    seed : int
        Of the swaps.

    Returns
    -------
    int array (N,)
        Slot of each group, a permutation.

    Examples
    --------
    >>> domains = np.repeat(np.arange(6), 4)  # six racks of four
    >>> slots = slots_of_groups((0, 1, 3), domains, 0)
    >>> int(conflicts((0, 1, 3), domains[np.argsort(slots)]))
    0
    """
    n = domains.size
    order = np.argsort(domains, kind="stable")  # positions along which domains are contiguous
    best_score, best = conflicts(offsets, domains), np.arange(n)
    if best_score == 0:
        return best
    for stride in _strides(n, float(np.bincount(domains).max())):
        position = np.arange(n) * stride % n  # of each slot
        score = conflicts(offsets, domains[order][position])
        if score < best_score:
            best_score, best = score, _inverse(order[position])
        if score == 0:
            return best
    dealt = dealt_slots(domains)
    if conflicts(offsets, domains[np.argsort(dealt)]) < best_score:
        best = dealt
    return _swapped(offsets, domains, best, seed)


def conflicts(offsets: tuple[int, ...], domain_of_slot: Index) -> int:
    """Pairs of hosts of one shard that lie in one domain.

    Examples
    --------
    >>> conflicts((0, 1), np.array([0, 0, 1, 1]))
    2
    """
    differences = [b - a for i, a in enumerate(offsets) for b in offsets[i + 1 :]]
    return sum(int((domain_of_slot == np.roll(domain_of_slot, -d)).sum()) for d in differences)


def _strides(n: int, size: float) -> list[int]:
    """Every stride coprime to n, the nearest to n / (groups of a domain) first."""
    aim = max(n / max(size, 1.0), 1.0)
    return sorted((s for s in range(1, n) if gcd(s, n) == 1), key=lambda s: (abs(s - aim), s))


def dealt_slots(domains: Index) -> Index:
    """Slots dealt out to groups, one of each domain in turn.

    Examples
    --------
    >>> dealt_slots(np.array([0, 0, 1, 1]))
    array([0, 2, 1, 3])
    """
    order = np.argsort(domains, kind="stable")
    counts = np.bincount(domains)
    turn = np.concatenate([np.arange(c) for c in counts])
    return _inverse(order[np.lexsort((domains[order], turn))])


def _swapped(offsets: tuple[int, ...], domains: Index, slots: Index, seed: int) -> Index:
    """Swap the domains of two slots while that removes conflicts, or moves them about."""
    n, n_domains = domains.size, int(domains.max()) + 1
    rng = np.random.default_rng([seed, n, len(offsets)])
    steps = np.array(sorted({(b - a) % n for a in offsets for b in offsets if a != b}))
    group = _inverse(slots)  # the group in each slot
    colour = domains[group]
    near = (np.arange(n)[:, None] + steps[None, :]) % n
    count = np.zeros((n, n_domains), dtype=np.int64)
    for d in steps:
        np.add.at(count, (np.arange(n), colour[(np.arange(n) + d) % n]), 1)
    rows = np.arange(n)
    best_total, best_group = int(count[rows, colour].sum()), group.copy()
    for _ in range(_SWAPS):
        own = count[rows, colour]
        total = int(own.sum())
        if total < best_total:
            best_total, best_group = total, group.copy()
        if total == 0:
            break
        x = int(rng.choice(np.flatnonzero(own)))
        change = count[x, colour] + count[:, colour[x]] - own[x] - own
        adjacent = np.zeros(n, dtype=np.int64)
        adjacent[near[x]] = 2
        change = np.where(colour == colour[x], n, change - adjacent)
        y = int(rng.choice(np.flatnonzero(change == change.min())))
        if change[y] > 0:
            y = int(rng.choice(np.flatnonzero(colour != colour[x])))
        for slot, old, new in ((x, colour[x], colour[y]), (y, colour[y], colour[x])):
            np.add.at(count, (near[slot], old), -1)
            np.add.at(count, (near[slot], new), 1)
        colour[[x, y]], group[[x, y]] = colour[[y, x]], group[[y, x]]
    return _inverse(best_group)


def _inverse(permutation: Index) -> Index:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(permutation.size)
    return inverse
