"""Sort the rows of a table into recordings, and check each.

Legend: T samples, N observed variables, K inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.data.assembly import FilePlace, checked_recording
from foretell.data.calendar import NANOSECONDS, calendar_unit, dates_in_numbers
from foretell.data.header import Column, Roles
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]

_UNIT_OF_NAME = {
    name + plural: unit
    for name, unit in (
        ("second", "s"), ("minute", "min"), ("hour", "h"), ("day", "d"), ("year", "yr"),
    )
    for plural in ("", "s")
}  # fmt: skip


@dataclass
class RawColumns:
    """The columns of a table as read, NaN where a cell is missing.

    `rows` are the row numbers for messages. Stamps are plain numbers (`time`), calendar stamps in
    nanoseconds (`ticks`), or neither.
    """

    rows: NDArray[np.int64]
    time: Array | None
    ticks: NDArray[np.int64] | None
    group: NDArray[np.int32] | None
    labels: tuple[str, ...]
    controls: list[Array]
    values: list[Array]
    used: tuple[Column, ...]
    notes: list[str] = field(default_factory=list)


def assemble(
    raw: RawColumns, roles: Roles, source: str, merge_duplicates: bool, calendar: str
) -> Trajectories:
    """Sort rows into recordings, check each, and keep the notes."""
    notes = [*roles.notes, *raw.notes]
    used = _without_empty(raw, roles, notes, source)
    times, time_unit = _times(raw, roles, notes, calendar)
    names = tuple(c.name for c, _ in used)
    control_names = tuple(c.name for c in roles.controls)
    time_name = roles.time.name if roles.time else "row"
    recordings = []
    for rows in _rows_of_groups(raw):
        count = raw.rows[rows].size
        place = FilePlace(source, raw.rows[rows], time_name)
        values = np.column_stack([v[rows] for _, v in used])
        controls = None
        if raw.controls:
            controls = np.column_stack([u[rows] for u in raw.controls])
            _hold(controls, place, control_names, notes)
        recordings.append(
            checked_recording(
                np.arange(count, dtype=np.float64) if times is None else times[rows].copy(),
                values,
                ~np.isnan(values),
                controls,
                place=place,
                names=names,
                control_names=control_names,
                merge_duplicates=merge_duplicates,
            )
        )
    return Trajectories.from_recordings(
        recordings,
        notes=notes,
        names=names,
        units=tuple(c.unit for c, _ in used),
        control_names=control_names,
        control_units=tuple(c.unit for c in roles.controls),
        time_name=time_name,
        time_unit=time_unit,
        labels=raw.labels or (Path(source).stem,),
    )


def _times(
    raw: RawColumns, roles: Roles, notes: list[str], calendar: str
) -> tuple[Array | None, str]:
    """Stamps as numbers, and their unit; calendar stamps are counted from the earliest."""
    ticks, unit = raw.ticks, ""
    if roles.time is not None:
        unit = roles.time.unit or _UNIT_OF_NAME.get(roles.time.name.casefold(), "")
    if ticks is None and roles.time is not None and not unit:
        ticks = dates_in_numbers(raw.time)
        if ticks is not None and raw.time is not None:
            day = np.datetime64(int(ticks[0]), "ns").astype("datetime64[D]")
            notes.append(
                f"the column {roles.time.name!r} was read as dates: {raw.time[0]:.0f} is {day}"
            )
    if ticks is None:
        return raw.time, unit
    unit = calendar_unit([ticks[rows] for rows in _rows_of_groups(raw)], calendar)
    return (ticks - ticks.min()) / NANOSECONDS[unit], unit


def _without_empty(
    raw: RawColumns, roles: Roles, notes: list[str], source: str
) -> list[tuple[Column, Array]]:
    """Leave out columns without a single value, unless they were asked for by name."""
    used = []
    for column, values in zip(raw.used, raw.values, strict=True):
        if np.isnan(values).all():
            if not roles.automatic:
                raise DataError(
                    f"The column {column.name!r} of {source} has no value in any row. Leave it out "
                    "of columns=[...]."
                )
            notes.append(f"column {column.name!r} was left out: it is empty")
        else:
            used.append((column, values))
    if not used:
        raise DataError(f"No column of {source} holds a value; all cells are missing.")
    return used


def _rows_of_groups(raw: RawColumns) -> Sequence[Any]:
    """Rows of each recording, in the order of the file."""
    if raw.group is None:
        return [slice(None)]
    order = np.argsort(raw.group, kind="stable")
    counts = np.bincount(raw.group, minlength=len(raw.labels))
    return np.split(order, np.cumsum(counts)[:-1])


def _hold(controls_TK: Array, place: FilePlace, names: tuple[str, ...], notes: list[str]) -> None:
    """Repeat the last known control where a cell is missing, in place."""
    for k, name in enumerate(names):
        missing = np.isnan(controls_TK[:, k])
        if not missing.any():
            continue
        if missing[0]:
            raise DataError(
                f"The control {name!r} is missing at {place.row(0)}, and nothing before it can "
                "be repeated. Fill in the first value of every recording."
            )
        last = np.maximum.accumulate(np.where(missing, 0, np.arange(missing.size)))
        controls_TK[:, k] = controls_TK[last, k]
        notes.append(f"{int(missing.sum())} missing cells of the control {name!r} repeat the last")
