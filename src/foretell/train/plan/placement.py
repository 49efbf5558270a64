"""Which group may compute which shard: the placement of stacked redundancy.

N groups hold a replica of the model each; the batch of a step is cut into N shards. A group may
compute the r shards of its stack, so a shard survives as long as one of its r hosts does. Only the
data, or the seed that makes it, is replicated.

Cyclic schemes: in slot s, position j of the stack is shard s + o_j (mod N). The offsets o decide
what a set of failures does:

    golomb      all differences distinct: two shards share one host at most. Work spreads best.
    contiguous  o = 0, 1, ..., r - 1: endures about 7 % more failures, but shards share r - 1 hosts
                and the work of the dead piles up on their neighbours.
    block       disjoint blocks of r groups, classical replication.
    random      every stack drawn at random.
    elastic     every group may compute every shard.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ForetellWarning, ParameterError
from foretell.train.plan.checks import group_ids, whole
from foretell.train.plan.domains import conflicts, dealt_slots, slots_of_groups
from foretell.train.plan.rulers import (
    golomb_offsets,
    largest_redundancy,
    offsets_apart,
    spread_offsets,
)

Index = NDArray[np.int64]
Scheme = Literal["golomb", "contiguous", "block", "random", "elastic"]
_LARGEST_ELASTIC = 4096
_EULER_OVER_LN2 = 0.5772156649015329 / math.log(2.0)


class StackPlacement:
    """Which group may compute which shard.

    Parameters
    ----------
    n_groups : int
        N, the number of groups and of shards in a step.
    redundancy : int, optional
        r, hosts of a shard. Default: ``floor(log2 N + 0.83)``, where whole stacks cost least (see
        ``optimize_redundancy`` for micro-stacks), but no more than a ruler allows; N for elastic.
    scheme : {"golomb", "contiguous", "block", "random", "elastic"}
    offsets : list of int, optional
        Cyclic offsets of your own, in place of a scheme.
    failure_domains : array (N,), optional
        A label for each group: its rack, or whatever fails as a whole. The hosts of a shard are
        then spread over domains.
    seed : int
        Of what is drawn: random stacks, the last resort of the rulers, swaps between domains.

    Attributes
    ----------
    n_groups, redundancy, scheme
    offsets : tuple of int or None
        Of cyclic schemes.
    stacks : int array (N, r)
        The shards of each group; the first is the shard of the same number.
    hosts_of : int array (N, r)
        The hosts of each shard; the first is the group of the same number.
    domains : int array (N,) or None
        The domain of each group, counted from 0.

    Raises
    ------
    ParameterError
        When ``r > N``, a ruler cannot exist, blocks do not fit, offsets repeat modulo N, or the
        domains do not match the groups.

    Warns
    -----
    ForetellWarning
        Where no ruler was found, or where two hosts of a shard had to stay in one domain.

    Source: SPARe, arXiv 2603.00357. The paper's condition ("two types share at most one
    host") is that of a modular Golomb ruler, not of contiguous stacks.

    Examples
    --------
    >>> placement = StackPlacement(7, 3)
    >>> placement
    StackPlacement(7 groups, 3 hosts a shard, golomb 0 1 3)
    >>> placement.stack(5), placement.hosts(5), placement.max_overlap()
    (array([5, 6, 1]), array([5, 4, 2]), 1)
    >>> placement.is_maskable([2, 5, 0]), placement.is_maskable([5, 4, 2])
    (True, False)
    """

    def __init__(
        self,
        n_groups: int,
        redundancy: int | None = None,
        scheme: Scheme = "golomb",
        *,
        offsets: Sequence[int] | None = None,
        failure_domains: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        n = whole("n_groups", n_groups)
        if scheme not in get_args(Scheme):
            raise ParameterError(
                f"scheme={scheme!r} is not one of {', '.join(map(repr, get_args(Scheme)))}."
            )
        self.n_groups, self.seed = n, whole("seed", seed, 0)
        self.scheme: str = scheme if offsets is None else "offsets"
        self.domains = None if failure_domains is None else _checked_domains(failure_domains, n)
        self.offsets: tuple[int, ...] | None = None
        if offsets is not None:
            self.offsets = _checked_offsets(offsets, n, redundancy)
            self.redundancy = len(self.offsets)
        else:
            self.redundancy = _checked_redundancy(n, redundancy, scheme)
        stacks = self._stacks()
        self.stacks, self.hosts_of = stacks, _hosts(stacks)
        self.stacks.setflags(write=False)
        self.hosts_of.setflags(write=False)
        self._say_what_stays_together()

    @classmethod
    def from_stacks(cls, stacks: ArrayLike) -> StackPlacement:
        """A placement of your own, from the shards of each group.

        Parameters
        ----------
        stacks : int array (N, r)
            Every shard appears in r stacks, once in each, and shard g first in stack g.

        Examples
        --------
        >>> StackPlacement.from_stacks([[0, 1], [1, 0], [2, 3], [3, 2]]).max_overlap()
        2
        """
        table = np.array(stacks)
        if table.ndim != 2 or table.dtype.kind not in "iu" or not table.size:
            raise ParameterError("stacks must be an array (N, r) of shard numbers.")
        n, r = table.shape
        counts = np.bincount(table.ravel().clip(0, n), minlength=n + 1)
        fits = table.min() >= 0 and table.max() < n and (counts[:n] == r).all()
        distinct = all(np.unique(row).size == r for row in table)
        if not (fits and distinct and (table[:, 0] == np.arange(n)).all()):
            raise ParameterError(
                f"stacks (N={n}, r={r}) must hold every shard from 0 to {n - 1} in {r} stacks, "
                "once in each, and shard g first in stack g."
            )
        placement = cls(n, 1, "contiguous")
        placement.scheme, placement.offsets, placement.redundancy = "stacks", None, r
        placement.stacks = table.astype(np.int64)
        placement.hosts_of = _hosts(placement.stacks)
        placement.stacks.setflags(write=False)
        placement.hosts_of.setflags(write=False)
        return placement

    def stack(self, group: int) -> Index:
        """The shards that a group may compute, its own first."""
        found: Index = self.stacks[group_ids("group", [group], self.n_groups)[0]]
        return found

    def hosts(self, shard: int) -> Index:
        """The groups that may compute a shard, the one of the same number first."""
        found: Index = self.hosts_of[group_ids("shard", [shard], self.n_groups)[0]]
        return found

    def max_overlap(self) -> int:
        """The largest number of hosts that two shards share."""
        return max((k for k, n in self.overlap_counts().items() if n), default=0)

    def overlap_counts(self) -> dict[int, int]:
        """How many unordered pairs of shards share 0, 1, 2, ... hosts.

        Examples
        --------
        >>> StackPlacement(13, 4).overlap_counts()
        {0: 0, 1: 78}
        """
        n, r = self.n_groups, self.redundancy
        if self.scheme == "elastic":
            return {n: n * (n - 1) // 2}
        shared = np.zeros(r + 1, dtype=np.int64)
        for shard in range(n):
            others, counts = np.unique(self.stacks[self.hosts_of[shard]], return_counts=True)
            shared += np.bincount(counts[others != shard], minlength=r + 1)
        shared[0] = n * (n - 1) - shared[1:].sum()
        last = int(np.flatnonzero(shared).max(initial=0))
        return {k: int(shared[k]) // 2 for k in range(last + 1)}

    def lost_shards(self, failed: ArrayLike) -> Index:
        """The shards that lost every host, after these groups failed."""
        dead = np.zeros(self.n_groups, dtype=bool)
        dead[group_ids("failed", failed, self.n_groups)] = True
        lost: Index = np.flatnonzero(dead[self.hosts_of].all(axis=1))
        return lost

    def is_maskable(self, failed: ArrayLike) -> bool:
        """Whether every shard still has a host, after these groups failed."""
        return not self.lost_shards(failed).size

    def max_hosts_per_domain(self) -> int:
        """The most hosts of one shard that lie in one failure domain; 1 is what one wants."""
        if self.domains is None:
            return 1
        near = np.sort(self.domains[self.hosts_of], axis=1)
        run, most = np.ones(self.n_groups, dtype=np.int64), 1
        for j in range(1, self.redundancy):
            run = np.where(near[:, j] == near[:, j - 1], run + 1, 1)
            most = max(most, int(run.max()))
        return most

    def fingerprint(self) -> str:
        """SHA-256 of the stacks, by which ranks check that they agree.

        Examples
        --------
        >>> StackPlacement(7, 3).fingerprint() == StackPlacement(7, 3).fingerprint()
        True
        """
        shape = f"{self.n_groups} {self.redundancy} ".encode()
        return hashlib.sha256(shape + self.stacks.astype("<i8").tobytes()).hexdigest()

    def __repr__(self) -> str:
        marks = "" if self.offsets is None else " " + " ".join(map(str, self.offsets))
        where = "" if self.domains is None else f", {int(self.domains.max()) + 1} domains"
        return (
            f"StackPlacement({self.n_groups} groups, {self.redundancy} hosts a shard, "
            f"{self.scheme}{marks}{where})"
        )

    def _stacks(self) -> Index:
        n, r = self.n_groups, self.redundancy
        if self.scheme == "golomb":
            self.offsets = golomb_offsets(n, r, self.seed)
            if self.offsets is None:
                self.offsets = spread_offsets(n, r, self.seed)
                warnings.warn(
                    f"No modular Golomb ruler with {r} marks was found for {n} groups; some shards "
                    f"share more than one host. With {_largest_found(n, r)} hosts a shard there "
                    "is one.",
                    ForetellWarning,
                    stacklevel=4,
                )
        elif self.scheme == "contiguous":
            self.offsets = tuple(range(r))
        elif self.scheme == "elastic":
            self.offsets = tuple(range(n))
        if self.offsets is not None:
            slots = self._slots()
            group_in = np.argsort(slots)
            stacks: Index = group_in[(slots[:, None] + np.array(self.offsets)) % n]
            return stacks
        if self.scheme == "block":
            return self._blocks()
        return _random_stacks(n, r, self.seed)

    def _slots(self) -> Index:
        """The slot of each group; with domains, so that hosts of a shard lie in different ones."""
        assert self.offsets is not None
        if self.domains is None or self.scheme == "elastic":
            return np.arange(self.n_groups)
        slots = slots_of_groups(self.offsets, self.domains, self.seed)
        sizes = np.bincount(self.domains)
        together = conflicts(self.offsets, self.domains[np.argsort(slots)])
        if together and self.scheme == "golomb" and np.unique(sizes).size == 1:
            other = offsets_apart(self.n_groups, self.redundancy, sizes.size)
            if other is not None:
                self.offsets, slots = other, dealt_slots(self.domains)
        return slots

    def _blocks(self) -> Index:
        """Blocks of r groups; with domains, each block takes one group of as many as it can."""
        n, r = self.n_groups, self.redundancy
        members = np.arange(n).reshape(-1, r)
        if self.domains is not None:
            order = np.argsort(self.domains, kind="stable")
            members = order.reshape(r, -1).T.copy()
        stacks = np.empty((n, r), dtype=np.int64)
        for j in range(r):
            stacks[members.ravel(), j] = np.roll(members, -j, axis=1).ravel()
        return stacks

    def _say_what_stays_together(self) -> None:
        if self.domains is None or self.scheme == "elastic":
            return
        most = self.max_hosts_per_domain()
        if most == 1:
            return
        n_domains, largest = int(self.domains.max()) + 1, int(np.bincount(self.domains).max())
        r = self.redundancy
        if n_domains < r:
            why = f"There are only {n_domains} failure domains for {r} hosts of a shard"
        elif largest * r > self.n_groups:
            why = (
                f"The largest failure domain holds {largest} of {self.n_groups} groups, more than "
                f"one in {r}"
            )
        else:
            why = "No arrangement with every host in a domain of its own was found"
        warnings.warn(
            f"{why}: up to {most} hosts of one shard lie in one domain, and a failure of that "
            "domain takes them together.",
            ForetellWarning,
            stacklevel=3,
        )


def default_redundancy(n_groups: int) -> int:
    """The redundancy at which whole stacks cost least, ``floor(log2 N + 0.83)``, if a ruler has it.

    Examples
    --------
    >>> [default_redundancy(n) for n in (7, 200, 600, 1000)]
    [3, 8, 10, 10]
    """
    best = math.floor(math.log2(n_groups) + _EULER_OVER_LN2) if n_groups > 1 else 1
    return max(1, min(best, largest_redundancy(n_groups)))


def _largest_found(n: int, r: int) -> int:
    """The next smaller number of marks for which a short ruler exists."""
    while r > 1:
        r -= 1
        if (found := golomb_offsets(n, r)) is not None and len(found) == r:
            return r
    return 1


def _checked_redundancy(n: int, redundancy: int | None, scheme: Scheme) -> int:
    if scheme == "elastic":
        if redundancy not in (None, n):
            raise ParameterError(
                f"redundancy={redundancy!r} with scheme='elastic', where every one of the {n} "
                "groups is a host of every shard. Leave redundancy out."
            )
        if n > _LARGEST_ELASTIC:
            raise ParameterError(
                f"scheme='elastic' keeps a table of {n} x {n}; it is made for up to "
                f"{_LARGEST_ELASTIC} groups. Write scheme='golomb'."
            )
        return n
    if redundancy is None:
        r = default_redundancy(n)
        while scheme == "block" and n % r:
            r -= 1
        return r
    r = whole("redundancy", redundancy)
    if r > n:
        raise ParameterError(
            f"redundancy={r} is more than the {n} groups; needed is a number from 1 to {n}."
        )
    if scheme == "golomb" and r * (r - 1) > n - 1:
        most = largest_redundancy(n)
        raise ParameterError(
            f"redundancy={r} with scheme='golomb' needs {r * (r - 1) + 1} groups, because its "
            f"{r * (r - 1)} differences must be distinct; there are {n}. The largest here is "
            f"redundancy={most}; for more, write scheme='contiguous'."
        )
    if scheme == "block" and n % r:
        fit = [d for d in range(1, n + 1) if n % d == 0]
        near = sorted(fit, key=lambda d: (abs(d - r), d))[:3]
        raise ParameterError(
            f"{n} groups cannot be cut into blocks of {r}. Write for instance redundancy="
            f"{' or '.join(map(str, sorted(near)))}, or give n_groups={n - n % r}."
        )
    return r


def _checked_offsets(offsets: Sequence[int], n: int, redundancy: int | None) -> tuple[int, ...]:
    marks = [whole("an offset", o, -n * n) % n for o in offsets]
    if not marks or len(set(marks)) < len(marks):
        raise ParameterError(
            f"offsets={list(offsets)!r} must be distinct modulo the {n} groups, and at least one; "
            f"modulo {n} they are {marks}."
        )
    if marks[0] != 0:
        marks = [(o - marks[0]) % n for o in marks]
    if redundancy is not None and redundancy != len(marks):
        raise ParameterError(
            f"redundancy={redundancy!r}, but there are {len(marks)} offsets. Leave redundancy out."
        )
    return tuple(marks)


def _checked_domains(failure_domains: ArrayLike, n: int) -> Index:
    labels = np.asarray(failure_domains)
    if labels.shape != (n,):
        raise ParameterError(
            f"failure_domains has shape {labels.shape}; needed is one label for each of the {n} "
            f"groups, ({n},)."
        )
    counted: Index = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return counted


def _random_stacks(n: int, r: int, seed: int) -> Index:
    """Stacks drawn at random: r permutations that nowhere agree, the first the identity."""
    rng = np.random.default_rng([seed, n, r])
    stacks = np.empty((n, r), dtype=np.int64)
    stacks[:, 0] = np.arange(n)
    for j in range(1, r):
        column = rng.permutation(n)
        while True:
            clash = np.flatnonzero((stacks[:, :j] == column[:, None]).any(axis=1))
            if not clash.size:
                break
            for g in clash.tolist():
                h = int(rng.integers(n))
                column[g], column[h] = column[h], column[g]
        stacks[:, j] = column
    return stacks


def _hosts(stacks: Index) -> Index:
    """The hosts of each shard, in the order of the position at which they hold it."""
    n, r = stacks.shape
    hosts = np.empty((n, r), dtype=np.int64)
    filled = np.zeros(n, dtype=np.int64)
    for j in range(r):
        shards = stacks[:, j]
        if np.unique(shards).size == n:
            hosts[shards, filled[shards]] = np.arange(n)
            filled[shards] += 1
        else:
            for g, shard in enumerate(shards.tolist()):
                hosts[shard, filled[shard]] = g
                filled[shard] += 1
    return hosts
