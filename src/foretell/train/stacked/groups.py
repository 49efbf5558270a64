"""Sums by process groups of torch.distributed, a group for each view.

    GlooCollective     gloo, of torch itself
    TorchftCollective  the groups of torchft: NCCL on GPUs, else gloo

Every worker keeps a small store server from its start; the members of a view meet at the store of
their leader. A group notices a death only where it was reading from the dead, and waits for its
time-out elsewhere, so the wait is broken off as soon as the links say that the view is over; its
memory is then not used again. States are sent over plain sockets: sends of a group cannot be broken
off.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from foretell.core import MissingExtraError, ParameterError
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
        self._device = torch.device("cpu")
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

    def _store_of(self, leader: int) -> tuple[str, int]:
        """Where the members meet."""
        if leader == self._links.me:
            return self._host, self._store.port
        return str(self._links.addresses[leader][0]), self._links.details[leader]["store"]

    def _new_group(self, view: View) -> Any:
        me, leader = self._links.me, view.leader
        store = self._store
        if leader != me:
            host, port = self._store_of(leader)
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
        given = buffer if isinstance(buffer, torch.Tensor) else torch.from_numpy(buffer)
        if not self._rooms or self._rooms[0].dtype != given.dtype:
            self._rooms = [
                torch.empty(_PART, dtype=given.dtype, device=self._device) for _ in range(_AT_ONCE)
            ]
        rooms, under_way = self._rooms, deque[tuple[int, torch.Tensor, Any]]()
        self._broken = True
        try:
            for k, part in enumerate(torch.split(given, _PART)):
                if len(under_way) == _AT_ONCE:
                    start, total = self._finished(under_way)
                    yield start, total if given is buffer else total.cpu().numpy()
                room = rooms[k % _AT_ONCE][: len(part)].copy_(part)
                under_way.append((k * _PART, room, self._begin(room)))
                if not k:
                    self._point("reduce")
            while under_way:
                start, total = self._finished(under_way)
                yield start, total if given is buffer else total.cpu().numpy()
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

    def _begin(self, room: torch.Tensor) -> Any:
        """Start a sum in its place; what comes back has ``is_completed`` and ``wait``."""
        options = dist.AllreduceOptions()
        options.reduceOp, options.timeout = dist.ReduceOp.SUM, self._longest
        return self._group.allreduce([room], options)

    def _finished(
        self, under_way: deque[tuple[int, torch.Tensor, Any]]
    ) -> tuple[int, torch.Tensor]:
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
        return start, room


class TorchftCollective(GlooCollective):
    """Sums between the members of a view by the process groups of torchft.

    Those of NCCL can be aborted while a sum hangs, which is what masks a failure there: its kernels
    wait for the dead for ever.

    Parameters
    ----------
    links, host, point
        As for ``GlooCollective``.
    device : torch.device, optional
        Of the gradients: NCCL for "cuda", gloo for every other one.

    Raises
    ------
    ParameterError
        There are fewer GPUs than workers: NCCL needs one for each.
    """

    def __init__(
        self, links: Links, host: str = "127.0.0.1", point: Point = no_fault, device: Any = None
    ) -> None:
        super().__init__(links, host, point)
        try:
            from torchft import process_group as torchft
        except ImportError as error:
            raise MissingExtraError("torchft", "survive", "add up by its process groups") from error
        self._nccl = device is not None and torch.device(device).type == "cuda"
        if self._nccl:
            workers, gpus = len(links.addresses), torch.cuda.device_count()
            if gpus < workers:
                raise ParameterError(
                    f"NCCL needs a GPU for each of the {workers} workers, and there are {gpus}. "
                    f'Write workers = {gpus}, or backend = "gloo", which adds up on the CPU.'
                )
            self._device = torch.device(device)
            os.environ.setdefault("TORCH_NCCL_NONBLOCKING_TIMEOUT", str(links.timeout_s))
        elif (name := _interface_of(host)) is not None:  # else gloo asks what this host is called
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        kind = torchft.ProcessGroupNCCL if self._nccl else torchft.ProcessGroupGloo
        self._torchft: Any = kind(timeout=self._span)

    def _new_group(self, view: View) -> Any:
        me, (host, port) = self._links.me, self._store_of(view.leader)
        self._torchft.set_timeout(self._span)  # of connecting
        self._torchft.configure(
            f"{host}:{port}/view-{view.epoch}", str(me), self._ranks[me], len(view.ids),
            quorum_id=view.epoch,
        )  # fmt: skip
        self._torchft.set_timeout(self._longest)  # of a sum, for which others may compute long
        return self._torchft

    def _begin(self, room: torch.Tensor) -> Any:
        work = super()._begin(room)
        if not self._nccl:
            return work
        work.wait()  # makes the stream wait, and not this thread
        return _Recorded()

    def close(self) -> None:
        """Abort what is under way, and let the group go."""
        if self._group is not None:
            if self._broken and not self._nccl:  # an abort of gloo waits for its sums
                self._left.append(self._torchft.parent)
            self._torchft.abort(errored=self._broken)
        super().close()


def _interface_of(host: str) -> str | None:
    """The network interface that has an address, on Linux."""
    get_address = 0x8915  # SIOCGIFADDR
    with contextlib.suppress(ImportError, OSError), socket.socket(type=socket.SOCK_DGRAM) as any_:
        import fcntl

        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                asked = struct.pack("256s", name.encode()[:15])
                found = fcntl.ioctl(any_.fileno(), get_address, asked)
                if socket.inet_ntoa(found[20:24]) == host:
                    return name
    return None


class _Recorded:
    """The place of the stream that is reached when what was begun so far is done."""

    def __init__(self) -> None:
        self._event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def is_completed(self) -> bool:
        return bool(self._event.query())

    def wait(self) -> None:
        self._event.synchronize()
