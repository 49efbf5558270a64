"""Links between workers: one connection to each other, heartbeats, and the thread that minds them.

The thread feeds the ``Membership`` of this worker while the training computes, so a death is known
within a heartbeat and a new view can be agreed on meanwhile. The worker with the higher number
dials; an address that does not answer is dialled again a few times a second. A link is given up
when it closes, when nothing arrives for ``timeout_s`` (a machine that hangs, a cut cable), or when
the training at its other end shows no progress for ``stuck_s``. Only monotonic clocks are used, and
a worker that was itself stopped for a while gives the others time before it judges them.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from foretell.core.errors import ParameterError
from foretell.train.stacked.membership import STABLE, Membership, Message, View

_LENGTH = struct.Struct("!I")
_LARGEST = 64 * 2**20
_DIAL_EVERY, _DIAL_SECONDS = 0.1, 1.0
_DATA_BUFFER = 4 * 2**20


def listener(host: str, port: int = 0) -> socket.socket:
    """A listening socket, on a free port when none is given.

    Raises
    ------
    ParameterError
        The port is taken, or the address is not one of this machine.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
    except OSError as error:
        found.close()
        raise ParameterError(
            f"nothing can listen on {host}:{port}: {(error.strerror or str(error)).lower()}. End "
            "the program that does, choose another port, or leave the port out: a free one is "
            "then taken."
        ) from error
    return found


@dataclass
class _Peer:
    socket: socket.socket
    id: int = -1
    received: bytearray = field(default_factory=bytearray)
    to_send: bytearray = field(default_factory=bytearray)
    heard: float = 0.0
    pulse: int = -1
    pulsed: float = 0.0
    waiting: bool = False  # for its connect to finish


