"""Sums between workers of one machine through memory that they share; sockets carry the signals.

Each worker owns a region: what it gives, and its part of the sum. In a sum of m members

    1. each has its buffer in its region, and tells all others;
    2. each adds one m-th over all regions, writes it into its own, and tells all others;
    3. each reads all parts where they are.

Nothing but one byte for each pair and round goes over a socket. A worker that was stopped while it
read may wake up when the others have long gone on: whoever changes what it gave, or its part,
stamps that first, and what was read in the second and third round counts only if no stamp has
changed by then. Before the first byte of the next sum nobody changes anything in a view that holds.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from foretell.train.stacked.collective import Buffer, Point, ViewLostError, no_fault
from foretell.train.stacked.links import Links
from foretell.train.stacked.membership import View
from foretell.train.stacked.sockets import SocketCollective

_HEAD = mmap.PAGESIZE  # of a region: its name, and the stamps
_NAME = 32  # bytes
_GIVEN, _ADDED = 0, 1  # stamps
_FEWEST = 1 << 16  # bytes; smaller sums go over the sockets


def one_machine(hosts: list[str]) -> bool:
    """Whether workers at these addresses can share memory, if they are allowed to."""
    return sys.platform == "linux" and len(set(hosts)) == 1


class SharedCollective(SocketCollective):
    """Sums between the members of a view through shared memory.

    Where a member cannot open the memory of another one, all go over the sockets.

    Parameters
    ----------
    links, point, in_parts
        As for ``SocketCollective``.
    """

    def __init__(self, links: Links, point: Point = no_fault, *, in_parts: bool = False) -> None:
        super().__init__(links, point, in_parts=in_parts)
        self._file, self._name = os.memfd_create("foretell"), secrets.token_bytes(_NAME)
        os.ftruncate(self._file, _HEAD)
        os.pwrite(self._file, self._name, 0)
        links.own_details = {"pid": os.getpid(), "file": self._file, "name": self._name.hex()}
        self._files: dict[int, int] = {}
        self._regions: dict[int, _Region] = {}
        self._together, self._count = False, 0

    def open(self, view: View) -> None:
        """Connect the members, and agree whether all of them see the memory of all."""
        super().open(view)
        others, self._count = [p for p in view.ids if p != self._links.me], 0
        for peer in others:
            self._open_file(peer)
        mine = np.array([len(self._files) == len(others)], dtype=np.uint8)
        said = {p: np.zeros(1, dtype=np.uint8) for p in others}
        self._exchange(dict.fromkeys(others, mine), said)
        self._together = bool(mine[0]) and all(x[0] for x in said.values())

    def _open_file(self, peer: int) -> None:
        told = self._links.details.get(peer) or {}
        if not {"pid", "file", "name"} <= set(told):
            return
        with contextlib.suppress(OSError):
            found = os.open(f"/proc/{int(told['pid'])}/fd/{int(told['file'])}", os.O_RDONLY)
            if os.pread(found, _NAME, 0) == bytes.fromhex(told["name"]):
                self._files[peer] = found
            else:  # of somebody else, who now has the number
                os.close(found)

    def sums(self, buffer: Buffer) -> Iterator[tuple[int, Buffer]]:
        """The sum over members, a part for each of them."""
        if not (self._sockets and self._together) or buffer.nbytes < _FEWEST:
            yield from super().sums(buffer)
            return
        assert self._view is not None
        ids, me = self._view.ids, self._links.me
        self._count += 1
        stamp = (self._view.epoch << 32) + self._count
        own = self._region(me, buffer)
        own.stamps[_GIVEN] = stamp
        if buffer is not own.given:
            own.given[:] = buffer
        self._tell(first_alone=False)
        regions = {p: own if p == me else self._region(p, buffer) for p in ids}
        ends = np.linspace(0, buffer.size, len(ids) + 1).astype(int).tolist()
        part = {p: slice(ends[n], ends[n + 1]) for n, p in enumerate(ids)}
        self._point("reduce")
        own.stamps[_ADDED] = stamp
        time.sleep(0)  # a system call: nobody sees what follows before the stamp
        total = own.added[part[me]]
        total[:] = regions[ids[0]].given[part[me]]
        for p in ids[1:]:
            total += regions[p].given[part[me]]
        self._still(regions, _GIVEN, stamp)
        self._tell(first_alone=self._in_parts)
        for p in ids:
            yield part[p].start, regions[p].added[part[p]]
        self._still(regions, _ADDED, stamp)

    def room_for(self, like: Buffer) -> Buffer:
        """Memory of this worker in which a buffer need not be copied to be seen by the others."""
        return self._region(self._links.me, like).given

    def close(self) -> None:
        """Let the memory of the others go; what this worker gave may change from now on."""
        super().close()
        if self._links.me in self._regions:
            self._regions[self._links.me].stamps[_GIVEN] = 0
            time.sleep(0)
        for peer in [p for p in self._regions if p != self._links.me]:
            del self._regions[peer]
        for file in self._files.values():
            os.close(file)
        self._files, self._together = {}, False

    @staticmethod
    def _still(regions: dict[int, _Region], which: int, stamp: int) -> None:
        if any(int(region.stamps[which]) != stamp for region in regions.values()):
            raise ViewLostError("the others have gone on in another view")

    def _tell(self, *, first_alone: bool) -> None:
        """One byte to everybody, and one from everybody."""
        others, byte = list(self._sockets), np.zeros(1, dtype=np.uint8)
        for some in (others[:1], others[1:]) if first_alone else (others,):
            self._exchange(
                dict.fromkeys(some, byte), {p: np.zeros(1, dtype=np.uint8) for p in some}
            )
            if first_alone and some == others[:1]:
                self._point("reduce-late")

    def _region(self, worker: int, like: Buffer) -> _Region:
        found, mine = self._regions.get(worker), worker == self._links.me
        if found is None or found.given.size != like.size or found.given.dtype != like.dtype:
            file = self._file if mine else self._files[worker]
            found = self._regions[worker] = _Region(file, like, own=mine)
        return found


class _Region:
    """The memory of one worker, as arrays."""

    def __init__(self, file: int, like: Buffer, *, own: bool) -> None:
        wide = -(-like.nbytes // _HEAD) * _HEAD
        if own and os.fstat(file).st_size < _HEAD + 2 * wide:
            os.ftruncate(file, _HEAD + 2 * wide)
        access = mmap.ACCESS_WRITE if own else mmap.ACCESS_READ
        memory = mmap.mmap(file, _HEAD + 2 * wide, access=access)

        def array(start: int, count: int, dtype: Any) -> Buffer:
            return np.frombuffer(memory, dtype=dtype, count=count, offset=start)

        self.stamps = array(_NAME, 2, np.int64)
        self.given = array(_HEAD, like.size, like.dtype)
        self.added = array(_HEAD + wide, like.size, like.dtype)
