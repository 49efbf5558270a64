"""A passage to the sentences that can be quoted, each with its lines.

Prose is cut at the ends of sentences, across line ends; items of lists, rows of tables and lines of
code stand for themselves; headings are context and never quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from foretell.converse.answer.statements import Source

LONGEST = 600  # characters of a sentence
_HEADING = re.compile(r"#{1,6}\s+\S")
_RULE = re.compile(r"\s*([=\-~^\"'*+#`:.|_])\1{2,}[\s|:=\-+]*$")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_DIRECTIVE = re.compile(r"\s*(?:\.\.\s+[\w:-]+::|:::|:[\w-]+:\s)|\s*[:\w.-]+::\s*$")
_END = re.compile(r"""(?<=[.!?])["')\]\u201d\u2019]*\s+(?=["'(\[\u201c\u2018*_`]*[^\W_])""")
_LITERAL = re.compile(r"\s*\.\.\s+(?:code-block|code|sourcecode|console|literalinclude)::")
_ADMONITION = re.compile(r"\s*\.\.\s+[\w:-]+::")
_OPTION = re.compile(r"\s*:[\w-]+:")
_SHORT = frozenset(
    "mr mrs ms dr prof st sr jr vs etc no nos vol fig figs eq eqs sec ch pp ca cf al approx dept "
    "inc ltd co corp gen col lt sgt capt rev hon gov sen rep e.g i.e u.s u.k a.m p.m resp jan feb "
    "mar apr jun jul aug sep sept oct nov dec".split()
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A piece of a passage that can be quoted.

    Parameters
    ----------
    text : str
        As written, on one line, without the mark of a list.
    first_line, last_line : int
        In the file.
    code : bool
        Whether it stands in a block of code.
    start : int
        Where it begins in the text of the passage.
    """

    text: str
    first_line: int
    last_line: int
    code: bool = False
    start: int = 0


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    number: int
    text: str


def sentences(source: Source) -> tuple[Sentence, ...]:
    """The sentences of a passage.

    Examples
    --------
    >>> text = "# Pump\\nPull the cord. It\\nstarts.\\n- Oil: 1 l"
    >>> for found in sentences(Source("1", text, first_line=10, last_line=13)):
    ...     print(found.first_line, found.last_line, found.text)
    11 11 Pull the cord.
    11 12 It starts.
    13 13 Oil: 1 l
    """
    return _cut(source.text, source.first_line, source.last_line)


@lru_cache(maxsize=4096)
def _cut(text: str, first: int, last: int) -> tuple[Sentence, ...]:
    return tuple(_sentences(text, first, last))


def _sentences(text: str, first: int, last: int) -> Iterator[Sentence]:
    lines = text.split("\n")
    exact = first and len(lines) == last - first + 1
    held: list[_Line] = []
    code = _Code()
    start = 0
    for i, line in enumerate(lines):
        here = _Line(start, first + i if exact else 0, line)
        start += len(line) + 1
        below = lines[i + 1] if i + 1 < len(lines) else ""
        kind = code.kind(line)
        if not kind and not _ends_prose(line, below):
            if _ITEM.match(line):
                yield from _prose(held, first, last)
                held = []
            held.append(here)
            continue
        yield from _prose(held, first, last)
        held = []
        if kind == "code" and line.strip():
            yield _sentence(line, here, here, first, last, code=True)
        elif not kind and _ROW.match(line) and not re.fullmatch(r"[\s|:=+-]*", line):
            yield _sentence(line, here, here, first, last)
    yield from _prose(held, first, last)


class _Code:
    """Which lines are code: between fences, indented below a line that ends with two colons."""

    def __init__(self) -> None:
        self.fenced = False
        self.below: int | None = None  # indentation of the line that code follows

    def kind(self, line: str) -> str:
        """ "code", "fence" or nothing."""
        if _FENCE.match(line):
            self.fenced = not self.fenced
            return "fence"
        if self.fenced or line.lstrip().startswith((">>> ", "... ")):
            return "code"
        if self.below is not None and line.strip():
            if len(line) - len(line.lstrip()) > self.below:
                return "" if _OPTION.match(line) else "code"
            self.below = None
        if line.rstrip().endswith("::") and not _ADMONITION.match(line):
            self.below = len(line) - len(line.lstrip())
        elif _LITERAL.match(line):
            self.below = len(line) - len(line.lstrip())
        return ""


def _ends_prose(line: str, below: str) -> bool:
    return not line.strip() or bool(_RULE.match(line)) or _alone(line) or _is_title(line, below)


def _is_title(line: str, below: str) -> bool:
    underlined = len(line.strip()) <= 120 and bool(re.match(r"\s*([=\-~^\"*+#])\1{2,}\s*$", below))
    return bool(_HEADING.match(line)) or (underlined and bool(line.strip()))


def _alone(line: str) -> bool:
    return bool(_ROW.match(line) or _DIRECTIVE.match(line))


def _prose(lines: list[_Line], first: int, last: int) -> Iterator[Sentence]:
    """Sentences of lines that belong together."""
    if not lines:
        return
    text = "\n".join(line.text for line in lines)
    began = _mark(text)
    for end in [*_ends(text, began), len(text)]:
        piece = text[began:end]
        if piece.strip():
            at = began + len(piece) - len(piece.lstrip())
            top = lines[text.count("\n", 0, at)]
            bottom = lines[text.count("\n", 0, began + len(piece.rstrip()))]
            found = _sentence(piece, top, bottom, first, last)
            yield Sentence(
                found.text, found.first_line, found.last_line, False, lines[0].start + at
            )
        began = end


def _mark(text: str) -> int:
    item = _ITEM.match(text)
    return item.end() if item else 0


def _ends(text: str, began: int) -> Iterator[int]:
    """Where sentences end, apart from abbreviations and initials."""
    before = began
    for found in _END.finditer(text, began):
        word = text[before : found.start()].rsplit(None, 1)[-1:]
        plain = word[0].lower().strip("\"'()[]").removesuffix(".") if word else ""
        short = plain in _SHORT or (len(plain) == 1 and plain.isalpha())
        if text[found.start() - 1] == "." and short:
            continue
        yield found.end()
        before = found.end()


def _sentence(
    text: str, top: _Line, bottom: _Line, first: int, last: int, *, code: bool = False
) -> Sentence:
    plain = " ".join(text.split())
    plain = plain[:-1] if plain.endswith("::") else plain
    if len(plain) > LONGEST:
        plain = plain[:LONGEST].rsplit(" ", 1)[0] + " …"
    return Sentence(plain, top.number or first, bottom.number or last, code, top.start)
