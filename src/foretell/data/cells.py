"""Text cells to numbers and time stamps; every refusal names the cell and the reason.

A column of a chunk is converted at once where all its cells are plain, and cell by cell where one
is not. What a comma means is settled once per file (`NumberStyle`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MISSING = frozenset({"", "na", "n/a", "#n/a", "#nv", "#n/d", "nan", "null", "none", "-", "--"})
_MISSING_EXACT = MISSING | {"NA", "N/A", "#N/A", "NaN", "NAN", "Null", "NULL", "None"}
_WITH_COMMA = re.compile(r"[+-]?(?P<whole>\d*),(?P<rest>\d+)(?P<exponent>[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?|[+-]?\d{1,3}(?:\.\d{3})+,\d*")
_CLOCK = r"(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?"
_ISO = re.compile(rf"\d{{4}}-\d\d-\d\d{_CLOCK}")
_ISO_COLUMN = re.compile(rf"(?:\d{{4}}-\d\d-\d\d{_CLOCK}(?:\n|\Z))*+")
_ISO_WITH_ZONE = re.compile(rf"{_ISO.pattern}\s?(?:Z|[+-]\d\d(?::?\d\d)?)")
_DAY_FIRST = re.compile(rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}})(?P<clock>{_CLOCK})")
_OFFSET = re.compile(r"[+-]\d\d:\d\d")
ISO_REMEDY = "Write stamps as 2024-05-31T13:45:00.250, or as plain numbers."


class CellError(Exception):
    """A cell cannot be read; `index` counts within the column of the chunk."""

    def __init__(self, index: int, value: str, reason: str) -> None:
        super().__init__(reason)
        self.index, self.value, self.reason = index, value, reason


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number in some locale."""
    cell = cell.strip()
    if _WITH_COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def is_stamp(cell: str) -> bool:
    """Whether a cell reads as a calendar date or time stamp."""
    cell = cell.strip()
    patterns = (_ISO, _ISO_WITH_ZONE, _DAY_FIRST)
    return any(p.fullmatch(cell) for p in patterns)


class NumberStyle:
    """What '.' and ',' mean in the numbers of one file: unknown until a cell shows it."""

    def __init__(self) -> None:
        self.decimal: str | None = None

    def numbers(self, cells: Sequence[str], others: Sequence[Sequence[str]] = ()) -> Array:
        """Numbers of one column, NaN where missing.

        Parameters
        ----------
        cells : sequence of str
        others : sequences of str
            The other number columns of the chunk: they help to settle what a comma means.

        Raises
        ------
        CellError
            A cell is text, or can be read in two ways.
        """
        joined = "\n".join(cells)
        if "," in joined and self.decimal != ",":
            self._settle_comma(cells, others)
        plain: Sequence[str] = cells
        if self.decimal == ",":
            if "." in joined:
                self._refuse_dot(cells)
            plain = joined.replace(",", ".").split("\n")
        elif self.decimal is None and "." in joined:
            self.decimal = "."
        if "_" not in joined and len(plain) == len(cells):
            for convert in (_plain, _with_missing):
                try:
                    return convert(plain)
                except ValueError:
                    continue
        if "," in joined:
            self._settle_comma(cells, others)
        return np.array([_one_number(i, c) for i, c in enumerate(cells)], dtype=np.float64)

    def _settle_comma(self, cells: Sequence[str], others: Sequence[Sequence[str]]) -> None:
        """Decide that commas are decimal, or refuse the cell that cannot be read."""
        with_comma = [(i, c.strip()) for i, c in enumerate(cells) if "," in c]
        index, value = with_comma[0]
        for i, c in with_comma:
            if _WITH_COMMA.fullmatch(c) is None:
                thousands = _THOUSANDS.fullmatch(c) is not None
                raise CellError(
                    i,
                    c,
                    "uses thousands separators; export numbers without them"
                    if thousands
                    else "is not a number",
                )
        if self.decimal == ".":
            raise CellError(
                index,
                value,
                "has a comma where other numbers of the file have a decimal point; use one of "
                "them everywhere, and no thousands separators",
            )
        if self.decimal is None:
            if not any(_proves_decimal(c) for c in _comma_cells([cells, *others])):
                raise CellError(
                    index,
                    value,
                    f"can mean {value.replace(',', '.')} or {value.replace(',', '')}; write "
                    "decimal points, or export numbers without thousands separators",
                )
            self.decimal = ","

    def _refuse_dot(self, cells: Sequence[str]) -> None:
        for i, cell in enumerate(cells):
            if "." in cell and is_number(cell):
                raise CellError(
                    i,
                    cell.strip(),
                    "has a point where other numbers of the file have a decimal comma; use one "
                    "of them everywhere, and no thousands separators",
                )


