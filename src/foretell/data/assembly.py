"""Turn raw columns into checked recordings: the one place where rows are rejected.

Every reader ends here, so that arrays, files and frames obey the same rules and differ only in
how a message names a place (`ArrayPlace`, `FilePlace`).

Legend: T samples, N observed variables, K inputs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

MERGE_REMEDY = (
    "If several readings of one moment should be averaged, say so: merge_duplicates=True "
    "(on the command line: --merge-duplicates)."
)


class Place(Protocol):
    """How a message names a row or a cell."""

    def row(self, index: int) -> str:
        """Name one row."""
        ...

    def cell(self, index: int, column: str, number: int) -> str:
        """Name one cell by row index, column name and column number."""
        ...

    def stamp(self, index: int) -> str:
        """Name one time stamp."""
        ...


@dataclass(frozen=True)
class ArrayPlace:
    """Names cells of arrays by Python indices; `suffix` is '' or '[2]' for the third recording."""

    suffix: str = ""

    def row(self, index: int) -> str:
        """Name one row."""
        return f"values{self.suffix}[{index}]"

    def cell(self, index: int, column: str, number: int) -> str:
        """Name one cell."""
        return f"values{self.suffix}[{index}, {number}] (column {column!r})"

    def stamp(self, index: int) -> str:
        """Name one time stamp."""
        return f"times{self.suffix}[{index}]"


@dataclass(frozen=True)
class FilePlace:
    """Names cells by the rows of a file as an editor counts them: from 1, header included."""

    source: str
    rows: NDArray[np.int64]
    time_name: str = "time"

    def row(self, index: int) -> str:
        """Name one row."""
        return f"row {self.rows[index]} of {self.source}"

    def cell(self, index: int, column: str, number: int) -> str:
        """Name one cell."""
        return f"row {self.rows[index]}, column {column!r} of {self.source}"

    def stamp(self, index: int) -> str:
        """Name one time stamp."""
        return self.cell(index, self.time_name, 0)


@dataclass(frozen=True)
class Recording:
    """One checked recording and what had to be done to it."""

    times: Array
    values: Array
    mask: BoolArray
    controls: Array | None
    counts: Counter[str]


def checked_recording(
    times_T: Array,
    values_TN: Array,
    mask_TN: BoolArray,
    controls_TK: Array | None,
    *,
    place: Place,
    names: tuple[str, ...],
    control_names: tuple[str, ...],
    merge_duplicates: bool,
) -> Recording:
    """Check one recording, merge duplicate stamps if told, drop rows without a value.

    Raises
    ------
    DataError
        Non-finite cells or stamps, stamps that run backwards or repeat, fewer than two rows.
    """
    counts: Counter[str] = Counter()
    _check_finite(times_T, values_TN, mask_TN, controls_TK, place, names, control_names)
    _check_order(times_T, place, merge_duplicates)
    if merge_duplicates and times_T.size > 1:
        starts = np.flatnonzero(np.concatenate(([True], np.diff(times_T) > 0)))
        if starts.size < times_T.size:
            counts["duplicate stamp{s} merged"] = times_T.size - starts.size
            times_T, values_TN, mask_TN, controls_TK = _merge(
                starts, times_T, values_TN, mask_TN, controls_TK
            )
    keep = _rows_to_keep(mask_TN, controls_TK)
    if not keep.all():
        counts["row{s} without a value dropped"] = int(keep.size - keep.sum())
        times_T, values_TN, mask_TN = times_T[keep], values_TN[keep], mask_TN[keep]
        controls_TK = None if controls_TK is None else controls_TK[keep]
    if times_T.size < 2:
        where = f", {place.row(0)}," if keep.any() and keep.size == 1 else ""
        raise DataError(
            f"A recording has {times_T.size} usable row{'s' * (times_T.size != 1)}{where} and at "
            "least 2 are needed. Give more rows, or leave this recording out."
        )
    values_TN[~mask_TN] = np.nan
    return Recording(times_T, values_TN, mask_TN, controls_TK, counts)


def _check_finite(
    times_T: Array,
    values_TN: Array,
    mask_TN: BoolArray,
    controls_TK: Array | None,
    place: Place,
    names: tuple[str, ...],
    control_names: tuple[str, ...],
) -> None:
    bad_T = ~np.isfinite(times_T)
    if bad_T.any():
        i = int(bad_T.argmax())
        raise DataError(
            f"{place.stamp(i)} is {times_T[i]}: every row needs a finite time stamp "
            f"({int(bad_T.sum())} of {bad_T.size} lack one). Remove these rows."
        )
    for n, name in enumerate(names):  # column by column: no (T, N) temporary for long files
        bad_T = mask_TN[:, n] & ~np.isfinite(values_TN[:, n])
        if bad_T.any():
            i = int(bad_T.argmax())
            raise DataError(
                f"{place.cell(i, name, n)} is {values_TN[i, n]} and must be finite "
                f"({int(bad_T.sum())} such cells in this column). If the value is missing, leave "
                "the cell of a file empty, or mark it with "
                "mask=np.isfinite(values); or drop the rows and keep the other stamps."
            )
    for k, name in enumerate(control_names if controls_TK is not None else ()):
        assert controls_TK is not None
        bad_T = ~np.isfinite(controls_TK[:, k])
        if bad_T.any():
            i = int(bad_T.argmax())
            raise DataError(
                f"The control {name!r} is {controls_TK[i, k]} at {place.row(i)}; controls must be "
                "known at every row, because they act until the next one. Fill the cell or drop "
                "the row."
            )


def _check_order(times_T: Array, place: Place, merge_duplicates: bool) -> None:
    step = np.diff(times_T)
    backwards = step < 0
    if backwards.any():
        i = int(backwards.argmax())
        raise DataError(
            f"Time runs backwards: {place.stamp(i + 1)} is {times_T[i + 1]:.15g} after "
            f"{times_T[i]:.15g} ({int(backwards.sum())} such steps). Sort the rows by time; if the "
            "table holds several recordings, name their column: group='...' (on the command "
            "line: --group)."
        )
    equal = step == 0
    if equal.any() and not merge_duplicates:
        i = int(equal.argmax())
        raise DataError(
            f"Time must increase strictly, but {place.stamp(i + 1)} repeats the stamp "
            f"{times_T[i]:.15g} ({int(equal.sum())} duplicates). {MERGE_REMEDY} If the rest of the "
            "stamp is in another column, write both into one; if the table holds several "
            "recordings, name their column: group='...' (on the command line: --group)."
        )


def _merge(
    starts: NDArray[np.intp],
    times_T: Array,
    values_TN: Array,
    mask_TN: BoolArray,
    controls_TK: Array | None,
) -> tuple[Array, Array, BoolArray, Array | None]:
    """Average the observed cells of rows with one stamp; the last control of the stamp acts."""
    total = np.add.reduceat(np.where(mask_TN, values_TN, 0.0), starts, axis=0)
    count = np.add.reduceat(mask_TN.astype(np.int64), starts, axis=0)
    merged = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    last = np.append(starts[1:], times_T.size) - 1
    controls = None if controls_TK is None else controls_TK[last]
    return times_T[starts], merged, count > 0, controls


def _rows_to_keep(mask_TN: BoolArray, controls_TK: Array | None) -> BoolArray:
    """Rows with a value; after the first of them also rows at which a control changes."""
    keep = np.asarray(mask_TN.any(axis=1))
    if controls_TK is not None and keep.any() and not keep.all():
        changed = np.concatenate(([False], (np.diff(controls_TK, axis=0) != 0).any(axis=1)))
        changed[: int(keep.argmax())] = False
        return keep | changed
    return keep
