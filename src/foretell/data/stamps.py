"""Text cells to time stamps; every refusal names the cell and the reason.

Calendar stamps 2024-05-31T13:45:00.250 (also with a space, slashes, no leading zeros, a time zone),
31.05.2024 13:45:00, and clock readings 13:45:00, which count from zero and may pass 24 hours. Day
and month between slashes, with the year last, can be read in two ways, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from foretell.data.cells import CellError, is_missing, is_number

_CLOCK = r"(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?"
_ISO = re.compile(rf"\d{{4}}-\d\d-\d\d{_CLOCK}")
_ISO_COLUMN = re.compile(rf"(?:\d{{4}}-\d\d-\d\d{_CLOCK}(?:\n|\Z))*+")
_ISO_WITH_ZONE = re.compile(rf"{_ISO.pattern}\s?(?:Z|[+-]\d\d(?::?\d\d)?)")
_HOUR = r"(?:[T ]+(?P<hour>\d\d?)(?P<rest>:\d\d(?::\d\d(?:[.,]\d+)?)?))?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})([-/])(?P<month>\d\d?)\2(?P<day>\d\d?){_HOUR}")
_DAY_FIRST = re.compile(rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}}){_HOUR}")
_READING = re.compile(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?")
_OFFSET = re.compile(r"[+-]\d\d:\d\d")
ISO_REMEDY = "Write stamps as 2024-05-31T13:45:00.250, or as plain numbers"


def is_stamp(cell: str) -> bool:
    """Whether a cell reads as a calendar date, a time stamp or the reading of a clock."""
    cell = cell.strip()
    patterns = (_ISO, _ISO_WITH_ZONE, _YEAR_FIRST, _DAY_FIRST, _READING)
    return any(p.fullmatch(cell) for p in patterns)


def is_reading(cell: str) -> bool:
    """Whether a cell reads as a clock without a date."""
    return _READING.fullmatch(cell.strip()) is not None


class StampStyle:
    """The form of the stamps of one file: unknown until the first chunk."""

    def __init__(self) -> None:
        self.zoned: bool | None = None
        self.day_first = self.clock = False

    def ticks(self, cells: Sequence[str]) -> NDArray[np.int64]:
        """Nanoseconds since 1970 of one column of stamps; with a time zone, in UTC.

        Clock readings are counted from zero.

        Raises
        ------
        CellError
            A cell is no stamp, or its format differs from the stamps before it.
        """
        cells = [c.strip() for c in cells]
        if self.zoned is None and cells:
            self.zoned = _ISO_WITH_ZONE.fullmatch(cells[0]) is not None
            self.day_first = _DAY_FIRST.fullmatch(cells[0]) is not None
            self.clock = is_reading(cells[0])
        if self.clock:
            return np.array([self._reading(i, c) for i, c in enumerate(cells)], dtype=np.int64)
        plain, offsets = _without_zone(cells) if self.zoned else (cells, None)
        if not (all(plain) and _ISO_COLUMN.fullmatch("\n".join(plain))) and not self.zoned:
            plain = cells = [self._as_iso(i, c) for i, c in enumerate(cells)]
        if all(plain) and _ISO_COLUMN.fullmatch("\n".join(plain)):
            stamps = [c.replace(",", ".") for c in plain]
            try:
                local = np.array(stamps, dtype="datetime64[ns]").astype(np.int64)
                return local if offsets is None else local - offsets
            except ValueError:
                pass  # some cell is no date, such as 2024-02-31: found below
        return np.array([self._one(i, c) for i, c in enumerate(cells)], dtype=np.int64)

    def _as_iso(self, index: int, cell: str) -> str:
        """With the year first and two digits each, where that is what the file writes."""
        match = (_DAY_FIRST if self.day_first else _YEAR_FIRST).fullmatch(cell)
        if match is None and self.day_first:
            raise CellError(index, cell, f"is not a stamp like 31.05.2024 13:45:00. {ISO_REMEDY}")
        if match is None:
            return cell
        date = f"{match['year']}-{match['month']:0>2}-{match['day']:0>2}"
        return date if match["hour"] is None else f"{date} {match['hour']:0>2}{match['rest']}"

    def _reading(self, index: int, cell: str) -> int:
        match = _READING.fullmatch(cell)
        if match is None:
            raise CellError(index, cell, self._why_not(cell))
        hours, minutes, seconds = (int(match[n] or 0) for n in (1, 2, 3))
        whole = (60 * hours + minutes) * 60 + seconds
        return whole * 10**9 + int((match[4] or "0").ljust(9, "0"))

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
            stamps = "clock readings" if self.clock else "calendar stamps"
            return f"is a number among {stamps} (mixed formats). {ISO_REMEDY}"
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
