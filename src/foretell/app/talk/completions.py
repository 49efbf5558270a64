"""The end point that clients of language models know: `/v1/chat/completions`.

The last message of the user is the question; earlier ones are not read, since every answer rests
on the notes alone. What an answer rests on comes in the field ``foretell``, and, so that plain
clients show it too, as a line of sources at the end of the text.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from foretell.app.talk.ask import ask
from foretell.app.talk.parts import Answers, Limits, Workers
from foretell.core.errors import DataError

MODEL = "foretell"


class Part(BaseModel):
    """A part of a message."""

    type: str = Field(max_length=40)
    text: str = Field(default="", max_length=20_000)


class Message(BaseModel):
    """One message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = Field(default=None)


class ChatRequest(BaseModel):
    """What a client sends; fields that are not listed have no effect."""

    model_config = ConfigDict(extra="ignore")
    messages: list[Message] = Field(min_length=1, max_length=500)
    model: str = Field(default=MODEL, max_length=200)
    stream: bool = False


def router(assistant: Answers, workers: Workers, limits: Limits, most: int) -> APIRouter:
    """The routes, with at most so many requests at once."""
    routes = APIRouter(prefix="/v1")
    free = asyncio.Semaphore(most)

    @routes.get("/models")
    async def models() -> dict[str, Any]:
        one = {"id": MODEL, "object": "model", "created": 0, "owned_by": "foretell"}
        return {"object": "list", "data": [one]}

    @routes.post("/chat/completions")
    async def complete(request: ChatRequest, http: Request) -> Response:
        question = _question(request)
        if not question.strip():
            return problem(400, "There is no message of the user with text.")
        if free.locked():
            return problem(429, f"{most} questions are being answered already; ask again.")
        async with free:
            try:
                answer = await ask(assistant, question, workers, limits=limits)
            except DataError as error:
                return problem(400, str(error))
        key, now = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())
        if request.stream:
            return StreamingResponse(
                _stream(answer, key, now, request.model), media_type="text/event-stream"
            )
        return JSONResponse(_whole(answer, question, key, now, request.model))

    return routes


def problem(status: int, reason: str) -> JSONResponse:
    """An error in the form that such clients expect."""
    kind = "invalid_request_error" if status < 429 else "rate_limit_error"
    content = {"error": {"message": reason, "type": kind, "param": None, "code": None}}
    return JSONResponse(content, status_code=status)


def _question(request: ChatRequest) -> str:
    for message in reversed(request.messages):
        if message.role == "user":
            if isinstance(message.content, str):
                return message.content
            return " ".join(p.text for p in message.content or () if p.type == "text")
    return ""


def with_sources(answer: dict[str, Any]) -> str:
    """The text of an answer and a line that says where it stands.

    Examples
    --------
    >>> source = {"place": "pump.md:4", "title": "Pump"}
    >>> print(with_sources({"text": "Pull it.", "statements": [{"sources": [source]}]}))
    Pull it.
    <BLANKLINE>
    Source: pump.md:4
    """
    found = [s["place"] for each in answer.get("statements", ()) for s in each["sources"]]
    places = list(dict.fromkeys(found))
    if not places:
        return str(answer["text"])
    return f"{answer['text']}\n\nSource{'s' * (len(places) > 1)}: {', '.join(places)}"


def _whole(answer: dict[str, Any], question: str, key: str, now: int, model: str) -> dict[str, Any]:
    text = with_sources(answer)
    asked, said = len(question.split()), len(text.split())
    usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    return {
        "id": key,
        "object": "chat.completion",
        "created": now,
        "model": model,
        "choices": [choice],
        "usage": usage,
        "foretell": answer,
    }


async def _stream(answer: dict[str, Any], key: str, now: int, model: str) -> AsyncIterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        content = {
            "id": key,
            "object": "chat.completion.chunk",
            "created": now,
            "model": model,
            "choices": [choice],
            **more,
        }
        return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    words = with_sources(answer).split(" ")
    for number, word in enumerate(words):
        yield chunk({"content": word if number == 0 else f" {word}"})
    yield chunk({}, "stop", foretell=answer)
    yield "data: [DONE]\n\n"
