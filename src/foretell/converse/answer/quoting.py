"""What is quoted for an answer: the sentence, and a neighbour where it cannot stand without it."""

from __future__ import annotations

import re

from foretell.converse.answer.cues import content_stems, offers, wanted
from foretell.converse.answer.reading import Reading
from foretell.converse.answer.sentences import Sentence, sentences
from foretell.converse.answer.statements import Source

_POINTS_BACK = re.compile(
    r"(?:(?:however|therefore|thus|also|then|in addition|moreover|instead|otherwise|for example|"
    r"for instance|and|but|so|because of|all of|each of|both of|some of|most of|many of|one of|"
    r"in|from|by|with|after|before|under|to|at|of|during)\W+)?(?:it|its|they|their|them|he|she|his|"
    r"her|this|these|that|those|such|both|here|another|other|others|"
    r"there(?!\s+(?:is|are|was|were)\b)|the (?:former|latter|same|other|result|second))\b"
    r"|(?:for example|for instance|that is|in other words|hence|therefore|thus)\b",
    re.IGNORECASE,
)
_POINTS_AWAY = re.compile(r"\b(?:these|this|such) \w+", re.IGNORECASE)
_GOES_ON = (":", "...", "…")
_LIKELY = 0.1  # probability from which the second best sentence is said as well
_LITTLE = 3  # content words beyond the question, below which a sentence says little of its own


def quoted(source: Source, sentence: Sentence, question: str = "") -> tuple[Sentence, ...]:
    """The sentence with the neighbours that it needs.

    The one before where it points back to it; else, where the sentence only says the question
    again or lacks the kind of answer that is wanted, the neighbour that has it.

    Examples
    --------
    >>> source = Source("1", "The pump has a valve. It opens at 8 bar. Oil it.")
    >>> [each.text for each in quoted(source, sentences(source)[1])]
    ['The pump has a valve.', 'It opens at 8 bar.']
    >>> [each.text for each in quoted(source, sentences(source)[0], "What has the pump?")]
    ['The pump has a valve.', 'It opens at 8 bar.']
    """
    parts = sentences(source)
    i = parts.index(sentence)
    before = parts[i - 1] if i else None
    after = parts[i + 1] if i + 1 < len(parts) else None
    if sentence.text.endswith(_GOES_ON) and after is not None:
        return (sentence, after)
    if sentence.code or (before is not None and before.code):
        return (sentence,)
    points = _POINTS_BACK.match(sentence.text) or _POINTS_AWAY.search(sentence.text)
    if before is not None and (points or before.text.endswith(":")):
        return (before, sentence)
    if question and _lacks(sentence, question):
        return _helped(before, sentence, after, question)
    return (sentence,)


def given(reading: Reading) -> list[tuple[Source, tuple[Sentence, ...]]]:
    """What is said for a reading: the best sentence, and the second best if it is likely too.

    Returns
    -------
    list of (source, sentences)
        Each sentence once, with the neighbours that it needs; empty where there is nothing.
    """
    if not reading.candidates:
        return []
    first, *others = reading.candidates
    quotes = [(first.source, quoted(first.source, first.sentence, reading.question))]
    said = {(first.source.id, sentence) for sentence in quotes[0][1]}
    for other in others[:1]:
        known = (other.source.id, other.sentence) in said
        if other.probability >= _LIKELY and not known and not other.sentence.code:
            quotes.append((other.source, (other.sentence,)))
    return quotes


def _lacks(sentence: Sentence, question: str) -> bool:
    """Whether a sentence says little beyond the question, or nothing of the kind it asks for."""
    own = set(content_stems(sentence.text)) - set(content_stems(question))
    return len(own) < _LITTLE or offers(wanted(question), sentence.text) == 0


def _helped(
    before: Sentence | None, sentence: Sentence, after: Sentence | None, question: str
) -> tuple[Sentence, ...]:
    """With the neighbour that offers the kind of answer, the one after first."""
    asked = wanted(question)
    for near in (after, before):
        if near is not None and not near.code and offers(asked, near.text) > 0:
            return (sentence, near) if near is after else (near, sentence)
    return (sentence,)
