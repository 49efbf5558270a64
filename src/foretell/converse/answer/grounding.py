"""What a language model adds beyond the evidence: found sentence by sentence, marked or dropped.

Numbers, names and negations must stand in the evidence; so must most of the other content words.
A sentence with a foreign number or name, or that turns a statement around, is dropped; one with a
few foreign words is kept and marked with them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from foretell.converse.answer.cues import content_stems, stem
from foretell.converse.answer.sentences import sentences
from foretell.converse.answer.statements import Source, Statement
from foretell.converse.lookup.words import split_words

_DROPPED = 0.5  # share of foreign content words from which a sentence is dropped
_MARKED = 2  # content words that may be foreign without a mark: connectives and synonyms
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-Z][\w'-]*")
_NOT = frozenset(
    "not no never none nor cannot without neither isn't aren't doesn't don't won't".split()
)
_SPELLED = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grounded:
    """Sentences of a language model after the check.

    Parameters
    ----------
    statements : tuple of Statement
        Those that the evidence bears out, at least in large part.
    dropped : tuple of str
        Those that it does not.
    """

    statements: tuple[Statement, ...]
    dropped: tuple[str, ...]


def grounded(text: str, evidence: Sequence[Source], question: str = "") -> Grounded:
    """Compare what a language model wrote with what it was given.

    Examples
    --------
    >>> notes = [Source("1", "The pump holds 8 bar.", file="a.md")]
    >>> found = grounded("The pump holds 8 bar. It was built in 1998 by Siemens.", notes)
    >>> [each.text for each in found.statements], found.dropped
    (['The pump holds 8 bar.'], ('It was built in 1998 by Siemens.',))
    """
    kept: list[Statement] = []
    dropped: list[str] = []
    for piece in sentences(Source("written", text.strip())):
        foreign, wrong = _foreign(piece.text, evidence, question)
        words = set(content_stems(piece.text))
        if wrong or (words and len(foreign) > max(_DROPPED * len(words), 1)):
            dropped.append(piece.text)
            continue
        unsupported = tuple(foreign) if len(foreign) > _MARKED else ()
        kept.append(Statement(piece.text, _closest(words, evidence), True, unsupported))
    return Grounded(tuple(kept), tuple(dropped))


def _foreign(text: str, evidence: Sequence[Source], question: str) -> tuple[list[str], bool]:
    """Content words without support, and whether a number, name or negation is wrong."""
    given = " ".join([*(f"{s.title} {s.text}" for s in evidence), question])
    numbers = _numbers(" ".join(source.text for source in evidence))
    if _numbers(text) - numbers - _numbers(question):
        return [], True
    there = {stem(word) for word in split_words(given)}
    if any(stem(word) not in there for word in _NAME.findall(text)):
        return [], True
    if _turned(text, evidence):
        return [], True
    words = [word for word in split_words(text) if stem(word) not in there]
    content = set(content_stems(text))
    return list(dict.fromkeys(word for word in words if stem(word) in content)), False


def _numbers(text: str) -> set[str]:
    found = {number.replace(",", "").rstrip(".") for number in _NUMBER.findall(text)}
    return found | {_SPELLED[w] for w in text.casefold().split() if w in _SPELLED}


def _turned(text: str, evidence: Sequence[Source]) -> bool:
    """Whether the closest sentence of the evidence says the opposite."""
    words = set(content_stems(text))
    best, shared = "", 0
    for source in evidence:
        for piece in sentences(source):
            common = len(words & set(content_stems(piece.text)))
            if common > shared:
                best, shared = piece.text, common
    if shared < 2:
        return False
    return bool(_NOT & _plain(text)) != bool(_NOT & _plain(best))


def _plain(text: str) -> set[str]:
    return {word.casefold().replace("\u2019", "'") for word in re.findall(r"[\w'\u2019]+", text)}


def _closest(words: set[str], evidence: Sequence[Source]) -> tuple[Source, ...]:
    """The source that shares most words."""
    if not evidence:
        return ()
    return (max(evidence, key=lambda source: len(words & set(content_stems(source.text)))),)
