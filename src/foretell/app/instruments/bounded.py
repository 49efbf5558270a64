"""Calls that end in time: the work goes on in its thread, and nobody waits for it any longer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from foretell.core.errors import ForetellError

Result = TypeVar("Result")

_LOOK_S = 0.02
_MOST_LEFT = 4  # calls that may be left running when they were given up
_left = threading.BoundedSemaphore(_MOST_LEFT)


class GaveUpError(ForetellError):
    """A call did not end in time, or is no longer wanted."""


def bounded(
    call: Callable[[], Result],
    seconds: float,
    cancelled: Callable[[], bool] = lambda: False,
    *,
    what: str = "This",
) -> Result:
    """The result of a call, unless it takes too long or is no longer wanted.

    Raises
    ------
    GaveUpError
        After ``seconds``, when ``cancelled()`` turns true, or when several calls that were given
        up are still running.

    Examples
    --------
    >>> bounded(lambda: 3, 5.0)
    3
    """
    if not _left.acquire(blocking=False):
        raise GaveUpError(f"{what} has to wait: {_MOST_LEFT} earlier calls are still running.")
    ended: queue.SimpleQueue[tuple[bool, Result | BaseException]] = queue.SimpleQueue()

    def work() -> None:
        try:
            ended.put((True, call()))
        except BaseException as error:  # handed to the one who waits
            ended.put((False, error))
        finally:
            _left.release()

    threading.Thread(target=work, daemon=True, name="bounded call").start()
    until = time.monotonic() + seconds
    while True:
        try:
            fine, result = ended.get(timeout=min(_LOOK_S, max(until - time.monotonic(), 1e-3)))
        except queue.Empty:
            if cancelled():
                raise GaveUpError(f"{what} was cancelled.") from None
            if time.monotonic() >= until:
                raise GaveUpError(f"{what} gave no result within {seconds:g} s.") from None
            continue
        if fine:
            return result  # type: ignore[return-value]
        assert isinstance(result, BaseException)
        raise result
