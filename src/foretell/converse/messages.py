"""What a conversation takes in and gives out, and the check of what comes in.

    in   partial {text, stable}       words so far of what is being said or typed
         final {text}                 a piece that the recogniser will not change any more
         frame {seconds, speech}      a stretch of sound, heard up to now, with or without speech
         pause {}  end_of_turn {text, released}  barge_in {}  cancel {}  language {language}
         query {turn, call, text, weights}     work_done {turn, job, value}
         work_failed {turn, job, reason}       timer {name, turn}
         answer {turn, text, ...}              spoken {turn}
         disconnect {}  reconnect {seen}
    out  wait {name, at, ...}         a timer that should come back, with its turn
         state {to}  heard {text}  say {turn, text}  stop_speaking {turn}  compose {turn, text, ...}
         kept {turn}  resumed {turn, of}  resume {state, turn, text, gap}
         and what a lookup gives out (`foretell.converse.lookup.turn`), with its turn

Every input may have an ``id``, so that one that a client sends twice counts once. Every output has
a number ``n``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foretell.core.errors import DataError
from foretell.core.timeline import Event

LONGEST = 20_000  # characters of a text
_TEXT, _NUMBER, _WHOLE = (str,), (int, float), (int,)

# name: (types, required)
_FIELDS: dict[str, dict[str, tuple[tuple[type, ...], bool]]] = {
    "partial": {"text": (_TEXT, True), "stable": (_WHOLE, False)},
    "final": {"text": (_TEXT, True)},
    "frame": {"seconds": (_NUMBER, True), "speech": ((bool,), True)},
    "pause": {},
    "end_of_turn": {"text": (_TEXT, False), "released": ((bool,), False)},
    "barge_in": {},
    "cancel": {"reason": (_TEXT, False)},
    "language": {"language": (_TEXT, True)},
    "query": {
        "turn": (_WHOLE, True),
        "call": (_WHOLE, True),
        "text": (_TEXT, True),
        "weights": ((tuple,), True),
    },
    "work_done": {"turn": (_WHOLE, True), "job": (_TEXT, True)},
    "work_failed": {"turn": (_WHOLE, True), "job": (_TEXT, True), "reason": (_TEXT, False)},
    "timer": {"name": (_TEXT, True), "turn": (_WHOLE, True)},
    "answer": {"turn": (_WHOLE, True), "text": (_TEXT, True)},
    "spoken": {"turn": (_WHOLE, True)},
    "disconnect": {},
    "reconnect": {"seen": (_WHOLE, True)},
}
INPUTS = frozenset(_FIELDS)
FROM_USER = INPUTS - {"query", "work_done", "work_failed", "timer", "answer"}
FOR_CLIENT = frozenset(
    "state heard say stop_speaking resumed fire search drop early_commit recant evidence".split()
)


def check_input(event: Event) -> None:
    """Refuse what is no input of a conversation.

    Raises
    ------
    DataError
        Naming the field and what it should be.

    Examples
    --------
    >>> check_input(Event("partial", 0.5, {"text": 3}))
    Traceback (most recent call last):
    ...
    foretell.core.errors.DataError: partial has text=3; needed is a text.
    """
    fields = _FIELDS.get(event.kind)
    if fields is None:
        raise DataError(
            f"A conversation knows no event {event.kind!r}; it knows {', '.join(sorted(INPUTS))}."
        )
    for name, (types, required) in fields.items():
        if name not in event.data:
            if required:
                raise DataError(f"{event.kind} has no {name}; it needs {', '.join(fields)}.")
            continue
        value = event[name]
        truth = isinstance(value, bool) and bool not in types
        if not isinstance(value, types) or truth:
            raise DataError(f"{event.kind} has {name}={value!r:.60}; needed is {_named(types)}.")
        if isinstance(value, str) and len(value) > LONGEST:
            raise DataError(
                f"{event.kind} has a {name} of {len(value)} characters; the most is {LONGEST}."
            )
    if event.kind == "frame" and not 0 < event["seconds"] <= 10:
        raise DataError(f"frame has seconds={event['seconds']}; needed is more than 0, at most 10.")
    if event.kind == "query":
        _check_weights(event["weights"])


def _check_weights(weights: tuple[Any, ...]) -> None:
    for pair in weights:
        fine = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
        if not fine or not isinstance(pair[1], _NUMBER) or isinstance(pair[1], bool):
            raise DataError(f"query has the weight {pair!r:.60}; needed: pairs of term and number.")


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an event as a dict of its own."""
    return dict(data)


def _named(types: tuple[type, ...]) -> str:
    names: dict[tuple[type, ...], str] = {
        _TEXT: "a text",
        _NUMBER: "a number",
        _WHOLE: "a whole number",
        (bool,): "true or false",
        (tuple,): "a list",
    }
    return names[types]
