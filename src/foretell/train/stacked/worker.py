"""One worker of a training: a process that a ``Supervisor`` started, or a program of yours, alone.

``python -m foretell.train.stacked.worker`` reads what it is to do from the variable
``FORETELL_WORKER``, calls the target of the job, and trains what that returns. A target may also
train by itself, through ``MaskedDataParallel``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import json
import os
import platform
import random
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from foretell.core.errors import ArtifactError, ForetellError, ParameterError, WipeoutError
from foretell.train.plan.placement import StackPlacement
from foretell.train.plan.rulers import largest_redundancy
from foretell.train.stacked.checkpoints import Checkpoints
from foretell.train.stacked.faults import FaultInjector, parse_faults
from foretell.train.stacked.links import Links, listener
from foretell.train.stacked.loop import MinorityError, StackedLoop
from foretell.train.stacked.membership import Membership, Standing
from foretell.train.stacked.sockets import SocketCollective
from foretell.train.stacked.states import digest
from foretell.train.task import TrainTask

VARIABLE = "FORETELL_WORKER"
DONE, FAILED, WIPED_OUT, MINORITY, STOPPED = 0, 1, 3, 4, 5


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """What one worker is told; all of it JSON. See ``StackedJob`` for the meaning."""

    me: int = 0
    life: int = 0
    addresses: list[list[Any]] = field(default_factory=lambda: [["127.0.0.1", 0]])
    token: str = ""
    target: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    steps: int = 0
    survive: int = 1
    scheme: str | None = None
    micro: int = 2
    backend: str = "sockets"
    exact: bool = True
    scale_bits: int = 40
    seed: int = 0
    threads: int = 1
    timeout_s: float = 4.0
    stuck_s: float = 300.0
    start_s: float = 60.0
    patience_s: float = 60.0
    orphan_s: float = 60.0
    checkpoint_s: float = 60.0
    checkpoint_steps: int | None = None
    folder: str | None = None
    resume: bool = False
    hashes: bool = False
    faults: str = ""
    fault_s: float = 8.0
    units: int | None = None
    listen_fd: int = -1
    channel_fd: int = -1

    @property
    def n_workers(self) -> int:
        """N."""
        return len(self.addresses)

    def to_json(self) -> str:
        """For the variable of the environment."""
        return json.dumps(asdict(self))


def placement_for(n_workers: int, survive: int, scheme: str | None = None) -> StackPlacement:
    """Who may compute what, so that any ``survive`` workers can fail at once.

    A ruler where there is one, everybody for everything where all but one may fail, else
    contiguous stacks.

    Examples
    --------
    >>> placement_for(7, 2), placement_for(4, 2)
    (StackPlacement(7 groups, 3 hosts a shard, golomb 0 1 3), StackPlacement(4 groups, 3 hosts a shard, contiguous 0 1 2))
    """  # noqa: E501
    if not 0 <= survive < n_workers:
        raise ParameterError(
            f"survive={survive} with workers={n_workers}: at least one worker has to be left. "
            f"Write survive = {max(n_workers - 1, 0)} or less, or use more workers."
        )
    hosts = survive + 1
    if scheme is None:
        ruled = hosts <= largest_redundancy(n_workers)
        scheme = "golomb" if ruled else "elastic" if hosts == n_workers else "contiguous"
    redundancy = None if scheme == "elastic" else hosts
    return StackPlacement(n_workers, redundancy, scheme)  # type: ignore[arg-type]


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
        loop.join(links, self._collective(links, faults))
        faults.cut = lambda off: setattr(links, "cut_off", off)
        links.start()
        self.links = links
        for worker, life in self._buried:
            links.bury(worker, life)

    def _collective(self, links: Links, faults: FaultInjector) -> Any:
        if self.spec.backend == "sockets":
            return SocketCollective(links, faults, in_parts=faults.has("reduce-late"))
        if self.spec.backend == "gloo":
            from foretell.train.stacked.gloo import GlooCollective

            return GlooCollective(links, str(self.spec.addresses[self.spec.me][0]), faults)
        raise ParameterError(f"backend={self.spec.backend!r} is neither 'sockets' nor 'gloo'.")

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


def resolve(target: str, path: list[str]) -> Any:
    """The function that ``package.module:function`` names.

    Raises
    ------
    ParameterError
        Says which half of the name cannot be found, and where was looked.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise ParameterError(
            f"target {target!r} must be package.module:function, for instance my_training:main."
        )
    for folder in reversed(path):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ParameterError(
                f"the module {module_name!r} of target {target!r} cannot be imported. Looked in "
                f"{', '.join(path) or 'the usual places'}. Put {module_name.split('.')[0]}.py "
                "beside the job file, or install its package."
            ) from error
        raise ParameterError(
            f"importing {module_name!r} needs {missing!r}, which is not installed. Install it, or "
            "take the import out."
        ) from error
    if not hasattr(module, name):
        known = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        raise ParameterError(
            f"{module_name} has no {name!r}; it has {', '.join(sorted(known)[:8]) or 'nothing'}."
        )
    return getattr(module, name)


def work(spec: WorkerSpec) -> int:
    """Run one worker; the exit code."""
    worker = Worker(spec)
    _CURRENT[:] = [worker]
    try:
        function = resolve(spec.target, spec.path)
        _seed(function, spec.seed, spec.threads)
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


def import_torch_for(function: Any) -> None:
    """Import torch if the file of a function mentions it: later is too late for a seed."""
    source = None
    with contextlib.suppress(TypeError):  # a built-in has none
        source = inspect.getsourcefile(inspect.unwrap(function))
    if source and "torch" in Path(source).read_text(encoding="utf-8", errors="replace"):
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")


def _seed(function: Any, seed: int, threads: int) -> None:
    """The same first parameters on every worker, whatever the target draws them with."""
    import_torch_for(function)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (for the code of others, in a process of ours)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
        torch.set_num_threads(threads)


def _vectors(torch: Any) -> str:
    return str(torch.backends.cpu.get_cpu_capability()) if torch is not None else ""


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
