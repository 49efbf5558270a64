"""The ranks that run one program together, and the few ways in which they talk.

    Alone         one rank
    ThreadGroup   ranks as threads of one process: the same program, for tests and small machines
    TorchGroup    torch.distributed: gloo on CPU, NCCL for tensors on GPU

All waits are bounded. An exchange goes directly from rank to rank; no rank ever holds what belongs
to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from foretell.core.errors import ControllerError, MissingExtraError, ParameterError

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

T = TypeVar("T")
TIMEOUT_S = 120.0
_SMALL, _FEW = 65536, 16  # bytes and ranks up to which everybody writes to everybody


class Group(Protocol):
    """Ranks 0..size-1 of one program; every method but ``rank`` and ``size`` is called by all."""

    rank: int
    size: int

    def all_gather(self, values: Tensor) -> Tensor:
        """The tensors of all ranks, of one shape, stacked: (size, ...)."""
        ...

    def all_sum(self, values: Tensor) -> None:
        """Replace a tensor by its sum over the ranks."""
        ...

    def broadcast(self, values: Tensor, source: int = 0) -> None:
        """Replace a tensor by that of one rank."""
        ...

    def exchange(self, out: Mapping[int, Tensor], into: Mapping[int, int]) -> dict[int, Tensor]:
        """Send bytes to some ranks and receive known numbers of bytes from some."""
        ...

    def twin(self) -> Group:
        """Another group of the same ranks, for a second thread."""
        ...

    def subset(self, ranks: Sequence[int]) -> Group | None:
        """A group of some ranks; None for the others."""
        ...


class Alone:
    """One rank by itself.

    Examples
    --------
    >>> group = Alone()
    >>> group.all_gather(torch.tensor([3])).tolist(), group.size
    ([[3]], 1)
    """

    rank, size = 0, 1

    def all_gather(self, values: Tensor) -> Tensor:
        """The tensor, with an axis in front."""
        return values[None].clone()

    def all_sum(self, values: Tensor) -> None:
        """Nothing to add."""

    def broadcast(self, values: Tensor, source: int = 0) -> None:
        """Nothing to send."""

    def exchange(self, out: Mapping[int, Tensor], into: Mapping[int, int]) -> dict[int, Tensor]:
        """Nobody to talk to."""
        return {}

    def twin(self) -> Alone:
        """Itself: one rank cannot wait for another."""
        return self

    def subset(self, ranks: Sequence[int]) -> Alone | None:
        """Itself."""
        return self if 0 in ranks else None


class _Table:
    """Where threads lay down tensors for each other."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self.size, self.timeout_s = size, timeout_s
        self.barrier = threading.Barrier(size, timeout=timeout_s)
        self.lock = threading.Lock()
        self.slots: list[Any] = [None] * size
        self.made: dict[tuple[int, ...], _Table] = {}
        self.twin: _Table | None = None


class ThreadGroup:
    """One of several ranks that are threads of one process; made by `in_threads`.

    The ranks really run at the same time and share nothing but what they exchange, which is copied.
    """

    def __init__(self, rank: int, table: _Table) -> None:
        self.rank, self.size, self._table = rank, table.size, table

    def _meet(self, value: Any) -> list[Any]:
        table = self._table
        try:
            table.slots[self.rank] = value
            table.barrier.wait()
            found = list(table.slots)
        except threading.BrokenBarrierError as error:
            raise ControllerError(
                f"Rank {self.rank} waited for the other {self.size - 1} ranks, and one of them "
                f"stopped or took longer than {table.timeout_s:g} s."
            ) from error
        with suppress(threading.BrokenBarrierError):  # who left has laid down its part before
            table.barrier.wait()
        return found

    def all_gather(self, values: Tensor) -> Tensor:
        """The tensors of all ranks, stacked."""
        return torch.stack(self._meet(values.clone()))

    def all_sum(self, values: Tensor) -> None:
        """Sum over the ranks, in their order."""
        parts = self._meet(values.clone())
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        values.copy_(total)

    def broadcast(self, values: Tensor, source: int = 0) -> None:
        """Take over the tensor of one rank."""
        values.copy_(self._meet(values.clone())[source])

    def exchange(self, out: Mapping[int, Tensor], into: Mapping[int, int]) -> dict[int, Tensor]:
        """Lay down what goes out, take what comes in."""
        parts = self._meet({peer: values.clone() for peer, values in out.items()})
        return {peer: parts[peer][self.rank] for peer in into}

    def twin(self) -> ThreadGroup:
        """The same ranks at another table."""
        with self._table.lock:
            if self._table.twin is None:
                self._table.twin = _Table(self.size, self._table.timeout_s)
        return ThreadGroup(self.rank, self._table.twin)

    def subset(self, ranks: Sequence[int]) -> ThreadGroup | None:
        """Some of the ranks at a table of their own."""
        key = tuple(ranks)
        with self._table.lock:
            table = self._table.made.setdefault(key, _Table(len(key), self._table.timeout_s))
        return ThreadGroup(key.index(self.rank), table) if self.rank in key else None

    def leave(self) -> None:
        """Make the others stop waiting; for a rank that ends early."""
        tables = [self._table]
        while tables:
            table = tables.pop()
            table.barrier.abort()
            tables += [*table.made.values(), *([table.twin] if table.twin else [])]


