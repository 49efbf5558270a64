"""Question by question: for programs that wait for each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import Answers, Limits, Listener, Workers, withheld
from foretell.app.talk.wire import plain
from foretell.core.timeline import Event

_LATE = "it took too long"


class OneByOne:
    """A conversation in which each question waits for its answer; needs a running asyncio loop.

    Parameters
    ----------
    assistant : Answers
    workers : Workers
    listeners : iterable of callable
        Get what happens on the way.
    limits : Limits, optional
    """

    def __init__(
        self,
        assistant: Answers,
        workers: Workers,
        *,
        listeners: Iterable[Listener] = (),
        limits: Limits | None = None,
    ) -> None:
        self._said: asyncio.Future[dict[str, Any]] | None = None
        self._live = LiveConversation(assistant, [*listeners, self._hear], workers, limits=limits)

    async def ask(self, question: str, *, timeout_s: float = 30.0) -> dict[str, Any]:
        """The answer as JSON values; after ``timeout_s`` that there is none.

        Raises
        ------
        DataError
            For a question that is too long.
        """
        if not any(letter.isalnum() for letter in question):
            return withheld("Nothing was asked.")
        self._said = asyncio.get_running_loop().create_future()
        self._live.put("end_of_turn", {"text": question}, user=True)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._said
        except TimeoutError:
            self._live.put("cancel", {"reason": _LATE})
            return withheld(f"No answer was ready within {timeout_s:g} s.")

    async def close(self) -> None:
        """End the conversation."""
        await self._live.close()

    def _hear(self, event: Event) -> None:
        if self._said is None or self._said.done():
            return
        if event.kind == "say":
            data = plain(event.data)
            self._said.set_result({k: v for k, v in data.items() if k not in ("n", "turn")})
        elif event.kind == "refused":
            self._said.set_result(withheld(event["reason"]))
        elif event.kind == "cancelled" and event["reason"] != _LATE:
            self._said.set_result(withheld("The question was given up."))


async def ask(
    assistant: Answers,
    question: str,
    workers: Workers,
    *,
    timeout_s: float = 30.0,
    limits: Limits | None = None,
) -> dict[str, Any]:
    """The answer to a single question, as JSON values; see `OneByOne`."""
    talk = OneByOne(assistant, workers, limits=limits)
    try:
        return await talk.ask(question, timeout_s=timeout_s)
    finally:
        await talk.close()
