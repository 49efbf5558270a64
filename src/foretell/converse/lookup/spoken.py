"""Words with the times at which they are said, and what a listener has of them by when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foretell.converse.lookup.words import split_words
from foretell.core.errors import DataError, ParameterError
from foretell.core.timeline import Event


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A word and when it is said, in seconds."""

    text: str
    start: float
    end: float


def spread_words(
    text: str, *, words_per_second: float = 2.7, start: float = 0.0
) -> list[SpokenWord]:
    """A text as if read out evenly.

    Examples
    --------
    >>> [word.end for word in spread_words("who found radium", words_per_second=2)]
    [0.5, 1.0, 1.5]
    """
    if not words_per_second > 0:
        raise ParameterError(f"words_per_second={words_per_second!r}; needed is a positive number.")
    step = 1 / words_per_second
    words = text.split()
    return [SpokenWord(w, start + i * step, start + (i + 1) * step) for i, w in enumerate(words)]


def check_words(words: Sequence[SpokenWord]) -> None:
    """Refuse no words, and words that end before they begin or overlap the one before."""
    if not words:
        raise DataError("There are no words. Give at least one SpokenWord(text, start, end).")
    before = -math.inf
    for number, word in enumerate(words):
        fine = math.isfinite(word.start) and math.isfinite(word.end)
        if not fine or not before - 1e-9 <= word.start <= word.end:
            raise DataError(
                f"Word {number} ({word.text!r}) is said from {word.start} to {word.end} s, and the "
                f"one before ends at {before} s; times must not run backwards. Sort the words."
            )
        before = word.end


def partials(
    words: Sequence[SpokenWord], *, block_s: float = 0.5, stable: bool = True
) -> list[Event]:
    """The partial texts at the ends of the blocks, up to the end of the last word.

    A word belongs to the partial of a block only if it has ended by then: a word across the border
    would be a look into the future.

    Examples
    --------
    >>> [(e.time, e["text"]) for e in partials(spread_words("who found radium"), block_s=0.5)]
    [(0.5, 'who'), (1.0, 'who found')]
    """
    if not block_s > 0:
        raise ParameterError(f"block_s={block_s!r}; needed is a positive number of seconds.")
    check_words(words)
    events = []
    first = math.floor(words[0].start / block_s) + 1
    heard = 0
    for block in range(first, math.ceil(words[-1].end / block_s - 1e-9)):
        time = block * block_s
        while heard < len(words) and words[heard].end <= time + 1e-9:
            heard += 1
        if heard:
            text = " ".join(word.text for word in words[:heard])
            sure = {"stable": len(split_words(text))} if stable else {}
            events.append(Event("partial", time, {"text": text, **sure}))
    return events
