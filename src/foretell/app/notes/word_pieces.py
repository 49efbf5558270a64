"""Text to the word pieces of a lower-case BERT vocabulary.

Words are cut at white space and punctuation, lose case and accents, and are then covered from the
left by the longest pieces that the vocabulary holds; pieces inside a word begin with ``##``.

Sources: Devlin et al., NAACL 2019 (the vocabulary and its normalisation); Wu et al., 2016 (greedy
longest match). Differs in one point: ``[SEP]`` written in a text is text.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

_LONGEST_WORD = 100
_CACHED = 200_000
_ASCII_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_CONTROLS = dict.fromkeys([i for i in [*range(32), 127] if chr(i) not in "\t\n\r"])
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPieces:
    """A vocabulary, and how text becomes rows of it.

    Parameters
    ----------
    vocabulary : dict of str to int
        Pieces and their rows, ``[CLS]``, ``[SEP]`` and ``[UNK]`` among them.

    Examples
    --------
    >>> words = ["[UNK]", "[CLS]", "[SEP]", "pump", "##s", "fail", "."]
    >>> pieces = WordPieces({word: row for row, word in enumerate(words)})
    >>> pieces.encode("Pumps fail.")
    [1, 3, 4, 5, 6, 2]
    """

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._rows = vocabulary
        self._start, self._end = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._unknown = vocabulary["[UNK]"]
        self._known: dict[str, list[int]] = {}

    @classmethod
    def read(cls, path: Path) -> WordPieces:
        """From a file with one piece a line."""
        lines = path.read_text(encoding="utf-8").split("\n")
        return cls({piece: row for row, piece in enumerate(lines) if piece})

    def encode(self, text: str, longest: int = 512) -> list[int]:
        """Rows of a text between start and end marks, at most ``longest`` of them."""
        rows = [self._start]
        for word in split_words(text):
            rows += self._pieces(word)
            if len(rows) >= longest:
                break
        return [*rows[: longest - 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            found = self._known[word] = self._cover(word)
        return found

    def _cover(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        rows, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            for stop in range(len(word), start, -1):
                row = self._rows.get(mark + word[start:stop])
                if row is not None:
                    break
            else:
                return [self._unknown]
            rows.append(row)
            start = stop
        return rows


def split_words(text: str) -> list[str]:
    """Words and punctuation marks, in lower case and without accents.

    Examples
    --------
    >>> split_words("Café-Bar, 3 µm")
    ['cafe', '-', 'bar', ',', '3', 'µm']
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.translate(_CONTROLS).lower())
    kept = []
    for sign in text:
        code = ord(sign)
        if sign in "\t\n\r" or (sign.isspace() and unicodedata.category(sign) != "Cc"):
            kept.append(" ")
        elif code == 0xFFFD or unicodedata.category(sign) in ("Cc", "Cf", "Co"):
            continue
        else:
            ideograph = code >= 0x3400 and any(a <= code <= b for a, b in _IDEOGRAPHS)
            kept.append(f" {sign} " if ideograph else sign)
    plain = unicodedata.normalize("NFD", "".join(kept))
    return "".join(_apart(sign) for sign in plain).split()


def _apart(sign: str) -> str:
    """A sign in lower case; punctuation between spaces; nothing for an accent."""
    if sign.isalnum() or sign == " ":
        return sign.lower()
    kind = unicodedata.category(sign)
    if kind == "Mn":
        return ""
    if kind[0] == "P" or (sign.isascii() and sign.isprintable()):
        return f" {sign} "
    return sign.lower()