def _comma_cells(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    return (c.strip() for cells in columns for c in cells if "," in c)


def _proves_decimal(cell: str) -> bool:
    """Thousands come in groups of exactly three digits after one to three that start above 0."""
    match = _WITH_COMMA.fullmatch(cell)
    if match is None:
        return False
    whole, rest = match["whole"], match["rest"]
    return len(rest) != 3 or whole[:1] in ("", "0") or len(whole) > 3 or bool(match["exponent"])


def _plain(cells: Sequence[str]) -> Array:
    return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))


def _with_missing(cells: Sequence[str]) -> Array:
    nan = float("nan")
    known = (nan if c in _MISSING_EXACT else float(c) for c in cells)
    return np.fromiter(known, dtype=np.float64, count=len(cells))


def _one_number(index: int, cell: str) -> float:
    if is_missing(cell):
        return float("nan")
    try:
        if "_" not in cell:
            return float(cell.replace(",", "."))
    except ValueError:
        pass
    raise CellError(index, cell.strip(), "is not a number")


class StampStyle:
    """Whether the stamps of one file carry a time zone: unknown until the first chunk."""

    def __init__(self) -> None:
        self.zoned: bool | None = None
        self.day_first = False

    def ticks(self, cells: Sequence[str]) -> NDArray[np.int64]:
        """Nanoseconds since 1970 of one column of stamps; with a time zone, in UTC.

        Raises
        ------
        CellError
            A cell is no stamp, or its format differs from the stamps before it.
        """
        cells = [c.strip() for c in cells]
        if self.zoned is None and cells:
            self.zoned = _ISO_WITH_ZONE.fullmatch(cells[0]) is not None
            self.day_first = _DAY_FIRST.fullmatch(cells[0]) is not None
        if self.day_first:
            cells = [_day_last(i, c) for i, c in enumerate(cells)]
        plain, offsets = _without_zone(cells) if self.zoned else (cells, None)
        if all(plain) and _ISO_COLUMN.fullmatch("\n".join(plain)):
            stamps = [c.replace(",", ".") for c in plain]
            try:
                local = np.array(stamps, dtype="datetime64[ns]").astype(np.int64)
                return local if offsets is None else local - offsets
            except ValueError:
                pass  # some cell is no date, such as 2024-02-31: found below
        return np.array([self._one(i, c) for i, c in enumerate(cells)], dtype=np.int64)

    def _one(self, index: int, cell: str) -> int:
        pattern = _ISO_WITH_ZONE if self.zoned else _ISO
        if pattern.fullmatch(cell) is None:
            raise CellError(index, cell, self._why_not(cell))
        try:
            stamp = datetime.fromisoformat(cell.replace(" +", "+").replace(" Z", "Z"))
        except ValueError as error:
            raise CellError(index, cell, f"is not a date ({error}). {ISO_REMEDY}") from error
        if stamp.tzinfo is not None:
            stamp = stamp.astimezone(UTC).replace(tzinfo=None)
        return int(np.datetime64(stamp, "ns").astype(np.int64))

    def _why_not(self, cell: str) -> str:
        if is_missing(cell):
            return "is missing; every row needs a time stamp. Remove the row or fill it in"
        if is_number(cell):
            return f"is a number among calendar stamps (mixed formats). {ISO_REMEDY}"
        if is_stamp(cell):
            if self.zoned:
                return "has no time zone, and stamps before it have one. Write one form throughout"
            if _ISO_WITH_ZONE.fullmatch(cell):
                return "has a time zone, and stamps before it have none. Write one form throughout"
            return f"has another format than the stamps before it. {ISO_REMEDY}"
        if "/" in cell:
            return f"can be read as day/month or month/day. {ISO_REMEDY}"
        return f"is not a time stamp. {ISO_REMEDY}"


def _without_zone(cells: Sequence[str]) -> tuple[Sequence[str], NDArray[np.int64] | None]:
    """Local stamps and their offsets in nanoseconds, where all end in Z or in +hh:mm."""
    if all(c.endswith("Z") for c in cells):
        return [c[:-1].rstrip() for c in cells], None
    zones = [c[-6:] for c in cells]
    known = {}
    for zone in set(zones):
        if _OFFSET.fullmatch(zone) is None:
            return cells, None
        minutes = 60 * int(zone[1:3]) + int(zone[4:6])
        known[zone] = minutes * 60_000_000_000 * (-1 if zone[0] == "-" else 1)
    return [c[:-6].rstrip() for c in cells], np.array([known[z] for z in zones], dtype=np.int64)


def _day_last(index: int, cell: str) -> str:
    match = _DAY_FIRST.fullmatch(cell)
    if match is None:
        raise CellError(index, cell, f"is not a stamp like 31.05.2024 13:45:00. {ISO_REMEDY}")
    day, month = match["day"].zfill(2), match["month"].zfill(2)
    return f"{match['year']}-{month}-{day}{match['clock']}"
