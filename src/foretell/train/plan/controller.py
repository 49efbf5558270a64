"""Who computes what after failures: the smallest load that still covers the batch, exactly.

A step is done when every unit of every shard has been computed once. After a failure the
controller (1) hands units to survivors who computed them anyway in a free slot, (2) keeps the load
and places the rest within the stacks, or (3) raises the load to the smallest one that a maximum
flow allows, always with the fewest moves. The units in ``patch`` are then computed at once,
in the same step; from the next step on every survivor does what ``owner`` says.

No process is the controller: each survivor runs the same plan on the same ids and gets the same
answer, as long as all have seen the same sequence of memberships. One that comes back takes the
assignment of the others over with ``adopt``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError, WipeoutError
from foretell.train.plan._matching import FEWEST, first_owner, patch, positions, replan
from foretell.train.plan.checks import group_ids, whole
from foretell.train.plan.placement import StackPlacement

Index = NDArray[np.int64]
Members = NDArray[np.bool_]
Phase = Literal["unchanged", "fixed", "free", "deeper"]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who computes which unit.

    Parameters
    ----------
    owner : int array (N, q)
        The group that computes unit u of shard i, and whose gradient counts.
    spare : int array (N, q)
        A group that computes it as well, in a free slot, or -1. Never to be summed.
    load : int array (N,)
        Units that each group owns; 0 for the dead.
    capacity : int
        Units that a group computes in a step, owned and spare.
    moved : int
        Units with an owner that did not hold them before, the fewest possible.
    interim : int array (N, q)
        Who supplies each unit in the step of the failure itself: survivors what they have
        computed anyway, and what the dead took along its new supplier, who computes it at once.
    patch : int array (N,)
        How many units each group has to compute at once; the largest number is the smallest
        possible.
    phase : {"unchanged", "fixed", "free", "deeper"}
        Nothing was lost; spares covered everything; units moved at the old load; the load rose.

    Examples
    --------
    >>> a = ReorderController(StackPlacement(7, 3), micro=2).plan(alive=[0, 1, 3, 4, 5, 6])
    >>> a
    Assignment(6 of 7 groups, 1.5 stacks each, 2 units moved, deeper)
    >>> a.units_of(1)[:3].tolist()
    [[1, 0], [2, 0], [2, 1]]
    >>> a.patch.tolist()  # the two units of the dead group at once, by hosts of their shards
    [0, 1, 0, 1, 0, 0, 0]
    """

    owner: Index = field(repr=False)
    spare: Index = field(repr=False)
    load: Index = field(repr=False)
    capacity: int
    moved: int
    interim: Index = field(repr=False)
    patch: Index = field(repr=False)
    phase: Phase

    @property
    def micro(self) -> int:
        """Units of a shard."""
        return int(self.owner.shape[1])

    @property
    def stacks(self) -> float:
        """Compute time of a step, in shards."""
        return self.capacity / self.micro

    @property
    def patch_stacks(self) -> float:
        """Compute time that the failure adds to its own step, in shards."""
        return int(self.patch.max()) / self.micro

    def units_of(self, group: int) -> Index:
        """Shard and unit of everything that a group owns, shape (U, 2)."""
        return np.argwhere(self.owner == group).astype(np.int64)

    def spares_of(self, group: int) -> Index:
        """Shard and unit of everything that a group computes beside what it owns, shape (U, 2)."""
        return np.argwhere(self.spare == group).astype(np.int64)

    def __repr__(self) -> str:
        busy = int((self.load > 0).sum())
        return (
            f"Assignment({busy} of {self.load.size} groups, {self.stacks:g} stacks each, "
            f"{self.moved} units moved, {self.phase})"
        )


