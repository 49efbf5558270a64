"""Workers as their supervisor sees them, and how a training ended."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from foretell.train.stacked.nursery import ForkedProcess


@dataclass(frozen=True)
class Outcome:
    """How a training with several workers ended.

    Parameters
    ----------
    status : {"done", "stopped", "wiped out", "minority", "failed"}
    step : int
        Steps that count.
    loss : float
    sha256 : str
        Of the last state, where the training came to its end or was stopped.
    failures : int
        Workers lost while the training went on.
    replaced : int
        Workers started anew.
    seconds : float
    hashes : dict of int to set of str
        SHA-256 of the committed states by step, of every worker and life, if asked for.
    message : str
        Why it did not come to its end.
    """

    status: str
    step: int
    loss: float
    sha256: str
    failures: int
    replaced: int
    seconds: float
    hashes: dict[int, set[str]] = field(default_factory=dict, repr=False)
    message: str = field(default="", repr=False)


@dataclass
class Member:
    """One worker as its supervisor sees it."""

    process: subprocess.Popen[bytes] | ForkedProcess
    channel: socket.socket
    life: int
    log: IO[bytes] | None
    rest: bytes = b""
    step: int = 0
    seconds: float = 0.0
    units: int = 0
    state: str = "starting"
    epoch: int = 0
    left_at: float | None = None
    heard_at: float = 0.0
    waiting_since: float | None = None  # its view has ended, and no other one has come


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped, as by SIGSTOP; False where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
