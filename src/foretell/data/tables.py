"""Read tables into recordings: CSV and its relatives, Parquet, NPZ, and pandas frames."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, MissingExtraError
from foretell.data.delimited import read_rows, survey
from foretell.data.folders import read_folder
from foretell.data.grouping import assemble
from foretell.data.header import assign_roles, columns_of
from foretell.data.named_arrays import frame_columns, read_arrays
from foretell.data.trajectories import Trajectories

ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".pq", ".npz")


def read(path: str | PathLike[str], **options: Any) -> Trajectories:
    """Read a table by the ending of its name: .csv, .tsv, .txt, .dat, .parquet or .npz.

    Of a folder all tables are read, each as a recording of its own. The options are those of
    `read_csv`.

    Raises
    ------
    DataError
        No such file, an ending that is not known, or a table that cannot be used.
    """
    if Path(path).is_dir():
        return read_folder(Path(path), ENDINGS, read, **options)
    file = _existing(path)
    ending = file.suffix.lower()
    if ending in (".csv", ".tsv", ".txt", ".dat"):
        return read_csv(file, **options)
    if ending in (".parquet", ".pq"):
        return read_parquet(file, **options)
    if ending == ".npz":
        return read_npz(file, **options)
    raise DataError(
        f"{file.name} ends in {ending!r}; tables end in {', '.join(ENDINGS)}. "
        "Save a spreadsheet as CSV (UTF-8)."
    )


def read_csv(
    path: str | PathLike[str],
    *,
    time: str | None = None,
    group: str | None = None,
    controls: str | Sequence[str] = (),
    columns: str | Sequence[str] | None = None,
    merge_duplicates: bool = False,
    calendar_unit: str = "s",
) -> Trajectories:
    """Read a text table with a header; separator, locale and encoding are found out.

    Parameters
    ----------
    path : str or path
    time : str, optional
        The column of time stamps: numbers in the unit that the header gives, as in ``t [s]``, or
        calendar stamps (also written as numbers, 20240531), which are counted from the earliest.
        Default: a column named time, timestamp, datetime, t, date or year, or else the only one
        with dates; without one, rows are numbered.
    group : str, optional
        The column that names the recording of each row.
    controls : sequence of str, optional
        Columns of inputs: a row's input acts until the next row; missing cells repeat the last.
    columns : sequence of str, optional
        Columns to learn. Default: all columns of numbers that have no other role.
    merge_duplicates : bool
        Average rows with equal stamps instead of rejecting them.
    calendar_unit : {"s", "min", "h", "d", "auto"}
        What calendar stamps are counted in; ``auto`` goes by the median interval.

    Returns
    -------
    Trajectories
        Missing cells (empty, NA, nan, null, -) are False in ``mask``; ``notes`` tell what was
        merged, dropped and left out.

    Raises
    ------
    DataError
        The message names row (counted from 1, header included), column and remedy.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tank.csv"
    >>> _ = path.write_text("t [s];level [m]\\n0;1,25\\n0,5;1,5\\n1,25;\\n2;1,75\\n")
    >>> tank = read_csv(path)
    >>> tank
    <Trajectories: 1 recording, 3 samples, median interval 1 s; level [m]>
    >>> tank.notes
    ('1 row without a value dropped',)
    """
    layout = survey(_existing(path))
    table = columns_of(layout.titles, layout.source)
    roles = assign_roles(
        table, layout.source, time=time, group=group, controls=controls, columns=columns,
        dated=layout.dated,
    )  # fmt: skip
    raw = read_rows(layout, roles)
    return assemble(raw, roles, layout.source, merge_duplicates, calendar_unit)


def read_parquet(path: str | PathLike[str], **options: Any) -> Trajectories:
    """Read a Parquet file; needs the extra ``tables``. The options are those of `read_csv`."""
    file = _existing(path)
    try:
        import pandas
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "pandas", "tables", "read Parquet files") from error
    try:
        frame = pandas.read_parquet(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{file.name} cannot be read as Parquet ({error}).") from error
    return read_arrays(frame_columns(frame), file.name, **options)


def read_npz(path: str | PathLike[str], **options: Any) -> Trajectories:
    """Read an NPZ file whose arrays are columns. The options are those of `read_csv`.

    An array of shape (T,) is a column named by its key. An array of shape (T, N) is N columns
    named key_0, key_1, ...
    """
    file = _existing(path)
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise DataError(
            f"{file.name} cannot be read as NPZ ({error}). Save plain arrays of numbers or text: "
            "np.savez(path, time=t, level=x)."
        ) from error
    columns: dict[str, NDArray[Any]] = {}
    for key, array in arrays.items():
        if array.ndim == 2:
            columns |= {f"{key}_{n}": array[:, n] for n in range(array.shape[1])}
        elif array.ndim == 1:
            columns[key] = array
        else:
            raise DataError(
                f"The array {key!r} of {file.name} has shape {array.shape}; a column needs (T,) or "
                "(T, N)."
            )
    return read_arrays(columns, file.name, **options)


def read_frame(frame: Any, **options: Any) -> Trajectories:
    """Read a pandas frame (or one with the same manners). The options are those of `read_csv`.

    Rows in messages are positions, counted from 0 as in ``frame.iloc``.
    """
    if not hasattr(frame, "columns"):
        raise DataError(
            f"from_frame got a {type(frame).__name__} and needs a data frame. For arrays use "
            "Trajectories.from_arrays(values, times)."
        )
    return read_arrays(frame_columns(frame), "the frame", **options)


def _existing(path: str | PathLike[str]) -> Path:
    file = Path(path)
    if file.is_file():
        return file
    if file.is_dir():
        raise DataError(f"{file} is a folder; give one table in it.")
    near = [p.name for p in file.parent.iterdir() if p.is_file()] if file.parent.is_dir() else []
    close = difflib.get_close_matches(file.name, near, n=1)
    raise DataError(
        f"There is no file {file}." + (f" Did you mean {file.parent / close[0]}?" if close else "")
    )
