"""One question, one answer: for programs that do not hold a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from foretell.app.talk.live import Answers, Limits, Listener, LiveConversation, Workers, withheld
from foretell.app.talk.wire import plain
from foretell.core.timeline import Event


async def ask(
    assistant: Answers,
    question: str,
    workers: Workers,
    *,
    timeout_s: float = 30.0,
    listeners: Iterable[Listener] = (),
    limits: Limits | None = None,
) -> dict[str, Any]:
    """The answer to a question, as JSON values.

    Parameters
    ----------
    assistant : Answers
    question : str
    workers : Workers
    timeout_s : float
        Then the answer is that there is none.
    listeners : iterable of callable
        Get what happens on the way.
    limits : Limits, optional

    Raises
    ------
    DataError
        For a question that is too long.
    """
    said: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def listen(event: Event) -> None:
        if said.done():
            return
        if event.kind == "say":
            data = plain(event.data)
            said.set_result({k: v for k, v in data.items() if k not in ("n", "turn")})
        elif event.kind == "refused":
            said.set_result(withheld(event["reason"]))
        elif event.kind == "state" and event["to"] == "idle":
            said.set_result(withheld("Nothing was asked."))

    live = LiveConversation(assistant, [*listeners, listen], workers, limits=limits)
    try:
        live.put("end_of_turn", {"text": question}, user=True)
        if not question.strip():
            return withheld("Nothing was asked.")
        return await asyncio.wait_for(said, timeout_s)
    except TimeoutError:
        return withheld(f"No answer was ready within {timeout_s:g} s.")
    finally:
        await live.close()
