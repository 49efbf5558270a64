"""A folder of tables, each of them a recording of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from foretell.core.errors import DataError
from foretell.data.calendar import NANOSECONDS
from foretell.data.trajectories import Trajectories

_SAME = ("names", "units", "control_names", "control_units", "time_unit")
_WORDS = {
    "names": "columns",
    "units": "units",
    "control_names": "inputs",
    "control_units": "units of inputs",
    "time_unit": "unit of time",
}
_MOST = 100_000


def read_folder(
    folder: Path, endings: Sequence[str], read: Callable[..., Trajectories], **options: Any
) -> Trajectories:
    """Read every table of a folder, in the order of their names.

    Parameters
    ----------
    folder : Path
        Its own files count, not those of folders in it. Of tables of several kinds, those of the
        most frequent ending are read.
    endings : sequence of str
        What the names of tables end in.
    read : callable
        ``read(file, **options)`` gives the recordings of one file.

    Returns
    -------
    Trajectories
        Recordings are named by their file, and by their group where the files have one. Calendar
        stamps count from the earliest of each file.

    Raises
    ------
    DataError
        No tables, or two that do not go together.
    """
    files, others = _tables(folder, endings)
    parts: list[Trajectories] = []
    for file in files:
        if parts and parts[0].time_unit in NANOSECONDS and "calendar_unit" in options:
            options["calendar_unit"] = parts[0].time_unit
        parts.append(read(file, **options))
        _check_same(parts[0], files[0], parts[-1], file)
    first, together = parts[0], dict(zip(files, parts, strict=True))
    controls = tuple(chain.from_iterable(p.controls or () for p in parts))
    return Trajectories(
        times=tuple(chain.from_iterable(p.times for p in parts)),
        values=tuple(chain.from_iterable(p.values for p in parts)),
        mask=tuple(chain.from_iterable(p.mask for p in parts)),
        controls=controls or None,
        time_name=first.time_name,
        labels=tuple(name for file, p in together.items() for name in _labels(file, p)),
        notes=(
            *(f"{file.name} was left out: most tables of the folder end in {files[0].suffix}"
              for file in others),
            *(f"{file.name}: {note}" for file, p in together.items() for note in p.notes),
        ),
        **{name: getattr(first, name) for name in _SAME},
    )  # fmt: skip


def _tables(folder: Path, endings: Sequence[str]) -> tuple[list[Path], list[Path]]:
    found = [
        file
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in endings and not file.name.startswith(".") and file.is_file()
    ]
    if not found:
        raise DataError(
            f"{folder} is a folder without tables; their names end in {', '.join(endings)}."
        )
    if len(found) > _MOST:
        raise DataError(
            f"{folder} holds {len(found)} tables; at most {_MOST} are read. Write several "
            "recordings into one table, with a column that names them: group='...'."
        )
    usual = Counter(file.suffix.lower() for file in found).most_common(1)[0][0]
    return (
        [file for file in found if file.suffix.lower() == usual],
        [file for file in found if file.suffix.lower() != usual],
    )


def _check_same(first: Trajectories, its: Path, other: Trajectories, file: Path) -> None:
    for name in _SAME:
        a, b = getattr(first, name), getattr(other, name)
        if a != b:
            shown = [v if isinstance(v, str) else ", ".join(v) for v in (a, b)]
            raise DataError(
                "The tables of a folder need the same columns and units, but the "
                f"{_WORDS[name]} of {its.name} are {shown[0] or 'none'!r} and those of {file.name} "
                f"{shown[1] or 'none'!r}. Name the columns that all have: columns=[...] (on the "
                "command line: --columns), or move the table out of the folder."
            )


def _labels(file: Path, part: Trajectories) -> Sequence[str]:
    if part.labels == (file.stem,):
        return part.labels
    return [f"{file.stem}: {label}" for label in part.labels]
