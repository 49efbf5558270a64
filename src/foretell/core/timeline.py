"""What happened, and when: immutable events in order, as lines of JSON, to look at or to replay.

A file has a first line that names the format and its schema, then one event in each line, written
as they happen. A file whose writer was killed lacks at most its last line.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, TextIO

from foretell import __version__
from foretell.core.errors import ArtifactError, DataError, ForetellWarning, ParameterError
from foretell.core.files import resolved, write_text_atomic, writing

FORMAT, SCHEMA = "foretell-timeline", 1
DEEPEST = 32  # levels of nesting in the content of an event


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a time.

    Parameters
    ----------
    kind : str
        What it is, for instance "partial".
    time : float
        Seconds since the timeline began.
    data : mapping
        JSON values. They are copied and cannot be changed afterwards: mappings are read-only and
        lists become tuples.

    Raises
    ------
    DataError
        For a time that is not finite or content that JSON cannot hold; names the place.

    Examples
    --------
    >>> event = Event("partial", 0.5, {"text": "who discovered"})
    >>> event
    Event(0.500 s, partial, text='who discovered')
    >>> event["text"]
    'who discovered'
    >>> event.data["text"] = "other"
    Traceback (most recent call last):
    ...
    TypeError: 'mappingproxy' object does not support item assignment
    """

    kind: str
    time: float
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not self.kind:
            raise DataError(f"kind={self.kind!r}; an event needs a name, for instance 'partial'.")
        number = isinstance(self.time, (int, float)) and not isinstance(self.time, bool)
        if not number or not math.isfinite(self.time):
            raise DataError(
                f"The event {self.kind!r} has time={self.time!r}; needed is a finite number of "
                "seconds since the timeline began."
            )
        if not isinstance(self.data, Mapping):
            raise DataError(
                f"The data of {self.kind!r} are {type(self.data).__name__}, no mapping."
            )
        object.__setattr__(self, "time", float(self.time))
        object.__setattr__(self, "data", _frozen(self.data, self.kind, DEEPEST))

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __reduce__(self) -> tuple[type[Event], tuple[str, float, Any]]:
        return Event, (self.kind, self.time, _thawed(self.data))

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the data, or the default."""
        return self.data.get(name, default)

    def to_json(self) -> str:
        """The event as one line of JSON."""
        content = {"t": self.time, "kind": self.kind, **({"data": self.data} if self.data else {})}
        return json.dumps(_thawed(content), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """The event that `to_json` wrote; a DataError for anything else."""
        try:
            content = json.loads(line, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(f"This is no event: {error}.") from error
        known = isinstance(content, dict) and {"t", "kind"} <= set(content) <= {"t", "kind", "data"}
        if not known:
            raise DataError(f"This is no event, which has t, kind and data: {line[:80]!r}.")
        return cls(content["kind"], content["t"], content.get("data", {}))

    def __repr__(self) -> str:
        shown = "".join(f", {key}={_short(value)}" for key, value in self.data.items())
        return f"Event({self.time:.3f} s, {self.kind}{shown})"


class Timeline:
    """Events in the order in which they happened; later ones are only ever added at the end.

    Parameters
    ----------
    events : iterable of Event

    Raises
    ------
    DataError
        When an event lies before the one that precedes it.

    Examples
    --------
    >>> timeline = Timeline()
    >>> timeline.append(Event("partial", 0.5, {"text": "who"}))
    >>> timeline.append(Event("commit", 1.0, {"text": "who is it"}))
    >>> timeline.save("said.jsonl").name
    'said.jsonl'
    >>> Timeline.open("said.jsonl") == timeline
    True
    >>> timeline
    Timeline(2 events, 0.500 s to 1.000 s: 1 partial, 1 commit)
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events: list[Event] = []
        self.extend(events)

    def append(self, event: Event) -> None:
        """Add an event that is not earlier than the last one."""
        if not isinstance(event, Event):
            raise DataError(f"{event!r} is no Event. Write Event(kind, time, data).")
        if self._events and event.time < self._events[-1].time:
            last = self._events[-1]
            raise DataError(
                f"Event {len(self._events)} ({event.kind!r}) has the time {event.time:.6f} s and "
                f"the one before ({last.kind!r}) {last.time:.6f} s; time does not run backwards. "
                "Stamp all events with one clock."
            )
        self._events.append(event)

    def extend(self, events: Iterable[Event]) -> None:
        """Add events one by one."""
        for event in events:
            self.append(event)

    def of(self, *kinds: str) -> Timeline:
        """The events of these kinds."""
        return Timeline(event for event in self._events if event.kind in kinds)

    def last(self, kind: str) -> Event | None:
        """The latest event of a kind, or None."""
        return next((event for event in reversed(self._events) if event.kind == kind), None)

    def to_jsonl(self) -> str:
        """The whole file as text."""
        return "".join(f"{line}\n" for line in (_header(), *(e.to_json() for e in self._events)))

    @classmethod
    def from_jsonl(cls, text: str, *, name: str = "This text") -> Timeline:
        """The timeline of a text that `to_jsonl` or a `TimelineWriter` wrote.

        An unfinished last line, left by a program that was killed, is left out with a warning.

        Raises
        ------
        ArtifactError
            For another format or a newer schema, or naming the line that is damaged.
        """
        lines = text.split("\n")
        unfinished = lines.pop()
        _check_header(lines[0] if lines else unfinished, name)
        timeline = cls()
        for number, line in enumerate(lines[1:], 2):
            try:
                timeline.append(Event.from_json(line))
            except DataError as error:
                raise ArtifactError(
                    f"{name} is damaged in line {number}: {error} Copy the file again, or cut it "
                    "off before that line."
                ) from error
        if unfinished and lines:
            warnings.warn(
                f"{name} ends in the middle of line {len(lines) + 1}; that line is left out. The "
                "program that wrote it was probably killed.",
                ForetellWarning,
                stacklevel=2,
            )
        return timeline

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file whole, or leave an older one as it was."""
        return write_text_atomic(path, self.to_jsonl())

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Timeline:
        """Read a file; see `from_jsonl`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{path} is no text in UTF-8, so it is no timeline.") from error
        return cls.from_jsonl(text, name=str(path))

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, at: int) -> Event:
        return self._events[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeline) and self._events == other._events

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self._events:
            return "Timeline(no events)"
        counts: dict[str, int] = {}
        for event in self._events:
            counts[event.kind] = counts.get(event.kind, 0) + 1
        kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
        first, last = self._events[0].time, self._events[-1].time
        return f"Timeline({len(self)} events, {first:.3f} s to {last:.3f} s: {kinds})"


