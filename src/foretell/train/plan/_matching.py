"""Exact matching of units to groups with a capacity, going on from the assignment before a failure.

Every shard is cut into q equal units; a group takes at most C of them. After failures: the smallest
C that still holds every unit (a maximum flow), and at that C an assignment that moves the fewest
units away from where they were (successive shortest paths: each unit beyond the old number on a
host costs 1).

Why units with a free host are placed first: with loads that only grow, every augmenting path costs
at least 1, and a direct one costs exactly 1. So it is a shortest path, and the order is free.

Legend: N groups and shards, r hosts of a shard, q units of a shard, C units that a group takes.
hosts (N, r), stacks (N, r), where (N, r): stacks[g, j] is the shard whose host number where[g, j]
is g. owner and spare (N, q): the group of each unit, and a group that computes it as well, or -1.

Arrays are filled and copied by loops, and constants are passed as np.int64(..): an assignment to a
slice takes the compiler seconds, and for every constant it would compile the callee anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Index = NDArray[np.int64]
WIPED_OUT = -1
QUICK, FEWEST = 1, 0  # whether more units may move than need to
_FAR = 1 << 40


def first_owner(hosts: Index, q: int) -> Index:
    """Who computes which unit while everybody is alive, shape (N, q).

    The units of a shard are dealt out to its hosts. So what a dead group leaves behind is of many
    shards and has many hosts that can share it: a patch is one unit then, where it would be
    q / (r - 1) if each group computed a shard of its own.

    Examples
    --------
    >>> first_owner(np.array([[0, 1], [1, 0]]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    n, r = hosts.shape
    owner = hosts[:, np.arange(q) % r].astype(np.int64)
    if (np.bincount(owner.ravel(), minlength=n) == q).all():
        return np.ascontiguousarray(owner)
    return np.repeat(np.arange(n, dtype=np.int64)[:, None], q, axis=1)


@njit(cache=True)
def replan(  # type: ignore[no-untyped-def]
    hosts, stacks, where, alive, owner, spare, load, capacity, quick
):  # pragma: no cover
    """Take the units of the dead over, from the next step on; changes owner, spare, load in place.

    Returns (capacity, moved, lost): the smallest capacity from ``capacity`` on, units that have a
    new owner who did not hold them, and how many units of the dead no survivor held. Capacity is
    WIPED_OUT where a shard has no host left. ``quick`` is QUICK or FEWEST.
    """
    n, q = owner.shape
    r = hosts.shape[1]
    n_alive = 0
    for g in range(n):
        n_alive += alive[g]
    for i in range(n):
        held = False
        for p in range(r):
            if alive[hosts[i, p]]:
                held = True
                break
        if not held:
            return WIPED_OUT, 0, 0
    lost = _take_spares(alive, owner, spare, load)
    n_lost = lost.shape[0]
    original = owner.copy()
    base_load = load.copy()
    capacity = max(capacity, -(-n * q // n_alive))
    newly = np.zeros(n, np.int64)
    while n_lost:
        if _placed(
            hosts, stacks, where, alive, owner, original, load, newly, lost, capacity, quick
        ):
            break
        for g in range(n):
            load[g] = base_load[g]
            newly[g] = 0
            for u in range(q):
                owner[g, u] = original[g, u]
        capacity += 1
    moved = 0
    for i in range(n):
        for u in range(q):
            moved += owner[i, u] != original[i, u]
    fill_spares(stacks, alive, owner, spare, load, capacity)
    return capacity, moved, n_lost


@njit(cache=True)
def patch(hosts, stacks, where, alive, supplier, spare):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Find who supplies the units of the dead in the step in which they died.

    Survivors keep what they have computed; changes ``supplier`` in place. Returns the units that
    each group has to compute now, with the smallest possible largest number.
    """
    n, q = supplier.shape
    work = np.zeros(n, np.int64)
    lost = _take_spares(alive, supplier, spare.copy(), work)
    for g in range(n):
        work[g] = 0
    if lost.shape[0] == 0:
        return work
    nobody, placed = np.empty((n, q), np.int64), np.empty((n, q), np.int64)
    newly = np.empty(n, np.int64)
    _clear(nobody, work, newly)
    _clear(placed, work, newly)
    counted = lost.copy()  # unit numbers from 0 for each shard, as units are alike
    counted[0, 1] = 0
    for m in range(1, lost.shape[0]):
        counted[m, 1] = counted[m - 1, 1] + 1 if lost[m, 0] == lost[m - 1, 0] else 0
    most, quick = np.int64(1), np.int64(QUICK)
    while not _placed(
        hosts, stacks, where, alive, placed, nobody, work, newly, counted, most, quick
    ):
        _clear(placed, work, newly)
        most += 1
    for m in range(lost.shape[0]):
        supplier[lost[m, 0], lost[m, 1]] = placed[counted[m, 0], counted[m, 1]]
    return work


@njit(cache=True)
def _clear(placed, work, newly):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Nothing is placed anywhere."""
    n, q = placed.shape
    for g in range(n):
        work[g] = 0
        newly[g] = 0
        for u in range(q):
            placed[g, u] = -1


@njit(cache=True)
def fill_spares(stacks, alive, owner, spare, load, capacity):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Give free slots units that nobody else computes as well, in stack order."""
    n, q = owner.shape
    r = stacks.shape[1]
    for i in range(n):
        for u in range(q):
            spare[i, u] = -1
    for g in range(n):
        free = capacity - load[g] if alive[g] else 0
        for j in range(r):
            if free <= 0:
                break
            i = stacks[g, j]
            for u in range(q):
                if spare[i, u] < 0 and owner[i, u] != g:
                    spare[i, u] = g
                    free -= 1
                    break


@njit(cache=True)
def _take_spares(alive, owner, spare, load):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Hand units of the dead to survivors who compute them anyway; list the others."""
    n, q = owner.shape
    lost = np.empty((n * q, 2), np.int64)
    n_lost = 0
    for i in range(n):
        for u in range(q):
            if alive[owner[i, u]]:
                continue
            load[owner[i, u]] -= 1
            second = spare[i, u]
            if second >= 0 and alive[second]:
                owner[i, u] = second
                load[second] += 1
            else:
                lost[n_lost, 0] = i
                lost[n_lost, 1] = u
                n_lost += 1
    return lost[:n_lost].copy()


@njit(cache=True)
def _placed(  # type: ignore[no-untyped-def]
    hosts, stacks, where, alive, owner, original, load, newly, lost, capacity, quick
):  # pragma: no cover
    """Place every lost unit at this capacity; False, with a half-done state, if it is too small."""
    r = hosts.shape[1]
    pending = np.empty(lost.shape[0], np.int64)
    n_pending = 0
    for m in range(lost.shape[0]):
        i, u = lost[m, 0], lost[m, 1]
        best = -1
        for p in range(r):
            g = hosts[i, p]
            if not alive[g] or load[g] >= capacity:
                continue
            if (
                best < 0
                or newly[g] < newly[best]
                or (newly[g] == newly[best] and load[g] < load[best])
            ):
                best = g
        if best < 0:
            owner[i, u] = -1
            pending[n_pending] = i
            n_pending += 1
        else:
            owner[i, u] = best
            load[best] += 1
            newly[best] += 1
    if n_pending == 0:
        return True
    x = _counts(hosts, owner)
    x_old = _counts(hosts, original)
    touched = np.zeros(hosts.shape[0], np.bool_)
    for m in range(n_pending):
        source = pending[m]
        if not _augment(
            hosts, stacks, where, alive, x, x_old, load, capacity, source, touched, quick
        ):
            return False
    _relabel(hosts, alive, owner, original, x, x_old, touched)
    return True


@njit(cache=True)
def _counts(hosts, owner):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Units of each shard on each of its hosts."""
    n, r = hosts.shape
    x = np.zeros((n, r), np.int64)
    for i in range(n):
        for u in range(owner.shape[1]):
            for p in range(r):
                if hosts[i, p] == owner[i, u]:
                    x[i, p] += 1
                    break
    return x


@njit(cache=True)
def _augment(  # type: ignore[no-untyped-def]
    hosts, stacks, where, alive, x, x_old, load, capacity, source, touched, quick
):  # pragma: no cover
    """One unit of ``source`` more, by a path of the fewest moves; False where there is none.

    With ``quick``, by the first path that is found.
    """
    n, r = hosts.shape
    distance = np.empty(n, np.int64)
    via_shard = np.empty(n, np.int64)  # the unit that comes to this group
    via_place = np.empty(n, np.int64)
    from_group = np.empty(n, np.int64)
    queue = np.empty(n + 1, np.int64)
    waiting = np.zeros(n, np.bool_)
    for g in range(n):
        distance[g] = _FAR
        via_shard[g], via_place[g], from_group[g] = -1, -1, -1
    head = tail = 0
    for p in range(r):
        g = hosts[source, p]
        if alive[g]:
            cost = 1 if x[source, p] >= x_old[source, p] else 0
            if cost < distance[g]:
                distance[g] = cost
                via_shard[g], via_place[g] = source, p
                queue[tail] = g
                tail = (tail + 1) % (n + 1)
                waiting[g] = True
    end = -1
    while head != tail and not (quick and end >= 0):
        g = queue[head]
        head = (head + 1) % (n + 1)
        waiting[g] = False
        for j in range(r):
            i, p = stacks[g, j], where[g, j]
            if x[i, p] == 0 or i == source:
                continue
            left = distance[g] - (1 if x[i, p] > x_old[i, p] else 0)
            for s in range(r):
                h = hosts[i, s]
                if h == g or not alive[h]:
                    continue
                cost = left + (1 if x[i, s] >= x_old[i, s] else 0)
                if cost < distance[h] and not (quick and distance[h] < _FAR):
                    distance[h] = cost
                    if quick and load[h] < capacity:
                        end = h
                    via_shard[h], via_place[h], from_group[h] = i, s, g
                    if not waiting[h]:
                        queue[tail] = h
                        tail = (tail + 1) % (n + 1)
                        waiting[h] = True
    if not quick:
        for g in range(n):
            if alive[g] and load[g] < capacity and distance[g] < _FAR:
                if end < 0 or distance[g] < distance[end]:
                    end = g
    if end < 0:
        return False
    load[end] += 1
    g = end
    while True:
        i, s = via_shard[g], via_place[g]
        x[i, s] += 1
        touched[i] = True
        before = from_group[g]
        if before < 0:
            return True
        for p in range(r):
            if hosts[i, p] == before:
                x[i, p] -= 1
                break
        g = before


@njit(cache=True)
def _relabel(hosts, alive, owner, original, x, x_old, touched):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Owners that agree with the counts; as many units as possible stay where they were."""
    n, r = hosts.shape
    q = owner.shape[1]
    keep, need = np.empty(r, np.int64), np.empty(r, np.int64)
    for i in range(n):
        if not touched[i]:
            continue
        for p in range(r):
            keep[p] = min(x[i, p], x_old[i, p])
            need[p] = x[i, p] - keep[p]
        for u in range(q):
            owner[i, u] = -1
            for p in range(r):
                if hosts[i, p] == original[i, u]:
                    if keep[p] > 0 and alive[hosts[i, p]]:
                        keep[p] -= 1
                        owner[i, u] = original[i, u]
                    break
        p = 0
        for u in range(q):
            if owner[i, u] >= 0:
                continue
            while p < r and need[p] == 0:
                p += 1
            if p == r:
                break
            need[p] -= 1
            owner[i, u] = hosts[i, p]


@njit(cache=True)
def positions(stacks, hosts):  # type: ignore[no-untyped-def]  # pragma: no cover
    """``where`` of the legend."""
    n, r = stacks.shape
    where = np.empty((n, r), np.int64)
    for i in range(n):
        for p in range(r):
            g = hosts[i, p]
            for j in range(r):
                if stacks[g, j] == i:
                    where[g, j] = p
                    break
    return where


@njit(cache=True)
def largest(work):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The most units that one group has to compute."""
    most = 0
    for g in range(work.shape[0]):
        most = max(most, work[g])
    return most
