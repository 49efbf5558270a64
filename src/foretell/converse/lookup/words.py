"""Text to words, and words to the terms that an index knows."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\d+(?:[.,]\d+)*\w*|[^\W_]+(?:['\u2019.&-][^\W_]+)*")

STOP = frozenset(
    "a an the and or but if of at by for with about against between into through during before "
    "after above below to from up down in out on off over under again then once here there all "
    "any both each few more most other some such nor not only own same so than too very can "
    "will just should now what which who whom whose where when why how this that these those i me "
    "my we our you your he him his she her it its they them their am is are was were be been "
    "being have has had having do does did doing would could may might must shall please tell "
    "show give say know many much long often as also well one "
    # what is left of contractions
    "s t re ve ll d m".split()
)


def split_words(text: str) -> list[str]:
    """The words of a text as they are written, without what stands between them.

    Examples
    --------
    >>> split_words("Who's paid 1,598,222 dollars?")
    ["Who's", 'paid', '1,598,222', 'dollars']
    """
    return _WORD.findall(text)


@lru_cache(maxsize=100_000)
def term(word: str) -> str:
    """The form under which a word is indexed: one case, one spelling of accents, no plural s.

    Examples
    --------
    >>> [term(word) for word in ("Cities", "Darcy's", "houses", "gas", "Ünit")]
    ['city', 'darcy', 'house', 'gas', 'ünit']
    """
    plain = unicodedata.normalize("NFKC", word).casefold().replace("\u2019", "'")
    plain = plain.removesuffix("'s").removesuffix("'")
    if len(plain) < 4 or not plain.endswith("s"):
        return plain
    if plain.endswith("ies") and not plain.endswith(("eies", "aies")):
        return plain[:-3] + "y"
    return plain if plain.endswith(("ss", "us", "is")) else plain[:-1]


def is_content(word: str) -> bool:
    """Whether a word says what a question is about.

    Examples
    --------
    >>> [word for word in "what is the boiling point".split() if is_content(word)]
    ['boiling', 'point']
    """
    return word.casefold().replace("\u2019", "'").split("'")[0] not in STOP


def terms(text: str) -> list[str]:
    """The terms of a text in their order, all of them.

    Examples
    --------
    >>> terms("The pumps of Rome")
    ['the', 'pump', 'of', 'rome']
    """
    return [term(word) for word in split_words(text)]


def content_terms(words: list[str]) -> list[str]:
    """Terms of the words that say what a question is about."""
    return [term(word) for word in words if is_content(word)]
