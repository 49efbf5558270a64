"""Moves rows between the stages of a step, without a rank through which all of them go.

Every rank holds the rows that it made. Where the layout changes, the ranks tell each other only
what they have (uid and length, 12 bytes a row), each works out the same plan for itself, and rows
go directly from the rank that has them to the one that gets them, packed. Where nothing changes,
the object itself is handed on.

    header     error flag, signature, columns, (uid, length) of about 150 rows: one round, 2 kB
    metadata   of more rows: a second round, 12 bytes a row
    rows       from owner to owner, what moves, once

The header is also where ranks notice that they disagree: an error on one rank, or a rank that is
at another place of the program, becomes an error on all of them that names both.

Source: Wang et al. 2026, "DistFlow" (arXiv 2507.13833); the plan without an actor is ours.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, MissingExtraError
from foretell.train.agreement import Agreement
from foretell.train.graph import ParallelLayout
from foretell.train.rl.balancing import balance
from foretell.train.rl.buffer import DoubleBuffer
from foretell.train.rl.group import Alone, Group
from foretell.train.rl.rows import RowBatch, entry_bytes

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ReshardStats:
    """What the reshards so far have moved.

    Parameters
    ----------
    reshards, local : int
        How many there were, and how many of them handed the object on.
    bytes_moved : array of int (size, size)
        From rank (row) to rank (column).
    moved : float
        Share of the tokens that changed their copy of the model, mean over the reshards.
    largest : float
        Largest load over the mean, mean over the reshards.
    bound : float
        What that is at least, whatever the plan.
    seconds : float
        Time that this rank spent in reshards, waiting included.
    """

    reshards: int
    local: int
    bytes_moved: Ints
    moved: float
    largest: float
    bound: float
    seconds: float

    def __repr__(self) -> str:
        return (
            f"ReshardStats({self.reshards} reshards, {self.local} local, "
            f"{self.bytes_moved.sum() / 1e6:.3g} MB, largest load {self.largest:.3f} of the mean, "
            f"{self.seconds:.3g} s)"
        )


@dataclass(frozen=True)
class _Table:
    """All rows of all ranks, in the order of their uid."""

    uid: Ints
    lengths: Ints
    rank: Ints
    schema: str


class Coordinator(Agreement):
    """The data side of one rank.

    Parameters
    ----------
    group : Group, optional
        The ranks; by default this one alone.
    layouts : mapping of str to ParallelLayout, optional
        By the keys that nodes name.
    balance : str
        Policy where the layout changes: "keep", "lpt_equal", "lpt_relabel", "kk" or "min_move".
    unit : int
        Rows that stay together: uid // unit is the same. The group size keeps groups whole.
    eps : float
        How far above the mean ``min_move`` leaves the largest load, as a share.
    double_buffer : bool
        Two slots for each edge rather than one.
    may_be_empty : bool
        Whether it is fine that no rank has a row, as when all samples were dropped.

    Examples
    --------
    >>> from foretell.train.rl import in_threads
    >>> def program(group):
    ...     coordinator = Coordinator(group, balance="min_move")
    ...     n = torch.tensor([9, 5, 4] if group.rank == 0 else [1, 1])
    ...     uid = torch.arange(len(n)) + 3 * group.rank
    ...     rows = RowBatch(n, uid, {"ids": torch.zeros(int(n.sum()), dtype=torch.int64)})
    ...     return coordinator.reshard(rows).uid.tolist()
    >>> in_threads(2, program)
    [[0, 3], [1, 2, 4]]
    """

    def __init__(
        self,
        group: Group | None = None,
        layouts: Mapping[str, ParallelLayout] | None = None,
        *,
        balance: str = "min_move",
        unit: int = 1,
        eps: float = 0.02,
        double_buffer: bool = True,
        may_be_empty: bool = False,
    ) -> None:
        super().__init__(group or Alone())
        self.layouts = {k: v.over(self.group.size) for k, v in (layouts or {}).items()}
        self.balance, self.unit, self.eps = balance, unit, eps
        self.may_be_empty = may_be_empty
        self.buffer = DoubleBuffer(slots=2 if double_buffer else 1)
        self._plans: dict[Hashable, dict[int, int]] = {}
        self._bytes = np.zeros((self.group.size, self.group.size), dtype=np.int64)
        self._loads: list[tuple[float, float, float]] = []
        self._local, self._seconds = 0, 0.0

    def layout(self, key: str) -> ParallelLayout:
        """The layout of a key; one rank for each copy where none was given."""
        return self.layouts.get(key) or ParallelLayout().over(self.group.size)

    def twin(self) -> Coordinator:
        """One with the same settings and its own group, for a second thread."""
        return Coordinator(
            self.group.twin(), self.layouts, balance=self.balance, unit=self.unit, eps=self.eps,
            double_buffer=self.buffer.slots == 2, may_be_empty=self.may_be_empty,
        )  # fmt: skip

    def put(self, edge: str, epoch: Hashable, rows: object) -> None:
        """Lay rows down for a node."""
        self.buffer.put(edge, epoch, rows)

    def get(self, edge: str, epoch: Hashable) -> RowBatch:
        """The rows that were laid down for a node."""
        found: RowBatch = self.buffer.get(edge, epoch)
        return found

    def swap(self, epoch: Hashable) -> None:
        """End an epoch: its rows and plans are dropped."""
        self.buffer.swap(epoch)
        self._plans = {key: plan for key, plan in self._plans.items() if key[0] != epoch}  # type: ignore[index]

    def reshard(
        self,
        batch: RowBatch,
        source: str = "rollout",
        target: str = "train",
        policy: str | None = None,
        *,
        place: str = "reshard",
        plan_key: Hashable = None,
        error: BaseException | None = None,
    ) -> RowBatch:
        """Move rows from one layout to another.

        Parameters
        ----------
        batch : RowBatch
            What this rank has; ranks of one copy of the model have the same.
        source, target : str
            Keys of the layouts.
        policy : str, optional
            Overrides ``balance``.
        place : str
            Named in errors, and compared between the ranks.
        plan_key : hashable, optional
            A second reshard with the same key sends each row where the first one did.
        error : exception, optional
            What went wrong on this rank before; all ranks then raise.

        Returns
        -------
        RowBatch
            The same object where nothing moves, else rows in the order of their uid.

        Raises
        ------
        DataError
            A uid is on two ranks, columns differ, or no rank has a row.
        ControllerError
            The ranks disagree, or another one failed.
        """
        began = time.perf_counter()
        src, dst = self.layout(source), self.layout(target)
        mine = batch if src.owner(src.copy_of(self.group.rank)) == self.group.rank else None
        table = self._gather(mine, f"{place} {source}>{target}", error)
        if table is None:
            return RowBatch.without_rows()
        part = self._plan(table, src, dst, policy or self.balance, plan_key)
        owner = np.array([dst.owner(copy) for copy in range(dst.dp or 1)])[part]
        found = self._move(batch, mine, table, owner, src, dst)
        self._seconds += time.perf_counter() - began
        return found

    def stats(self) -> ReshardStats:
        """What was moved since the coordinator was made."""
        moved, largest, bound = np.mean(self._loads or [(0.0, 1.0, 1.0)], axis=0)
        return ReshardStats(
            len(self._loads), self._local, self._bytes.copy(), float(moved), float(largest),
            float(bound), self._seconds,
        )  # fmt: skip

    def _gather(
        self, mine: RowBatch | None, place: str, error: BaseException | None
    ) -> _Table | None:
        mine = mine if mine is not None else RowBatch.without_rows()
        schema = mine.schema().encode() if len(mine) else b""
        told = np.int64(len(mine)).tobytes() + mine.uid.numpy().tobytes()
        told += mine.lengths.numpy().astype(np.int32).tobytes() + schema
        uid, lengths, ranks, schemas = [], [], [], set()
        for rank, row in enumerate(self._meet(place, "", error, told)):
            count = int(np.frombuffer(row, np.int64, 1)[0])
            uid.append(np.frombuffer(row, np.int64, count, offset=8))
            lengths.append(np.frombuffer(row, np.int32, count, offset=8 + 8 * count))
            ranks.append(np.full(count, rank, dtype=np.int64))
            if count:
                schemas.add(row[8 + 12 * count :].decode())
        if not schemas and self.may_be_empty:
            return None
        if not schemas:
            raise DataError(f"No rank has a row at {place}. Give at least one prompt a step.")
        if len(schemas) > 1:
            raise DataError(
                f"The ranks have different columns at {place}: {' and '.join(sorted(schemas))}."
            )
        ids, owner = np.concatenate(uid), np.concatenate(ranks)
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            both = owner[order][twice[0] : twice[0] + 2].tolist()
            raise DataError(
                f"The uid {ids[twice[0]]} is on the ranks {both[0]} and {both[1]} at {place}. "
                "Number rows by prompt * group_size + sample, each prompt on one rank."
            )
        sizes = np.concatenate(lengths).astype(np.int64)[order]
        return _Table(ids, sizes, owner[order], schemas.pop())

    def _plan(
        self, table: _Table, src: ParallelLayout, dst: ParallelLayout, policy: str, key: Hashable
    ) -> Ints:
        """The copy of the model that each row of the table goes to."""
        if key is not None and key in self._plans:
            known = self._plans[key]
            lost = [int(u) for u in table.uid if int(u) not in known]
            if lost:
                raise DataError(f"The row with uid {lost[0]} was not there when {key} was planned.")
            return np.array([known[int(u)] for u in table.uid])
        units, first, which = np.unique(
            table.uid // self.unit, return_index=True, return_inverse=True
        )
        sizes = np.bincount(which, weights=table.lengths).astype(np.int64)
        now = table.rank[first] // (dst.tp * dst.pp)
        if policy == "keep" and src.dp != dst.dp:
            order = np.lexsort((units, table.rank[first]))
            now[order] = np.arange(len(units)) * (dst.dp or 1) // len(units)
        plan = balance(policy, sizes, now, units, dst.dp or 1, eps=self.eps)
        self._loads.append((plan.moved, plan.largest, plan.bound))
        part = plan.owner[which]
        if key is not None:
            self._plans[key] = dict(zip(table.uid.tolist(), part.tolist(), strict=True))
        return part

    def _move(
        self,
        batch: RowBatch,
        mine: RowBatch | None,
        table: _Table,
        owner: Ints,
        src: ParallelLayout,
        dst: ParallelLayout,
    ) -> RowBatch:
        same_copies = (src.tp, src.pp) == (dst.tp, dst.pp)
        if (owner == table.rank).all() and (same_copies or dst.tp * dst.pp == 1):
            self._local += 1
            if mine is not None and not len(mine):
                return RowBatch.empty(table.schema)
            return batch if mine is not None or same_copies else RowBatch.empty(table.schema)
        rank = self.group.rank
        self._count(table, owner, dst)
        own, here = table.rank == rank, owner == rank
        peers, counts = np.unique(owner[own], return_counts=True)
        out: dict[int, Tensor] = {}
        if mine is not None and len(mine):
            order = own.nonzero()[0][np.argsort(owner[own], kind="stable")]
            pieces = _rows_of(mine, table.uid[order]).pieces(counts.tolist())
            out = dict(zip(peers.tolist(), pieces, strict=True))
        kept = {rank: out.pop(rank)} if rank in out else {}
        came, sizes = np.unique(table.rank[here & ~own]).tolist(), _bytes_of(table)
        into = {peer: int(sizes[here & (table.rank == peer)].sum()) for peer in came}
        received = {**kept, **self.group.exchange(out, into)}
        whose = sorted(received)
        chosen = [here & (table.rank == peer) for peer in whose]
        rows = (
            RowBatch.joined(
                [received[peer] for peer in whose], table.schema,
                [torch.from_numpy(table.lengths[at]) for at in chosen],
                [torch.from_numpy(table.uid[at]) for at in chosen],
            ).by_uid()
            if whose
            else RowBatch.empty(table.schema)
        )  # fmt: skip
        return self._replicated(rows, table, owner, dst) if dst.tp * dst.pp > 1 else rows

    def _replicated(
        self, rows: RowBatch, table: _Table, owner: Ints, dst: ParallelLayout
    ) -> RowBatch:
        """Hand the rows of a copy to its other members."""
        rank, copy = self.group.rank, dst.copy_of(self.group.rank)
        giver, part = dst.owner(copy), owner == dst.owner(copy)
        if rank == giver:
            data = rows.to_bytes()
            others = [m for m in dst.members(copy) if m != rank]
            self.group.exchange(dict.fromkeys(others, data) if len(rows) else {}, {})
            return rows
        received = self.group.exchange({}, {giver: _size(table, part)} if part.any() else {})
        return _unpacked(received[giver], table, part) if part.any() else rows

    def _count(self, table: _Table, owner: Ints, dst: ParallelLayout) -> None:
        each = _bytes_of(table)
        moving = table.rank != owner
        np.add.at(self._bytes, (table.rank[moving], owner[moving]), each[moving])
        for copy in range(dst.dp or 1):
            giver = dst.owner(copy)
            for member in dst.members(copy):
                if member != giver:
                    self._bytes[giver, member] += each[owner == giver].sum()


def _rows_of(batch: RowBatch, uid: Ints) -> RowBatch:
    """The rows with the given uids, in that order."""
    ids = batch.uid.numpy()
    order = np.argsort(ids)
    at = order[np.searchsorted(ids, uid, sorter=order)]
    return batch.select(torch.from_numpy(at))


def _bytes_of(table: _Table) -> Ints:
    each, fixed = entry_bytes(table.schema)
    return table.lengths * each + fixed


def _size(table: _Table, chosen: NDArray[np.bool_]) -> int:
    return int(_bytes_of(table)[chosen].sum())


def _unpacked(data: Tensor, table: _Table, chosen: NDArray[np.bool_]) -> RowBatch:
    lengths, uid = table.lengths[chosen], table.uid[chosen]
    return RowBatch.from_bytes(data, table.schema, torch.from_numpy(lengths), torch.from_numpy(uid))
