"""Sums by the gloo back end of torch.distributed, a process group for each view.

Every worker keeps a small store server from its start; the members of a view meet at the store of
their leader. Gloo notices a death only where it was reading from the dead, and waits for its
time-out elsewhere, so the wait is broken off as soon as the links say that the view is over. What
was broken off keeps its memory until gloo lets go of it.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

import numpy as np

from foretell.core import MissingExtraError
from foretell.train.stacked.collective import Buffer, Point, ViewLostError, no_fault
from foretell.train.stacked.links import Links
from foretell.train.stacked.membership import View

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
        self._span = datetime.timedelta(seconds=links.timeout_s)
        self._store = dist.TCPStore(
            host, 0, is_master=True, wait_for_workers=False, timeout=self._span
        )
        links.own_details = {"store": self._store.port}
        self._group: Any = None
        self._view: View | None = None
        self._ranks: dict[int, int] = {}
        self._room: torch.Tensor | None = None
        self._lost: list[Any] = []  # groups and buffers that gloo may still be using

    def open(self, view: View) -> None:
        """A process group of the members."""
        self.close()
        self._view = view
        self._ranks = {worker: rank for rank, worker in enumerate(view.ids)}
        try:
            if len(view.ids) > 1:
                self._group = self._new_group(view)
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
        return dist.ProcessGroupGloo(name, self._ranks[me], len(view.ids), options)

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
        self._wait(lambda: self._group.allreduce([total], options), total)
        found: Buffer = total.numpy()
        return found

    def send(self, to: int, data: bytes) -> None:
        """Send bytes, and wait for the receipt."""
        size = torch.tensor([len(data)], dtype=torch.int64)
        self._wait(lambda: self._group.send([size], self._ranks[to], 1), size)
        body = torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
        self._wait(lambda: self._group.send([body], self._ranks[to], 2), body)
        answer = torch.zeros(1, dtype=torch.uint8)
        self._wait(lambda: self._group.recv([answer], self._ranks[to], 3), answer)

    def receive(self, source: int) -> bytes:
        """Bytes from a member."""
        size = torch.zeros(1, dtype=torch.int64)
        self._wait(lambda: self._group.recv([size], self._ranks[source], 1), size)
        body = torch.empty(int(size), dtype=torch.uint8)
        self._wait(lambda: self._group.recv([body], self._ranks[source], 2), body)
        answer = torch.ones(1, dtype=torch.uint8)
        self._wait(lambda: self._group.send([answer], self._ranks[source], 3), answer)
        return body.numpy().tobytes()

    def close(self) -> None:
        """Let the group go."""
        if self._group is not None:
            self._lost = [*self._lost[-8:], (self._group, self._room)]
            self._group, self._room = None, None

    def _wait(self, begin: Any, *buffers: torch.Tensor) -> None:
        """Run an operation, and leave it behind when the view ends."""
        assert self._view is not None
        try:
            work = begin()
            self._point("reduce")
            pause = 2e-5
            while not work.is_completed():
                if not self._links.stands(self._view.epoch):
                    self._lost.append((work, buffers))
                    raise ViewLostError("the view ended")
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_POLL)
                self._links.pulse += 1
            work.wait()
        except RuntimeError as error:
            raise ViewLostError(str(error).splitlines()[0]) from error
