"""Text cells to numbers; every refusal names the cell and the reason.

A column of a chunk is converted at once where all its cells are plain, and cell by cell where one
is not. What a comma means is settled once per file (`NumberStyle`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MISSING = frozenset({"", "na", "n/a", "#n/a", "#nv", "#n/d", "nan", "null", "none", "-", "--"})
_MISSING_EXACT = MISSING | {"NA", "N/A", "#N/A", "NaN", "NAN", "Null", "NULL", "None"}
_WITH_COMMA = re.compile(r"[+-]?(?P<whole>\d*),(?P<rest>\d+)(?P<exponent>[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?|[+-]?\d{1,3}(?:\.\d{3})+,\d*")


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
