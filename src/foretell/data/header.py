"""Which column is what: names and units from a header, and the roles a reader gives to columns."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from foretell.core.errors import DataError

TIME_NAMES = ("time", "timestamp", "datetime", "t", "date", "year")
_UNIT = re.compile(r"(?P<name>.*?\S)\s*(?:\[(?P<square>[^\[\]]*)\]|(?<=\s)\((?P<round>[^()]*)\))")


@dataclass(frozen=True)
class Column:
    """One column of a table: where it stands, its whole title, and the name and unit in it."""

    position: int
    title: str
    name: str
    unit: str


@dataclass(frozen=True)
class Roles:
    """What each column is used for; `automatic` says that `values` may still lose text columns."""

    time: Column | None
    group: Column | None
    controls: tuple[Column, ...]
    values: tuple[Column, ...]
    automatic: bool
    notes: tuple[str, ...]


def split_unit(title: str) -> tuple[str, str]:
    """Name and unit of a column title.

    Examples
    --------
    >>> split_unit("level [m]"), split_unit("flow (l/s)"), split_unit("f(x)")
    (('level', 'm'), ('flow', 'l/s'), ('f(x)', ''))
    """
    match = _UNIT.fullmatch(title.strip())
    if match is None:
        return title.strip(), ""
    return match["name"], (match["square"] or match["round"] or "").strip()


def columns_of(titles: Sequence[str], source: str) -> tuple[Column, ...]:
    """Name every column; refuse a name that is used twice."""
    columns: list[Column] = []
    seen: dict[str, int] = {}
    for position, title in enumerate(titles):
        name, unit = split_unit(title)
        if name and name in seen:
            raise DataError(
                f"Columns {seen[name] + 1} and {position + 1} of {source} are both named "
                f"{name!r}. Give every column its own name in the header."
            )
        seen[name] = position
        columns.append(Column(position, title.strip(), name, unit))
    return tuple(columns)


def assign_roles(
    table: Sequence[Column],
    source: str,
    *,
    time: str | None,
    group: str | None,
    controls: str | Sequence[str],
    columns: str | Sequence[str] | None,
    dated: Collection[int] = (),
) -> Roles:
    """Find the columns asked for; without `columns`, all that are left are candidates.

    `dated` are the positions of columns that hold dates: where no column has the name of a time,
    a single one of them is taken for it.

    Raises
    ------
    DataError
        A name that is not there (lists the columns and suggests the closest) or is used twice.
    """
    named = [c for c in table if c.name]
    notes: list[str] = []
    time_column = _find(time, named, source) if time is not None else _guess_time(named)
    if time_column is None:
        time_column = _only_dates(named, dated, _listed(columns or ()), _listed(controls), group)
        if time_column is not None:
            notes.append(f"column {time_column.name!r} was taken for the time: it holds dates")
    if time_column is None:
        notes.append("no time column was named or found, so rows are numbered 0, 1, 2, ...")
    group_column = None if group is None else _find(group, named, source)
    control_columns = [_find(c, named, source) for c in _listed(controls)]
    roles: dict[str, list[Column | None]] = {
        "time": [time_column],
        "group": [group_column],
        "controls": [*control_columns],
    }
    if columns is not None:
        value_columns = [_find(c, named, source) for c in _listed(columns)]
        if time is None and time_column in value_columns:  # only guessed: the user knows better
            roles["time"], time_column = [None], None
            notes.append("no time column was named, so rows are numbered 0, 1, 2, ...")
        roles["columns"] = [*value_columns]
    _refuse_double_use(roles)
    if columns is None:
        used = [c for group_of in roles.values() for c in group_of]
        value_columns = [c for c in named if c not in used]
    if not value_columns:
        raise DataError(
            f"{source} has no column left to learn from; its columns are "
            f"{_list(c.title for c in named)}. Add a column of measurements."
        )
    return Roles(
        time_column,
        group_column,
        tuple(control_columns),
        tuple(value_columns),
        columns is None,
        tuple(notes),
    )


def _find(wanted: str, table: Sequence[Column], source: str) -> Column:
    for column in table:
        if wanted in (column.title, column.name):
            return column
    known = [c.name for c in table]
    by_folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(wanted.casefold(), list(by_folded), n=1, cutoff=0.5)
    hint = f" Did you mean {by_folded[close[0]]!r}?" if close else ""
    raise DataError(
        f"{source} has no column {wanted!r}; its columns are {_list(known)}.{hint} "
        "Names are taken without the unit in brackets."
    )


def _guess_time(table: Sequence[Column]) -> Column | None:
    for name in TIME_NAMES:
        for column in table:
            if column.name.casefold() == name:
                return column
    return None


def _only_dates(
    table: Sequence[Column],
    dated: Collection[int],
    columns: Sequence[str],
    controls: Sequence[str],
    group: str | None,
) -> Column | None:
    """The one column of dates that is not asked for as something else."""
    asked = {*columns, *controls, group}
    found = [c for c in table if c.position in dated and asked.isdisjoint((c.name, c.title))]
    return found[0] if len(found) == 1 else None


def _refuse_double_use(roles: dict[str, list[Column | None]]) -> None:
    used: dict[Column, str] = {}
    for role, columns in roles.items():
        for column in columns:
            if column is None:
                continue
            if column in used:
                raise DataError(
                    f"The column {column.name!r} is asked for as {used[column]} and as {role}; "
                    "a column can have one role only."
                )
            used[column] = role


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _list(names: Iterable[str]) -> str:
    shown = [repr(n) for n in names]
    return ", ".join(shown if len(shown) <= 30 else [*shown[:30], f"... ({len(shown)} in all)"])
