"""What masking costs: the compute time of a step after k failures, and the patches.

The N q units of a batch on N - k survivors need at least c(k) = ceil(q N / (N - k)) / q stacks
each. Rulers reach that bound nearly always; contiguous stacks do not. With whole stacks (q = 1)
the first failure doubles the step: c(1) = 2. With micro-stacks c goes to N / (N - k).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError
from foretell.core.random import as_generator
from foretell.train.plan._matching import (
    QUICK,
    WIPED_OUT,
    first_owner,
    largest,
    patch,
    positions,
    replan,
)
from foretell.train.plan.checks import positive, whole
from foretell.train.plan.endurance import EnduranceModel
from foretell.train.plan.placement import StackPlacement

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SimulatedLoads:
    """Loads of simulated failure orders, before each wipe-out.

    Parameters
    ----------
    load : array (M,)
        Stacks that a step needs, one entry for each (order, number of failures >= 1).
    bound : array (M,)
        The least that any placement needs there.
    failures : int array (M,)
        Failures so far.
    patch : array (M,)
        Stacks that the last failure added to its own step.
    fatal : int array (T,)
        K of each order.
    """

    load: Array = field(repr=False)
    bound: Array = field(repr=False)
    failures: Index = field(repr=False)
    patch: Array = field(repr=False)
    fatal: Index = field(repr=False)

    @property
    def at_bound(self) -> float:
        """Share of the entries where the load is the bound."""
        return float((self.load <= self.bound + 1e-9).mean())

    def __repr__(self) -> str:
        return (
            f"SimulatedLoads({self.fatal.size} orders, mean load {self.load.mean():.3f}, bound "
            f"{self.bound.mean():.3f}, reached in {100 * self.at_bound:.1f} %)"
        )


class OverheadModel:
    """The compute time of a step under failures, in stacks (1 without failures).

    Parameters
    ----------
    placement : StackPlacement
    micro : int
        q, units of a shard.

    Source: the mean over failures is that of SPARe (arXiv 2603.00357); micro-stacks are ours.

    Examples
    --------
    >>> whole, micro = (OverheadModel(StackPlacement(600, 10), q) for q in (1, 8))
    >>> whole.load([0, 1, 300, 301]), micro.load([0, 1, 300, 301])
    (array([1., 2., 2., 3.]), array([1.   , 1.125, 2.   , 2.125]))
    >>> round(whole.mean_load(), 2), round(micro.mean_load(), 2)
    (2.0, 1.45)
    >>> whole.simulate(20, 0).at_bound > 0.99
    True
    """

    def __init__(self, placement: StackPlacement, micro: int = 1) -> None:
        self.placement, self.micro = placement, whole("micro", micro)

    def load(self, k: ArrayLike) -> Array:
        """c(k), the least load with k failures; same shape as ``k``."""
        n, q, failed = self.placement.n_groups, self.micro, np.asarray(k)
        if failed.dtype.kind not in "iu" or (failed < 0).any() or (failed >= n).any():
            raise ParameterError(
                f"k={k!r} must be whole numbers of failures from 0 to {n - 1}, as somebody must "
                "be alive."
            )
        found: Array = -(-q * n // (n - failed)) / q
        return found

    def mean_load(self, mean_failures: float | None = None) -> float:
        """Mean of c(k) over k below E[K], the paper's average."""
        last = EnduranceModel(self.placement).mean() if mean_failures is None else mean_failures
        last = min(positive("mean_failures", last), self.placement.n_groups)
        return float(self.load(np.arange(max(1, math.floor(last)))).mean())

    def closed_mean_load(self, mean_failures: float) -> float:
        """The same in closed form: the integral over the share x of failed groups.

        Whole stacks: the mean of ceil(1 / (1 - s)) over s < x. Micro: -ln(1 - x)/x + 1/(2 q).

        Examples
        --------
        >>> model = OverheadModel(StackPlacement(600, 20))
        >>> round(model.closed_mean_load(427.0), 2), round(model.mean_load(427.0), 2)
        (2.36, 2.35)
        """
        x = positive("mean_failures", mean_failures) / self.placement.n_groups
        if x >= 1:
            raise ParameterError(f"mean_failures={mean_failures!r} leaves nobody alive.")
        if self.micro > 1:
            return -math.log1p(-x) / x + 1 / (2 * self.micro)
        total, left, level = 0.0, 0.0, 2
        while left < x:
            right = min(1 - 1 / level, x)
            total += level * (right - left)
            left, level = right, level + 1
        return total / x

    def patch(self, k: ArrayLike) -> Array:
        """About how many stacks failure k + 1 adds to its own step; same shape as ``k``.

        The dead group's load, less what survivors hold in free slots, over the living hosts that
        share its shards.
        """
        n, q, r = self.placement.n_groups, self.micro, self.placement.redundancy
        alive = n - np.asarray(k)
        units = q * n / alive
        free = self.load(k) * q * alive - q * n
        lost = units * (1 - np.clip(free / (q * n), 0.0, 1.0))
        helpers = np.maximum(1.0, min(q, r) * (r - 1) * alive / n)
        found: Array = np.where(lost < 1, lost, np.ceil(lost / helpers)) / q
        return found

    def simulate(
        self, n_orders: int = 100, random_state: int | np.random.Generator | None = 0
    ) -> SimulatedLoads:
        """Exact loads and patches of random failure orders, by matching."""
        orders, rng = whole("n_orders", n_orders), as_generator(random_state)
        placement, n = self.placement, self.placement.n_groups
        where = positions(placement.stacks, placement.hosts_of)
        first = first_owner(placement.hosts_of, self.micro)
        parts, fatal = [], []
        for _ in range(orders):
            order = rng.permutation(n)
            capacity, work = _follow(placement.hosts_of, placement.stacks, where, first, order)
            fatal.append(capacity.size + 1)
            parts.append((capacity, work, np.arange(1, capacity.size + 1)))
        capacity, work, k = (np.concatenate(column) for column in zip(*parts, strict=True))
        return SimulatedLoads(
            capacity / self.micro, self.load(k), k, work / self.micro, np.array(fatal)
        )


@njit(cache=True)
def _follow(hosts, stacks, where, first, order):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Capacity and patch after each failure of one order, until the wipe-out."""
    n, q = first.shape
    alive = np.ones(n, np.bool_)
    owner = first.copy()
    spare = np.full((n, q), -1, np.int64)
    load = np.full(n, q, np.int64)
    capacities, works = np.empty(n, np.int64), np.empty(n, np.int64)
    capacity = q
    for m in range(n - 1):
        alive[order[m]] = False
        before, old_spare = owner.copy(), spare.copy()
        capacity, _, _ = replan(
            hosts, stacks, where, alive, owner, spare, load, capacity, np.int64(QUICK)
        )
        if capacity == WIPED_OUT:
            return capacities[:m], works[:m]
        capacities[m] = capacity
        works[m] = largest(patch(hosts, stacks, where, alive, before, old_spare))
    return capacities[: n - 1], works[: n - 1]
