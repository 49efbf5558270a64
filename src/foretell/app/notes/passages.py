"""Text to passages: pieces of a few sentences, with the titles above them and their lines.

A passage ends where a section ends, else after a paragraph once the next one would make it longer
than `TARGET` characters. Longer paragraphs are cut at the ends of lines, and longer lines at the
ends of sentences or words. Every line that is not blank is in exactly one passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TARGET = 700  # characters: about 160 tokens of English, near what the model was trained on
TITLES = " > "
_LONGEST_TITLE, _LONGEST_HEAD = 120, 40  # characters, lines
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_RULE = re.compile(r"([=\-~^\"'*+#`:.])\1{2,}\s*$")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True)
class Passage:
    """A piece of a text.

    Parameters
    ----------
    title : str
        The headings above it, outermost first.
    text : str
        As written.
    first_line, last_line : int
        Counted from 1; within the page where there are pages.
    page : int or None
        Counted from 1.
    """

    title: str
    text: str
    first_line: int
    last_line: int
    page: int | None = None

    @property
    def embedded(self) -> str:
        """What the model reads."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    level: int = 0  # of the heading that it is; 0 for text, -1 for blank lines and underlines
    name: str = ""  # of the heading
    fenced: bool = False


def passages(
    text: str, *, marked: bool = True, page: int | None = None, name: str = ""
) -> list[Passage]:
    """Cut a text into passages.

    Parameters
    ----------
    text : str
        With any kind of line ends.
    marked : bool
        Whether ``# Title`` and underlined titles are headings.
    page : int, optional
        Where it comes from.
    name : str
        Of the file: the outermost title where the text has none of the first level. A title in a
        head between two lines ``---`` goes before it.

    Examples
    --------
    >>> for found in passages("# Pump\\nWater.\\n\\n## Start\\nPull the cord."):
    ...     print(found.title, found.first_line, repr(found.text))
    Pump 1 '# Pump\\nWater.'
    Pump > Start 4 '## Start\\nPull the cord.'
    """
    lines = re.split(r"\r\n|\r|\n", text)
    rows = _marked(lines) if marked else [_Line(i, line) for i, line in enumerate(lines, 1)]
    found: list[Passage] = []
    titles: dict[int, str] = {}
    whole = (_title_of_head(lines) if marked else "") or name
    if whole and not any(row.level == 1 for row in rows):
        titles[0] = whole
    held: list[_Line] = []
    size = 0

    def close() -> None:
        nonlocal held, size
        if held:
            title = TITLES.join(titles[level] for level in sorted(titles))
            body = "\n".join(line.text for line in held).rstrip()
            found.append(Passage(title, body, held[0].number, held[-1].number, page))
        held, size = [], 0

    for paragraph in _paragraphs(rows):
        head = paragraph[0]
        if head.level > 0:
            if any(not line.level for line in held):
                close()
            elif held and head.level <= max(line.level for line in held):
                close()  # the section before is a heading and nothing else
            titles = {level: name for level, name in titles.items() if level < head.level}
            titles[head.level] = head.name
        for part in _fitting(paragraph):
            length = sum(len(line.text) + 1 for line in part)
            if size + length > TARGET and any(not line.level for line in held):
                close()
            if held and part[0].number > held[-1].number + 1:
                held.append(_Line(part[0].number - 1, "", -1))
            held += part
            size += length
    close()
    return found


def _head(lines: list[str]) -> int:
    """How many lines a head between two lines ``---`` has, both included."""
    if lines[0].strip() == "---":
        for i, line in enumerate(lines[1:_LONGEST_HEAD], 1):
            if line.strip() == "---":
                return i + 1
    return 0


def _title_of_head(lines: list[str]) -> str:
    """The title in a head like ``---``, ``title: Pumps``, ``---``."""
    for line in lines[: _head(lines)]:
        if line.startswith("title:"):
            return line.removeprefix("title:").strip().strip("\"'")
    return ""


def _paragraphs(rows: list[_Line]) -> Iterator[list[_Line]]:
    """Runs of lines without a blank one; a heading begins a run, a fenced block is in one."""
    held: list[_Line] = []
    for row in rows:
        blank = not row.text.strip() and not row.fenced
        if held and (blank or row.level > 0):
            yield held
            held = []
        if not blank:
            held.append(row)
    if held:
        yield held


def _fitting(paragraph: list[_Line]) -> Iterator[list[_Line]]:
    """The same lines in runs of at most TARGET characters."""
    held: list[_Line] = []
    size = 0
    for line in (piece for row in paragraph for piece in _short(row)):
        if held and size + len(line.text) + 1 > TARGET:
            yield held
            held, size = [], 0
        held.append(line)
        size += len(line.text) + 1
    while held and not held[-1].text.strip():
        held.pop()
    if held:
        yield held


def _short(row: _Line) -> Iterator[_Line]:
    """A line in pieces of at most TARGET characters, cut after sentences, else words, else hard."""
    rest, name = row.text, row.name
    while len(rest) > TARGET:
        cut = max((m.end() for m in _SENTENCE.finditer(rest, 0, TARGET)), default=0)
        cut = cut or rest.rfind(" ", 1, TARGET) + 1 or TARGET
        yield _Line(row.number, rest[:cut], row.level, name, row.fenced)
        rest = rest[cut:]
    yield _Line(row.number, rest, row.level, name, row.fenced)


def _marked(lines: list[str]) -> list[_Line]:
    """Lines with their headings: ``# Title``, and titles underlined with one repeated sign."""
    found: list[_Line] = []
    fence = ""
    signs: list[str] = []
    head = _head(lines)
    for i, line in enumerate(lines):
        if i < head:
            found.append(_Line(i + 1, line))
            continue
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            found.append(_Line(i + 1, line, fenced=True))
            continue
        if fence:
            found.append(_Line(i + 1, line, fenced=True))
            continue
        heading = _HEADING.match(line)
        below = lines[i + 1] if i + 1 < len(lines) else ""
        rule = _RULE.match(below)
        above = lines[i - 1].strip() if i else ""
        alone = not above or _RULE.match(above)
        if heading and heading[2]:
            found.append(_Line(i + 1, line, len(heading[1]), heading[2]))
        elif rule and alone and 0 < len(line.strip()) <= _LONGEST_TITLE and not _RULE.match(line):
            if rule[1] not in signs:
                signs.append(rule[1])
            found.append(_Line(i + 1, line, min(signs.index(rule[1]) + 1, 6), line.strip()))
        elif found and found[-1].level > 0 and _RULE.match(line):
            found.append(_Line(i + 1, line, -1))
        else:
            found.append(_Line(i + 1, line))
    return found
