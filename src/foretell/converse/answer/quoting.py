"""What is quoted for an answer: the sentence, and the one before where it points back to it."""

from __future__ import annotations

import re

from foretell.converse.answer.sentences import Sentence, sentences
from foretell.converse.answer.statements import Source

_POINTS_BACK = re.compile(
    r"(?:(?:however|therefore|thus|also|then|in addition|moreover|instead|otherwise|for example|"
    r"and|but|so)\W+)?(?:it|its|they|their|them|he|she|his|her|this|these|that|those|such|both|here|"
    r"there(?!\s+(?:is|are|was|were)\b)|the (?:former|latter|same|other|result|second))\b"
    r"|.*\b(?:these|those|this|such) \w+[.!]?$",
    re.IGNORECASE,
)
_GOES_ON = (":", "...", "…")


def quoted(source: Source, sentence: Sentence) -> tuple[Sentence, ...]:
    """The sentence with its neighbours as far as it cannot stand without them.

    Examples
    --------
    >>> source = Source("1", "The pump has a valve. It opens at 8 bar. Oil it.")
    >>> [each.text for each in quoted(source, sentences(source)[1])]
    ['The pump has a valve.', 'It opens at 8 bar.']
    >>> [each.text for each in quoted(source, sentences(source)[2])]
    ['Oil it.']
    """
    parts = sentences(source)
    i = parts.index(sentence)
    before = parts[i - 1 : i] if i and _follows(parts[i - 1], sentence) else ()
    after = parts[i + 1 : i + 2] if sentence.text.endswith(_GOES_ON) else ()
    return (*before, sentence, *after)


def _follows(before: Sentence, sentence: Sentence) -> bool:
    if before.code or sentence.code:
        return False
    return before.text.endswith(":") or bool(_POINTS_BACK.match(sentence.text))
