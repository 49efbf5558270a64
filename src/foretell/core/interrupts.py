"""Ctrl-C that waits for a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_wait() -> Iterator[threading.Event]:
    """Note the first Ctrl-C instead of raising; raise at a second one, or at the end.

    The event that it gives is set by the first one: look at it between two steps. Only in the main
    thread, and only where Ctrl-C has not been given another meaning.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            signal.default_int_handler(number, frame)
        interrupted.set()

    if before is not signal.default_int_handler:  # somebody else's handler stays in charge
        yield interrupted
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():  # it came after the last step
        raise KeyboardInterrupt
