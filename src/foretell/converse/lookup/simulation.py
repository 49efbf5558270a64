"""A question in virtual time: the live coordinator, driven by a heap of events.

Events of one time are taken in a fixed order (finished work, then words, then the end), whatever
the order in which they were put in.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from foretell.converse.lookup.spoken import SpokenWord, check_words, partials
from foretell.converse.lookup.store import DocumentStore
from foretell.converse.lookup.tools import RESERVED
from foretell.converse.lookup.trace import Trace
from foretell.converse.lookup.turn import LookupPlan, LookupTurn
from foretell.core.clock import VirtualClock
from foretell.core.errors import ParameterError
from foretell.core.timeline import Event, Timeline

Seconds = float | Callable[[str], float]
_ORDER = (
    "work_failed", "work_done", "query", "language", "partial", "pause", "commit", "cancel",
    "timer",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long things take, in seconds.

    Parameters
    ----------
    endpoint_s : float
        Silence after which the turn counts as over.
    generate_s : float
        Making a query.
    document_s : float or callable
        Work for one document, or a function of its id.
    call_s : float
        Work for a whole call, where documents are not shared.
    tool_s : mapping of str to float
        Work of each tool.
    reply_s : float
        From the evidence to the first word of the answer.
    """

    endpoint_s: float = 0.5
    generate_s: float = 0.0
    document_s: Seconds = 0.4
    call_s: float = 1.5
    tool_s: Mapping[str, float] = field(default_factory=dict)
    reply_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("endpoint_s", "generate_s", "call_s", "reply_s"):
            if not getattr(self, name) >= 0:
                raise ParameterError(f"{name}={getattr(self, name)!r}; needed is at least 0 s.")

    def of(self, work: Event) -> float:
        """Seconds that a piece of work takes."""
        if work["tool"] != RESERVED:
            return self.tool_s.get(work["tool"], self.call_s)
        if "id" not in work.data:
            return self.call_s
        return self.document_s(work["id"]) if callable(self.document_s) else self.document_s


def simulate_question(
    plan: LookupPlan,
    words: Sequence[SpokenWord],
    timing: Timing,
    *,
    block_s: float = 0.5,
    store: DocumentStore | None = None,
    final_text: str | None = None,
) -> Trace:
    """Say the words, fall silent, and end the turn; see what is looked up when."""
    check_words(words)
    stop = words[-1].end
    text = final_text if final_text is not None else " ".join(word.text for word in words)
    inputs = [
        *partials(words, block_s=block_s),
        Event("pause", stop, {"text": text}),
        Event("commit", stop + timing.endpoint_s, {"text": text}),
    ]
    timeline = run_events(plan, inputs, timing, store=store)
    return Trace(timeline, stop, stop + timing.endpoint_s, timing.reply_s)


def run_events(
    plan: LookupPlan,
    inputs: Sequence[Event],
    timing: Timing,
    *,
    store: DocumentStore | None = None,
) -> Timeline:
    """Feed events to the coordinator, and return its work to it when it is done.

    Parameters
    ----------
    plan : LookupPlan
    inputs : sequence of Event
        In any order.
    timing : Timing
    store : DocumentStore, optional
        Results of earlier turns; empty by default.
    """
    plan = dataclasses.replace(plan, rewrites=timing.generate_s > 0)
    heap = [_entry(event) for event in inputs]
    heapq.heapify(heap)
    clock = VirtualClock(min((event.time for event in inputs), default=0.0))
    turn = LookupTurn(plan, store or DocumentStore(), began=clock.now())
    timeline = Timeline()
    running: dict[str, tuple[float, int, str, Event]] = {}
    while heap:
        entry = heapq.heappop(heap)
        event = entry[3]
        job = event.get("job")
        if job is not None and running.get(job) is not entry:
            continue  # it was cancelled
        if job is not None:
            del running[job]
        clock.advance_to(event.time)
        timeline.append(event)
        for out in turn.on(event):
            timeline.append(out)
            if out.kind == "cancel_work":
                running.pop(out["job"], None)
                continue
            following = _following(out, turn, timing)
            if following is not None:
                entry = _entry(following)
                heapq.heappush(heap, entry)
                if following.kind == "work_done":
                    running[following["job"]] = entry
    return timeline


def _following(out: Event, turn: LookupTurn, timing: Timing) -> Event | None:
    """What an event that went out brings about later."""
    if out.kind == "work":
        return Event("work_done", out.time + timing.of(out), {"job": out["job"], "value": ""})
    if out.kind == "fire" and timing.generate_s > 0:
        query = turn.calls[out["call"] - 1].query
        data = {"call": out["call"], "text": query.text, "weights": query.weights}
        return Event("query", out.time + timing.generate_s, data)
    if out.kind == "wait":
        return Event("timer", out["at"], {"name": out["name"]})
    return None


def _entry(event: Event) -> tuple[float, int, str, Event]:
    return event.time, _ORDER.index(event.kind), event.to_json(), event
