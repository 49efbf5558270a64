"""Sums by the gloo back end of torch.distributed, a process group for each view.

Every worker keeps a small store server from its start; the members of a view meet at the store of
their leader. Gloo notices a death only where it was reading from the dead, and waits for its
time-out elsewhere, so the wait is broken off as soon as the links say that the view is over; its
memory is then not used again. States are sent over plain sockets: gloo's own sends cannot be broken
off.
"""

from __future__ import annotations

import datetime
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from foretell.core import MissingExtraError
from foretell.train.stacked.collective import Buffer, Point, ViewLostError, no_fault
from foretell.train.stacked.links import Links
from foretell.train.stacked.membership import View
from foretell.train.stacked.sockets import SocketCollective

try:
    import torch
    import torch.distributed
except ImportError as error:
    raise MissingExtraError("torch", "learn", "add up gradients by gloo") from error

dist: Any = torch.distributed  # its process groups are compiled, and typed in part only

_FIRST_POLL, _LONGEST_POLL = 1e-10, 0.002  # seconds; the first for each byte
_PART = 1 << 21  # values of one sum; smaller ones cost more turns of the processor
_AT_ONCE = 2  # sums under way


class GlooCollective:
    """Sums between the members of a view by gloo.

    Parameters
    ----------
    links : Links
        By which members find each other's stores, and which know when the view ends.
    host : str
        Address of this worker.
    point : callable
        Called with "reduce" while a sum is under way.
    """

    def __init__(self, links: Links, host: str = "127.0.0.1", point: Point = no_fault) -> None:
        self._links, self._host, self._point = links, host, point
        # Others may compute for long; that they are dead, the links know much earlier.
        self._span = datetime.timedelta(seconds=links.timeout_s)
        self._longest = datetime.timedelta(seconds=links.stuck_s)
        self._store = dist.TCPStore(
            host, 0, is_master=True, wait_for_workers=False, timeout=self._span
        )
        links.own_details = {"store": self._store.port}
        self._group: Any = None
        self._view: View | None = None
        self._ranks: dict[int, int] = {}
        self._rooms: list[torch.Tensor] = []
        self._broken = False  # whether a sum was left behind
        self._left: list[Any] = []  # groups with such a sum
        self._pairs = SocketCollective(links)

    def open(self, view: View) -> None:
        """A process group of the members."""
        self.close()
        self._view = view
        self._ranks = {worker: rank for rank, worker in enumerate(view.ids)}
        try:
            if len(view.ids) > 1:
                self._group = self._new_group(view)
            if view.stale:
                self._pairs.open(view)
        except (RuntimeError, KeyError) as error:
            raise ViewLostError(str(error).splitlines()[0]) from error

    def _new_group(self, view: View) -> Any:
        me, leader = self._links.me, view.leader
        store = self._store
        if leader != me:
            host, _ = self._links.addresses[leader]
            port = self._links.details[leader]["store"]
            store = dist.TCPStore(host, port, is_master=False, timeout=self._span)
        options = dist.ProcessGroupGloo._Options()
        options._timeout = self._span
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self._host)]
        name = dist.PrefixStore(f"view-{view.epoch}", store)
        group = dist.ProcessGroupGloo(name, self._ranks[me], len(view.ids), options)
        group._set_default_timeout(self._longest)
        return group

    def sums(self, buffer: Buffer) -> Iterator[tuple[int, Buffer]]:
        """The sum over members; while one part is used, others are under way."""
        if self._group is None:
            yield 0, buffer
            return
        given, options = torch.from_numpy(buffer), dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        if not self._rooms or self._rooms[0].dtype != given.dtype:
            self._rooms = [torch.empty(_PART, dtype=given.dtype) for _ in range(_AT_ONCE)]
        rooms, under_way = self._rooms, deque[tuple[int, torch.Tensor, Any]]()
        self._broken = True
        try:
            for k, part in enumerate(torch.split(given, _PART)):
                if len(under_way) == _AT_ONCE:
                    yield self._finished(under_way)
                room = rooms[k % _AT_ONCE][: len(part)].copy_(part)
                work = self._group.allreduce([room], options)
                under_way.append((k * _PART, room, work))
                if not k:
                    self._point("reduce")
            while under_way:
                yield self._finished(under_way)
        except RuntimeError as error:
            raise ViewLostError(str(error).splitlines()[0]) from error
        self._broken = False

    def send(self, to: int, data: bytes) -> None:
        """Send bytes, and wait for the receipt."""
        self._pairs.send(to, data)

    def receive(self, source: int) -> bytes:
        """Bytes from a member."""
        return self._pairs.receive(source)

    def close(self) -> None:
        """Let the group go."""
        self._pairs.close()
        if self._broken:  # gloo may still write there
            self._rooms = []
        self._group, self._broken = None, False

    def _finished(self, under_way: deque[tuple[int, torch.Tensor, Any]]) -> tuple[int, Buffer]:
        """Wait for the oldest sum, and leave all of them behind when the view ends."""
        assert self._view is not None
        start, room, work = under_way[0]
        pause = max(2e-5, _FIRST_POLL * room.nbytes)
        while not work.is_completed():
            if not self._links.stands(self._view.epoch):
                # Their end would wait for the sums, and those for a worker that hangs.
                self._left.append((self._group, list(under_way)))
                raise ViewLostError("the view ended")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL)
            self._links.pulse += 1
        work.wait()
        under_way.popleft()
        return start, room.numpy()
