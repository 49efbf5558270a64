"""Recordings from columns that are arrays already: frames, Parquet and NPZ files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.data.cells import CellError, NumberStyle, is_missing, is_number
from foretell.data.grouping import RawColumns, assemble
from foretell.data.header import Column, assign_roles, columns_of
from foretell.data.stamps import StampStyle, is_stamp
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]


def frame_columns(frame: Any) -> list[tuple[str, NDArray[Any]]]:
    """Names and arrays of a frame's columns; refuses a name that is used twice."""
    names = [str(c) for c in frame.columns]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise DataError(
                f"Columns {names.index(name)} and {position} of the frame are both named {name!r}. "
                "Rename one: frame.columns = [...]."
            )
    return [(str(c), _as_array(frame[c])) for c in frame.columns]


def _as_array(series: Any) -> NDArray[Any]:
    """Numbers as float64 (missing = NaN), stamps as datetime64 in UTC, the rest as text."""
    kind = getattr(series.dtype, "kind", "O")
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        kind = "M"
    if kind in "iufb":
        try:
            return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        except TypeError:
            return np.asarray(series.to_numpy(), dtype=np.float64)
    return np.asarray(series.to_numpy())


def _holds_dates(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "M" or (array.dtype.kind in "OU" and is_stamp(str(array[0])))


def read_arrays(
    given: Mapping[str, NDArray[Any]] | Sequence[tuple[str, NDArray[Any]]],
    source: str,
    *,
    time: str | None = None,
    group: str | None = None,
    controls: str | Sequence[str] = (),
    columns: str | Sequence[str] | None = None,
    merge_duplicates: bool = False,
    calendar_unit: str = "s",
) -> Trajectories:
    """Recordings from named arrays."""
    arrays = list(given.items()) if isinstance(given, Mapping) else list(given)
    if not arrays:
        raise DataError(f"{source} has no columns.")
    n = arrays[0][1].shape[0]
    for name, array in arrays:
        if array.shape[0] != n:
            raise DataError(
                f"In {source} the column {name!r} has {array.shape[0]} rows and {arrays[0][0]!r} "
                f"has {n}. All columns need the same length."
            )
    if n == 0:
        raise DataError(f"{source} has columns and no rows.")
    table = columns_of([name for name, _ in arrays], source)
    dated = frozenset(i for i, (_, array) in enumerate(arrays) if _holds_dates(array))
    roles = assign_roles(
        table, source, time=time, group=group, controls=controls, columns=columns, dated=dated
    )
    notes: list[str] = []

    def numbers(column: Column) -> Array:
        array = arrays[column.position][1]
        if array.dtype.kind in "iufb":
            return array.astype(np.float64)
        try:
            return NumberStyle().numbers(_texts(array))
        except CellError as error:
            raise DataError(
                f"{error.value!r} in row {error.index}, column {column.name!r} of {source} "
                f"{error.reason}. Correct the cell or leave the column out: columns=[...]."
            ) from None

    def is_text(column: Column) -> bool:
        array = arrays[column.position][1]
        if array.dtype.kind in "iufb":
            return False
        known = [c for c in _texts(array) if not is_missing(c)]
        if array.dtype.kind == "M" or (known and not any(map(is_number, known))):
            notes.append(f"column {column.name!r} was left out: {known[:1]} is no number")
            return True
        return False

    used = tuple(c for c in roles.values if not (roles.automatic and is_text(c)))
    if not used:
        raise DataError(f"No column of {source} holds numbers. {' '.join(notes)}")
    time_numbers, ticks = None, None
    if roles.time is not None:
        stamps = arrays[roles.time.position][1]
        ticks = _ticks(stamps, roles.time, source)
        time_numbers = numbers(roles.time) if ticks is None else None
    codes: NDArray[np.int32] | None = None
    labels: tuple[str, ...] = ()
    if roles.group is not None:
        codes, labels = _codes(_texts(arrays[roles.group.position][1]), roles.group, source)
    raw = RawColumns(
        rows=np.arange(n, dtype=np.int64),
        time=time_numbers,
        ticks=ticks,
        group=codes,
        labels=labels,
        controls=[numbers(c) for c in roles.controls],
        values=[numbers(c) for c in used],
        used=used,
        notes=notes,
    )
    return assemble(raw, roles, source, merge_duplicates, calendar_unit)


def _texts(array: NDArray[Any]) -> list[str]:
    return ["" if x is None or x != x else str(x) for x in array.tolist()]


def _ticks(array: NDArray[Any], column: Column, source: str) -> NDArray[np.int64] | None:
    """Calendar stamps in nanoseconds; None where the column holds plain numbers."""
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        if missing.any():
            raise DataError(
                f"Row {int(missing.argmax())}, column {column.name!r} of {source} has no time "
                "stamp. Remove the row or fill it in."
            )
        return array.astype("datetime64[ns]").astype(np.int64)
    if array.dtype.kind in "iufb":
        return None
    cells = _texts(array)
    if is_number(next((c for c in cells if not is_missing(c)), "0")):
        return None
    try:
        return StampStyle().ticks(cells)
    except CellError as error:
        raise DataError(
            f"{error.value!r} in row {error.index}, column {column.name!r} of {source} "
            f"{error.reason}."
        ) from None


def _codes(
    cells: list[str], column: Column, source: str
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    known: dict[str, int] = {}
    for i, cell in enumerate(cells):
        if not cell.strip():
            raise DataError(
                f"Row {i}, column {column.name!r} of {source} is empty; every row needs the name "
                "of its recording."
            )
        known.setdefault(cell.strip(), len(known))
    return np.array([known[c.strip()] for c in cells], dtype=np.int32), tuple(known)
