"""One connection of a page: hello, then messages both ways, within the limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect

from foretell.app.talk import wire
from foretell.app.talk.limits import Bucket, Metrics, ServerLimits
from foretell.app.talk.sessions import Session, Sessions
from foretell.converse.lookup.words import split_words
from foretell.core.errors import CapacityError, DataError

_POLICY, _TOO_BIG, _LATER, _GONE = 1008, 1009, 1013, 4001
_WRONG_MOST = 20  # messages that are no messages, then the connection ends
_RATES = range(8_000, 48_001)


class Closed(Exception):
    """The connection ends, with a code and a reason for the page."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class Connection:
    """Serves one WebSocket.

    Parameters
    ----------
    socket : WebSocket
    sessions : Sessions
    limits : ServerLimits
    metrics : Metrics
    about : mapping
        What the page should know: name, passages, what is not installed.
    """

    def __init__(
        self,
        socket: WebSocket,
        sessions: Sessions,
        limits: ServerLimits,
        metrics: Metrics,
        about: Mapping[str, Any],
    ) -> None:
        self._socket, self._sessions, self._limits = socket, sessions, limits
        self._counts, self._about = metrics.counts, about
        self._bucket = Bucket(limits.rate, limits.burst)
        self._wrong, self._rate = 0, 48_000

    async def serve(self) -> None:
        """Until either side ends it."""
        await self._socket.accept()
        session: Session | None = None
        try:
            session = await self._join()
            reader = asyncio.ensure_future(self._read(session))
            writer = asyncio.ensure_future(session.send_all(self, self._send))
            try:
                done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (reader, writer):
                    task.cancel()
                await asyncio.gather(reader, writer, return_exceptions=True)
            for task in done:
                raise Closed(_GONE, task.result() or "goodbye")
        except Closed as end:
            if end.code != _GONE:
                self._counts["connections_refused"] += 1
            await self._end(end.code, end.reason)
        except TimeoutError:
            await self._end(_GONE, "nothing came, or nothing could be sent, for too long")
        except (WebSocketDisconnect, RuntimeError):
            pass  # the page is gone
        finally:
            if session is not None:
                session.disconnect(self, asyncio.get_running_loop().time())

    async def _end(self, code: int, reason: str) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2.0):
                await self._socket.close(code, reason[:120])

    # Joining -------------------------------------------------------------------------------------

    async def _join(self) -> Session:
        async with asyncio.timeout(self._limits.hello_s):
            message = await self._socket.receive()
        try:
            kind, data = wire.read(message.get("text") or "")
        except DataError as error:
            raise Closed(_POLICY, f"The first message was no hello. {error}") from None
        if kind != "hello":
            raise Closed(_POLICY, f"The first message was {kind!r}; it must be hello.")
        before = self._sessions.find(data.get("session"))
        try:
            session = before or self._sessions.begin()
        except CapacityError as error:
            raise Closed(_LATER, str(error)) from None
        session.connect(self)
        session.tell(
            {
                **self._about,
                "kind": "welcome",
                "session": session.key,
                "back": before is not None,
                "language": session.live.language or session.live.language_seems,
            }
        )
        if before is not None:
            session.live.put("reconnect", {"seen": max(data.get("seen", 0), 0)})
        return session

    # Reading -------------------------------------------------------------------------------------

    async def _read(self, session: Session) -> str:
        while True:
            async with asyncio.timeout(self._limits.idle_s):
                message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return "goodbye"
            self._counts["messages"] += 1
            if not self._bucket.take():
                raise Closed(_POLICY, "Too many messages a second.")
            try:
                if (data := message.get("bytes")) is not None:
                    self._sound(session, data)
                else:
                    self._said(session, *wire.read(message.get("text") or ""))
                self._wrong = max(self._wrong - 1, 0)
            except DataError as error:
                self._refuse(session, error, message)

    def _refuse(self, session: Session, error: DataError, message: Mapping[str, Any]) -> None:
        self._counts["messages_refused"] += 1
        self._wrong += 1
        if self._wrong >= _WRONG_MOST:
            raise Closed(_POLICY, "Too many messages that were none.")
        answer = {"kind": "refused", "reason": str(error)[:500]}
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            answer["id"] = str(json.loads(message["text"])["id"])[:80]
        session.tell(answer)

    def _sound(self, session: Session, data: bytes) -> None:
        if len(data) > wire.LONGEST_SOUND or len(data) % 2:
            raise DataError(f"A piece of sound of {len(data)} bytes; needed are 16 bit samples.")
        session.live.hear(data, self._rate)

    def _said(self, session: Session, kind: str, data: dict[str, Any]) -> None:
        live = session.live
        if kind == "end_of_turn" and not split_words(data.get("text", "some")):
            raise DataError("Nothing was asked.")
        if kind in _DO:
            _DO[kind](self, session, data)
        elif kind == "language":
            live.choose_language(data["language"])
        else:
            live.put(kind, data, user=True)

    def _listen(self, session: Session, data: dict[str, Any]) -> None:
        rate = data.get("rate", 48_000)
        if rate not in _RATES:
            raise DataError(f"rate={rate}; needed are 8000 to 48000 samples a second.")
        self._rate = rate

    def _mute(self, session: Session, data: dict[str, Any]) -> None:
        session.live.end_sound()

    def _settings(self, session: Session, data: dict[str, Any]) -> None:
        session.live.speaks = data["speak"]

    def _ping(self, session: Session, data: dict[str, Any]) -> None:
        session.tell({"kind": "pong"})

    def _hello(self, session: Session, data: dict[str, Any]) -> None:
        raise DataError("hello was said already.")

    async def _send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            await self._socket.send_text(message)
        else:
            await self._socket.send_bytes(message)


_DO: dict[str, Callable[[Connection, Session, dict[str, Any]], None]] = {
    "listen": Connection._listen,
    "mute": Connection._mute,
    "settings": Connection._settings,
    "ping": Connection._ping,
    "hello": Connection._hello,
}