class TimelineWriter:
    """Writes events to a file as they happen; a killed program leaves all but the last line.

    Parameters
    ----------
    path : path
        A new file; an older one is not written over.

    Examples
    --------
    >>> with TimelineWriter("session.jsonl") as record:
    ...     record(Event("partial", 0.5, {"text": "who"}))
    >>> len(Timeline.open("session.jsonl"))
    1
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = resolved(path)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = self.path.open("x", encoding="utf-8", newline="\n")
        self._write(_header())

    def __call__(self, event: Event) -> None:
        """Write an event."""
        self._write(event.to_json())

    def close(self) -> None:
        """Close the file; further events are refused."""
        self._file.close()

    def _write(self, line: str) -> None:
        if self._file.closed:
            raise ArtifactError(
                f"{self.path} was closed. Make a new TimelineWriter for a new file."
            )
        with writing(self.path):
            self._file.write(line + "\n")
            self._file.flush()

    def __enter__(self) -> TimelineWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def replay(
    timeline: Iterable[Event],
    machine: Callable[[Event], Iterable[Event]],
    *,
    inputs: Collection[str],
) -> Timeline:
    """Feed the inputs of a recorded timeline to a machine, and record what comes of it.

    Parameters
    ----------
    timeline : iterable of Event
        A recording of inputs and outputs; only the inputs are used.
    machine : callable
        Takes an event and gives the events that follow from it, stamped no earlier.
    inputs : collection of str
        Kinds of the events that come from outside.

    Returns
    -------
    Timeline
        Inputs and new outputs; equal to the recording, if the machine is the same.

    Examples
    --------
    >>> def echo(event):
    ...     return [Event("said", event.time, event.data)]
    >>> recorded = replay([Event("heard", 1.0, {"text": "hi"})], echo, inputs={"heard"})
    >>> replay(recorded, echo, inputs={"heard"}) == recorded
    True
    """
    if isinstance(inputs, str):
        raise ParameterError(f"inputs={inputs!r}; needed are several kinds: {{{inputs!r}}}.")
    result = Timeline()
    for event in timeline:
        if event.kind in inputs:
            result.append(event)
            result.extend(machine(event))
    return result


def _header() -> str:
    return json.dumps({"format": FORMAT, "schema": SCHEMA, "foretell": __version__})


def _check_header(line: str, name: str) -> None:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ArtifactError(
            f"{name} is no timeline: its first line must name the format {FORMAT!r}. Give a file "
            "that was recorded by foretell."
        )
    if header.get("schema") != SCHEMA:
        raise ArtifactError(
            f"{name} has schema {header.get('schema')!r} of foretell "
            f"{header.get('foretell', 'unknown version')}; this one reads schema {SCHEMA}. Update "
            "with: pip install --upgrade foretell"
        )


def _frozen(value: Any, where: str, depth: int) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(
                f"{where} is {value}, which JSON cannot hold. Leave it out or use None."
            )
        return value
    if not depth:
        raise DataError(f"{where} is nested more than {DEEPEST} levels deep.")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise DataError(f"{where} has the key {key!r}; keys must be texts.")
        items = {key: _frozen(item, f"{where}.{key}", depth - 1) for key, item in value.items()}
        return MappingProxyType(items)
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value))
    raise DataError(
        f"{where} is a {type(value).__name__}, which JSON cannot hold. Turn it into numbers, texts "
        "and lists first."
    )


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    text = repr(_thawed(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number that JSON knows")
