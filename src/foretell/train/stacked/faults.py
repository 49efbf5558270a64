"""Faults on purpose: a worker that kills, stops or cuts itself off at a chosen place of a step.

A schedule is text, ``kill:2@8,stop:0@14/reduce``: what, which worker, at which step, where.

    kill    SIGKILL
    stop    SIGSTOP: the machine hangs
    pause   SIGSTOP, and SIGCONT after some seconds: it comes back, and the world has moved on
    cut     nothing goes in or out any more, for some seconds

    before         before the first unit           apply    while the optimiser works
    compute        after the first unit            recover  while a new view is entered
    reduce         between the rounds of the sum   commit   after the sum, before the step counts
    reduce-late    when one other worker has the result

It is a test helper: workers harm nobody but themselves.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from foretell.core.errors import ParameterError

KINDS = ("kill", "stop", "pause", "cut")
PLACES = ("before", "compute", "reduce", "reduce-late", "commit", "apply", "recover")
_FAULT = re.compile(
    r"(?P<kind>[a-z]+):(?P<worker>\d+)@(?P<step>\d+)(?:/(?P<place>[a-z-]+))?(?:~(?P<life>\d+))?"
)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Parameters
    ----------
    kind : {"kill", "stop", "pause", "cut"}
    worker, step : int
    place : str
        Where in the step.
    life : int
        Of which incarnation of the worker; 0 is the first.

    Examples
    --------
    >>> parse_faults("kill:2@8,stop:0@14/reduce", n_workers=4)
    [Fault(kill:2@8/compute), Fault(stop:0@14/reduce)]
    """

    kind: str
    worker: int
    step: int
    place: str = "compute"
    life: int = 0

    def __str__(self) -> str:
        again = f"~{self.life}" if self.life else ""
        return f"{self.kind}:{self.worker}@{self.step}/{self.place}{again}"

    def __repr__(self) -> str:
        return f"Fault({self})"


def parse_faults(text: str, n_workers: int) -> list[Fault]:
    """Faults from text.

    Raises
    ------
    ParameterError
        Says which part of the text is not understood.
    """
    faults = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _FAULT.fullmatch(part)
        if match is None or match["kind"] not in KINDS:
            raise ParameterError(
                f"{part!r} is not a fault. Write for instance kill:2@8 or stop:0@14/reduce: one of "
                f"{', '.join(KINDS)}, the worker, the step, and where ({', '.join(PLACES)})."
            )
        place = match["place"] or "compute"
        if place not in PLACES:
            raise ParameterError(f"{part!r}: {place!r} is none of {', '.join(PLACES)}.")
        if int(match["worker"]) >= n_workers:
            raise ParameterError(
                f"{part!r}: there is no worker {match['worker']}; they are numbered from 0 to "
                f"{n_workers - 1}."
            )
        life = int(match["life"] or 0)
        faults.append(Fault(match["kind"], int(match["worker"]), int(match["step"]), place, life))
    return faults


def _nothing(_: object) -> None:
    pass


@dataclass
class FaultInjector:
    """Carries out the faults of this worker, each once.

    Parameters
    ----------
    faults : iterable of Fault
        Those of this worker and this life.
    seconds : float
        How long a pause or a cut lasts.
    report : callable
        Is told of a fault before it happens.
    cut : callable
        Cuts the links off, or on again.
    """

    faults: Iterable[Fault] = ()
    seconds: float = 8.0
    report: Callable[[dict[str, Any]], None] = field(default_factory=lambda: _nothing)
    cut: Callable[[bool], None] = field(default_factory=lambda: _nothing)
    step: int = 0
    _left: list[Fault] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.faults)

    def has(self, place: str) -> bool:
        """Whether a fault at that place is still to come."""
        return any(f.place == place for f in self._left)

    def __call__(self, place: str) -> None:
        """The training has come to that place."""
        for fault in [f for f in self._left if f.place == place and f.step == self.step]:
            self._left.remove(fault)
            self._strike(fault)

    def during(self, place: str, work: Callable[[], None]) -> None:
        """Do some work, and let a fault come after a few calls inside it."""
        due = [f for f in self._left if f.place == place and f.step == self.step]
        if not due:
            work()
            return
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1
            if calls == 4:
                sys.setprofile(None)
                self(place)

        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
        self(place)  # the work was shorter than that

    def _strike(self, fault: Fault) -> None:
        self.report({"event": "fault", "fault": str(fault)})
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.kind == "cut":
            self.cut(True)
            back = threading.Timer(self.seconds, self.cut, args=(False,))
            back.daemon = True
            back.start()
        else:
            if fault.kind == "pause":
                _wake_later(self.seconds)
            os.kill(os.getpid(), signal.SIGSTOP)


def _wake_later(seconds: float) -> None:
    """A process of its own sends the SIGCONT, since a stopped one cannot."""
    code = "import os, signal, sys, time; time.sleep(float(sys.argv[2])); "
    code += "os.kill(int(sys.argv[1]), signal.SIGCONT)"
    subprocess.Popen(
        [sys.executable, "-c", code, str(os.getpid()), str(seconds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