class ReorderController:
    """Keeps an assignment of units to groups, and changes it when the membership changes.

    Parameters
    ----------
    placement : StackPlacement
        Which group may compute which shard.
    micro : int
        q, units of a shard, the number of micro-batches that gradients are accumulated over. With
        1 the first failure doubles the time of a step; with 8 it adds an eighth.

    Attributes
    ----------
    assignment_ : Assignment
        The latest one.

    The three phases are those of SPARe (arXiv 2603.00357); units, spares without a
    coverage check, and the incremental form are ours.

    Examples
    --------
    >>> controller = ReorderController(StackPlacement(600, 6), micro=8)
    >>> alive = np.ones(600, dtype=bool)
    >>> alive[[7, 130, 131]] = False
    >>> controller.plan(alive)
    Assignment(597 of 600 groups, 1.125 stacks each, 24 units moved, deeper)
    >>> alive[[8, 9]] = False
    >>> controller.plan(alive).phase
    'free'
    """

    def __init__(self, placement: StackPlacement, micro: int = 8) -> None:
        self.placement, self.micro = placement, whole("micro", micro)
        self._where = positions(placement.stacks, placement.hosts_of)
        self.reset()

    def reset(self) -> Assignment:
        """Every group is back; each shard is shared out among its hosts."""
        n, q = self.placement.n_groups, self.micro
        self._alive = np.ones(n, dtype=np.bool_)
        owner = first_owner(self.placement.hosts_of, q)
        nothing = np.zeros(n, dtype=np.int64)
        spare, load = np.full((n, q), -1, dtype=np.int64), np.full(n, q, dtype=np.int64)
        self.assignment_ = Assignment(owner, spare, load, q, 0, owner, nothing, "unchanged")
        return self.assignment_

    def adopt(self, assignment: Assignment, alive: ArrayLike) -> None:
        """Take over the assignment of the others, for a group that was away."""
        n = self.placement.n_groups
        if assignment.owner.shape != (n, self.micro):
            raise ParameterError(
                f"The assignment is for {assignment.owner.shape[0]} groups in "
                f"{assignment.micro} units; this controller has {n} in {self.micro}."
            )
        self._alive = self._membership(alive)
        self.assignment_ = assignment

    def plan(self, alive: ArrayLike, *, same_step: bool = False) -> Assignment:
        """The assignment for these members.

        Parameters
        ----------
        alive : array
            The ids of the groups that are alive, or one boolean for each group.
        same_step : bool
            Whether the step of the failure before is still unfinished, so that ``interim`` goes on
            from there.

        Returns
        -------
        Assignment
            Also kept as ``assignment_``. When groups came back, it is made afresh from the
            failure-free one, and holds from the next step on.

        Raises
        ------
        WipeoutError
            When a shard has no host left; the assignment is unchanged. Restart from a checkpoint.
        """
        members = self._membership(alive)
        lost = self.placement.lost_shards(np.flatnonzero(~members))
        if lost.size:
            raise WipeoutError(lost.tolist())
        old, was = self.assignment_, self._alive
        supplier = (old.interim if same_step else old.owner).copy()
        work = self._patched(members, supplier, old.spare)
        if (members & ~was).any():
            old = self.reset()
        self.assignment_ = self._replanned(old, members, supplier, work)
        self._alive = members
        return self.assignment_

    def _patched(self, members: Members, supplier: Index, spare: Index) -> Index:
        placement = self.placement
        work: Index = patch(
            placement.hosts_of, placement.stacks, self._where, members, supplier, spare
        )
        return work

    def _replanned(
        self, old: Assignment, members: Members, interim: Index, work: Index
    ) -> Assignment:
        if members.all():
            fresh = self.reset()
            return replace(fresh, interim=interim, patch=work)
        owner, spare, load = old.owner.copy(), old.spare.copy(), old.load.copy()
        placement = self.placement
        capacity, moved, lost = replan(
            placement.hosts_of,
            placement.stacks,
            self._where,
            members,
            owner,
            spare,
            load,
            old.capacity,
            FEWEST,
        )
        phase: Phase = "deeper" if capacity > old.capacity else "free" if lost else "fixed"
        if (members == self._alive).all():
            phase = "unchanged"
        return Assignment(owner, spare, load, int(capacity), int(moved), interim, work, phase)

    def _membership(self, alive: ArrayLike) -> Members:
        n = self.placement.n_groups
        given = np.asarray(list(alive) if isinstance(alive, (set, frozenset)) else alive)
        if given.dtype == np.bool_:
            if given.shape != (n,):
                raise ParameterError(
                    f"alive has shape {given.shape}; needed is one boolean for each of the {n} "
                    "groups, or their ids."
                )
            return given.copy()
        members = np.zeros(n, dtype=np.bool_)
        members[group_ids("alive", given, n)] = True
        return members
