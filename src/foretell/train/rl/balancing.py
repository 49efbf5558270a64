"""Which rank gets which rows, so that all have about the same number of tokens.

Every rank computes the plan for itself from the same numbers, with ties broken by uid; nothing
depends on the order of arrival. Policies, all deterministic:

    keep        rows stay where they are
    lpt_equal   longest first to the least loaded, equal numbers of rows (the published policy)
    lpt_relabel the same, with the parts given to the ranks that hold most of them already
    kk          largest differencing (Karmarkar, Karp), numbers of rows free
    min_move    from where rows are now, the fewest tokens moved until the largest load is within
                eps of the mean

No policy can get the largest load over the mean below max(1, K max n / sum n).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError

POLICIES = ("keep", "lpt_equal", "lpt_relabel", "kk", "min_move")
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Balance:
    """A plan, and what it is worth.

    Parameters
    ----------
    owner : array of int (B,)
        Part of each row.
    largest : float
        Largest load over the mean.
    bound : float
        What no plan can go below.
    moved : float
        Share of the tokens that change their part.
    """

    owner: Ints
    largest: float
    bound: float
    moved: float

    def __repr__(self) -> str:
        return (
            f"Balance(largest load {self.largest:.3f} of the mean, bound {self.bound:.3f}, "
            f"{100 * self.moved:.1f} % of tokens moved)"
        )


def balance(
    policy: str, lengths: Ints, now: Ints, uid: Ints, n_parts: int, *, eps: float = 0.02
) -> Balance:
    """Plan the parts of rows.

    Parameters
    ----------
    policy : str
        See the module.
    lengths : array of int (B,)
        Tokens of each row.
    now : array of int (B,)
        Part that holds each row, in 0..n_parts-1.
    uid : array of int (B,)
        Breaks ties; all different.
    n_parts : int
    eps : float
        How far above the mean ``min_move`` leaves the largest load, as a share.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([9, 5, 4, 1, 1]), np.array([0, 0, 0, 1, 1]), np.arange(5)
    >>> balance("min_move", *rows, 2).owner
    array([0, 1, 1, 0, 1])
    >>> balance("min_move", *rows, 2)
    Balance(largest load 1.000 of the mean, bound 1.000, 50.0 % of tokens moved)
    """
    if policy not in POLICIES:
        raise ParameterError(f"balance={policy!r}; needed is one of {', '.join(POLICIES)}.")
    if len(np.unique(uid)) != len(uid):
        values, counts = np.unique(uid, return_counts=True)
        raise DataError(
            f"The uid {values[counts > 1][0]} occurs {counts.max()} times among the rows of a "
            "step; needed are different ones. Number rows by prompt * group_size + sample."
        )
    order = np.argsort(uid, kind="stable")
    n, at = lengths[order], now[order]
    match policy:
        case "keep":
            found = at
        case "lpt_equal":
            found = _lpt_equal(n, n_parts)
        case "lpt_relabel":
            found = _relabelled(n, at, _lpt_equal(n, n_parts), n_parts)
        case "kk":
            found = _relabelled(n, at, _differencing(n, n_parts), n_parts)
        case _:
            found = _min_move(n, at, n_parts, eps)
    owner = np.empty_like(found)
    owner[order] = found
    return Balance(
        owner,
        largest_over_mean(lengths, owner, n_parts),
        lower_bound(lengths, n_parts),
        float(lengths[owner != now].sum() / max(lengths.sum(), 1)),
    )


def largest_over_mean(lengths: Ints, owner: Ints, n_parts: int) -> float:
    """Largest load over the mean load; 1 without rows."""
    loads = np.bincount(owner, weights=lengths, minlength=n_parts)
    return float(loads.max() / loads.mean()) if loads.sum() else 1.0


def lower_bound(lengths: Ints, n_parts: int) -> float:
    """What the largest load over the mean is at least, whatever the plan."""
    return max(1.0, float(n_parts * lengths.max() / lengths.sum())) if lengths.sum() else 1.0


def _longest_first(lengths: Ints) -> Ints:
    return np.argsort(-lengths, kind="stable")


def _lpt_equal(lengths: Ints, n_parts: int) -> Ints:
    """Parts whose numbers of rows differ by one at most."""
    size, larger = divmod(len(lengths), n_parts)
    owner = np.zeros(len(lengths), dtype=np.int64)
    heap = [(0, part) for part in range(n_parts)]
    counts = [0] * n_parts
    for row in _longest_first(lengths):
        aside = []
        while True:
            load, part = heapq.heappop(heap)
            if counts[part] < size or (counts[part] == size and larger > 0):
                break
            aside.append((load, part))
        larger -= counts[part] == size
        counts[part] += 1
        owner[row] = part
        heapq.heappush(heap, (load + int(lengths[row]), part))
        for entry in aside:
            if counts[entry[1]] < size or larger > 0:
                heapq.heappush(heap, entry)
    return owner


def _differencing(lengths: Ints, n_parts: int) -> Ints:
    """Merge the two partial solutions that differ most, the largest part with the smallest."""
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = []
    for row in _longest_first(lengths):
        parts: list[tuple[int, list[int]]] = [(int(lengths[row]), [int(row)])]
        parts += [(0, []) for _ in range(n_parts - 1)]
        heap.append((-int(lengths[row]), int(row), parts))
    heapq.heapify(heap)
    while len(heap) > 1:
        _, first, a = heapq.heappop(heap)
        _, second, b = heapq.heappop(heap)
        merged = [(x + y, r + s) for (x, r), (y, s) in zip(a, reversed(b), strict=True)]
        merged.sort(key=lambda part: (-part[0], part[1]))
        heapq.heappush(heap, (merged[-1][0] - merged[0][0], min(first, second), merged))
    owner = np.zeros(len(lengths), dtype=np.int64)
    for part, (_, rows) in enumerate(heap[0][2] if heap else []):
        owner[rows] = part
    return owner


def _relabelled(lengths: Ints, now: Ints, owner: Ints, n_parts: int) -> Ints:
    """The same parts under the names with which most tokens stay."""
    from scipy.optimize import linear_sum_assignment

    stays = np.zeros((n_parts, n_parts))
    np.add.at(stays, (owner, now), lengths)
    part, name = linear_sum_assignment(-stays)
    names = np.empty(n_parts, dtype=np.int64)
    names[part] = name
    return names[owner]


def _min_move(lengths: Ints, now: Ints, n_parts: int, eps: float) -> Ints:
    """From the fullest to the emptiest part: the largest row that fits, else the best swap.

    A move or a swap of d tokens between loads a > b has 0 < d < a - b, so the sum of squared loads
    falls each time and the loop ends.
    """
    owner = now.copy()
    loads = np.bincount(owner, weights=lengths, minlength=n_parts).astype(np.int64)
    mean = loads.sum() / n_parts
    rows: list[list[tuple[int, int]]] = [[] for _ in range(n_parts)]
    for row, part in enumerate(owner):
        rows[part].append((int(lengths[row]), row))
    for part_rows in rows:
        part_rows.sort()
    most = [(-int(load), part) for part, load in enumerate(loads)]
    least = [(int(load), part) for part, load in enumerate(loads)]
    heapq.heapify(most)
    heapq.heapify(least)

    def give(row: tuple[int, int], source: int, target: int) -> None:
        del rows[source][bisect_left(rows[source], row)]
        insort(rows[target], row)
        owner[row[1]] = target
        loads[source] -= row[0]
        loads[target] += row[0]

    while True:
        while -most[0][0] != loads[most[0][1]]:  # entries of old loads
            heapq.heappop(most)
        while least[0][0] != loads[least[0][1]]:
            heapq.heappop(least)
        donor, receiver = most[0][1], least[0][1]
        if loads[donor] <= (1 + eps) * mean or donor == receiver:
            return owner
        gap = int(loads[donor] - loads[receiver])
        wanted = min(loads[donor] - mean, mean - loads[receiver])
        place = bisect_right(rows[donor], (wanted + eps * mean, len(lengths)))
        if place and 0 < rows[donor][place - 1][0] < gap:
            give(rows[donor][place - 1], donor, receiver)
        else:
            swap = _best_swap(rows[donor], rows[receiver], wanted, gap)
            if swap is None:
                return owner
            give(swap[0], donor, receiver)
            give(swap[1], receiver, donor)
        for part in (donor, receiver):
            heapq.heappush(most, (-int(loads[part]), part))
            heapq.heappush(least, (int(loads[part]), part))


def _best_swap(
    large: list[tuple[int, int]], small: list[tuple[int, int]], wanted: float, gap: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The pair whose difference is nearest to what is wanted, above 0 and below the gap."""
    best, found = np.inf, None
    for row in large:
        place = bisect_left(small, (row[0] - wanted, -1))
        for other in small[max(place - 1, 0) : place + 1]:
            difference = row[0] - other[0]
            if 0 < difference < gap and abs(difference - wanted) < best:
                best, found = abs(difference - wanted), (row, other)
    return found
