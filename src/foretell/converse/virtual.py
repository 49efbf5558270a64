"""A conversation in virtual time: the world around it, with the seconds that everything takes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from foretell.converse.conversation import Conversation
from foretell.converse.lookup.simulation import Timing
from foretell.core.errors import DataError
from foretell.core.timeline import Event, Timeline

Fetch = Callable[[Event], Any]
Compose = Callable[[Event], str]


def run_conversation(
    conversation: Conversation,
    inputs: Iterable[Event],
    timing: Timing | None = None,
    *,
    fetch: Fetch | None = None,
    compose: Compose | None = None,
    speak_s: float = 1.0,
    longest_s: float = 3600.0,
) -> Timeline:
    """Feed what the user does; do the work, compose the answers and play them, in virtual time.

    Parameters
    ----------
    conversation : Conversation
    inputs : iterable of Event
        What the user does, in any order.
    timing : Timing
        Seconds for queries, documents, tools; ``reply_s`` is the time to compose an answer.
    fetch : callable, optional
        From a "work" event to its value; raises where the work fails.
    compose : callable, optional
        From a "compose" event to the answer.
    speak_s : float
        How long an answer is played.
    longest_s : float
        The conversation is cut off here.

    Returns
    -------
    Timeline
        All that came in and went out.

    Examples
    --------
    >>> from foretell.converse.lookup import BM25, StreamingLookup
    >>> talk = Conversation(StreamingLookup(BM25({"p7": "The Curies discovered radium."}), k=1))
    >>> asked = [Event("end_of_turn", 2.0, {"text": "who discovered radium"})]
    >>> timeline = run_conversation(talk, asked, Timing(document_s=0.4, reply_s=0.1))
    >>> [(e.time, e["text"]) for e in timeline.of("say")]
    [(2.5, 'p7')]
    """
    timing = timing or Timing()
    heap: list[tuple[float, int, Event]] = []
    count = 0

    def push(event: Event) -> None:
        nonlocal count
        count += 1
        heapq.heappush(heap, (event.time, count, event))

    for event in inputs:
        push(event)
    timeline = Timeline()
    cancelled: set[tuple[Any, Any]] = set()
    while heap and heap[0][0] <= longest_s:
        event = heapq.heappop(heap)[2]
        if (event.get("turn"), event.get("job")) in cancelled:
            continue
        outs = conversation.on(event)
        timeline.append(event)
        for out in outs:
            timeline.append(out)
            if out.get("again"):
                continue
            if out.kind == "cancel_work":
                cancelled.add((out["turn"], out["job"]))
            for following in _following(out, conversation, timing, fetch, compose, speak_s):
                push(following)
    return timeline


def _following(
    out: Event,
    conversation: Conversation,
    timing: Timing,
    fetch: Fetch | None,
    compose: Compose | None,
    speak_s: float,
) -> list[Event]:
    turn = out.get("turn")
    if out.kind == "work":
        time, data = out.time + timing.of(out), {"turn": turn, "job": out["job"]}
        try:
            value = fetch(out) if fetch else out.get("id", "")
        except Exception as error:  # what the work raises is its result
            return [Event("work_failed", time, {**data, "reason": str(error)})]
        return [Event("work_done", time, {**data, "value": value})]
    if out.kind == "wait":
        data = {key: value for key, value in out.data.items() if key not in ("at", "n")}
        return [Event("timer", out["at"], data)]
    if out.kind == "fire" and conversation.lookup.plan.rewrites:
        return [_rewritten(out, conversation, timing)]
    if out.kind == "compose":
        text = compose(out) if compose else " ".join(out["ids"])
        return [Event("answer", out.time + timing.reply_s, {"turn": turn, "text": text})]
    if out.kind == "say":
        return [Event("spoken", out.time + speak_s, {"turn": turn})]
    return []


def _rewritten(out: Event, conversation: Conversation, timing: Timing) -> Event:
    machine = next(t.lookup for t in conversation.turns if t.number == out["turn"])
    query = machine.calls[out["call"] - 1].query
    data = {"turn": out["turn"], "call": out["call"], "text": query.text, "weights": query.weights}
    return Event("query", out.time + timing.generate_s, data)


def replies(timeline: Iterable[Event]) -> list[tuple[str, str, float]]:
    """Question, answer and seconds from the end of the question to the answer, for each answer.

    Raises
    ------
    DataError
        Where an answer has no question: the timeline is not one of a conversation.
    """
    ended: dict[int, float] = {}
    asked: dict[int, str] = {}
    found = []
    for event in timeline:
        if event.kind == "state" and event["to"] == "settling":
            ended[event["turn"]] = event.time
        elif event.kind == "compose":
            asked[event["turn"]] = event["text"]
        elif event.kind == "say" and not event.get("again"):
            turn = event["turn"]
            if turn not in ended or turn not in asked:
                raise DataError(f"The answer at {event.time:.3f} s has no question before it.")
            found.append((asked[turn], event["text"], event.time - ended[turn]))
    return found
