"""A conversation between two asynchronous iterators, for pipelines of your own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import Answers, Limits, Workers
from foretell.app.talk.wire import written
from foretell.converse.conversation import Manners
from foretell.core.timeline import Event

Said = tuple[str, Mapping[str, Any]]


async def converse(
    assistant: Answers,
    heard: AsyncIterator[Said],
    *,
    workers: Workers | None = None,
    manners: Manners | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[dict[str, Any]]:
    """What the assistant makes of what is heard, until nothing more is heard and all is answered.

    Parameters
    ----------
    assistant : Answers
    heard : async iterator of (kind, data)
        Inputs of `foretell.converse.messages`, from any recogniser: ("partial", {"text": ...}),
        ("end_of_turn", {"text": ...}), ("barge_in", {}), ("cancel", {}), ...
    workers : Workers, optional
        Threads; those of this conversation alone by default.
    manners : Manners, optional
    limits : Limits, optional

    Yields
    ------
    dict
        Messages as in `foretell.app.talk.wire`: "looking", "ready", "evidence", "answer", ...

    Raises
    ------
    Exception
        What ``heard`` raises.

    Examples
    --------
    >>> from foretell.converse.lookup import BM25, StreamingLookup
    >>> class Reader:
    ...     lookup = StreamingLookup(BM25({"p7": "The Curies discovered radium."}), k=1)
    ...     def source(self, id):
    ...         from foretell.converse.answer import Source
    ...         return Source(id, "The Curies discovered radium.", file="radium.md")
    ...     def answer(self, question, passages, findings, *, language=None, cancelled=None):
    ...         return {"text": passages[0].text}
    >>> async def recogniser():
    ...     yield "partial", {"text": "who discovered"}
    ...     yield "end_of_turn", {"text": "who discovered radium"}
    >>> async def main():
    ...     return [m["text"] async for m in converse(Reader(), recogniser())
    ...             if m["kind"] == "answer"]
    >>> asyncio.run(main())
    ['The Curies discovered radium.']
    """
    out: asyncio.Queue[Event | None] = asyncio.Queue()
    threads = workers or Workers()
    live = LiveConversation(assistant, [out.put_nowait], threads, manners=manners, limits=limits)
    listening = asyncio.ensure_future(_pour(heard, live.put, lambda: out.put_nowait(None)))
    over = False
    try:
        while True:
            event = await out.get()
            over = over or event is None
            if event is not None:
                message = written(event, lambda id: assistant.source(id).to_dict())
                if message is not None:
                    yield message
            if over and out.empty() and live.quiet:
                break
        await listening
    finally:
        listening.cancel()
        await live.close()
        if workers is None:
            threads.close()


async def _pour(
    heard: AsyncIterator[Said],
    put: Callable[..., None],
    done: Callable[[], None],
) -> None:
    try:
        async for kind, data in heard:
            put(kind, data)
    finally:
        done()
