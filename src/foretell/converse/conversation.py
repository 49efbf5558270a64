"""A conversation as a machine: events in, events out, no clock, no thread, no socket.

    idle -> listening -> settling -> answering -> speaking -> idle
              ^  words come on before the answer: the same question goes on ("resumed")
              ^  words come while it speaks: it stops ("stop_speaking") and listens

The lookup runs from the first content word on (`foretell.converse.lookup`). What comes back late
goes to the turn that asked for it and stays for the next one; it is never spoken into another turn.
Fed with the inputs of a recorded timeline, a conversation gives the identical outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from foretell.converse.lookup.query import agreed
from foretell.converse.lookup.repair import cue_at, repaired
from foretell.converse.lookup.retriever import RecordedRetriever
from foretell.converse.lookup.streaming import StreamingLookup
from foretell.converse.lookup.turn import LookupTurn
from foretell.converse.lookup.words import is_content, split_words
from foretell.converse.messages import FOR_CLIENT, INPUTS, check_input, plain
from foretell.core.errors import DataError, ParameterError
from foretell.core.timeline import Event, Timeline, replay

State = Literal["idle", "listening", "settling", "answering", "speaking"]

BACKCHANNEL = frozenset(
    "yes yeah yep ok okay mm mhm hm hmm uh huh right sure fine good great thanks thank you i see "
    "aha ah oh".split()
)
_REMEMBERED = 256  # ids of inputs, and outputs that can be sent again
_TAKEN_BACK = 2  # answers of one question
_TURNS_KEPT = 8  # turns whose late results are still taken in


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """When a conversation takes a silence for a pause, an end or an interruption; in seconds.

    Parameters
    ----------
    pause_s : float
        Silence after which what was heard is looked up.
    end_s : float
        Silence after which the turn is over; needs frames. Typed turns end by "end_of_turn".
    barge_in_s : float
        Speech after which the answer is interrupted.
    resume_s : float
        Words that come so soon after the end of a turn continue it: before its answer always, and
        after it where a silence had ended the turn.
    hold_s : float
        How long a conversation without connection keeps an open turn.
    """

    pause_s: float = 0.25
    end_s: float = 0.7
    barge_in_s: float = 0.25
    resume_s: float = 1.5
    hold_s: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ParameterError(f"{name}={value!r}; needed is a positive number of seconds.")
        if self.end_s < self.pause_s:
            raise ParameterError(
                f"end_s={self.end_s!r} is less than pause_s={self.pause_s!r}; a turn ends after a "
                "pause, not before."
            )


@dataclass(slots=True)
class Turn:
    """One turn of the user and what became of it."""

    number: int
    lookup: LookupTurn
    base: str = ""  # a question before, which this one continues or corrects
    before: Turn | None = None  # the turn before, which this one may turn out to correct
    said: str = ""  # what the recogniser has settled
    open: list[str] = field(default_factory=list)  # and what it may still change
    text: str = ""
    ended_at: float | None = None
    answer: Event | None = None
    spoken: bool = False
    released: bool = False  # ended by the user's hand, not by a silence
    taken_back: int = 0  # answers to parts of this question that were taken back
    quiet_s: float = 0.0  # of silence by frames, so that a machine that lags ends nothing
    paused: bool = False
    serial: int = 0  # of the last words


class Conversation:
    """Listens, looks up while it listens, and says what it is told to say.

    Parameters
    ----------
    lookup : StreamingLookup
    manners : Manners, optional

    Examples
    --------
    >>> from foretell.converse.lookup import BM25, StreamingLookup
    >>> notes = BM25({"p7": "The Curies discovered radium.", "p8": "Radon is a gas."})
    >>> talk = Conversation(StreamingLookup(notes, k=1))
    >>> outs = talk.on(Event("partial", 0.5, {"text": "who discovered radium"}))
    >>> outs += talk.on(Event("end_of_turn", 1.0))
    >>> [out["job"] for out in outs if out.kind == "work"]
    ['notes:p7']
    >>> outs = talk.on(Event("work_done", 1.2, {"turn": 1, "job": "notes:p7", "value": "The ..."}))
    >>> [out.kind for out in outs]
    ['evidence', 'state', 'compose']
    >>> talk.on(Event("answer", 1.3, {"turn": 1, "text": "The Curies."}))[-1]["text"]
    'The Curies.'
    """

    def __init__(self, lookup: StreamingLookup, *, manners: Manners | None = None) -> None:
        self.lookup, self.manners = lookup, manners or Manners()
        self.store = lookup.new_store()
        self.state: State = "idle"
        self.time = 0.0
        self.connected = True
        self.turn: Turn | None = None
        self.turns: deque[Turn] = deque(maxlen=_TURNS_KEPT)
        self._count = 0
        self._n = 0
        self._language: str | None = None
        self._speech_s = 0.0  # length of the present stretch of speech, by frames
        self._left_at = 0
        self._ids: deque[str] = deque(maxlen=_REMEMBERED)
        self._sent: deque[Event] = deque(maxlen=_REMEMBERED)
        self._out: list[Event] = []

    def on(self, event: Event) -> list[Event]:
        """What follows from an event; one that is refused changes nothing but the time.

        Raises
        ------
        DataError
            For an event of an unknown kind, with missing or wrong content, or from the past.
        """
        check_input(event)
        if event.time < self.time:
            raise DataError(
                f"{event.kind} has the time {event.time:.6f} s, and the conversation is at "
                f"{self.time:.6f} s. Stamp all events with one clock."
            )
        id = event.get("id")
        if id is not None and id in self._ids:
            return []
        self._out = []
        self.time = event.time
        getattr(self, f"_on_{event.kind}")(event)
        if id is not None:
            self._ids.append(id)
        return self._out

    # What is heard -------------------------------------------------------------------------------

    def _on_partial(self, event: Event) -> None:
        self._hear(event["text"], event.get("stable"), settled=False)

    def _on_final(self, event: Event) -> None:
        self._hear(event["text"], None, settled=True)

    def _hear(self, text: str, stable: int | None, *, settled: bool) -> None:
        words = split_words(text)
        if stable is not None and not 0 <= stable <= len(words):
            raise DataError(f"stable={stable!r} of {len(words)} words; needed is a number of them.")
        if not words and self.state != "listening":
            return
        if self.state == "speaking":
            if all(word.casefold() in BACKCHANNEL for word in words):
                return
            self._stop_speaking()
        turn = self._listening_turn()
        if turn.base and _repeats(turn.base, _joined(turn.said, text)):
            turn.base = ""  # the recogniser goes on with words that an early end had cut
        self._correct(turn, _joined(turn.said, text))
        turn.text = _joined(turn.base, turn.said, text)
        sure = len(split_words(_joined(turn.base, turn.said)))
        sure += len(words) if settled else agreed(turn.open, words) if stable is None else stable
        turn.open = [] if settled else words
        if settled:
            turn.said = _joined(turn.said, text)
        turn.serial += 1
        turn.paused, turn.quiet_s = False, 0.0
        self._emit("heard", turn=turn.number, text=turn.text, settled=settled)
        self._feed(turn, "partial", {"text": turn.text, "stable": sure})
        self._emit(
            "wait",
            name="quiet",
            at=self.time + self.manners.pause_s,
            turn=turn.number,
            serial=turn.serial,
        )

    def _listening_turn(self) -> Turn:
        """The turn to which words belong: the open one, one that goes on, or a new one."""
        turn = self.turn
        if turn and self.state == "listening":
            return turn
        return self._next_turn()

    def _next_turn(self) -> Turn:
        """A new turn, which may go on with the question before."""
        turn, open_ = self.turn, self.state in ("settling", "answering")
        soon = turn is not None and self._goes_on(turn, answered=not open_)
        if turn and (open_ or soon):
            self._give_up(turn, "the question goes on" if soon else "another question")
        fresh = self._begin(turn.text if turn and soon else "")
        if turn and soon:
            fresh.taken_back = turn.taken_back + (not open_)
            self._emit("resumed", turn=fresh.number, of=turn.number)
        return fresh

    def _goes_on(self, turn: Turn, *, answered: bool) -> bool:
        """Whether speech, or words, began so soon after the end of a turn that it was a pause.

        After an answer only speech counts: who types or presses a button has ended the question.
        That happens twice at most, since the speech may be the answer's own, from a loudspeaker.
        """
        if turn.ended_at is None:
            return False
        if answered and (turn.released or not self._speech_s or turn.taken_back >= _TAKEN_BACK):
            return False
        return self.time - self._speech_s - turn.ended_at <= self.manners.resume_s

    def _correct(self, turn: Turn, text: str) -> None:
        """Take up the question before where these words take back a part of it."""
        before = turn.before
        if turn.base or before is None:
            return
        if _corrects(split_words(before.text), split_words(text)):
            turn.base = before.text
            self._emit("resumed", turn=turn.number, of=before.number)

    def _begin(self, base: str) -> Turn:
        self._count += 1
        machine = self.lookup.machine(store=self.store, began=self.time)
        before = self.turn
        if before is not None:
            before.before = None  # no chain of all turns
        self.turn = Turn(self._count, machine, base=base, text=base, before=before)
        self.turns.append(self.turn)
        if self._language is not None:
            self._feed(self.turn, "language", {"language": self._language})
        self._go("listening")
        return self.turn

    def _on_frame(self, event: Event) -> None:
        if event["speech"]:
            self._speech_s += event["seconds"]
            if self.turn:
                self.turn.quiet_s = 0.0
            if self.state == "speaking" and self._speech_s >= self.manners.barge_in_s:
                self._stop_speaking()
                self._next_turn()
            return
        self._speech_s = 0.0
        turn = self.turn
        if turn is None or self.state != "listening":
            return
        turn.quiet_s += event["seconds"]
        if turn.quiet_s >= self.manners.end_s - 1e-9:
            self._end_or_drop(turn)
        elif turn.quiet_s >= self.manners.pause_s - 1e-9:
            self._pause(turn)

    def _on_pause(self, event: Event) -> None:
        if self.turn and self.state == "listening":
            self._pause(self.turn)

    def _pause(self, turn: Turn) -> None:
        if not turn.paused and turn.text:
            turn.paused = True
            self._feed(turn, "pause", {"text": turn.text})

    def _on_end_of_turn(self, event: Event) -> None:
        text = event.get("text")
        if text is not None and split_words(text):
            if self.state == "speaking":
                self._stop_speaking()
            turn = self._listening_turn()
            self._correct(turn, text)
            turn.text = _joined(turn.base, text)
        if self.turn and self.state == "listening":
            self._end_or_drop(self.turn)
        if self.turn and (text is not None or event.get("released")):
            self.turn.released = True

    def _end_or_drop(self, turn: Turn) -> None:
        if not turn.text:
            self._drop_turn("nothing was said")
            return
        turn.ended_at = self.time
        self._go("settling")
        self._feed(turn, "commit", {"text": turn.text})

    def _on_language(self, event: Event) -> None:
        self._language = event["language"]
        if self.turn and self.state == "listening":
            self._feed(self.turn, "language", {"language": event["language"]})

    # Interruptions -------------------------------------------------------------------------------

    def _on_barge_in(self, event: Event) -> None:
        if self.state == "speaking":
            self._stop_speaking()
            self._begin("")
        elif self.state in ("settling", "answering"):
            self._drop_turn("interrupted")

    def _on_cancel(self, event: Event) -> None:
        if self.state == "speaking":
            self._stop_speaking()
        self._drop_turn(event.get("reason", "cancelled"))

    def _stop_speaking(self) -> None:
        assert self.turn is not None
        self._emit("stop_speaking", turn=self.turn.number)
        self._go("idle")

    def _drop_turn(self, reason: str) -> None:
        if self.turn and self.state in ("listening", "settling", "answering"):
            self._give_up(self.turn, reason)
        if self.state != "idle":
            self._go("idle")

    def _give_up(self, turn: Turn, reason: str) -> None:
        self._feed(turn, "cancel", {"reason": reason})

    # What comes back -----------------------------------------------------------------------------

    def _on_query(self, event: Event) -> None:
        self._route(event)

    def _on_work_done(self, event: Event) -> None:
        self._route(event)

    def _on_work_failed(self, event: Event) -> None:
        self._route(event)

    def _on_timer(self, event: Event) -> None:
        if event["name"] == "quiet":
            turn = self.turn
            mine = turn is not None and turn.number == event["turn"] and self.state == "listening"
            if turn and mine and turn.serial == event.get("serial"):
                self._pause(turn)
        elif event["name"] == "gone":
            if not self.connected and event.get("mark") == self._left_at:
                self._drop_turn("nobody is there")
        else:
            self._route(event)

    def _route(self, event: Event) -> None:
        """Hand a result to the turn that asked for it, however late; old turns are forgotten."""
        turn = next((t for t in self.turns if t.number == event["turn"]), None)
        if turn is None:
            return
        data = plain(event.data)
        del data["turn"]
        data.pop("id", None)
        self._feed(turn, event.kind, data)

    def _feed(self, turn: Turn, kind: str, data: dict[str, Any]) -> None:
        for out in turn.lookup.on(Event(kind, self.time, data)):
            self._emit(out.kind, turn=turn.number, **out.data)
            if out.kind == "evidence" and turn is self.turn and self.state == "settling":
                self._go("answering")
                self._emit(
                    "compose",
                    turn=turn.number,
                    text=" ".join(repaired(split_words(turn.text))),
                    ids=out["ids"],
                    missing=out["missing"],
                    flags=out["flags"],
                    findings=out["findings"],
                )

    def _on_answer(self, event: Event) -> None:
        turn = next((t for t in self.turns if t.number == event["turn"]), None)
        if turn is None or turn.answer is not None:
            return
        turn.answer = event
        data = plain(event.data)
        data.pop("id", None)
        if turn is self.turn and self.state == "answering":
            self._go("speaking")
            self._emit("say", **data)
        else:  # too late for this turn, or the user speaks
            self._emit("kept", turn=turn.number)

    def _on_spoken(self, event: Event) -> None:
        if self.turn and self.turn.number == event["turn"] and self.state == "speaking":
            self.turn.spoken = True
            self._go("idle")

    # The connection ------------------------------------------------------------------------------

    def _on_disconnect(self, event: Event) -> None:
        if self.connected:
            self.connected, self._left_at = False, self._n
            at = self.time + self.manners.hold_s
            self._emit("wait", name="gone", at=at, turn=self._count, mark=self._left_at)

    def _on_reconnect(self, event: Event) -> None:
        """Say where the conversation is, and send again what the client has not seen."""
        self.connected = True
        seen = event["seen"]
        missed = [out for out in self._sent if out["n"] > seen]
        forgotten = len(self._sent) == self._sent.maxlen and self._sent[0]["n"] > seen + 1
        turn = self.turn
        self._out.append(
            Event(
                "resume",
                self.time,
                {
                    "state": self.state,
                    "turn": turn.number if turn else None,
                    "text": turn.text if turn else "",
                    "gap": forgotten,
                    "n": self._n,
                },
            )
        )
        self._out += [Event(out.kind, self.time, {**out.data, "again": True}) for out in missed]

    def _go(self, state: State) -> None:
        self.state = state
        self._emit("state", to=state, turn=self.turn.number if self.turn else None)

    def _emit(self, kind: str, **data: Any) -> None:
        self._n += 1
        event = Event(kind, self.time, {**data, "n": self._n})
        self._out.append(event)
        if kind in FOR_CLIENT:
            self._sent.append(event)


def replay_conversation(
    recorded: Iterable[Event],
    lookup: StreamingLookup | None = None,
    *,
    manners: Manners | None = None,
) -> Timeline:
    """The conversation again, from the inputs of its recording.

    Parameters
    ----------
    recorded : iterable of Event
    lookup : StreamingLookup, optional
        With the settings of the recording. By default a lookup with the usual settings that answers
        searches from the recording, so that the notes need not be there.
    manners : Manners, optional
        Those of the recording.

    Returns
    -------
    Timeline
        Equal to the recording.
    """
    events = list(recorded)
    if lookup is None:
        searched = RecordedRetriever(events)
        lookup = StreamingLookup(searched, k=min(5, len(searched)))
    return replay(events, Conversation(lookup, manners=manners).on, inputs=INPUTS)


def _joined(*parts: str) -> str:
    return " ".join(part.strip() for part in parts if part.strip())


def _repeats(before: str, text: str) -> bool:
    """Whether a text begins with the words before it again, of which the last may be another."""
    old = [word.casefold() for word in split_words(before)]
    new = [word.casefold() for word in split_words(text)]
    return len(new) >= len(old) >= 2 and new[: len(old) - 1] == old[:-1]


def _corrects(question: list[str], words: list[str]) -> bool:
    """Whether words like "no, Thursday" take back a part of the question before."""
    size = cue_at(words, 0)
    rest = words[size:]
    if not size or not any(is_content(word) for word in rest):
        return False
    return len(repaired([*question, *words])) < len(question) + len(rest)
