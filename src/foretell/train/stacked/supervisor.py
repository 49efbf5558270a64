"""Starts workers as processes, watches them, replaces the dead, and keeps a record.

The supervisor takes no part in the training: workers agree among themselves, and go on if it is
slow. It is their parent, so it knows for certain when one is dead, and tells the others. A worker
that the others left behind while its process is still there (it hangs) is killed after a while.
When the supervisor itself dies, the workers stop at the next step, with a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from foretell.core.errors import ArtifactError, ParameterError
from foretell.train.stacked.links import listener
from foretell.train.stacked.members import Member, Outcome, is_stopped
from foretell.train.stacked.nursery import ForkedProcess, Nursery
from foretell.train.stacked.spec import (
    DONE,
    FAILED,
    MINORITY,
    STOPPED,
    VARIABLE,
    WIPED_OUT,
    WorkerSpec,
)

Event = dict[str, Any]

_GRACE = 5.0  # seconds that workers have to end, before they are killed


class Supervisor:
    """Runs a training with several workers, one process each, on this machine.

    Parameters
    ----------
    spec : WorkerSpec
        What all workers have in common; addresses, numbers and token are filled in here.
    n_workers : int
    folder : Path, optional
        For checkpoints, logs of the workers and ``events.jsonl``. One training at a time.
    replace_dead : bool
        Whether to start a new worker for a dead one, which heals and joins.
    fence_s : float or None
        After how long outside the view a process that hangs is killed; None for never.
    port : int
        Of worker 0, the others follow; 0 takes free ones.
    hosts : sequence of str, optional
        Address of each worker, for those that ``prefix`` starts elsewhere.
    prefix : callable, optional
        Words to put before the command of a worker, such as those of ``ip netns exec``.
    fork : bool
        Whether workers are forked from a process that has imported what they need.
    on_event : callable, optional
        Is given every event, with the members.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        n_workers: int,
        *,
        folder: Path | None = None,
        replace_dead: bool = True,
        fence_s: float | None = 20.0,
        port: int = 0,
        hosts: Sequence[str] | None = None,
        prefix: Callable[[int], list[str]] | None = None,
        fork: bool = True,
        on_event: Callable[[Event, dict[int, Member]], None] | None = None,
    ) -> None:
        if n_workers < 1:
            raise ParameterError(f"workers={n_workers!r}; needed is at least 1.")
        self.folder = folder.resolve() if folder is not None else None
        self.members: dict[int, Member] = {}
        self._n, self._port, self._prefix = n_workers, port, prefix
        self._hosts = list(hosts) if hosts else ["127.0.0.1"] * n_workers
        self._replace, self._fence, self._on_event = replace_dead, fence_s, on_event
        self._spec = replace(spec, folder=str(self.folder) if self.folder else None)
        self._select = selectors.DefaultSelector()
        self._lives = [0] * n_workers
        self._pending: list[tuple[float, int]] = []
        self._hashes: dict[int, set[str]] = defaultdict(set)
        self._last: Event = {}
        self._error: Event = {}
        self._failures, self._replaced, self._epoch, self._members_at = 0, 0, 0, set[int]()
        self._given_up: list[float] = []  # since when those who gave up had waited for a view
        self._lock: IO[str] | None = None
        self._record: IO[str] | None = None
        self._stopping, self._fork = False, fork
        self._nursery: Nursery | None = None
        self._codes: dict[int, int] = {}
        self._began = time.monotonic()

    def run(self) -> Outcome:
        """Train to the end.

        Raises
        ------
        ParameterError
            A port is taken.
        ArtifactError
            Another training uses the folder.
        KeyboardInterrupt
            After the workers have stopped with a checkpoint.
        """
        self._claim()
        self._began = time.monotonic()
        try:
            self._start_all()
            interrupted = False
            while self.members or self._pending:
                try:
                    self._turn()
                except KeyboardInterrupt:
                    if interrupted:
                        raise
                    interrupted = True
                    self.stop()
            if interrupted:
                raise KeyboardInterrupt
            return self._outcome()
        finally:
            self._end()

    def stop(self) -> None:
        """Ask the workers to stop at their next step, with a checkpoint."""
        self._stopping, self._pending = True, []
        self._tell({"stop": True})

    # ------------------------------------------------------------------ starting
    def _claim(self) -> None:
        if self.folder is None:
            return
        import fcntl

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / ".in-use").open("a+")
        except OSError as error:
            raise ArtifactError(f"{self.folder} cannot be used: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            self._lock = None
            raise ArtifactError(
                f"another training is running in {self.folder}, and nothing was touched. Wait for "
                "it, or give another folder with --out."
            ) from error
        self._record = (self.folder / "events.jsonl").open("a", encoding="utf-8")

    def _start_all(self) -> None:
        listening: list[socket.socket | None] = []
        addresses: list[list[Any]] = []
        for n, host in enumerate(self._hosts):
            port = self._port + n if self._port else 0
            if self._prefix is None:
                made = listener(host, port)
                listening.append(made)
                addresses.append([host, made.getsockname()[1]])
            else:  # an address of somewhere else: the worker listens there itself
                listening.append(None)
                addresses.append([host, port])
        token = secrets.token_hex(16)
        self._spec = replace(self._spec, addresses=addresses, token=token)
        for worker, made_there in enumerate(listening):
            self._start(worker, made_there)

    def _start(self, worker: int, listening: socket.socket | None) -> None:
        ours, theirs = socket.socketpair()
        fds = [theirs.fileno(), *([listening.fileno()] if listening is not None else [])]
        spec = replace(
            self._spec, me=worker, life=self._lives[worker], channel_fd=theirs.fileno(),
            listen_fd=-1 if listening is None else listening.fileno(),
        )  # fmt: skip
        prefix = self._prefix(worker) if self._prefix else []
        log = self._log_of(worker)
        process = self._forked(spec, prefix, log) or subprocess.Popen(
            [*prefix, sys.executable, "-m", "foretell.train.stacked.worker"],
            env=_environment(spec), pass_fds=fds, stdin=subprocess.DEVNULL,
            stdout=log or subprocess.DEVNULL, stderr=log or subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        if listening is not None:
            listening.close()
        ours.setblocking(False)
        member = Member(process, ours, spec.life, log)
        self.members[worker] = member
        self._select.register(ours, selectors.EVENT_READ, worker)
        self._note(worker, {"event": "started", "life": spec.life, "pid": process.pid})
        for w, life in enumerate(self._lives):
            for dead in range(life):
                self._send(member, {"bury": [w, dead]})

    def _forked(
        self, spec: WorkerSpec, prefix: list[str], log: IO[bytes] | None
    ) -> ForkedProcess | None:
        """A worker from the nursery, where one may be had."""
        if prefix or not self._fork or not hasattr(os, "fork"):
            return None
        if self._nursery is None:
            self._nursery = Nursery(self._spec, _environment(self._spec))
        found = self._nursery.start(spec, log.fileno() if log is not None else None)
        self._fork = found is not None
        return found

    def _log_of(self, worker: int) -> IO[bytes] | None:
        if self.folder is None:
            return None
        return (self.folder / f"worker-{worker}.log").open("ab")

    # ------------------------------------------------------------------ watching
    def _turn(self) -> None:
        for key, _ in self._select.select(0.05):
            self._read(int(key.data))
        now = time.monotonic()
        for worker, member in list(self.members.items()):
            code = member.process.poll()
            if code is not None:
                self._read(worker)
                self._gone(worker, member, code)
            elif member.left_at is not None and self._fence is not None:
                if now - member.left_at > self._fence:
                    self._note(worker, {"event": "killed", "why": "it hangs outside the view"})
                    member.process.kill()
                    member.left_at = None
        waits = [m.waiting_since for m in self.members.values() if m.waiting_since is not None]
        waits += self._given_up
        if waits and not self._last and self._fence is not None:
            self._end_the_silent(min(waits), now)
        over = self._last or self._error
        if over and not any(m.state == "training" for m in self.members.values()):
            self._pending = []
            for member in self.members.values():  # started too late to take part
                if member.state in ("starting", "left behind"):
                    member.process.kill()
        for when, worker in list(self._pending):
            if now >= when and worker not in self.members:
                self._pending.remove((when, worker))
                self._replaced += 1
                self._start(worker, self._listen_again(worker))

    def _end_the_silent(self, since: float, now: float) -> None:
        """Kill who hangs in a view that has ended: unless it is dead the others lack a majority."""
        assert self._fence is not None
        if now - since <= self._fence:
            return
        long_ago = now - since > max(self._fence, self._spec.stuck_s)
        for worker, member in self.members.items():
            silent = member.state == "training" and member.heard_at < since
            if silent and (long_ago or is_stopped(member.process.pid)):
                self._note(worker, {"event": "killed", "why": "it hangs, and no view comes about"})
                member.process.kill()
                member.state = "left behind"

    def _listen_again(self, worker: int) -> socket.socket | None:
        if self._prefix is not None:
            return None
        host, port = self._spec.addresses[worker]
        return listener(host, int(port))

    def _read(self, worker: int) -> None:
        member = self.members.get(worker)
        if member is None:
            return
        data = b""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while part := member.channel.recv(1 << 18):
                data += part
        *lines, member.rest = (member.rest + data).split(b"\n")
        for line in lines:
            self._take(worker, member, json.loads(line))

    def _take(self, worker: int, member: Member, event: Event) -> None:
        kind, member.heard_at = event["event"], time.monotonic()
        if kind == "disturbed" and member.waiting_since is None:
            member.waiting_since = member.heard_at
        elif kind in ("view", "step"):
            member.waiting_since = None
        elif kind == "minority":
            self._given_up.append(member.waiting_since or member.heard_at)
        if kind == "step":
            member.step, member.seconds = event["step"], event["seconds"]
            member.units, member.state = event["units"], "training"
            if "sha256" in event:
                self._hashes[event["step"]].add(event["sha256"])
        elif kind == "view":
            member.epoch, member.state = event["epoch"], "training"
            if event["epoch"] > self._epoch:
                self._new_view(event)
        elif kind in ("done", "stopped"):
            member.state = kind
            self._last = event
        elif kind in ("error", "wipeout", "minority"):
            member.state = kind
            if not self._error or kind == "error":
                self._error = event
        self._note(worker, event)
        if kind == "error":
            self._stopping, self._pending = True, []
            for other in self.members.values():
                if other is not member:
                    other.process.terminate()

    def _new_view(self, event: Event) -> None:
        now = time.monotonic()
        inside = set(event["members"])
        self._epoch, self._given_up = event["epoch"], []
        self._failures += len(self._members_at - inside)
        self._members_at = inside
        for worker, member in self.members.items():
            if worker in inside:
                member.left_at = None
            elif member.left_at is None and member.state != "starting":
                member.left_at = now
                member.state = "left behind"
            elif member.left_at is None:
                member.left_at = now + self._spec.start_s

    def _gone(self, worker: int, member: Member, code: int) -> None:
        self._select.unregister(member.channel)
        member.channel.close()
        if member.log is not None:
            member.log.close()
        del self.members[worker]
        self._codes[worker] = code
        self._note(worker, {"event": "ended", "code": code})
        self._tell({"bury": [worker, member.life]})
        self._lives[worker] += 1
        expected = code in (DONE, STOPPED, WIPED_OUT, MINORITY, FAILED)
        if expected or self._stopping or not self._replace or self._finished():
            if not expected and not self._error and code > 0:
                self._error = {"event": "error", "why": self._words_of(worker, code)}
            return
        if self._lives[worker] <= 5:
            self._pending.append((time.monotonic() + 0.2, worker))

    def _finished(self) -> bool:
        return any(
            m.state in ("done", "stopped", "wipeout") for m in self.members.values()
        ) or bool(self._last or self._error)

    def _words_of(self, worker: int, code: int) -> str:
        where = f" Its last words are in {self.folder}/worker-{worker}.log." if self.folder else ""
        return f"worker {worker} ended with code {code}.{where}"

    def _tell(self, order: Event) -> None:
        for member in self.members.values():
            self._send(member, order)

    @staticmethod
    def _send(member: Member, order: Event) -> None:
        with contextlib.suppress(OSError):
            member.channel.send(json.dumps(order).encode() + b"\n")

    def _note(self, worker: int, event: Event) -> None:
        content = {"t": round(time.monotonic() - self._began, 4), "worker": worker, **event}
        if self._record is not None:
            with contextlib.suppress(OSError, ValueError):
                self._record.write(json.dumps(content) + "\n")
                self._record.flush()
        if self._on_event is not None:
            self._on_event(content, self.members)

    # ------------------------------------------------------------------ the end
    def _outcome(self) -> Outcome:
        last, error = self._last, self._error
        status = {"done": "done", "stopped": "stopped"}.get(last.get("event", ""), "")
        if not status:
            kinds = {"wipeout": "wiped out", "minority": "minority"}
            status = kinds.get(error.get("event", ""), "failed")
        message = "" if last else error.get("why", "every worker died, and none could go on")
        return Outcome(
            status=status,
            step=int((last or error).get("step", 0)),
            loss=float(last.get("loss", "nan")),
            sha256=last.get("sha256", ""),
            failures=self._failures,
            replaced=self._replaced,
            seconds=time.monotonic() - self._began,
            hashes=dict(self._hashes),
            message=message,
        )

    def _end(self) -> None:
        """Nobody is left behind."""
        for member in self.members.values():
            with contextlib.suppress(OSError):
                os.kill(member.process.pid, signal.SIGCONT)
            member.process.terminate()
        end = time.monotonic() + _GRACE
        for member in self.members.values():
            try:
                member.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
            member.channel.close()
            if member.log is not None:
                member.log.close()
        self.members.clear()
        if self._nursery is not None:
            self._nursery.close()
        self._select.close()
        if self._record is not None:
            self._record.close()
        if self._lock is not None:
            self._lock.close()


def _environment(spec: WorkerSpec) -> dict[str, str]:
    threads = str(spec.threads)
    return {
        **os.environ,
        VARIABLE: spec.to_json(),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "NUMBA_NUM_THREADS": threads,
    }
