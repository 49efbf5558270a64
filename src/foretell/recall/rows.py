"""Rows of fixed width that only ever grow, in blocks that never move.

A reader keeps a :class:`Rows`, which shows the rows that were there when it was made; a writer
appends behind it. Nothing is copied when a store grows, and compiled loops find a row by the
address of its block: row i lies in block i >> shift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

ONE_BLOCK = 62  # row >> 62 is block 0 for every row there can be


@dataclass(frozen=True, eq=False)
class Rows:
    """The first ``n`` rows of a growing table column.

    Parameters
    ----------
    blocks : tuple of arrays, each (rows in block, width)
        All of the same type and, but for the last, of 2**shift rows.
    n : int
        How many rows count; the last block may be longer than is used.
    shift : int
        Row i lies in block ``i >> shift``.

    Examples
    --------
    >>> rows = Rows.of(np.arange(6, dtype=np.float32).reshape(3, 2))
    >>> rows
    Rows(3 x 2 float32)
    >>> rows.take(np.array([2, 0]))
    array([[4., 5.],
           [0., 1.]], dtype=float32)
    """

    blocks: tuple[NDArray[Any], ...]
    n: int
    shift: int

    @classmethod
    def of(cls, array: NDArray[Any]) -> Rows:
        """One array (n, width), in memory or mapped from a file, as rows."""
        return cls((array,), array.shape[0], ONE_BLOCK)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Rows({self.n} x {self.width} {self.dtype})"

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(self.blocks[0].shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.blocks[0].dtype

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
        """Number of the first row and array of each piece between two rows, without a copy."""
        stop = self.n if stop is None else stop
        while start < stop:
            block = start >> self.shift
            first = block << self.shift
            end = min(stop, first + self.blocks[block].shape[0])
            yield start, self.blocks[block][start - first : end - first]
            start = end

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """A copy (len(rows), width) of some rows, in the order asked for."""
        if len(self.blocks) == 1:
            return np.asarray(self.blocks[0][rows])
        out = np.empty((len(rows), self.width), self.dtype)
        block_of = rows >> self.shift
        for block in np.unique(block_of):
            chosen = block_of == block
            out[chosen] = self.blocks[block][rows[chosen] - (int(block) << self.shift)]
        return out

    def all(self) -> NDArray[Any]:
        """Every row as one array (n, width); a view where there is one block."""
        if len(self.blocks) == 1:
            return np.asarray(self.blocks[0][: self.n])
        return np.concatenate([piece for _, piece in self.pieces()])

    @cached_property
    def addresses(self) -> NDArray[np.int64]:
        """Address of the first row of each block, for compiled loops; valid while this lives."""
        return np.array([block.ctypes.data for block in self.blocks], dtype=np.int64)


class GrowingRows:
    """Rows in memory that can be appended to.

    Parameters
    ----------
    width : int
        Numbers in a row.
    dtype : dtype
        Their type.
    shift : int
        Blocks hold 2**shift rows. Memory is touched only where rows are written.

    Examples
    --------
    >>> rows = GrowingRows(2, np.float32, shift=1)
    >>> before = rows.view()
    >>> rows.append(np.ones((3, 2), np.float32))
    >>> len(before), len(rows.view()), len(rows.view().blocks)
    (0, 3, 2)
    """

    def __init__(self, width: int, dtype: Any, *, shift: int = 16) -> None:
        self._width, self._dtype, self._shift = width, np.dtype(dtype), shift
        self._blocks: tuple[NDArray[Any], ...] = (self._block(),)
        self._n = 0

    def _block(self) -> NDArray[Any]:
        return np.empty((1 << self._shift, self._width), self._dtype)

    def append(self, values: NDArray[Any]) -> None:
        """Add rows (n, width) behind the last one."""
        size, done = 1 << self._shift, 0
        while done < len(values):
            block, offset = divmod(self._n + done, size)
            if block == len(self._blocks):
                self._blocks = (*self._blocks, self._block())
            count = min(size - offset, len(values) - done)
            self._blocks[block][offset : offset + count] = values[done : done + count]
            done += count
        self._n += done

    def view(self) -> Rows:
        """The rows as they are now; later appends do not change it."""
        return Rows(self._blocks, self._n, self._shift)
