"""Workers that start at once: one process imports what they need, and forks them.

Importing torch takes seconds for every worker, on two cores one after the other, and again for
every replacement. The nursery imports the worker, the module of the target and, if that mentions
it, torch, once; a worker is then a fork of it, a process of its own to be killed as any. Where
forking is not safe (an import started threads or CUDA) it says so, and workers are started anew.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from foretell.train.stacked.spec import WorkerSpec, placement_for

_ANSWER_S = 120.0


class Nursery:
    """The parent's end.

    Parameters
    ----------
    spec : WorkerSpec
        What to prepare for.
    environment : dict
        Of the workers.
    """

    def __init__(self, spec: WorkerSpec, environment: dict[str, str]) -> None:
        ours, theirs = socket.socketpair()
        self._socket, self._rest = ours, b""
        self._codes: dict[int, int] = {}
        self._answers: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "foretell.train.stacked.nursery", str(theirs.fileno())],
            env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        ours.sendall(spec.to_json().encode() + b"\n")

    def start(self, spec: WorkerSpec, log: int | None) -> ForkedProcess | None:
        """A worker; None where forking is not possible."""
        fds = [spec.channel_fd, *([spec.listen_fd] if spec.listen_fd >= 0 else [])]
        fds += [log] if log is not None else []
        order = {"spec": spec.to_json(), "listens": spec.listen_fd >= 0, "logs": log is not None}
        text = json.dumps(order).encode()
        try:
            socket.send_fds(self._socket, [len(text).to_bytes(4, "big") + text], fds)
            end = time.monotonic() + _ANSWER_S
            while not self._answers and time.monotonic() < end:
                self._listen(0.2)
        except OSError:
            return None
        answer = self._answers.pop(0) if self._answers else {}
        return ForkedProcess(self, int(answer["pid"])) if answer.get("pid") else None

    def code(self, pid: int) -> int | None:
        """The exit code of a worker, negative for a signal; None while it lives."""
        with contextlib.suppress(OSError):
            self._listen(0.0)
        return self._codes.get(pid)

    def close(self) -> None:
        """Let it end."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _listen(self, seconds: float) -> None:
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            return
        data = self._socket.recv(65536)
        if not data:
            raise OSError("the nursery is gone")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "code" in message:
                self._codes[int(message["ended"])] = int(message["code"])
            else:
                self._answers.append(message)


class ForkedProcess:
    """A worker that a nursery started, with the manners of ``subprocess.Popen``."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def poll(self) -> int | None:
        """The exit code, or None."""
        return self._nursery.code(self.pid)

    def kill(self) -> None:
        """SIGKILL."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self._send(signal.SIGTERM)

    def wait(self, timeout: float = 5.0) -> int:
        """Wait for the end, so long at most."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.01)
        return code

    def _send(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


# The nursery itself ------------------------------------------------------------------------------


def main() -> None:
    """What ``python -m foretell.train.stacked.nursery FD`` does."""
    parent = socket.socket(fileno=int(sys.argv[1]))
    first = b""
    while not first.endswith(b"\n"):
        byte = parent.recv(1)
        if not byte:
            return
        first += byte
    prepare(WorkerSpec(**json.loads(first)))
    children: set[int] = set()
    while True:
        _report_the_dead(parent, children)
        ready, _, _ = select.select([parent], [], [], 0.02 if children else 0.5)
        if not ready:
            continue
        head, fds, _, _ = socket.recv_fds(parent, 4, 8)
        if not head:
            os._exit(0)
        size, text = int.from_bytes(head, "big"), b""
        while len(text) < size:
            more = parent.recv(size - len(text))
            if not more:
                os._exit(0)
            text += more
        pid = _fork(json.loads(text), fds, parent) if _can_fork() else 0
        for fd in fds:
            os.close(fd)
        children |= {pid} - {0}
        parent.sendall(json.dumps({"pid": pid}).encode() + b"\n")


def prepare(spec: WorkerSpec) -> None:
    """Import, and load compiled code, what a worker needs; errors wait for the worker."""
    import numpy as np

    from foretell.train.plan.controller import ReorderController
    from foretell.train.stacked.exact import UnitSum
    from foretell.train.stacked.target import import_torch_for, resolve
    from foretell.train.task import Gradient

    placement = placement_for(max(spec.n_workers, 2), 1)
    ReorderController(placement, 2).plan(np.arange(placement.n_groups - 1))
    for dtype in (np.float32, np.float64):
        total = UnitSum(2, n_units=2, exact=spec.exact)
        total.add(Gradient(0.0, np.ones(2, dtype=dtype)))
        total.mean(total.buffer, dtype)
    with contextlib.suppress(Exception):
        import_torch_for(resolve(spec.target, spec.path))
        _step_once()
        if spec.backend != "sockets":
            importlib.import_module("foretell.train.stacked.groups")
        if spec.backend == "torchft":
            importlib.import_module("torchft.process_group")


def _step_once() -> None:
    """The optimisers of torch import its compiler at their first step, for seconds."""
    torch = sys.modules.get("torch")
    if torch is not None:
        one = torch.nn.Parameter(torch.zeros(1))
        one.grad = torch.zeros(1)
        torch.optim.SGD([one], lr=0.0).step()


def _can_fork() -> bool:
    torch = sys.modules.get("torch")
    return threading.active_count() == 1 and not (torch and torch.cuda.is_initialized())


def _fork(order: dict[str, Any], fds: list[int], parent: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        from dataclasses import replace

        from foretell.train.stacked.worker import work

        os.setsid()
        parent.close()
        spec = WorkerSpec(**json.loads(order["spec"]))
        channel, *rest = fds
        listening = rest.pop(0) if order["listens"] else -1
        out = rest.pop(0) if order["logs"] else os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ["FORETELL_WORKER"] = order["spec"]
        code = work(replace(spec, channel_fd=channel, listen_fd=listening))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _report_the_dead(parent: socket.socket, children: set[int]) -> None:
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            children.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                parent.sendall(json.dumps({"ended": pid, "code": code}).encode() + b"\n")


if __name__ == "__main__":
    main()