class Links:
    """Connections of one worker, and its membership, in a thread of their own.

    Parameters
    ----------
    membership : Membership
        Fed with what happens here; touch it only under ``lock``.
    addresses : list of (host, port)
        Of every worker.
    listening : socket
        Of this worker.
    token : str
        Known to all workers of a training; connections without it are closed.
    timeout_s, stuck_s : float
        After how long a silent, or an idle, worker counts as lost.
    """

    def __init__(
        self,
        membership: Membership,
        addresses: list[tuple[str, int]],
        listening: socket.socket,
        *,
        token: str,
        timeout_s: float = 4.0,
        stuck_s: float = 300.0,
    ) -> None:
        self.membership, self.addresses, self.token = membership, addresses, token
        self.me, self.timeout_s, self.stuck_s = membership.standing.id, timeout_s, stuck_s
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.details: dict[int, Message] = {}  # what each worker said of itself: its store port
        self.own_details: Message = {}
        self.pulse = 0  # the loop counts up while it gets on
        self.cut_off = False  # a fault: nothing goes in or out
        self.finished: set[int] = set()  # workers that have done all their steps
        self._listening = listening
        self._select = selectors.DefaultSelector()
        self._peers: dict[int, _Peer] = {}
        self._strangers: list[_Peer] = []
        self._data: dict[tuple[int, int], socket.socket] = {}
        self._banned: dict[int, int] = {}  # worker -> the pulse at which it was given up
        self._dialled, self._beat, self._turn = 0.0, 0.0, time.monotonic()
        self._wake_in, self._wake_out = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)

    # ------------------------------------------------------------------ for the loop
    def start(self) -> None:
        """Begin."""
        self._listening.setblocking(False)
        self._wake_in.setblocking(False)
        self._select.register(self._listening, selectors.EVENT_READ, "listen")
        self._select.register(self._wake_in, selectors.EVENT_READ, "wake")
        self._thread.start()

    def close(self, *, finished: bool = False) -> None:
        """Close everything; say first, if so, that all steps are done."""
        if finished:
            with self.lock:
                for peer in self._peers.values():
                    peer.to_send += _frame({"kind": "finished"})
        self._closing = True
        self.wake()
        self._thread.join(timeout=2.0)

    def wake(self) -> None:
        """Let the thread look again."""
        with contextlib.suppress(OSError):
            self._wake_out.send(b"x")

    def stands(self, epoch: int) -> bool:
        """Whether the view of that epoch is undisturbed."""
        return self.membership.stands(epoch)  # reads two references, needs no lock

    def commit(self, epoch: int, step: int, *, stopped: bool = False) -> bool:
        """Whether a step computed in that view counts."""
        with self.lock:
            counts = self.membership.commit(epoch, step)
            if counts and stopped:
                base = self.membership.standing.base
                self.membership.standing.base = {**base, "stopped": True}
            return counts

    def settle(self, epoch: int, step: int, base: Message) -> bool:
        """Note that the state of this worker belongs to the view; whether the view still stands."""
        with self.lock:
            if not self.membership.stands(epoch):
                return False
            standing = self.membership.standing
            standing.lineage, standing.step, standing.base = epoch, step, base
            return True

    def admit(self) -> bool:
        """Whether somebody waits to be taken in."""
        return self.membership.admit

    def why_not(self) -> str:
        """In words, what a view is missing."""
        with self.lock:
            return self.membership.why_not()

    def lowest(self) -> bool:
        """Whether no worker with a lower number is in reach."""
        with self.lock:
            return self.membership.reach()[0] == self.me

    def bury(self, worker: int, incarnation: int) -> None:
        """That process is certainly dead."""
        with self.lock:
            self.membership.bury(worker, incarnation, time.monotonic())
        self.wake()

    def form(self, *, calm: bool = False) -> None:
        """Ask for a new view; calmly, when all members do so after the same sum."""
        with self.lock:
            self.membership.form(time.monotonic(), calm=calm)
        self.wake()

    def wait_view(self, patience_s: float) -> View | None:
        """The next undisturbed view; None when others have finished, or after that time.

        While a majority is in reach the wait may last ``stuck_s``: a step of the others can be
        long.
        """
        begun = time.monotonic()
        with self.changed:
            while True:
                m = self.membership
                if m.error:
                    raise ParameterError(m.error)
                if m.state == STABLE and m.view is not None:
                    return m.view
                most = max(patience_s, self.stuck_s) if m.reaches_enough() else patience_s
                left = begun + most - time.monotonic()
                if left <= 0 or self.finished:
                    return None
                self.pulse += 1
                self.changed.wait(min(left, 0.1))

    def data_link(self, view: View, peer: int, deadline: float) -> socket.socket:
        """A fresh connection to a member for the sums of one view."""
        self._close_old(view.epoch)
        if peer < self.me:
            made = socket.create_connection(self.addresses[peer], timeout=self.timeout_s)
            hello = {"kind": "data", "from": self.me, "token": self.token, "epoch": view.epoch}
            made.sendall(_frame(hello))
            return _tuned(made)
        with self.changed:
            while (view.epoch, peer) not in self._data:
                if not self.stands(view.epoch) or time.monotonic() > deadline:
                    raise OSError(f"worker {peer} did not connect")
                self.changed.wait(0.02)
            return _tuned(self._data.pop((view.epoch, peer)))

    def _close_old(self, epoch: int) -> None:
        with self.lock:
            for key in [k for k in self._data if k[0] < epoch]:
                self._data.pop(key).close()

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        while True:
            closing = self._closing
            events = [] if self.cut_off else self._select.select(self._pause())
            if self.cut_off:
                time.sleep(0.02)
            with self.changed:
                now = time.monotonic()
                self._forgive(now)
                for key, mask in events:
                    self._serve(key, mask, now)
                self._dial(now)
                self._heartbeat(now)
                self._drop_silent(now)
                self.membership.tick(now)
                self._flush()
                self.changed.notify_all()
            if closing:
                self._hang_up()
                return

    def _pause(self) -> float:
        forming = self.membership.state != STABLE
        return min(self.timeout_s / 8, 0.05 if forming else 0.5)

    def _forgive(self, now: float) -> None:
        """After a stop of this process, everybody seems to have been silent."""
        if now - self._turn > self.timeout_s / 2:
            for peer in self._peers.values():
                peer.heard = peer.pulsed = now
        self._turn = now

    def _serve(self, key: selectors.SelectorKey, mask: int, now: float) -> None:
        if key.data == "wake":
            with contextlib.suppress(OSError):
                self._wake_in.recv(4096)
        elif key.data == "listen":
            with contextlib.suppress(OSError):
                made, _ = self._listening.accept()
                self._watch(_Peer(made, heard=now), selectors.EVENT_READ)
        else:
            peer: _Peer = key.data
            if mask & selectors.EVENT_WRITE and peer.waiting:
                self._dialled_through(peer)
            if mask & selectors.EVENT_READ:
                self._receive(peer, now)

    def _watch(self, peer: _Peer, events: int) -> None:
        peer.socket.setblocking(False)
        with contextlib.suppress(OSError):
            peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._strangers.append(peer)
        self._select.register(peer.socket, events, peer)

    def _dial(self, now: float) -> None:
        if self.cut_off or now - self._dialled < _DIAL_EVERY:
            return
        self._dialled = now
        for peer in [p for p in self._strangers if now - p.heard > _DIAL_SECONDS]:
            self._forget(peer, now)
        busy = {p.id for p in self._strangers}
        for i in range(self.me):
            if i not in self._peers and i not in busy:
                made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                made.setblocking(False)
                with contextlib.suppress(OSError):
                    made.connect_ex(self.addresses[i])
                self._watch(_Peer(made, i, heard=now, waiting=True), selectors.EVENT_WRITE)

    def _dialled_through(self, peer: _Peer) -> None:
        peer.waiting = False
        if peer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._forget(peer, time.monotonic())
            return
        self._select.modify(peer.socket, selectors.EVENT_READ, peer)
        peer.to_send += _frame(self._hello())
        self._push(peer)

    def _hello(self) -> Message:
        return {
            "kind": "hello", "from": self.me, "token": self.token, "pulse": self.pulse,
            "incarnation": self.membership.standing.incarnation, "details": self.own_details,
        }  # fmt: skip

    def _receive(self, peer: _Peer, now: float) -> None:
        try:
            data = peer.socket.recv(self._to_read(peer))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._forget(peer, now)
            return
        peer.heard = now
        peer.received += data
        while len(peer.received) >= _LENGTH.size and peer.socket.fileno() >= 0:
            (size,) = _LENGTH.unpack_from(peer.received)
            if size > _LARGEST:
                self._forget(peer, now)
                return
            end = _LENGTH.size + size
            if len(peer.received) < end:
                return
            frame = bytes(peer.received[_LENGTH.size : end])
            del peer.received[:end]
            self._take(peer, frame, now)

    def _to_read(self, peer: _Peer) -> int:
        """How much may be read: of a stranger one message, since what follows may be data."""
        if self._peers.get(peer.id) is peer:
            return 1 << 18
        have = len(peer.received)
        if have < _LENGTH.size:
            return _LENGTH.size - have
        return int(_LENGTH.unpack_from(peer.received)[0]) + _LENGTH.size - have

    def _take(self, peer: _Peer, frame: bytes, now: float) -> None:
        try:
            message = json.loads(frame)
            kind = message["kind"]
        except (ValueError, KeyError, TypeError):
            self._forget(peer, now)
            return
        if kind in ("hello", "data"):
            self._greet(peer, message, now)
        elif self._peers.get(peer.id) is not peer:
            self._forget(peer, now)
        elif kind == "beat":
            if message["pulse"] != peer.pulse:
                peer.pulse, peer.pulsed = message["pulse"], now
        elif kind == "finished":
            self.finished.add(peer.id)
        else:
            self.membership.received(peer.id, message, now)

    def _greet(self, peer: _Peer, message: Message, now: float) -> None:
        other = message.get("from", -1)
        known = message.get("token") == self.token and other in range(len(self.addresses))
        if not known or other == self.me:
            self._forget(peer, now)
        elif message["kind"] == "data":
            self._select.unregister(peer.socket)
            self._strangers.remove(peer)
            old = self._data.pop((message["epoch"], other), None)
            if old is not None:
                old.close()
            self._data[message["epoch"], other] = peer.socket
        elif self._banned.get(other) == message["pulse"]:
            self._forget(peer, now)
        else:
            if other in self._peers and self._peers[other] is not peer:
                self._forget(self._peers[other], now)
            if other > self.me:  # it dialled, so it waits for an answer
                peer.to_send += _frame(self._hello())
            if peer in self._strangers:
                self._strangers.remove(peer)
            peer.id, peer.pulse, peer.pulsed = other, message["pulse"], now
            self.details[other] = message["details"]
            self._peers[other] = peer
            self.membership.connected(other, now)

    def _heartbeat(self, now: float) -> None:
        if now - self._beat < self.timeout_s / 8:
            return
        self._beat = now
        for peer in self._peers.values():
            peer.to_send += _frame({"kind": "beat", "pulse": self.pulse})

    def _drop_silent(self, now: float) -> None:
        for peer in list(self._peers.values()):
            if now - peer.pulsed > self.stuck_s:
                self._banned[peer.id] = peer.pulse
                self._forget(peer, now)
            elif now - peer.heard > self.timeout_s:
                self._forget(peer, now)

    def _flush(self) -> None:
        for to, message in self.membership.outbox:
            if to in self._peers:
                self._peers[to].to_send += _frame(message)
        self.membership.outbox.clear()
        for peer in list(self._peers.values()):
            self._push(peer)

    def _push(self, peer: _Peer) -> None:
        if not peer.to_send or self.cut_off:
            return
        try:
            sent = peer.socket.send(peer.to_send)
            del peer.to_send[:sent]
        except BlockingIOError:
            if len(peer.to_send) > _LARGEST:
                self._forget(peer, time.monotonic())
        except OSError:
            self._forget(peer, time.monotonic())

    def _forget(self, peer: _Peer, now: float) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._select.unregister(peer.socket)
        peer.socket.close()
        if peer in self._strangers:
            self._strangers.remove(peer)
        if self._peers.get(peer.id) is peer:
            del self._peers[peer.id]
            self.membership.lost(peer.id, now)

    def _hang_up(self) -> None:
        sockets = [p.socket for p in (*self._peers.values(), *self._strangers)]
        for each in (*sockets, *self._data.values(), self._listening, self._wake_in):
            with contextlib.suppress(OSError):
                each.close()
        self._wake_out.close()
        self._select.close()


def _frame(message: Any) -> bytes:
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


def _tuned(made: socket.socket) -> socket.socket:
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        made.setsockopt(socket.SOL_SOCKET, option, _DATA_BUFFER)
    return made
