"""Tables of equally long columns that only grow: what they offer, and one in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.recall.rows import GrowingRows, Rows


@dataclass(frozen=True)
class Column:
    """Type and width of one column of a table."""

    dtype: str
    width: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return np.dtype(self.dtype).itemsize * self.width


@dataclass(frozen=True, eq=False)
class TableView:
    """What was committed at one moment; later commits do not change it.

    Parameters
    ----------
    n : int
        Rows.
    columns : mapping of str to Rows
        Every column, at least ``n`` rows long.
    blobs : mapping of str to bytes
        Small or rarely changed contents by name.
    fields : mapping
        Facts as JSON values.
    """

    n: int
    columns: Mapping[str, Rows]
    blobs: Mapping[str, bytes]
    fields: Mapping[str, Any]


class Table(Protocol):
    """A table of equally long columns that can only be appended to, with atomic commits."""

    def view(self) -> TableView:
        """The last commit."""
        ...

    def commit(
        self,
        rows: Mapping[str, NDArray[Any]] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> TableView:
        """Append rows, replace blobs and update fields: all of it or nothing."""
        ...

    def close(self) -> None:
        """Give up the right to write."""
        ...


class MemoryTable:
    """A table in memory.

    Examples
    --------
    >>> table = MemoryTable({"ids": Column("<i8", 1)})
    >>> view = table.commit({"ids": np.array([[7], [9]])})
    >>> view.n, view.columns["ids"].all().ravel()
    (2, array([7, 9]))
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = {name: GrowingRows(c.width, c.dtype) for name, c in columns.items()}
        self._kinds = dict(columns)
        self._view = TableView(0, self._views(), {}, {})

    def _views(self) -> Mapping[str, Rows]:
        return MappingProxyType({name: rows.view() for name, rows in self._columns.items()})

    def view(self) -> TableView:
        """The last commit."""
        return self._view

    def commit(
        self,
        rows: Mapping[str, NDArray[Any]] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> TableView:
        """Append rows, replace blobs and update fields."""
        n = self._view.n
        if rows is not None:
            n += checked_rows(rows, self._kinds)
            for name, values in rows.items():
                self._columns[name].append(values)
        self._view = TableView(
            n,
            self._views(),
            MappingProxyType({**self._view.blobs, **(blobs or {})}),
            MappingProxyType({**self._view.fields, **(fields or {})}),
        )
        return self._view

    def close(self) -> None:
        """Nothing is held."""


def checked_rows(rows: Mapping[str, NDArray[Any]], columns: Mapping[str, Column]) -> int:
    """Number of rows to append, after a look at the shapes."""
    if rows.keys() != columns.keys():
        raise ParameterError(f"The columns are {sorted(columns)}; given were {sorted(rows)}.")
    counts = {values.shape[0] for values in rows.values()}
    wrong = [name for name, c in columns.items() if rows[name].shape[1:] != (c.width,)]
    if wrong or len(counts) != 1:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in rows.items())
        raise ParameterError(f"Every column needs the same rows of its own width; got {shapes}.")
    return int(counts.pop())
