"""Two slots for every edge of the graph: one is filled while the other one is read.

A slot carries the epoch of its rows, and a reader that asks for another epoch gets an error instead
of rows of the wrong step. Freeing happens in a thread of its own, so that a swap costs the same
however much was held.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Hashable
from typing import Any

from foretell.core.errors import ControllerError


class DoubleBuffer:
    """Rows between two nodes, by edge and epoch.

    Parameters
    ----------
    slots : int
        Batches that an edge holds at most; 1 makes the writer wait for the reader.
    timeout_s : float
        Longest wait for a free slot.

    Examples
    --------
    >>> buffer = DoubleBuffer()
    >>> buffer.put("reward", 0, "rows of step 0"); buffer.put("reward", 1, "rows of step 1")
    >>> buffer.get("reward", 1)
    'rows of step 1'
    >>> buffer.swap(0); buffer.get("reward", 0)
    Traceback (most recent call last):
    foretell.core.errors.ControllerError: The edge 'reward' holds no rows of epoch 0, only of 1. ...
    """

    def __init__(self, *, slots: int = 2, timeout_s: float = 120.0) -> None:
        self.slots, self.timeout_s = slots, timeout_s
        self._held: dict[str, dict[Hashable, Any]] = {}
        self._change = threading.Condition()
        self._old: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sweeper: threading.Thread | None = None

    def put(self, edge: str, epoch: Hashable, value: Any) -> None:
        """Fill a free slot; waits for one.

        Raises
        ------
        ControllerError
            The epoch is there already, or no slot got free in time.
        """
        with self._change:
            held = self._held.setdefault(edge, {})
            if epoch in held:
                raise ControllerError(
                    f"The edge {edge!r} already holds rows of epoch {epoch}. Call swap(epoch) "
                    "at the end of a step."
                )
            if not self._change.wait_for(lambda: len(held) < self.slots, self.timeout_s):
                raise ControllerError(
                    f"The edge {edge!r} still holds the epochs {', '.join(map(str, held))} after "
                    f"{self.timeout_s:g} s; epoch {epoch} does not fit. Call swap(epoch) when a "
                    "step is over."
                )
            held[epoch] = value

    def get(self, edge: str, epoch: Hashable) -> Any:
        """Read a slot, which stays filled.

        Raises
        ------
        ControllerError
            The edge holds another epoch, or nothing.
        """
        with self._change:
            held = self._held.get(edge, {})
            if epoch not in held:
                there = f"only of {', '.join(map(str, held))}" if held else "and no others"
                raise ControllerError(
                    f"The edge {edge!r} holds no rows of epoch {epoch}, {there}. Put them before "
                    "the node runs, and keep them until it has."
                )
            return held[epoch]

    def swap(self, epoch: Hashable) -> None:
        """Free what the edges hold of an epoch; what is thrown away goes in the background."""
        with self._change:
            for held in self._held.values():
                if epoch in held:
                    self._old.put(held.pop(epoch))
            self._change.notify_all()
            if self._sweeper is None or not self._sweeper.is_alive():
                self._sweeper = threading.Thread(
                    target=_sweep, args=(self._old,), name="free rows", daemon=True
                )
                self._sweeper.start()

    def __len__(self) -> int:
        """Batches held now."""
        return sum(len(held) for held in self._held.values())


def _sweep(old: queue.SimpleQueue[Any]) -> None:
    """Drop what is in the queue; ends after a second without work."""
    while True:
        try:
            del_me = old.get(timeout=1.0)
        except queue.Empty:
            return
        del del_me
