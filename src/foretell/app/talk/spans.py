"""A recorded conversation as spans of time: one row for each thing that was said or done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretell.core.errors import DataError
from foretell.core.timeline import Event

MOST_TURNS = 300
_MOST_ROWS = 40  # of one turn


@dataclass(slots=True)
class Span:
    """Something that took time.

    Parameters
    ----------
    kind : str
        "words", "notes", "tool", "answer" or "speech".
    label : str
    begin, end : float
        Seconds.
    outcome : str
        "used", "unused", "failed", "stopped" or "" where none of these.
    note : str
        More about it.
    """

    kind: str
    label: str
    begin: float
    end: float
    outcome: str = ""
    note: str = ""
    id: str = ""  # of a passage


@dataclass(slots=True)
class TurnSpans:
    """One turn of a conversation.

    Parameters
    ----------
    number : int
    spans : list of Span
    marks : list of (seconds, text)
        The words so far, each time that some came.
    question, answer : str
    ended, answered : float or None
        Seconds.
    """

    number: int
    spans: list[Span] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    question: str = ""
    answer: str = ""
    decision: str = ""
    outcome: str = ""
    ended: float | None = None
    answered: float | None = None

    @property
    def begin(self) -> float:
        """Seconds at which its first event happened."""
        times = [span.begin for span in self.spans] + [time for time, _ in self.marks]
        return min(times + [t for t in (self.ended, self.answered) if t is not None], default=0.0)

    @property
    def end(self) -> float:
        """Seconds at which the last one did."""
        times = [span.end for span in self.spans] + [time for time, _ in self.marks]
        return max(times + [t for t in (self.ended, self.answered) if t is not None], default=0.0)

    @property
    def waited(self) -> float | None:
        """Seconds from the end of the question to its answer."""
        if self.ended is None or self.answered is None:
            return None
        return self.answered - self.ended

    @property
    def work_s(self) -> float:
        """Seconds of work on notes and tools that ended up in the answer."""
        return sum(s.end - s.begin for s in self._used)

    @property
    def ahead_s(self) -> float:
        """Those of them that were over before the question was."""
        if self.ended is None:
            return 0.0
        return sum(max(min(s.end, self.ended) - s.begin, 0.0) for s in self._used)

    @property
    def _used(self) -> list[Span]:
        return [s for s in self.spans if s.kind in ("notes", "tool") and s.outcome == "used"]


def turns_of(events: Iterable[Event]) -> list[TurnSpans]:
    """The turns of a recording.

    Raises
    ------
    DataError
        When it is none of a conversation.

    Examples
    --------
    >>> turns_of([
    ...     Event("heard", 0.5, {"turn": 1, "text": "who found radium", "settled": False}),
    ...     Event("state", 1.0, {"turn": 1, "to": "settling"}),
    ...     Event("say", 1.25, {"turn": 1, "text": "The Curies."}),
    ... ])[0].waited
    0.25
    """
    found: dict[int, TurnSpans] = {}
    open_: dict[tuple[int, str], Span] = {}
    last = 0.0
    for event in events:
        number = event.get("turn")
        last = event.time
        if not isinstance(number, int) or event.get("again"):
            continue
        turn = found.setdefault(number, TurnSpans(number))
        take = _TAKE.get(event.kind)
        if take is not None:
            take(turn, event, open_)
    for span in open_.values():
        span.end, span.outcome = last, span.outcome or "stopped"
    turns = [turn for turn in found.values() if turn.marks or turn.spans or turn.question]
    if not turns:
        raise DataError(
            "The recording holds no turn of a conversation. Make one with: foretell talk --record "
            "FILE --notes DIR"
        )
    return turns[:MOST_TURNS]


def _heard(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    turn.marks.append((event.time, event["text"]))
    turn.question = event["text"]


def _state(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    if event["to"] == "settling":
        turn.ended = event.time


def _work(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    if len(turn.spans) >= _MOST_ROWS:
        return
    kind = "notes" if event["tool"] == "notes" else "tool"
    id = str(event.get("id", ""))
    span = Span(kind, f"passage {id}" if id else event["job"], event.time, event.time, id=id)
    turn.spans.append(span)
    open_[turn.number, event["job"]] = span


def _close(turn: TurnSpans, key: str, time: float, open_: dict[tuple[int, str], Span]) -> Span:
    span = open_.pop((turn.number, key), None) or Span("", "", time, time)
    span.end = time
    return span


def _work_done(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    span = _close(turn, event["job"], event.time, open_)
    span.outcome, span.note = span.outcome or "unused", _short(event.get("value"))
    if span.id and span.note:
        span.label = _short(str(event["value"]).strip().partition("\n")[0].lstrip("# "))


def _work_failed(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    span = _close(turn, event["job"], event.time, open_)
    span.outcome, span.note = "failed", str(event.get("reason", ""))


def _cancel_work(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    _close(turn, event["job"], event.time, open_).outcome = "stopped"


def _evidence(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    for span in turn.spans:
        if (span.id and span.id in event["ids"]) or (
            span.kind == "tool" and span.outcome == "unused"
        ):
            span.outcome = "used"


def _compose(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    turn.question = event["text"]
    span = Span("answer", "answer composed", event.time, event.time)
    turn.spans.append(span)
    open_[turn.number, "answer"] = span


def _say(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    turn.answer, turn.answered = event["text"], event.time
    decision = event.get("decision")
    turn.decision = str(decision["action"]) if isinstance(decision, Mapping) else ""
    _close(turn, "answer", event.time, open_).outcome = "used"
    span = Span("speech", "answer spoken", event.time, event.time)
    turn.spans.append(span)
    open_[turn.number, "speech"] = span


def _spoken(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    span = _close(turn, "speech", event.time, open_)
    span.outcome = "used"
    if span in turn.spans and span.end - span.begin < 0.02:  # shown, not spoken
        turn.spans.remove(span)


def _stop_speaking(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    _close(turn, "speech", event.time, open_).outcome = "stopped"


def _cancelled(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    turn.outcome = str(event.get("reason", "cancelled"))
    for key in [key for key in open_ if key[0] == turn.number]:
        _close(turn, key[1], event.time, open_).outcome = "stopped"


def _resumed(turn: TurnSpans, event: Event, open_: dict[tuple[int, str], Span]) -> None:
    turn.outcome = f"goes on from turn {event['of']}"


_TAKE: dict[str, Any] = {
    "heard": _heard,
    "state": _state,
    "work": _work,
    "work_done": _work_done,
    "work_failed": _work_failed,
    "cancel_work": _cancel_work,
    "evidence": _evidence,
    "compose": _compose,
    "say": _say,
    "spoken": _spoken,
    "stop_speaking": _stop_speaking,
    "cancelled": _cancelled,
    "resumed": _resumed,
}


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:160] if value is not None else ""
