"""The server of `foretell talk --serve`: one page, one WebSocket, and the end points around them.

/                      the page                   /ws       the conversation
/source/{id}           a passage                  /health   for a supervisor, without token
/v1/chat/completions   for clients of language models       /metrics   for monitoring
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from foretell.app.talk import completions, wire
from foretell.app.talk.connection import Connection
from foretell.app.talk.gate import Gate, Refusal
from foretell.app.talk.limits import Metrics, ServerLimits
from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import Answers, Ears, Limits, Listener, Workers
from foretell.app.talk.sessions import Session, Sessions
from foretell.app.talk.speaking import Speech
from foretell.converse.conversation import Manners
from foretell.core.errors import DataError

_BODY = 256 * 1024  # bytes of a request
_BODY_S = 10.0  # seconds for each part of it
_HEADERS_S = 10.0  # seconds for the first line and the headers of a request
_SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; media-src 'self' blob:; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


@dataclass(kw_only=True)
class Service:
    """What a server serves.

    Parameters
    ----------
    assistant : Answers
    gate : Gate
    about : mapping
        Told to every page: ``name``, ``passages``, ``missing`` (what is not installed).
    ears : callable, optional
        Makes a recogniser for a conversation.
    voice : Speech, optional
        Says the answers of all.
    record : callable, optional
        Makes the recorder of a conversation.
    manners : Manners, optional
        Those of the recogniser.
    limits : ServerLimits
    each : Limits
        Of one conversation.
    gauges : mapping of str to callable
        More numbers for `/metrics`.
    """

    assistant: Answers
    gate: Gate
    about: Mapping[str, Any] = field(default_factory=dict)
    ears: Callable[[], Ears] | None = None
    voice: Speech | None = None
    record: Callable[[], Listener] | None = None
    manners: Manners | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)
    each: Limits = field(default_factory=Limits)
    gauges: Mapping[str, Callable[[], float]] = field(default_factory=dict)


def make_app(service: Service) -> FastAPI:
    """The application; `serve` runs it, tests may run it otherwise."""
    workers, metrics = Workers(), Metrics()
    assistant = service.assistant

    @lru_cache(maxsize=10_000)
    def named(id: str) -> Mapping[str, Any]:
        try:
            found = assistant.source(id).to_dict()
        except Exception:  # a passage that is gone is named by its number
            return {"id": id, "place": id, "title": ""}
        return {key: found[key] for key in ("id", "place", "title")}

    def make(session: Session) -> LiveConversation:
        recorder = [service.record()] if service.record else []
        return LiveConversation(
            assistant,
            [*recorder, session.hear],
            workers,
            ears=service.ears,
            voice=service.voice,
            play=session.play,
            speaks=False,  # until the page asks for it
            manners=service.manners,
            limits=service.each,
        )

    sessions = Sessions(named, service.limits, metrics, make)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(sessions.sweep())
        yield
        sweeper.cancel()
        await sessions.close()
        workers.close()

    app = FastAPI(title="foretell talk", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.sessions, app.state.metrics = sessions, metrics
    app.add_exception_handler(RequestValidationError, _explained)
    app.add_middleware(Guard, gate=service.gate, metrics=metrics)
    app.include_router(
        completions.router(assistant, workers, service.each, service.limits.completions)
    )

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def measured() -> PlainTextResponse:
        gauges = {"sessions": len(sessions)} | {name: of() for name, of in service.gauges.items()}
        return PlainTextResponse(metrics.text(gauges))

    @app.get("/source/{id}")
    async def source(id: str) -> Response:
        try:
            found = await asyncio.to_thread(assistant.source, id)
        except DataError as error:
            return JSONResponse({"detail": str(error)}, status_code=404)
        return JSONResponse(found.to_dict())

    @app.get("/")
    async def page() -> Response:
        return _static("index.html")

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        return _static(name)

    @app.websocket("/ws")
    async def talk(socket: WebSocket) -> None:
        await Connection(socket, sessions, service.limits, metrics, service.about).serve()

    return app


def _static(name: str) -> Response:
    folder = Path(str(files("foretell.app"))) / "static"
    known = {path.name: path for path in folder.iterdir() if path.suffix in _TYPES}
    if name not in known:
        return PlainTextResponse("There is no such file.", status_code=404)
    return FileResponse(known[name], media_type=_TYPES[known[name].suffix])


async def _explained(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ())[1:]) or "the body"
    return completions.problem(422, f"{where}: {first.get('msg', 'not usable')}"[:300])


class Guard:
    """Stands before everything: the gate, the size of bodies, and headers that browsers obey."""

    def __init__(self, app: ASGIApp, gate: Gate, metrics: Metrics) -> None:
        self.app, self.gate, self.metrics = app, gate, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        cookie = self.gate.asks_for_cookie(scope["path"], query)
        refusal = self.gate.refusal(scope["path"], headers, query, tokenless=cookie)
        if refusal is None and int(_length(headers)) > _BODY:
            refusal = Refusal(413, f"The body may have {_BODY} bytes.")
        if refusal is not None:
            self.metrics.counts["requests_refused"] += 1
            await self._refuse(refusal, scope, receive, send)
        elif cookie and scope["type"] == "http":
            away = Response(status_code=303, headers={"location": "/"})
            away.headers.append("set-cookie", self.gate.cookie())
            await away(scope, receive, send)
        elif scope["type"] == "http":
            await self.app(scope, _bounded(receive), _secured(send))
        else:
            await self.app(scope, receive, send)

    async def _refuse(self, why: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": why.reason})
        else:
            answer = PlainTextResponse(why.reason + "\n", status_code=why.status)
            await answer(scope, receive, _secured(send))


def _length(headers: Mapping[str, str]) -> str:
    given = headers.get("content-length", "0")
    return given if given.isdigit() and len(given) < 12 else "0"


def _bounded(receive: Receive) -> Receive:
    """A body that is longer than it may be is cut off, and so refused as no JSON."""
    got, whole = 0, False

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal got, whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(_BODY_S):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        got += len(message.get("body", b""))
        whole = not message.get("more_body", False) or got > _BODY
        return message if got <= _BODY else {"type": "http.request", "body": b""}

    return bounded


def _secured(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in _SECURITY.items()]

    async def secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *extra]
        await send(message)

    return secured


class PatientOnce(H11Protocol):
    """HTTP that does not wait for ever for a client that sends its headers letter by letter."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is there: its request has to follow."""
        super().connection_made(transport)
        self._late = self.loop.call_later(_HEADERS_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or a WebSocket took over."""
        self._late.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        upgraded = self.transport.get_protocol() is not self
        if not upgraded and self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class Server(uvicorn.Server):
    """One that tells when it listens.

    Parameters
    ----------
    service : Service
    port : int
        0 for any that is free.
    """

    def __init__(self, service: Service, port: int) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self.service = service
        super().__init__(
            uvicorn.Config(
                make_app(service),
                host=service.gate.host,
                port=port,
                http=PatientOnce,
                ws="websockets-sansio",
                ws_max_size=wire.LONGEST_SOUND,
                ws_ping_interval=20.0,
                ws_ping_timeout=20.0,
                ws_per_message_deflate=False,
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=2 * service.limits.sessions + 64,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=3,
                proxy_headers=False,
            )
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.servers[0].sockets[0].getsockname()[1])


async def serve(
    service: Service, port: int, ready: Callable[[Server], Awaitable[None] | None]
) -> None:
    """Serve until a signal asks to end; ``ready`` is called when the first page can be opened."""
    server = Server(service, port)
    running = asyncio.ensure_future(server.serve())
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready(server)
    await running
