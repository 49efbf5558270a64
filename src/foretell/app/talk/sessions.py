"""The conversations of a server: who is connected, who may come back, and when one ends."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from foretell.app.talk.limits import Metrics, ServerLimits
from foretell.app.talk.live import LiveConversation
from foretell.app.talk.wire import sound, written
from foretell.core.errors import CapacityError
from foretell.core.timeline import Event

Message = str | bytes
Make = Callable[["Session"], LiveConversation]


class Session:
    """One conversation and the connection that it has at the moment.

    Parameters
    ----------
    named : callable
        From the id of a passage to its place and title.
    limits : ServerLimits
    metrics : Metrics
    now : float
        Seconds.
    """

    def __init__(
        self,
        named: Callable[[str], Mapping[str, Any]],
        limits: ServerLimits,
        metrics: Metrics,
        now: float,
    ) -> None:
        self.key = secrets.token_urlsafe(24)
        self.began = self.left_at = now
        self.live: LiveConversation
        self._named, self._limits, self._metrics = named, limits, metrics
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._something = asyncio.Event()
        self.connection: object | None = None
        self._ended_at: dict[int, float] = {}
        self._spoke_at: float | None = None  # the last sound of speech of the open question

    # From the conversation, in the loop ----------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take note of an event of the conversation, and tell the page."""
        turn = event.get("turn")
        if event.kind == "frame" and event["speech"]:
            self._spoke_at = event.time
        elif event.kind == "state" and event["to"] == "settling":
            spoke_at, self._spoke_at = self._spoke_at, None
            self._ended_at = {turn: event.time if spoke_at is None else spoke_at}
        message = written(event, self._named)
        if message is None:
            return
        if message["kind"] == "answer" and turn in self._ended_at and not message.get("again"):
            waited = event.time - self._ended_at[turn]
            message["waited"] = waited
            self._metrics.answered(waited)
        self.tell(message)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send something to the page, if there is one."""
        self._put(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    def play(self, turn: int, pcm: bytes, rate: int) -> None:
        """Send sound to the page."""
        self._put(sound(turn, pcm, rate))

    def _put(self, message: Message) -> None:
        if self.connection is None or self.too_slow:
            return
        self._waiting.append(message)
        self._bytes += len(message)
        self._something.set()

    # The connection ------------------------------------------------------------------------------

    @property
    def too_slow(self) -> bool:
        """Whether more waits for the page than is held for it."""
        limits = self._limits
        return len(self._waiting) > limits.queue or self._bytes > limits.queue_bytes

    def connect(self, connection: object) -> None:
        """A page is there; one that was there before is not any more."""
        self._waiting.clear()
        self._bytes = 0
        self.connection = connection
        self._something.set()

    def disconnect(self, connection: object, now: float) -> None:
        """The page went away; the conversation waits for it."""
        if self.connection is connection:
            self.connection, self.left_at = None, now
            self._waiting.clear()
            self._bytes = 0
            self.live.put("disconnect")
            self.live.stop_listening()
            if self.live.speech:
                self.live.speech.stop()

    async def send_all(self, connection: object, send: Callable[[Message], Awaitable[None]]) -> str:
        """Send what comes until the connection is another one; gives the reason."""
        while True:
            await self._something.wait()
            self._something.clear()
            if self.connection is not connection:
                return "opened elsewhere"
            if self.too_slow:
                return "the page reads too slowly"
            while self._waiting and self.connection is connection:
                message = self._waiting.popleft()
                self._bytes -= len(message)
                async with asyncio.timeout(self._limits.send_s):
                    await send(message)


class Sessions:
    """All sessions of a server.

    Parameters
    ----------
    named : callable
    limits : ServerLimits
    metrics : Metrics
    make : callable
        Makes the conversation of a session.
    """

    def __init__(
        self,
        named: Callable[[str], Mapping[str, Any]],
        limits: ServerLimits,
        metrics: Metrics,
        make: Make,
    ) -> None:
        self._named, self._limits, self._metrics, self._make = named, limits, metrics, make
        self._all: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._all)

    def find(self, key: str | None) -> Session | None:
        """The session that a page had, if it is still there."""
        return self._all.get(key or "")

    def begin(self) -> Session:
        """A new session.

        Raises
        ------
        CapacityError
            When there are as many as there may be.
        """
        now = asyncio.get_running_loop().time()
        if len(self._all) >= self._limits.sessions:
            gone = [one for one in self._all.values() if one.connection is None]
            if not gone:
                raise CapacityError(
                    f"All {self._limits.sessions} places are taken. Try again in a minute."
                )
            self._drop(min(gone, key=lambda one: one.left_at))
        session = Session(self._named, self._limits, self._metrics, now)
        session.live = self._make(session)
        self._all[session.key] = session
        self._metrics.counts["sessions_begun"] += 1
        return session

    async def sweep(self, every_s: float = 5.0) -> None:
        """End what nobody came back to, and what is too old."""
        while True:
            await asyncio.sleep(every_s)
            now = asyncio.get_running_loop().time()
            for session in list(self._all.values()):
                away = session.connection is None and now - session.left_at > self._limits.keep_s
                if away or now - session.began > self._limits.session_s:
                    self._drop(session)

    async def close(self) -> None:
        """End all."""
        sessions, self._all = list(self._all.values()), {}
        for session in sessions:
            session.connect(object())
        await asyncio.gather(*(session.live.close() for session in sessions))

    def _drop(self, session: Session) -> None:
        self._all.pop(session.key, None)
        session.connect(object())
        self._closing = asyncio.get_running_loop().create_task(session.live.close())
