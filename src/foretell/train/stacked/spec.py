"""What a worker is told, how it ends, and the placement that a number of workers gets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from foretell.core.errors import ParameterError
from foretell.train.plan.placement import StackPlacement
from foretell.train.plan.rulers import largest_redundancy

VARIABLE = "FORETELL_WORKER"
BACKENDS = ("sockets", "gloo", "torchft")
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
