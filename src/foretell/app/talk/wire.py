"""What travels between the page and the server, one JSON object in each message.

    from the page   hello {session, seen}   partial {text}   end_of_turn {text, id}   barge_in {}
                    cancel {}   spoken {turn}   language {language}   listen {rate}   mute {}
                    settings {speak}   ping {}          binary: sound, 16 bit, one channel
    to the page     welcome {...}   state heard resumed evidence answer stop_speaking resume
                    language cancelled {turn}
                    asking {turn, text}   looking {turn, source}   ready {turn, id}
                    failed {turn, id, reason}   refused {reason, id}   pong {}
                    binary: turn and rate (two 32 bit numbers), then sound; no sound: the end

What a page may not say (that a search is done, that a timer rang) is not in the list, so that a
conversation cannot be led from outside.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from foretell.converse.lookup.words import split_words
from foretell.core.errors import DataError
from foretell.core.timeline import Event

LONGEST = 32_768  # bytes of a message in text
LONGEST_SOUND = 131_072
_FIELDS: dict[str, dict[str, type]] = {
    "hello": {"session": str, "seen": int},
    "partial": {"text": str},
    "end_of_turn": {"text": str, "id": str},
    "barge_in": {},
    "cancel": {},
    "spoken": {"turn": int},
    "language": {"language": str},
    "listen": {"rate": int},
    "mute": {},
    "settings": {"speak": bool},
    "ping": {},
}
_NEEDED = {"partial": "text", "spoken": "turn", "language": "language", "settings": "speak"}
_PASSED = frozenset("state heard resumed resume stop_speaking cancelled refused language".split())

Named = Callable[[str], Mapping[str, Any]]


def read(message: str) -> tuple[str, dict[str, Any]]:
    """What a page says.

    Raises
    ------
    DataError
        For anything that a page does not say; names what is wrong with it.

    Examples
    --------
    >>> read('{"kind": "end_of_turn", "text": "who discovered radium"}')
    ('end_of_turn', {'text': 'who discovered radium'})
    >>> read('{"kind": "work_done"}')
    Traceback (most recent call last):
    ...
    foretell.core.errors.DataError: A page does not say 'work_done'; it says barge_in, cancel, ...
    """
    if len(message) > LONGEST:
        raise DataError(f"A message of {len(message)} characters; the most is {LONGEST}.")
    try:
        content = json.loads(message)
    except (ValueError, RecursionError):
        raise DataError("This is no JSON object with a kind.") from None
    kind = content.pop("kind", None) if isinstance(content, dict) else None
    if not isinstance(kind, str):
        raise DataError("This is no JSON object with a kind.")
    if kind not in _FIELDS:
        raise DataError(f"A page does not say {kind!r:.40}; it says {', '.join(sorted(_FIELDS))}.")
    fields = _FIELDS[kind]
    for name, value in content.items():
        if name not in fields or type(value) is not fields[name]:
            wanted = ", ".join(f"{n} ({t.__name__})" for n, t in fields.items()) or "nothing"
            raise DataError(f"{kind} has {name!r:.40} with {value!r:.40}; it takes {wanted}.")
    if kind in _NEEDED and _NEEDED[kind] not in content:
        raise DataError(f"{kind} has no {_NEEDED[kind]}.")
    if kind == "partial":
        content["stable"] = _stable(content["text"])
    return kind, content


def _stable(text: str) -> int:
    """Typed words that will stay: all but the one that is being typed."""
    words = len(split_words(text))
    return words if not text or text[-1].isspace() else max(words - 1, 0)


def written(event: Event, named: Named) -> dict[str, Any] | None:
    """What the page is told about an event, or None.

    Parameters
    ----------
    event : Event
        That a conversation took in or gave out.
    named : callable
        From the id of a passage to its place and title.

    Examples
    --------
    >>> event = Event("work", 0.5, {"turn": 1, "job": "notes:p7", "tool": "notes", "id": "p7"})
    >>> written(event, lambda id: {"id": id, "place": "a.md:3"})["source"]
    {'id': 'p7', 'place': 'a.md:3'}
    """
    kind, data = event.kind, plain(event.data)
    if kind in _PASSED:
        return {**data, "kind": kind}
    if kind == "say":
        return {**data, "kind": "answer"}
    if kind == "fire":
        return {"kind": "asking", "turn": data["turn"], "text": data["text"]}
    if kind == "work":
        ids = [data["id"]] if "id" in data else data.get("ids", [])
        found = [dict(named(id)) for id in ids] or [{"id": data["job"], "title": data["tool"]}]
        return {"kind": "looking", "turn": data["turn"], "source": found[0]}
    if kind in ("work_done", "work_failed"):
        done = {"turn": data["turn"], "id": data["job"].removeprefix("notes:")}
        if kind == "work_done":
            return {"kind": "ready", **done}
        return {"kind": "failed", **done, "reason": data.get("reason", "")}
    if kind == "evidence":
        sources = [dict(named(id)) for id in data["ids"]]
        kept = {key: data[key] for key in ("turn", "n", "early", "waited", "flags")}
        return {"kind": "evidence", "sources": sources, **kept}
    return None


def sound(turn: int, pcm: bytes, rate: int) -> bytes:
    """A piece of speech as a binary message; without sound it ends the speech of the turn."""
    return struct.pack("<II", turn, rate) + pcm


def plain(value: Any) -> Any:
    """The data of an event as dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [plain(inner) for inner in value]
    return value
