"""Text tables in any locale, read in pieces into flat arrays.

The file is looked at twice. A survey counts lines and settles the encoding, so that the arrays can
be allocated once and a file that cannot fit is refused at once. Then rows are read in chunks: by
NumPy's parser as long as they are plain numbers, from then on cell by cell.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.data.cells import CellError, NumberStyle, is_missing, is_number
from foretell.data.grouping import RawColumns
from foretell.data.header import Column, Roles
from foretell.data.stamps import StampStyle, is_reading, is_stamp

Array = NDArray[np.float64]

CHUNK_ROWS = 10_000
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_OTHER_SEPARATORS = {" ": "spaces", ":": "colons", "/": "slashes", "~": "tildes", "#": "hashes"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Layout:
    """How a text table is written."""

    path: Path
    encoding: str
    n_lines: int
    separator: str
    skip: int
    titles: tuple[str, ...]
    dated: frozenset[int] = frozenset()  # columns whose first cell is a date

    @property
    def source(self) -> str:
        """The file name, for messages."""
        return self.path.name


def survey(path: Path) -> Layout:
    """Find encoding, number of lines, separator and header of a text table.

    Raises
    ------
    DataError
        The file is empty, is no text, or has no header.
    """
    encoding, n_lines = _encoding_and_lines(path)
    with path.open(encoding=encoding, newline="") as stream:
        lines = list(itertools.islice(stream, 200))
    skip = 0
    while skip < len(lines) and _is_preamble(lines[skip]):
        skip += 1
    if skip == len(lines):
        raise DataError(f"{path.name} is empty: it needs a header and rows below it.")
    separator = _separator(lines[skip:])
    titles = _first_record(lines[skip:], separator)
    if _is_data(titles) and skip and lines[skip - 1].startswith("#"):  # '# t, x' above numbers
        skip -= 1
        separator = _separator([lines[skip].lstrip("# "), *lines[skip + 1 :]])
        titles = _first_record([lines[skip].lstrip("# ")], separator)
    if _is_data(titles):
        example = ["t", *(f"x{i}" for i in range(1, len(titles)))]
        raise DataError(
            f"Row {skip + 1} of {path.name} holds {separator.join(titles)[:60]!r} and no names: "
            f"the file has no header. Add a first line such as {separator.join(example)!r}."
        )
    first = _first_cells(lines[skip + 1 :], separator)
    dated = frozenset(n for n, cell in enumerate(first) if is_stamp(cell))
    names = tuple(t.strip() for t in titles)
    return Layout(path, encoding, n_lines, separator, skip, names, dated)


def read_rows(layout: Layout, roles: Roles) -> RawColumns:
    """Read the columns that have a role.

    Raises
    ------
    DataError
        Names row, column and remedy of the first cell that cannot be used, or says how much
        memory is missing.
    """
    _check_memory(layout, roles)
    filler = _Filler(layout, roles)
    with layout.path.open(encoding=layout.encoding, newline="") as stream:
        for _ in range(layout.skip):
            stream.readline()
        reader = csv.reader(stream, delimiter=layout.separator)
        try:
            next(reader)
            number = layout.skip + 2
            lines = filler.add_plain(stream, number) if roles.group is None else []
            number += filler.size
            reader = csv.reader(itertools.chain(lines, stream), delimiter=layout.separator)
            while chunk := list(itertools.islice(reader, CHUNK_ROWS)):
                filler.add(chunk, number)
                number += len(chunk)
        except csv.Error as error:
            raise DataError(
                f"{layout.source} cannot be cut into cells after row {filler.last_row} ({error}). "
                "Look there for a quotation mark that is not closed."
            ) from error
    return filler.finish()


class _Filler:
    """Converts chunks of rows and writes them into arrays that are allocated once."""

    def __init__(self, layout: Layout, roles: Roles) -> None:
        n = layout.n_lines
        self.layout, self.roles = layout, roles
        self.numeric = [*roles.controls, *roles.values]
        self.data = {c: np.empty(n) for c in self.numeric}
        self.rows = np.empty(n, dtype=np.int64)
        self.time: Array | None = None
        self.ticks: NDArray[np.int64] | None = None
        self.group = None if roles.group is None else np.empty(n, dtype=np.int32)
        self.codes: dict[str, int] = {}
        self.numbers, self.stamps = NumberStyle(), StampStyle()
        self.size = 0
        self.last_row = layout.skip + 1
        self.notes: list[str] = []

    def add(self, chunk: list[list[str]], first_row: int) -> None:
        """Check the shape of a chunk of records and convert its cells."""
        self.last_row = first_row + len(chunk) - 1
        rows = [r for r in chunk if r and (r[0] or any(map(str.strip, r)))]
        if not rows:
            return
        where = np.arange(first_row, first_row + len(chunk), dtype=np.int64)
        if len(rows) < len(chunk):
            where = where[[bool(r and (r[0] or any(map(str.strip, r)))) for r in chunk]]
        if set(map(len, rows)) != {len(self.layout.titles)}:
            rows = [self._squared(r, int(n)) for r, n in zip(rows, where, strict=True)]
        columns = list(zip(*rows, strict=True))
        if self.size == 0:
            self._leave_out_text(columns, where)
        cut = slice(self.size, self.size + len(rows))
        self.rows[cut] = where
        if self.roles.time is not None:
            self._add_time(columns, where, cut)
        if self.group is not None and self.roles.group is not None:
            self.group[cut] = self._add_groups(columns[self.roles.group.position], where)
        others = [columns[c.position] for c in self.numeric]
        for column in self.numeric:
            try:
                self.data[column][cut] = self.numbers.numbers(columns[column.position], others)
            except CellError as error:
                raise self._refusal(error, column, where) from None
        self.size += len(rows)

    def add_plain(self, stream: TextIO, first_row: int) -> list[str]:
        """Take chunks of nothing but plain numbers, by NumPy's parser, which is fast.

        Returns the lines of the first chunk that holds anything else, for `add`.
        """
        while lines := list(itertools.islice(stream, CHUNK_ROWS)):
            if not {"\n", "\r\n", "\r"}.isdisjoint(lines):
                return lines
            try:
                block = np.loadtxt(
                    lines, delimiter=self.layout.separator, comments=None, quotechar=None, ndmin=2
                )
            except ValueError:
                return lines
            if block.shape != (len(lines), len(self.layout.titles)):
                return lines
            cut = slice(self.size, self.size + len(lines))
            self.rows[cut] = np.arange(len(lines)) + first_row + self.size
            if self.roles.time is not None:
                if self.time is None:
                    self.time = np.empty(self.layout.n_lines)
                self.time[cut] = block[:, self.roles.time.position]
            for column in self.numeric:
                self.data[column][cut] = block[:, column.position]
            if self.numbers.decimal is None and any("." in line for line in lines):
                self.numbers.decimal = "."
            self.size += len(lines)
            self.last_row = int(self.rows[self.size - 1])
        return []

    def finish(self) -> RawColumns:
        """Trim the arrays to the rows found."""
        if self.size == 0:
            raise DataError(
                f"{self.layout.source} has a header and no rows below it. "
                "Export the data again, with the measurements."
            )
        n = self.size
        values = [c for c in self.numeric if c not in self.roles.controls]
        if self.layout.encoding == "latin-1":
            self.notes.append("the file is not UTF-8 and was read as Latin-1")
        return RawColumns(
            rows=self.rows[:n],
            time=None if self.time is None else self.time[:n],
            ticks=None if self.ticks is None else self.ticks[:n],
            group=None if self.group is None else self.group[:n],
            labels=tuple(self.codes),
            controls=[self.data[c][:n] for c in self.roles.controls],
            values=[self.data[c][:n] for c in values],
            used=tuple(values),
            notes=self.notes,
        )

    def _leave_out_text(self, columns: list[tuple[str, ...]], where: NDArray[np.int64]) -> None:
        """Without `columns=`, a column without a single number in the first chunk is left out."""
        for column in self.roles.values if self.roles.automatic else ():
            cells = columns[column.position]
            text = next(((i, c) for i, c in enumerate(cells) if not is_missing(c)), None)
            if text is None or is_number(text[1]) or any(map(is_number, cells)):
                continue
            if len(self.roles.values) == 1:
                raise self._refusal(CellError(*text, "is not a number"), column, where)
            self.numeric.remove(column)
            del self.data[column]
            self.notes.append(
                f"column {column.name!r} was left out: {text[1]!r} in row {where[text[0]]} is text"
            )
        if len(self.numeric) == len(self.roles.controls):
            column = self.roles.values[0]
            raise DataError(
                f"No column of {self.layout.source} holds numbers: "
                f"{columns[column.position][0]!r} in row {where[0]}, column {column.name!r}, is "
                "text. Give a table with a column of measurements."
            )

    def _add_time(
        self, columns: list[tuple[str, ...]], where: NDArray[np.int64], cut: slice
    ) -> None:
        column = self.roles.time
        assert column is not None
        cells = columns[column.position]
        if self.time is None and self.ticks is None:
            if is_number(next((c for c in cells if not is_missing(c)), "0")):
                self.time = np.empty(self.layout.n_lines)
            else:
                self._refuse_split_stamp(column, columns)
                self.ticks = np.empty(self.layout.n_lines, dtype=np.int64)
        try:
            if self.ticks is not None:
                self.ticks[cut] = self.stamps.ticks(cells)
            elif self.time is not None:
                others = [columns[c.position] for c in self.numeric]
                self.time[cut] = self.numbers.numbers(cells, [cells, *others])
        except CellError as error:
            if self.ticks is None and is_stamp(error.value):
                error.reason = "is a calendar stamp among plain numbers; use one of the two forms"
            raise self._refusal(error, column, where) from None

    def _refuse_split_stamp(self, time: Column, columns: list[tuple[str, ...]]) -> None:
        """A clock counts from zero, which would be wrong where the date is in another column."""
        if not is_reading(columns[time.position][0]):
            return
        for n in sorted(self.layout.dated):
            if not is_reading(columns[n][0]):
                raise DataError(
                    f"Column {time.name!r} of {self.layout.source} holds only the clock, column "
                    f"{self.layout.titles[n]!r} the date. Write both into one column, as "
                    f"'{columns[n][0].strip()} {columns[time.position][0].strip()}'."
                )

    def _add_groups(self, cells: tuple[str, ...], where: NDArray[np.int64]) -> NDArray[np.int32]:
        codes = np.empty(len(cells), dtype=np.int32)
        for i, cell in enumerate(cells):
            label = cell.strip()
            if not label:
                assert self.roles.group is not None
                reason = "is empty; every row needs the name of its recording"
                raise self._refusal(CellError(i, cell, reason), self.roles.group, where)
            codes[i] = self.codes.setdefault(label, len(self.codes))
        return codes

    def _squared(self, row: list[str], number: int) -> list[str]:
        """Bring a row to the width of the header where only empty cells are at stake."""
        width = len(self.layout.titles)
        if len(row) == width:
            return row
        if len(row) > width and not any(map(str.strip, row[width:])):
            return row[:width]
        if len(row) < width and not any(self.layout.titles[len(row) :]):
            return row + [""] * (width - len(row))
        separator = self.layout.separator
        message = (
            f"Row {number} of {self.layout.source} has {len(row)} cells and the header has {width} "
            f"(cells are separated by {SEPARATORS[separator]}). "
        )
        if separator == "," and len(row) > width:
            message += (
                "If these numbers have decimal commas, export with semicolons between the cells."
            )
        else:
            seen = [w for s, w in SEPARATORS.items() if s != separator and s in "".join(row)]
            message += (
                f"It contains {seen[0]}: use one separator in the header and below."
                if seen
                else "Complete or remove that row."
            )
        raise DataError(message)

    def _refusal(self, error: CellError, column: Column, where: NDArray[np.int64]) -> DataError:
        value = error.value if len(error.value) <= 60 else error.value[:57] + "..."
        message = (
            f"{value!r} in row {where[error.index]}, column {column.name!r} of "
            f"{self.layout.source} {error.reason}."
        )
        row = int(where[error.index])
        if error.reason == "is not a number":
            message += self._text_remedy(column, row, value)
        elif column is self.roles.time and row == self.layout.skip + 2 and value.isalpha():
            message += (
                f" If row {row} holds units, write them into the header, as 'level [m]', and "
            )
            message += "remove the row."
        return DataError(message)

    def _text_remedy(self, column: Column, row: int, value: str) -> str:
        if len(self.layout.titles) == 1:
            for separator, word in (SEPARATORS | _OTHER_SEPARATORS).items():
                if separator in value:
                    return (
                        f" Only one column was found, and its rows contain {word}: separate the "
                        "cells by commas, semicolons or tabs."
                    )
        if value.endswith("%") and is_number(value[:-1]):
            return (
                f" Write the sign into the header, as '{column.name} [%]', and not into the cells."
            )
        if row == self.layout.skip + 2 and column in self.roles.values:
            return (
                f" If row {row} holds units, write them into the header, as '{column.name} "
                f"[{value}]', and remove the row. A column of text is left out by naming the "
                "others: columns=[...] (on the command line: --columns)."
            )
        return (
            " Correct the cell, leave it empty if the value is missing, or leave the column out: "
            "columns=[...] (on the command line: --columns)."
        )


def _encoding_and_lines(path: Path) -> tuple[str, int]:
    """Encoding, and an upper bound of the number of lines, in one pass."""
    n_lines, carriage_returns, encoding = 1, 0, "utf-8-sig"
    with path.open("rb") as stream:
        start = stream.read(4)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        stream.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while block := stream.read(_BLOCK):
            n_lines += block.count(b"\n")
            carriage_returns += block.count(b"\r")
            if b"\0" in block and encoding != "utf-16":
                raise DataError(_not_text(path, start))
            if encoding == "utf-8-sig":
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    encoding = "latin-1"
    if not start:
        raise DataError(f"{path.name} is empty (0 bytes). Export the table again.")
    return encoding, max(n_lines, carriage_returns + 1)


def _not_text(path: Path, start: bytes) -> str:
    if start[:2] == b"PK":
        return f"{path.name} is a spreadsheet or archive and no text table. Save it as CSV (UTF-8)."
    if start == b"PAR1":
        return f"{path.name} is a Parquet file: give it the ending .parquet."
    return f"{path.name} is no text table: it holds zero bytes. Export it as CSV (UTF-8)."


def _is_preamble(line: str) -> bool:
    """Blank lines, comment lines, and the 'sep=;' line of spreadsheets."""
    line = line.strip()
    return not line.strip(",;|\t ") or line.startswith("#") or bool(re.fullmatch("sep=.", line))


def _first_record(lines: list[str], separator: str) -> list[str]:
    return next(csv.reader(lines, delimiter=separator))


def _first_cells(lines: list[str], separator: str) -> list[str]:
    """Cells of the first row below the header; none where it cannot be told."""
    try:
        return next(csv.reader(lines, delimiter=separator), [])
    except csv.Error:
        return []


def _separator(lines: list[str]) -> str:
    """Pick the separator whose cell count in the header is met by most rows."""
    best, best_score = ",", (0.0, 0)
    for separator in SEPARATORS:
        try:
            records = [r for r in csv.reader(lines, delimiter=separator) if r]
        except csv.Error:
            continue
        width = len(records[0])
        if width == 1:
            continue
        near = sum(len(r) == width for r in records[1:])
        score = (near / max(len(records) - 1, 1), width)
        if score > best_score:
            best, best_score = separator, score
    return best


def _is_data(titles: list[str]) -> bool:
    return all(is_missing(t) or is_number(t) or is_stamp(t) for t in titles)


def _check_memory(layout: Layout, roles: Roles) -> None:
    """Refuse a file whose arrays cannot fit, before reading it for minutes."""
    n_numeric = len(roles.controls) + len(roles.values)
    needed = layout.n_lines * (8 * (2 * n_numeric + 4) + n_numeric)
    free = available_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{layout.source} has about {layout.n_lines:,} rows; reading {n_numeric} columns of it "
            f"needs about {needed / 1e9:.2g} GB of memory and {free / 1e9:.2g} GB are free. Name "
            "fewer columns with columns=[...] (on the command line: --columns), or "
            "cut the file into recordings."
        )


def available_memory() -> int | None:
    """Bytes that can still be allocated here, where the system says so."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
