"""Sums over plain TCP connections: no torch, no library, two rounds whatever the number of members.

Each of the m members sums one m-th of the buffer: it is sent the others' parts, adds them in the
order of the members, and sends the result to all. Every member sends and receives 2 (m - 1) / m
times the buffer, as a ring does, in two rounds in place of 2 (m - 1).
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Iterator

import numpy as np

from foretell.train.stacked.collective import Buffer, Point, ViewLostError, no_fault
from foretell.train.stacked.links import Links
from foretell.train.stacked.membership import View

_SLICE = 0.005  # seconds between two looks at the view while nothing arrives
_SIZE = struct.Struct("!Q")
_GOT_IT = b"\x06"


class SocketCollective:
    """Sums between the members of a view over TCP.

    Parameters
    ----------
    links : Links
        By which members find each other, and which know when the view ends.
    point : callable
        Called with "reduce" between the two rounds, and with "reduce-late" when one other member
        has its part of the result; for faults.
    in_parts : bool
        Send the result to one member before the others, so that a fault can come in between.
    """

    def __init__(self, links: Links, point: Point = no_fault, *, in_parts: bool = False) -> None:
        self._links, self._point, self._in_parts = links, point, in_parts
        self._view: View | None = None
        self._sockets: dict[int, socket.socket] = {}
        self._scratch: dict[int, Buffer] = {}

    def open(self, view: View) -> None:
        """Connect to every other member."""
        self.close()
        self._view = view
        deadline = time.monotonic() + self._links.timeout_s
        try:
            for peer in view.ids:
                if peer != self._links.me:
                    self._sockets[peer] = self._links.data_link(view, peer, deadline)
        except OSError as error:
            raise ViewLostError(str(error)) from error

    def sums(self, buffer: Buffer) -> Iterator[tuple[int, Buffer]]:
        """The sum over members, in one part."""
        yield 0, self._added(buffer) if self._sockets else buffer

    def _added(self, buffer: Buffer) -> Buffer:
        assert self._view is not None
        ids, me = self._view.ids, self._links.me
        total = self._room(me, buffer.size, buffer)
        ends = np.linspace(0, buffer.size, len(ids) + 1).astype(int)
        part = {p: slice(int(ends[n]), int(ends[n + 1])) for n, p in enumerate(ids)}
        own = part[me]
        others = [p for p in ids if p != me]
        got = {p: self._room(p, own.stop - own.start, buffer) for p in others}
        self._exchange({p: buffer[part[p]] for p in others}, got)
        self._point("reduce")
        got[me] = buffer[own]
        total[own] = got[ids[0]]
        for p in ids[1:]:
            total[own] += got[p]
        first = others[:1] if self._in_parts else others
        self._exchange({p: total[own] for p in first}, {p: total[part[p]] for p in first})
        if self._in_parts:
            self._point("reduce-late")
            rest = others[1:]
            self._exchange({p: total[own] for p in rest}, {p: total[part[p]] for p in rest})
        return total

    def send(self, to: int, data: bytes) -> None:
        """Send bytes, and wait for the receipt."""
        answer = np.zeros(1, dtype=np.uint8)
        head = np.frombuffer(_SIZE.pack(len(data)), dtype=np.uint8)
        self._exchange({to: head}, {})
        self._exchange({to: np.frombuffer(data, dtype=np.uint8)}, {to: answer})

    def receive(self, source: int) -> bytes:
        """Bytes from a member."""
        head = np.zeros(_SIZE.size, dtype=np.uint8)
        self._exchange({}, {source: head})
        data = np.empty(_SIZE.unpack(head.tobytes())[0], dtype=np.uint8)
        self._exchange({}, {source: data})
        self._exchange({source: np.frombuffer(_GOT_IT, dtype=np.uint8)}, {})
        return data.tobytes()

    def close(self) -> None:
        """Close the connections of this view."""
        for each in self._sockets.values():
            with contextlib.suppress(OSError):
                each.close()
        self._sockets = {}

    def _room(self, peer: int, size: int, like: Buffer) -> Buffer:
        """Memory for what a member sends, or for the sum (my own), kept from sum to sum."""
        room = self._scratch.get(peer)
        if room is None or room.size != size or room.dtype != like.dtype:
            room = self._scratch[peer] = np.empty(size, dtype=like.dtype)
        return room

    def _exchange(self, out: dict[int, Buffer], into: dict[int, Buffer]) -> None:
        """Send and receive at the same time, until everything is through."""
        assert self._view is not None
        to_send = {p: _bytes_of(a) for p, a in out.items() if a.nbytes}
        to_fill = {p: _bytes_of(a) for p, a in into.items() if a.nbytes}
        with selectors.DefaultSelector() as select:
            for p in {*to_send, *to_fill}:
                select.register(self._sockets[p], _wanted(p, to_send, to_fill), p)
            while to_send or to_fill:
                ready = [] if self._links.cut_off else select.select(_SLICE)
                if not self._links.stands(self._view.epoch):
                    raise ViewLostError("the view ended")
                if not ready:
                    self._links.pulse += 1
                    if self._links.cut_off:
                        time.sleep(_SLICE)
                for key, mask in ready:
                    self._move(key.data, mask, to_send, to_fill)
                    wanted = _wanted(key.data, to_send, to_fill)
                    if not wanted:
                        select.unregister(key.fileobj)
                    elif wanted != key.events:
                        select.modify(key.fileobj, wanted, key.data)

    def _move(
        self, p: int, mask: int, to_send: dict[int, memoryview], to_fill: dict[int, memoryview]
    ) -> None:
        try:
            if mask & selectors.EVENT_READ and p in to_fill:
                n = self._sockets[p].recv_into(to_fill[p])
                if n == 0:
                    raise ViewLostError(f"worker {p} closed its connection")
                _advance(p, n, to_fill)
            if mask & selectors.EVENT_WRITE and p in to_send:
                _advance(p, self._sockets[p].send(to_send[p][: 1 << 20]), to_send)
        except BlockingIOError:
            return
        except OSError as error:
            raise ViewLostError(f"worker {p}: {error}") from error


def _bytes_of(array: Buffer) -> memoryview:
    return memoryview(array.data).cast("B")


def _wanted(p: int, to_send: dict[int, memoryview], to_fill: dict[int, memoryview]) -> int:
    read = selectors.EVENT_READ if p in to_fill else 0
    return read | (selectors.EVENT_WRITE if p in to_send else 0)


def _advance(p: int, n: int, left: dict[int, memoryview]) -> None:
    rest = left[p][n:]
    if rest.nbytes:
        left[p] = rest
    else:
        del left[p]
