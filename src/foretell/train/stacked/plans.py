"""Plans as JSON values, which the members of a view give each other, and a checksum of them."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from foretell.train.plan.controller import Assignment
from foretell.train.stacked.membership import Message

_BITS = 0xFFF


def checksum(table: NDArray[np.int64], step: int) -> int:
    """A few bits of who computes what in a step."""
    return zlib.crc32(table.tobytes(), step & 0xFFFFFFFF) & _BITS


def as_base(a: Assignment, ids: list[int], n: int, step: int, stopped: bool) -> Message:
    """A plan as JSON values."""
    alive = np.isin(np.arange(n), ids)
    return {
        "owner": a.owner.tolist(), "spare": a.spare.tolist(), "load": a.load.tolist(),
        "capacity": a.capacity, "interim": a.interim.tolist(), "alive": alive.tolist(),
        "planned_at": step, "stopped": stopped,
    }  # fmt: skip


def from_base(base: Message) -> Assignment:
    """The plan that ``as_base`` wrote down."""
    owner, spare, load, interim = (
        np.array(base[k], dtype=np.int64) for k in ("owner", "spare", "load", "interim")
    )
    nothing = np.zeros_like(load)
    return Assignment(owner, spare, load, int(base["capacity"]), 0, interim, nothing, "unchanged")
