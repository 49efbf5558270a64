"""How ranks find each other: the variables of torchrun, a store, and a bounded wait.

Source of the variables: the documentation of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from foretell.core.errors import ControllerError, MissingExtraError, ParameterError
from foretell.train.rl.group import TIMEOUT_S, Alone, Group, TorchGroup

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

_POLL_S = 0.05


def join(*, timeout_s: float = TIMEOUT_S, backend: str | None = None) -> Group:
    """Meet the other ranks that torchrun (or ``foretell train``) started.

    Parameters
    ----------
    timeout_s : float
        Longest wait for the others, now and in every later exchange.
    backend : str, optional
        By default gloo, with NCCL for tensors on a GPU where there is one.

    Returns
    -------
    Group
        This rank alone where no launcher has set the variables.

    Raises
    ------
    ControllerError
        Ranks are missing after the wait; names them.

    Examples
    --------
    >>> join().size
    1
    """
    size = _number("WORLD_SIZE", 1)
    if dist.is_initialized():
        return TorchGroup()
    if size == 1:
        return Alone()
    rank = _number("RANK", 0)
    host, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), _number("MASTER_PORT", 29500)
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    stores: Any = dist
    wait = timedelta(seconds=timeout_s)
    try:
        store = stores.TCPStore(
            host, port, is_master=rank == 0 and not agent, timeout=wait, wait_for_workers=False
        )
    except (RuntimeError, TimeoutError) as error:
        raise ControllerError(
            f"Rank {rank} found no rank 0 at {host}:{port} within {timeout_s:g} s. Start all "
            f"{size} ranks, with the same MASTER_ADDR and MASTER_PORT."
        ) from error
    run = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    meeting = stores.PrefixStore(f"foretell/{run}", store)
    meeting.set(f"here/{rank}", "1")
    deadline = time.monotonic() + timeout_s
    while missing := [r for r in range(size) if not meeting.check([f"here/{r}"])]:
        if time.monotonic() > deadline:
            raise ControllerError(
                f"Rank {rank} waited {timeout_s:g} s, and rank{'s' * (len(missing) > 1)} "
                f"{', '.join(map(str, missing))} of {size} did not come. Start all of them, or "
                "look for why they stopped."
            )
        time.sleep(_POLL_S)
    chosen = backend or ("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    dist.init_process_group(chosen, store=meeting, rank=rank, world_size=size, timeout=wait)
    return TorchGroup()


def leave() -> None:
    """Part from the other ranks, at the end of a program."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise ParameterError(f"{name}={text!r} in the environment; needed is a whole number.")
    return int(text)
