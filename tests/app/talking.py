"""A server in a thread and a client for it, over notes that answer with their first passage."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from foretell.app.talk.gate import Gate
from foretell.app.talk.server import Server, Service
from foretell.converse.answer import Answer, Source, Statement, Verdict
from foretell.converse.lookup import BM25, StreamingLookup
from foretell.core.errors import DataError

NOTES = {
    "bleed": "To bleed the brake line, open the screw B4 by half a turn.",
    "limit": "The pump must not run above 80 degrees Celsius.",
    "oil": "The oil of the pump is changed every 500 hours.",
    "radium": "The Curies discovered radium in the winter of 1898.",
}


class Reader:
    """Answers with the first passage; waits where a question says "slowly" until it is let go."""

    def __init__(self, notes: dict[str, str] = NOTES, **more: Any) -> None:
        self.notes = notes
        self.lookup = StreamingLookup(BM25(notes), k=min(2, len(notes)), **more)
        self.go = threading.Event()

    def source(self, id: str) -> Source:
        if id not in self.notes:
            raise DataError(f"There is no passage {id!r}.")
        return Source(id, self.notes[id], file="pump.md", first_line=4, last_line=5, title="Pump")

    def answer(self, question, passages, findings, *, language=None, cancelled=lambda: False):
        if "slowly" in question:
            while not self.go.wait(0.01) and not cancelled():
                pass
        if "badly" in question:
            raise ValueError("the reader broke")
        if not passages:
            return Answer("I find nothing about this in the notes.")
        first = passages[0]
        statement = Statement(first.text, (first,))
        return Answer(first.text, (statement,), Verdict("accept", "it is quoted", 0.05, 0.1))


class Running:
    """A server that runs in a thread of its own."""

    def __init__(self, service: Service, port: int = 0) -> None:
        self.server = Server(service, port)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self.server.serve()), daemon=True
        )
        self._thread.start()
        ends = time.monotonic() + 20
        while not self.server.started:
            assert time.monotonic() < ends
            assert self._thread.is_alive()
            time.sleep(0.005)
        self.port = self.server.port
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def service(**more: Any) -> Service:
    reader = more.pop("assistant", None) or Reader()
    return Service(assistant=reader, gate=more.pop("gate", Gate("127.0.0.1")), **more)


class Client:
    """One page, without a page."""

    def __init__(self, port: int, *, hello: dict[str, Any] | None = None, **more: Any) -> None:
        opened = connect(
            f"ws://127.0.0.1:{port}/ws",
            proxy=None,
            compression=None,
            max_size=1 << 24,
            max_queue=None,
            **more,
        )
        self.socket: ClientConnection = opened.__enter__()
        self.seen: list[dict[str, Any]] = []
        if hello is not None:
            self.say("hello", **hello)
            self.welcome = self.until("welcome")

    def say(self, kind: str, **data: Any) -> None:
        self.socket.send(json.dumps({"kind": kind, **data}))

    def until(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """The next message of a kind, with some content."""
        while True:
            data = self.socket.recv(timeout=20)
            if isinstance(data, bytes):
                self.seen.append({"kind": "sound", "bytes": len(data)})
                continue
            message: dict[str, Any] = json.loads(data)
            self.seen.append(message)
            if message["kind"] == kind and wanted.items() <= message.items():
                return message

    def ended(self) -> str:
        """Why the server ended the connection."""
        try:
            self.until("never")
        except ConnectionClosed as end:
            return end.rcvd.reason if end.rcvd else "torn"
        raise AssertionError

    def ask(self, text: str) -> dict[str, Any]:
        self.say("end_of_turn", text=text)
        answer = self.until("answer")
        self.until("state", to="idle")
        return answer

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
