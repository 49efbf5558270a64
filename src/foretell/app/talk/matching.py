"""Whether a text gives an answer that is known: by its words in their order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W_]+")
_ARTICLES = ("the ", "a ", "an ")


def gives(text: str, answers: Sequence[str]) -> bool:
    """Whether any of the answers stands in a text, apart from case, accents and punctuation.

    Examples
    --------
    >>> gives("It holds 1,200 litres.", ["1200 litres"]), gives("It holds 12 litres.", ["2 litres"])
    (True, False)
    """
    words = f" {_plain(text)} "
    return any(f" {_bare(answer)} " in words for answer in answers if _bare(answer))


def _bare(answer: str) -> str:
    plain = _plain(answer)
    for article in _ARTICLES:
        plain = plain.removeprefix(article)
    return plain


def _plain(text: str) -> str:
    split = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(sign for sign in split if not unicodedata.combining(sign))
    return " ".join(_number(word) for word in _WORD.findall(kept))


def _number(word: str) -> str:
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", word):
        return word.replace(",", "")
    return word
