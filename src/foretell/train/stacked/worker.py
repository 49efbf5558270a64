"""One worker of a training: a process that a ``Supervisor`` started, or a program of yours, alone.

``python -m foretell.train.stacked.worker`` reads what it is to do from the variable
``FORETELL_WORKER``, calls the target of the job, and trains what that returns. A target may also
train by itself, through ``MaskedDataParallel``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from foretell.core.errors import ArtifactError, ForetellError, ParameterError, WipeoutError
from foretell.train.plan.placement import StackPlacement
from foretell.train.stacked.checkpoints import Checkpoints
from foretell.train.stacked.faults import FaultInjector, parse_faults
from foretell.train.stacked.links import Links, listener
from foretell.train.stacked.loop import MinorityError, StackedLoop
from foretell.train.stacked.membership import Membership, Standing
from foretell.train.stacked.shared import SharedCollective, one_machine
from foretell.train.stacked.sockets import SocketCollective
from foretell.train.stacked.spec import (
    BACKENDS,
    DONE,
    FAILED,
    MINORITY,
    STOPPED,
    VARIABLE,
    WIPED_OUT,
    WorkerSpec,
    placement_for,
)
from foretell.train.stacked.states import digest
from foretell.train.stacked.target import resolve, seed_all, take_gpu
from foretell.train.task import TrainTask


class Worker:
    """This process as one of several that train together.

    Parameters
    ----------
    spec : WorkerSpec
        By default that of a worker who is alone.
    """

    def __init__(self, spec: WorkerSpec | None = None) -> None:
        self.spec = spec or WorkerSpec(survive=0)
        self.loop: StackedLoop | None = None
        self.links: Links | None = None
        self.last_error: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._checkpoints: Checkpoints | None = None
        self._buried: list[tuple[int, int]] = []
        self._stop = False
        if self.spec.channel_fd >= 0:
            self._channel = socket.socket(fileno=self.spec.channel_fd)
            threading.Thread(target=self._listen, name="orders", daemon=True).start()

    # ------------------------------------------------------------------ training
    def begin(self, task: TrainTask) -> StackedLoop:
        """Load the checkpoint, meet the others, and be ready for the first step."""
        spec = self.spec
        if self.loop is not None:
            raise ParameterError("one worker trains one task; this one has begun another already.")
        fresh = digest(task.state(), 0)
        units = int(task.n_shards(0))
        step, fields = self._load(task, units)
        placement = placement_for(spec.n_workers, spec.survive, spec.scheme)
        micro = -(-units // spec.n_workers)
        faults = self._faults()
        loop = StackedLoop(
            task, placement, micro=micro, me=spec.me, exact=spec.exact, scale_bits=spec.scale_bits,
            patience_s=spec.patience_s, start_s=spec.start_s, hashes=spec.hashes,
            report=self.report, faults=faults, step=step,
        )  # fmt: skip
        if fields:
            loop.loss, loop.skipped = float(fields["loss"]), int(fields["skipped"])
        if spec.n_workers > 1:
            print_ = self._fingerprint(placement, micro, units, task, fresh)
            self._meet(loop, print_, faults)
        self.loop = loop
        loop.stop_wanted = self._stop
        return loop

    def steps(self, n_steps: int) -> Iterator[int]:
        """Steps to be taken; saves checkpoints in between, and the end."""
        assert self.loop is not None
        loop = self.loop
        try:
            for step in loop.steps(n_steps):
                yield step
                if loop.step > step and self._leads() and self._due(loop.step, n_steps):
                    self._save()
            if self._leads():
                self._save()
            what = "stopped" if loop.stopped and loop.step < n_steps else "done"
            self.report(
                {
                    "event": what, "step": loop.step, "loss": repr(loop.loss),
                    "sha256": loop.state_digest(), "failures": loop.failures,
                    "skipped": loop.skipped,
                }
            )  # fmt: skip
        finally:
            self.close(finished=loop.step >= n_steps or loop.stopped)

    def save_last(self, error: WipeoutError | MinorityError) -> None:
        """Keep the state that a training ended with before its time."""
        lowest = self.links is None or self.links.lowest()
        if self.loop is not None and (self._leads() if isinstance(error, WipeoutError) else lowest):
            self._save()

    def close(self, *, finished: bool = False) -> None:
        """Leave the others."""
        if self.links is not None:
            self.links.close(finished=finished)
            self.links = None

    def run(self, task: TrainTask) -> None:
        """Train a task to the end of the job."""
        loop = self.begin(task)
        for _ in self.steps(self.spec.steps):
            loop.advance(self.spec.steps)

    @property
    def leader(self) -> bool:
        """Whether this is the worker that writes files."""
        return self._leads()

    def report(self, event: dict[str, Any]) -> None:
        """Tell the supervisor."""
        if event["event"] == "value":
            self.last_error = event
        if self._channel is None:
            return
        line = json.dumps({"worker": self.spec.me, "life": self.spec.life, **event}) + "\n"
        with self._lock, contextlib.suppress(OSError):
            self._channel.sendall(line.encode())

    # ------------------------------------------------------------------ parts
    def _meet(self, loop: StackedLoop, fingerprint: str, faults: FaultInjector) -> None:
        spec = self.spec
        lineage = 0 if spec.life == 0 else -1
        standing = Standing(spec.me, spec.life, fingerprint, lineage, loop.step)
        # A window longer than the time-out: who is late by one is still taken along.
        membership = Membership(
            standing, spec.n_workers, start_s=spec.start_s, window_s=1.5 * spec.timeout_s
        )
        host, port = spec.addresses[spec.me]
        made = listener(host, port) if spec.listen_fd < 0 else socket.socket(fileno=spec.listen_fd)
        links = Links(
            membership, [(h, int(p)) for h, p in spec.addresses], made, token=spec.token,
            timeout_s=spec.timeout_s, stuck_s=spec.stuck_s,
        )  # fmt: skip
        loop.join(links, self._collective(links, faults, getattr(loop.task, "device", None)))
        faults.cut = lambda off: setattr(links, "cut_off", off)
        links.start()
        self.links = links
        for worker, life in self._buried:
            links.bury(worker, life)

    def _collective(self, links: Links, faults: FaultInjector, device: Any) -> Any:
        if self.spec.backend == "sockets":
            near = one_machine([str(host) for host, _ in self.spec.addresses])
            kind = SharedCollective if near else SocketCollective
            return kind(links, faults, in_parts=faults.has("reduce-late"))
        if self.spec.backend not in BACKENDS:
            raise ParameterError(
                f"backend={self.spec.backend!r} is not one of {', '.join(map(repr, BACKENDS))}."
            )
        from foretell.train.stacked.groups import GlooCollective, TorchftCollective

        host = str(self.spec.addresses[self.spec.me][0])
        if self.spec.backend == "gloo":
            return GlooCollective(links, host, faults)
        return TorchftCollective(links, host, faults, device)

    def _faults(self) -> FaultInjector:
        spec = self.spec
        mine = [
            f
            for f in parse_faults(spec.faults, spec.n_workers)
            if f.worker == spec.me and f.life == spec.life
        ]
        return FaultInjector(mine, seconds=spec.fault_s, report=self.report)

    def _load(self, task: TrainTask, units: int) -> tuple[int, dict[str, Any]]:
        spec = self.spec
        if spec.folder is None:
            return 0, {}
        identity = {
            "target": spec.target, "arguments": _hash(spec.arguments), "units": units,
            "exact": spec.exact, "scale_bits": spec.scale_bits, "seed": spec.seed,
        }  # fmt: skip
        self._checkpoints = Checkpoints(
            Path(spec.folder) / "checkpoints", identity,
            every_s=spec.checkpoint_s, every_steps=spec.checkpoint_steps,
        )  # fmt: skip
        found = self._checkpoints.latest() if spec.resume and spec.life == 0 else None
        if found is None:
            return 0, {}
        step, state, fields = found
        task.restore(state)
        return step, fields

    def _fingerprint(
        self, placement: StackPlacement, micro: int, units: int, task: TrainTask, fresh: str
    ) -> str:
        """What must be the same on all workers, so that their gradients are the same bits."""
        spec = self.spec
        torch = sys.modules.get("torch")
        items = [
            f"target {spec.target} {_hash(spec.arguments)}",
            f"placement {placement.fingerprint()[:12]} in {micro}",
            f"{units} units, {task.parameters().size} parameters",
            f"exact {spec.exact} at {spec.scale_bits} bits",
            f"python {platform.python_version()}, numpy {np.__version__}",
            f"torch {torch.__version__ if torch else 'none'}",
            f"processor {platform.machine()} {_vectors(torch)}",
            f"first parameters {fresh[:12]}",
        ]
        return "; ".join(items)

    def _leads(self) -> bool:
        assert self.loop is not None
        view = self.loop.view
        return view is None or view.leader == self.spec.me

    def _due(self, step: int, n_steps: int) -> bool:
        return self._checkpoints is not None and step < n_steps and self._checkpoints.due(step)

    def _save(self) -> None:
        if self._checkpoints is None or self.loop is None:
            return
        loop, began = self.loop, time.monotonic()
        fields = {"loss": repr(loop.loss), "skipped": loop.skipped}
        try:
            path = self._checkpoints.save(loop.step, loop.task.state(), fields)
        except ArtifactError as error:
            self.report({"event": "checkpoint-failed", "step": loop.step, "why": str(error)})
            return
        seconds = time.monotonic() - began
        self.report(
            {"event": "checkpoint", "step": loop.step, "path": str(path), "seconds": seconds}
        )

    def _listen(self) -> None:
        """Orders of the supervisor; when it is gone, stop at the next step, or in bounded time."""
        assert self._channel is not None
        rest = b""
        while True:
            try:
                data = self._channel.recv(65536)
            except OSError:
                data = b""
            if not data:
                self._ask_to_stop()
                _exit_after(self.spec.orphan_s)
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "bury" in order:
                    worker, life = order["bury"]
                    self._buried.append((worker, life))
                    if self.links is not None:
                        self.links.bury(worker, life)
                if order.get("stop"):
                    self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        self._stop = True
        if self.loop is not None:
            self.loop.stop_wanted = True


def _exit_after(seconds: float) -> None:
    """End the process if it is still there then: nobody is left who would end it."""
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


_CURRENT: list[Worker] = []


def current_worker() -> Worker:
    """The worker that this process is; one that is alone in a program of yours."""
    return _CURRENT[0] if _CURRENT else Worker()


def work(spec: WorkerSpec) -> int:
    """Run one worker; the exit code."""
    worker = Worker(spec)
    _CURRENT[:] = [worker]
    try:
        function = resolve(spec.target, spec.path)
        seed_all(function, spec.seed, spec.threads)
        if spec.backend == "torchft":
            take_gpu(spec.me)
        task = function(**spec.arguments)
        if isinstance(task, TrainTask):
            worker.run(task)
        elif worker.loop is None:
            raise ParameterError(
                f"{spec.target} returned {type(task).__name__}, and trained nothing. Return a "
                "TrainTask, or train with foretell.train.MaskedDataParallel."
            )
    except WipeoutError as error:
        worker.save_last(error)
        worker.report({"event": "wipeout", "why": str(error), "step": _step(worker)})
        return WIPED_OUT
    except MinorityError as error:
        worker.save_last(error)
        worker.report({"event": "minority", "why": str(error), "step": _step(worker)})
        return MINORITY
    except (ForetellError, Exception) as error:
        traceback.print_exc()
        kind = "" if isinstance(error, ForetellError) else f"{type(error).__name__}: "
        where = worker.last_error
        more = ""
        if where:
            more = f" Seen in {where['parameter']} ({where['value']}), shard {where['shard']}."
        worker.report({"event": "error", "why": f"{kind}{error}{more}", "step": _step(worker)})
        return FAILED
    return STOPPED if worker.loop is not None and worker.loop.stopped else DONE


def _step(worker: Worker) -> int:
    return worker.loop.step if worker.loop is not None else 0


def _vectors(torch: Any) -> str:
    if torch is None:
        return ""
    found = str(torch.backends.cpu.get_cpu_capability())
    return f"{found}, {torch.cuda.get_device_name()}" if torch.cuda.is_initialized() else found


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main() -> None:
    """What ``python -m foretell.train.stacked.worker`` does."""
    spec = WorkerSpec(**json.loads(os.environ[VARIABLE]))
    code = work(spec)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of lost connections may still wait


if __name__ == "__main__":
    from foretell.train.stacked import worker as _this  # one copy of the module, not two

    _this.main()
