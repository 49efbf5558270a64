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

_LONGEST_POLL = 0.002


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
        self._room: torch.Tensor | None = None
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

    def all_reduce(self, buffer: Buffer) -> Buffer:
        """The sum over members."""
        if self._group is None:
            return buffer.copy()
        given = torch.from_numpy(buffer)
        if self._room is None or self._room.shape != given.shape or self._room.dtype != given.dtype:
            self._room = torch.empty_like(given)
        total = self._room.copy_(given)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        self._wait(lambda: self._group.allreduce([total], options))
        found: Buffer = total.numpy()
        return found

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
            self._room = None
        self._group, self._broken = None, False

    def _wait(self, begin: Any) -> None:
        """Run an operation, and leave it behind when the view ends."""
        assert self._view is not None
        self._broken = True
        try:
            work = begin()
            self._point("reduce")
            pause = 2e-5
            while not work.is_completed():
                if not self._links.stands(self._view.epoch):
                    # Its end would wait for the sum, and that for a worker that hangs.
                    self._left.append((self._group, work))
                    raise ViewLostError("the view ended")
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_POLL)
                self._links.pulse += 1
            work.wait()
            self._broken = False
        except RuntimeError as error:
            raise ViewLostError(str(error).splitlines()[0]) from error
