"""Answers as sound: one at a time, stopped at once, and never waited for without end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Protocol

PATIENCE = 10.0  # seconds after its length for a client to say that it has played an answer


class Speech(Protocol):
    """Text to sound; `foretell.converse.audio.Voice` is one."""

    def say(
        self, text: str, *, language: str | None = None, cancelled: Callable[[], bool] = ...
    ) -> Iterator[tuple[Any, int]]:
        """Pieces of 16 bit PCM with their rate; may block."""
        ...


class SpeechOutput:
    """Says the answers of one conversation.

    Parameters
    ----------
    voice : Speech
    play : callable
        Gets turn, bytes and rate; an empty piece ends the turn.
    put : callable
        Takes "spoken" when a client does not say so itself.
    pool : Executor
        Threads.
    """

    def __init__(
        self,
        voice: Speech,
        play: Callable[[int, bytes, int], None],
        put: Callable[[str, dict[str, Any]], None],
        pool: Executor,
    ) -> None:
        self._voice, self._play, self._put, self._pool = voice, play, put, pool
        self._loop = asyncio.get_running_loop()
        self._stop: threading.Event | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, turn: int, text: str, language: str | None, *, after: float = 0.0) -> None:
        """Begin to say an answer, after so many seconds."""
        self.stop()
        self._stop = stop = threading.Event()

        def begin() -> None:
            self._pool.submit(self._run, turn, text, language, stop)

        if after > 0:
            self._timer = self._loop.call_later(after, begin)
        else:
            begin()

    def stop(self) -> None:
        """Be silent."""
        if self._stop:
            self._stop.set()
        if self._timer:
            self._timer.cancel()
        self._stop = self._timer = None

    def _run(self, turn: int, text: str, language: str | None, stop: threading.Event) -> None:
        seconds = 0.0
        try:
            for pcm, rate in self._voice.say(text, language=language, cancelled=stop.is_set):
                if stop.is_set():
                    return
                data = bytes(memoryview(pcm).cast("B"))
                seconds += len(data) / (2 * rate)
                self._loop.call_soon_threadsafe(self._piece, turn, data, rate, stop)
        except Exception:  # without a voice the answer is still there to be read
            seconds = 0.0
        if not stop.is_set():
            self._loop.call_soon_threadsafe(self._end, turn, seconds, stop)

    def _piece(self, turn: int, data: bytes, rate: int, stop: threading.Event) -> None:
        if not stop.is_set():
            self._play(turn, data, rate)

    def _end(self, turn: int, seconds: float, stop: threading.Event) -> None:
        if stop.is_set():
            return
        self._play(turn, b"", 0)
        wait = seconds + PATIENCE if seconds else 0.0
        self._timer = self._loop.call_later(wait, self._put, "spoken", {"turn": turn})