def in_threads(
    size: int, program: Callable[[Group], T], *, timeout_s: float = TIMEOUT_S
) -> list[T]:
    """Run a program as several ranks in this process, and return what each returned.

    Parameters
    ----------
    size : int
    program : callable
        Is given its group; builds what it changes, since threads share memory.
    timeout_s : float
        Longest wait of a rank for the others.

    Examples
    --------
    >>> def program(group):
    ...     total = torch.tensor([group.rank + 1])
    ...     group.all_sum(total)
    ...     return int(total)
    >>> in_threads(4, program)
    [10, 10, 10, 10]
    """
    if size < 1:
        raise ParameterError(f"size={size!r}; needed is at least one rank.")
    if size == 1:
        return [program(Alone())]
    table = _Table(size, timeout_s)

    def run(rank: int) -> T:
        group = ThreadGroup(rank, table)
        try:
            return program(group)
        except BaseException:
            group.leave()
            raise

    with ThreadPoolExecutor(size, thread_name_prefix="rank") as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [e for e in (future.exception() for future in futures) if e is not None]
    for error in sorted(errors, key=lambda e: isinstance(e, ControllerError)):
        raise error
    return [future.result() for future in futures]


class TorchGroup:
    """The ranks of ``torch.distributed``, which must have been joined (`foretell.train.rl.join`).

    Parameters
    ----------
    process_group : optional
        By default all ranks.
    ranks : sequence of int, optional
        Global ranks of the members.
    """

    def __init__(self, process_group: Any = None, ranks: Sequence[int] | None = None) -> None:
        import torch.distributed as dist

        self._dist, self._pg = dist, process_group
        self._ranks = list(ranks) if ranks is not None else list(range(dist.get_world_size()))
        self.rank, self.size = self._ranks.index(dist.get_rank()), len(self._ranks)

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, group=self._pg, **kwargs)
        except RuntimeError as error:
            raise ControllerError(
                f"Rank {self.rank} of {self.size} lost the others: {str(error).splitlines()[0]}. "
                "Look for the first error among the other ranks, then resume from the checkpoint."
            ) from error

    def all_gather(self, values: Tensor) -> Tensor:
        """The tensors of all ranks, stacked; small ones take one hop instead of a ring."""
        size = values.numel() * values.element_size()
        if values.device.type == "cpu" and size <= _SMALL and self.size <= _FEW:
            raw = values.contiguous().view(-1).view(torch.uint8)
            peers = [r for r in range(self.size) if r != self.rank]
            found = self.exchange(dict.fromkeys(peers, raw), dict.fromkeys(peers, size))
            parts = [raw if r == self.rank else found[r] for r in range(self.size)]
            return torch.stack(parts).view(values.dtype).view(self.size, *values.shape)
        out = [torch.empty_like(values) for _ in range(self.size)]
        self._call(self._dist.all_gather, out, values.contiguous())
        return torch.stack(out)

    def all_sum(self, values: Tensor) -> None:
        """Sum over the ranks, in place."""
        self._call(self._dist.all_reduce, values)

    def broadcast(self, values: Tensor, source: int = 0) -> None:
        """Take over the tensor of one rank."""
        self._call(self._dist.broadcast, values, src=self._ranks[source])

    def exchange(self, out: Mapping[int, Tensor], into: Mapping[int, int]) -> dict[int, Tensor]:
        """All sends and receives at once; peers in the order of their ranks on both sides."""
        dist, found, work = self._dist, {}, []
        for peer in sorted(into):
            found[peer] = torch.empty(into[peer], dtype=torch.uint8)
        for peer in sorted({*out, *into}):
            to = self._ranks[peer]
            if peer in out:
                work.append(self._call(dist.isend, out[peer].contiguous(), to))
            if peer in into:
                work.append(self._call(dist.irecv, found[peer], to))
        for one in work:
            self._wait(one)
        return found

    def _wait(self, work: Any) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            raise ControllerError(
                f"Rank {self.rank} lost a peer during an exchange: {str(error).splitlines()[0]}. "
                "Look for the first error among the other ranks, then resume from the checkpoint."
            ) from error

    def twin(self) -> TorchGroup:
        """A second process group of the same ranks."""
        return TorchGroup(self._dist.new_group(self._ranks), self._ranks)

    def subset(self, ranks: Sequence[int]) -> TorchGroup | None:
        """A process group of some ranks; called by all of them."""
        members = [self._ranks[rank] for rank in ranks]
        made = self._dist.new_group(members)
        return TorchGroup(made, members) if self._dist.get_rank() in members else None
