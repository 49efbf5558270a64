"""Self-repair: "on Tuesday, no, Thursday" asks about Thursday.

A cue says that something before it is taken back. What follows the cue replaces it from the last
word of the same sort on (a weekday for a weekday, a name for a name), or from the place where the
speaker starts over ("to Paris, I mean to London": from the first "to").
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from foretell.converse.lookup.words import content_terms, is_content, term

CUES = (
    ("i", "mean"), ("i", "meant"), ("make", "that"), ("or", "rather"), ("no", "wait"),
    ("wait", "no"), ("scratch", "that"), ("sorry",), ("actually",), ("no",), ("rather",),
    ("correction",),
)  # fmt: skip
_NO_REPAIR_AFTER_NO = {"one", "longer", "more", "less", "matter", "doubt", "other"}
_REACH = 8  # words back that a repair may replace
_SORTS = {
    "weekday": "monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday",
    "month": "january february march april may june july august september october november "
    "december",
    "count": "zero one two three four five six seven eight nine ten eleven twelve twenty thirty "
    "forty fifty sixty seventy eighty ninety hundred thousand million first second third fourth "
    "fifth",
}
_SORT_OF = {term(word): sort for sort, words in _SORTS.items() for word in words.split()}


def cue_at(words: Sequence[str], at: int) -> int:
    """How many words a cue has that begins at this place; 0 where none does.

    Examples
    --------
    >>> cue_at(["on", "Tuesday", "no", "Thursday"], 2)
    1
    >>> cue_at(["is", "it", "no", "longer", "made"], 2)
    0
    """
    lower = [word.casefold() for word in words[at : at + 3]]
    for cue in CUES:
        if tuple(lower[: len(cue)]) == cue:
            plain_no = cue == ("no",) and lower[1:2] and lower[1] in _NO_REPAIR_AFTER_NO
            return 0 if plain_no else len(cue)
    return 0


def has_cue(words: Sequence[str], start: int = 1) -> bool:
    """Whether a cue stands at or after this place (a first word takes nothing back)."""
    return any(cue_at(words, at) for at in range(max(start, 1), len(words)))


def repaired(words: Sequence[str]) -> list[str]:
    """The words without the cues and without what they take back.

    Words after a cue that fit nothing before it are kept beside it, so that nothing said is lost.

    Examples
    --------
    >>> " ".join(repaired("flights on Tuesday no Thursday".split()))
    'flights on Thursday'
    >>> " ".join(repaired("from Oslo to Paris I mean to London tonight".split()))
    'from Oslo to London tonight'
    >>> " ".join(repaired("which pump is it actually".split()))
    'which pump is it'
    """
    kept: list[str] = []
    at = 0
    while at < len(words):
        size = cue_at(words, at) if kept else 0
        while size and cue_at(words, at + size):  # "no, sorry, I mean"
            size += cue_at(words, at + size)
        if not size:
            kept.append(words[at])
            at += 1
            continue
        at += size
        if at < len(words):
            del kept[_taken_back(kept, words[at]) :]
    return kept


def contradicted(span: Sequence[str], final: Sequence[str]) -> bool:
    """Whether a text takes back what its earlier part, the span, rested on.

    So it is when a content word of the span is gone, or a cue follows the span.

    Examples
    --------
    >>> contradicted(["flights", "Tuesday"], ["flights", "Tuesday", "morning"])
    False
    >>> contradicted(["flights", "Tuesday"], ["flights", "Tuesday", "no", "Thursday"])
    True
    """
    gone = set(content_terms(list(span))) - set(content_terms(list(final)))
    return bool(gone) or has_cue(final, len(span))


def _taken_back(kept: list[str], first: str) -> int:
    """From which place on the new words, of which this is the first, replace the old ones."""
    reach = range(len(kept) - 1, max(len(kept) - 1 - _REACH, -1), -1)
    if not is_content(first):  # starting over from the same small word
        return next((i for i in reach if term(kept[i]) == term(first)), len(kept))
    sort = _sort(first, 1)
    return next((i for i in reach if sort and _sort(kept[i], i) == sort), len(kept))


def _sort(word: str, place: int) -> str | None:
    if re.match(r"\d", word):
        return "count"
    known = _SORT_OF.get(term(word))
    if known:
        return known
    return "name" if place > 0 and word[:1].isupper() and is_content(word) else None
