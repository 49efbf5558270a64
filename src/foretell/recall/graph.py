"""A navigable small-world graph that is walked with a distance of your choice.

The graph is built from vectors (or, without them, from the codes), by compiled code of this
package or by hnswlib or faiss, whose graphs can be read. It is searched with the table scores of a
query: the same graph, another distance. See `_graph_kernels` for the layout and the source.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from foretell.core import ArtifactError, ParameterError
from foretell.core.random import as_generator
from foretell.recall import _graph_kernels as kernels
from foretell.recall.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

_EPOCHS = threading.local()  # one array of marks per thread, used for search after search


@dataclass(frozen=True, eq=False)
class Links:
    """A graph at one moment: what a reader walks while a writer goes on.

    Parameters
    ----------
    base : array (N, 2M), int32
        Links on the ground floor, -1 behind the last one.
    upper : array (U, M), int32
        Links on the floors above.
    upper_start : array (N,), int64
        First row of a node in ``upper``, -1 where it has none.
    n : int
        Nodes that are linked.
    entry, top : int
        Where a search begins, and on which floor.
    """

    base: NDArray[np.int32]
    upper: NDArray[np.int32]
    upper_start: NDArray[np.int64]
    n: int
    entry: int
    top: int

    @property
    def nbytes(self) -> int:
        """Bytes of the links in use."""
        used = int((self.upper_start[: self.n] >= 0).sum())
        return int(self.n * (4 * self.base.shape[1] + 8) + 4 * self.upper.shape[1] * used)

    def search_tables(
        self, codes: Rows, tables: NDArray[np.int16], ef: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Codes with the highest table sums.

        Parameters
        ----------
        codes : Rows (n, B)
        tables : array (q, B, 256), int16
            Entries of `backends.Tables`.
        ef : int
            Size of the pool: more finds more and takes longer.
        count : int
            How many to return, at most ``ef``.

        Returns
        -------
        rows : array (q, count)
            Best first; -1 where the graph reached fewer.
        scores : array (q, count)
        scored : array (q,)
            Distances computed on the ground floor.
        """
        q, width = tables.shape[0], codes.width
        scorers = (kernels.TABLES, np.empty((q, 0), np.float32), tables, np.empty((q, 0), np.uint8))
        return self._search(codes, width, scorers, q, ef, count)

    def search_vectors(
        self, vectors: Rows, queries: NDArray[np.float32], ef: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Vectors with the highest inner products; as :meth:`search_tables`."""
        q = queries.shape[0]
        scorers = (
            kernels.FLOATS,
            np.ascontiguousarray(queries, np.float32),
            np.empty((q, 0, 256), np.int16),
            np.empty((q, 0), np.uint8),
        )
        return self._search(vectors, 4 * vectors.width, scorers, q, ef, count)

    def _search(
        self, rows: Rows, row_bytes: int, scorers: Any, q: int, ef: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        if not 1 <= count <= ef:
            raise ParameterError(f"count={count} needs an ef at least as large; given ef={ef}.")
        found = np.full((q, count), -1, np.int64)
        distances = np.full((q, count), np.inf, np.float32)
        n = min(self.n, len(rows))
        if n == 0 or self.entry >= n:  # a given graph, whose rows are not all there yet
            return found, -distances, np.zeros(q, np.int64)
        seen = _seen(self.base.shape[0])
        scored, _EPOCHS.epoch = kernels.search(
            (self.base, self.upper, self.upper_start), n, self.entry, self.top,
            (rows.addresses, rows.shift, row_bytes), scorers,
            np.empty(ef, np.int64), seen, _EPOCHS.epoch,
            np.empty(self.base.shape[1], np.int64), found, distances,
        )  # fmt: skip
        return found, -distances, scored


class Graph:
    """A graph that grows with the rows of an index.

    Parameters
    ----------
    m : int
        Links of a node on the upper floors; the ground floor has twice as many.
    ef_construction : int
        Size of the pool while a node is linked.
    random_state : int, numpy.random.Generator or None
        Draws the floors of the nodes.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(500, 16)).astype(np.float32)
    >>> graph = Graph(m=8, random_state=0)
    >>> links = graph.extend(Rows.of(x), 500)
    >>> rows, scores, scored = links.search_vectors(Rows.of(x), x[:1], ef=50, count=1)
    >>> int(rows[0, 0]) == int((x @ x[0]).argmax())
    True
    """

    def __init__(
        self,
        *,
        m: int = 16,
        ef_construction: int = 200,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        if not 2 <= m <= 512 or ef_construction < m:
            raise ParameterError(
                f"m={m}, ef_construction={ef_construction}: m must be from 2 to 512 and "
                "ef_construction at least m. Usual are m=16, ef_construction=200."
            )
        self.m, self.ef_construction = m, ef_construction
        self._random = as_generator(random_state)
        self._base = np.empty((0, 2 * m), np.int32)
        self._upper = np.empty((0, m), np.int32)
        self._start = np.empty(0, np.int64)
        self._used = 0  # rows of _upper
        self._n, self._entry, self._top = 0, -1, 0

    def links(self) -> Links:
        """The graph as it is now."""
        return Links(self._base, self._upper, self._start, self._n, self._entry, self._top)

    def extend(self, rows: Rows, stop: int) -> Links:
        """Link the rows up to ``stop`` that are not linked yet.

        Parameters
        ----------
        rows : Rows
            float32 vectors, linked by inner product, or uint8 codes, linked by their bits.
        stop : int
            How many rows shall be linked in the end.
        """
        start = self._n
        if stop <= start:
            return self.links()
        if rows.dtype not in (np.float32, np.uint8):
            raise ParameterError(f"A graph links float32 vectors or codes, not {rows.dtype}.")
        if stop >= 1 << 31:
            raise ParameterError(f"{stop} rows are too many for one graph; it holds 2**31 - 1.")
        uniform = 1.0 - self._random.random(stop - start)
        levels = np.minimum(-np.log(uniform) / np.log(self.m), 15).astype(np.int64)
        self._reserve(stop, int(levels.sum()))
        above = np.cumsum(levels) - levels + self._used
        self._start[start:stop] = np.where(levels > 0, above, -1)
        self._used += int(levels.sum())
        every = np.zeros(stop, np.int64)
        every[start:] = levels
        kind = kernels.FLOATS if rows.dtype == np.float32 else kernels.BITS
        row_bytes = rows.width * rows.dtype.itemsize
        seen = _seen(self._base.shape[0])
        self._entry, self._top, _EPOCHS.epoch = kernels.insert(
            (self._base, self._upper, self._start), every, start, stop, self._entry, self._top,
            (rows.addresses, rows.shift, row_bytes), kind, rows.width, self.ef_construction,
            seen, _EPOCHS.epoch,
        )  # fmt: skip
        self._n = stop
        return self.links()

    def _reserve(self, nodes: int, more_upper: int) -> None:
        """Room for nodes; readers keep the arrays that they have."""
        if nodes > self._base.shape[0]:
            size = max(nodes, self._base.shape[0] + self._base.shape[0] // 2, 1024)
            self._base = _grown(self._base, size, self._n)
            self._start = _grown(self._start, size, self._n)
        if self._used + more_upper > self._upper.shape[0]:
            size = max(self._used + more_upper, 3 * self._upper.shape[0] // 2, 64)
            self._upper = _grown(self._upper, size, self._used)

    # Exchange ------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for saving."""
        return {
            "base": self._base[: self._n],
            "upper": self._upper[: self._used],
            "upper_start": self._start[: self._n],
            "numbers": np.array(
                [self._n, self._entry, self._top, self.m, self.ef_construction], np.int64
            ),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], random_state: int | None = 0) -> Self:
        """The graph that :meth:`to_arrays` described.

        Raises
        ------
        ArtifactError
            When a link points nowhere.
        """
        n, entry, top, m, ef = (int(v) for v in arrays["numbers"])
        graph = cls(m=m, ef_construction=ef, random_state=random_state)
        graph._base = np.array(arrays["base"], np.int32)
        graph._upper = np.array(arrays["upper"], np.int32)
        graph._start = np.array(arrays["upper_start"], np.int64)
        graph._used, graph._n, graph._entry, graph._top = graph._upper.shape[0], n, entry, top
        graph._check()
        return graph

    def _check(self) -> None:
        """Refuse links out of range, which compiled loops would follow."""
        n = self._n
        good = (
            self._base.shape == (n, 2 * self.m)
            and self._start.shape == (n,)
            and (n == 0 or 0 <= self._entry < n)
            and all(
                a.size == 0 or (-1 <= a.min() and a.max() < n) for a in (self._base, self._upper)
            )
            and (n == 0 or int(self._start.max()) < max(self._used, 1))
        )
        if not good:
            raise ArtifactError("The graph has links that point nowhere. Build the index again.")

    @classmethod
    def from_hnswlib(cls, index: Any) -> Self:
        """The graph of an hnswlib index, or of the file that its ``save_index`` wrote.

        Node i is the i-th vector that was added; ``get_ids_list()`` of the index gives the labels.

        Raises
        ------
        ArtifactError
            When the file does not have the layout of hnswlib 0.5 to 0.8.
        """
        from foretell.recall.graph_exchange import read_hnswlib

        if isinstance(index, (str, os.PathLike)):
            return cls.from_arrays(read_hnswlib(Path(index).read_bytes()))
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index.bin"
            index.save_index(str(path))
            return cls.from_arrays(read_hnswlib(path.read_bytes()))

    @classmethod
    def from_faiss(cls, index: Any) -> Self:
        """The graph of a faiss ``IndexHNSW`` of any storage."""
        from foretell.recall.graph_exchange import read_faiss

        return cls.from_arrays(read_faiss(index))


def _grown(array: NDArray[Any], size: int, used: int) -> NDArray[Any]:
    out = np.full((size, *array.shape[1:]), -1, array.dtype)
    out[:used] = array[:used]
    return out


def _seen(size: int) -> NDArray[np.uint8]:
    seen: NDArray[np.uint8] | None = getattr(_EPOCHS, "seen", None)
    if seen is None or seen.size < size:
        seen = np.zeros(size, np.uint8)
        _EPOCHS.seen, _EPOCHS.epoch = seen, 0
    return seen
