"""Three ways to find the codes with the highest weighted votes.

    ScanBackend       every code, by 16-bit byte tables in compiled code; needs nothing else
    FastScanBackend   every code, by faiss with 4-bit look-ups in registers: sign patterns of four
                      bits are the sixteen centroids of a product quantiser
    GraphBackend      a few thousand codes along a navigable graph

A back end has a writer's side, ``extend``, which returns a state that never changes, and a reader's
side, ``candidates``, which is given that state. So readers need no lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core import MissingExtraError, ParameterError
from foretell.recall.rows import Rows
from foretell.recall.scan import rounded_tables, table_sums
from foretell.recall.table import TableView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foretell.recall.block_scan import BlockedCodes
    from foretell.recall.graph import Graph, Links

_QUERIES = 64  # tables kept at a time
_TAIL = 4096  # rows that are scanned one by one before they get a segment of their own
_LITTLE = 1 << 20  # bytes to look up that are not worth loading compiled code for


class Tables:
    """Look-up tables of a few queries, from their weights, filled when they are first needed.

    Attributes
    ----------
    weights : array (q, 8 B), float32
        Padding bits weigh nothing.
    entries : array (q, B, 256), int16
        Sums of signed weights, in steps of the scale.
    scales : array (q,), float32
        A table sum times the scale is the weighted vote.
    """

    def __init__(self, weights: NDArray[Any], width: int, bit_order: str) -> None:
        q, m = weights.shape
        self.weights = np.zeros((q, 8 * width), np.float32)
        self.weights[:, :m] = weights
        self._big = bit_order == "big"

    @cached_property
    def _filled(self) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        return rounded_tables(self.weights, self._big)

    @property
    def entries(self) -> NDArray[np.int16]:
        """Tables (q, B, 256)."""
        return self._filled[0]

    @property
    def scales(self) -> NDArray[np.float32]:
        """Steps (q,) of the tables."""
        return self._filled[1]


@dataclass(frozen=True, eq=False)
class Request:
    """What the reader's side of a back end is asked.

    Parameters
    ----------
    tables : Tables
        Of the queries.
    count : int
        Candidates wanted for each.
    least : int
        Candidates needed at least, as long as there are live rows.
    alive : array (n,) of bool, or None
        False for removed rows; None when none is removed.
    bit_order : str
        Of the codes.
    """

    tables: Tables
    count: int
    least: int
    alive: NDArray[np.bool_] | None
    bit_order: str


class Backend(Protocol):
    """Finds candidates among the rows of an index."""

    name: str

    def extend(self, view: TableView) -> Any:
        """Take in the rows that are new; returns the state that readers use from now on."""
        ...

    def candidates(self, state: Any, view: TableView, request: Request) -> NDArray[np.int64]:
        """Rows (q, count) with the highest votes, best first; -1 behind the last one."""
        ...

    def options(self) -> dict[str, Any]:
        """Constructor arguments, for the header of a saved index."""
        ...


def batches(n: int) -> list[slice]:
    """Slices of queries whose tables fit into memory comfortably."""
    return [slice(i, min(i + _QUERIES, n)) for i in range(0, n, _QUERIES)]


Segment = tuple[int, int, Any]  # first row, row behind the last, what was made of them


class _SealedRows:
    """Scans rows that are sealed into segments which never change, and a short tail.

    Neighbouring segments merge as the index grows, so that each row is copied about log(n) times
    in all, and readers of an older state keep its segments.
    """

    def __init__(self) -> None:
        self._segments: tuple[Segment, ...] = ()

    def options(self) -> dict[str, Any]:
        """None."""
        return {}

    def extend(self, view: TableView) -> tuple[Segment, ...]:
        """Seal the tail once it is long enough."""
        segments = list(self._segments)
        sealed = segments[-1][1] if segments else 0
        if view.n - sealed >= _TAIL and "norms" not in view.columns:
            start = sealed
            while segments and segments[-1][1] - segments[-1][0] <= view.n - start:
                start = segments.pop()[0]
            order = str(view.fields.get("bit_order", "little"))
            codes = view.columns["codes"]
            made = self._seal(Rows(codes.blocks, view.n, codes.shift), start, order)
            segments.append((start, view.n, made))
            self._segments = tuple(segments)
        return self._segments

    def candidates(
        self, state: tuple[Segment, ...], view: TableView, request: Request
    ) -> NDArray[np.int64]:
        """Rows (q, count) with the highest votes."""
        parts = [self._search(segment, request) for segment in state]
        sealed = state[-1][1] if state else 0
        if sealed < view.n:
            parts.append(scanned(view, request, sealed))
        if len(parts) == 1:
            return parts[0]
        from foretell.recall import _scan_kernels as kernels

        rows = np.concatenate(parts, axis=1)
        scores = np.full(rows.shape, -np.inf, np.float32)
        codes = view.columns["codes"]
        where = (codes.addresses, codes.shift, codes.width)
        kernels.score_rows(where, rows, request.tables.entries, scores)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : request.count]
        return np.take_along_axis(rows, order, 1)

    def _seal(self, codes: Rows, start: int, bit_order: str) -> Any:
        raise NotImplementedError

    def _search(self, segment: Segment, request: Request) -> NDArray[np.int64]:
        raise NotImplementedError


class ScanBackend(_SealedRows):
    """Scores every code in compiled code; also the only one that weighs by norms (centring).

    Sealed rows are kept a second time, in the order in which vector registers take them.

    Examples
    --------
    >>> ScanBackend().name
    'numpy'
    """

    name = "numpy"

    def _seal(self, codes: Rows, start: int, bit_order: str) -> BlockedCodes:
        from foretell.recall.block_scan import BlockedCodes

        whole = np.concatenate([piece for _, piece in codes.pieces(start)])
        return BlockedCodes.from_codes(whole, bit_order=bit_order)

    def _search(self, segment: Segment, request: Request) -> NDArray[np.int64]:
        start, stop, codes = segment
        alive = None if request.alive is None else request.alive[start:stop]
        rows: NDArray[np.int64] = codes.top(request.tables.weights, request.count, alive=alive).rows
        return np.where(rows >= 0, rows + start, -1)


def scanned(view: TableView, request: Request, start: int = 0) -> NDArray[np.int64]:
    """Best rows from ``start`` on, best first, by looking at every code."""
    tables, codes = request.tables, view.columns["codes"]
    q = tables.entries.shape[0]
    if start == 0 and "norms" not in view.columns and q * view.n * codes.width <= _LITTLE:
        return _scanned_at_once(view, request)
    from foretell.recall import _scan_kernels as kernels

    rows = np.full((q, request.count), -1, np.int64)
    scores = np.full((q, request.count), -np.inf, np.float32)
    sizes = np.zeros(q, np.int64)
    norms = view.columns["norms"].all().ravel() if "norms" in view.columns else None
    for first, piece in codes.pieces(start, view.n):
        part = slice(first, first + len(piece))
        kernels.scan_top(
            piece.ctypes.data, len(piece), codes.width, first, tables.entries,
            _NOBODY if request.alive is None else request.alive[part],
            _NO_NORMS if norms is None else norms[part],
            tables.scales, scores, rows, sizes,
        )  # fmt: skip
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(rows, order, 1)


def _scanned_at_once(view: TableView, request: Request) -> NDArray[np.int64]:
    """The same for a few thousand codes, without compiled code."""
    codes = view.columns["codes"].all()[: view.n]
    live = np.arange(view.n) if request.alive is None else np.flatnonzero(request.alive)
    out = np.full((len(request.tables.weights), request.count), -1, np.int64)
    for rows, entries in zip(out, request.tables.entries, strict=True):
        sums = table_sums(entries, codes[live], np.int32)
        best = np.argsort(-sums, kind="stable")[: request.count]
        rows[: len(best)] = live[best]
    return out


_NOBODY = np.empty(0, np.bool_)
_NO_NORMS = np.empty(0, np.float32)


class FastScanBackend(_SealedRows):
    """Lets faiss score every code with look-ups in vector registers.

    Raises
    ------
    MissingExtraError
        When faiss is not installed.
    """

    name = "fastscan"

    def __init__(self) -> None:
        super().__init__()
        _faiss("scan codes with faiss")

    def _seal(self, codes: Rows, start: int, bit_order: str) -> Any:
        return sign_index(codes, start, bit_order)

    def _search(self, segment: Segment, request: Request) -> NDArray[np.int64]:
        start, stop, index = segment
        return _searched(index, start, stop, request)


def _searched(index: Any, start: int, stop: int, request: Request) -> NDArray[np.int64]:
    """Candidates of one faiss index; asks for more where removed rows took the places."""
    size, weights = stop - start, request.tables.weights
    ask = min(request.count, size)
    while True:
        _, found = index.search(weights, ask)
        rows = np.where(found >= 0, found + start, -1)
        if request.alive is not None:
            rows = np.where((rows >= 0) & request.alive[rows], rows, -1)
            live = int(request.alive[start:stop].sum())
            short = (rows >= 0).sum(axis=1).min() < min(request.count, live)
            if short and ask < size:
                ask = min(2 * ask, size)
                continue
            order = np.argsort(rows < 0, axis=1, kind="stable")
            rows = np.take_along_axis(rows, order, 1)
        out = np.full((len(weights), request.count), -1, np.int64)
        width = min(request.count, rows.shape[1])
        out[:, :width] = rows[:, :width]
        return out


_REVERSED = np.packbits(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little"
).ravel()


def sign_index(codes: Rows, start: int = 0, bit_order: str = "little") -> Any:
    """A faiss ``IndexPQFastScan`` over packed sign codes, whose queries are weights (q, n_bits).

    Its inner products are the weighted votes, up to the 8 bits that faiss rounds its tables to.

    Parameters
    ----------
    codes : Rows (n, B), uint8
    start : int
        First row to take; it becomes number 0.
    bit_order : {"little", "big"}

    Raises
    ------
    MissingExtraError
        When faiss is not installed.
    """
    faiss = _faiss("scan codes with faiss")
    width = codes.width
    exact = faiss.IndexPQ(8 * width, 2 * width, 4, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(_centroids(2 * width, 4), exact.pq.centroids)
    exact.is_trained = True
    for _, piece in codes.pieces(start):
        little = piece if bit_order == "little" else _REVERSED[piece]
        exact.add_sa_codes(np.ascontiguousarray(little))
    return faiss.IndexPQFastScan(exact)


def _centroids(parts: int, bits: int) -> NDArray[np.float32]:
    patterns = (np.arange(1 << bits)[:, None] >> np.arange(bits) & 1) * 2.0 - 1.0
    return np.tile(patterns.astype(np.float32).ravel(), parts)


def _faiss(purpose: str) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss", "find", purpose) from error
    return faiss


class GraphBackend:
    """Walks a graph with the votes as its distance (HNSW with the scorer replaced).

    The graph links float32 vectors by inner product where the index keeps them, and else codes by
    their bits.

    Parameters
    ----------
    m : int
        Links of a node on the upper floors, twice as many on the ground floor.
    ef_construction : int
        Size of the pool while linking.
    random_state : int or None
        Draws the floors.
    graph : Graph, optional
        One that exists already, from ``Graph.from_hnswlib`` or ``Graph.from_faiss``; its node i
        must be the i-th row that is added to the index.

    Examples
    --------
    >>> GraphBackend(m=8).options()
    {'m': 8, 'ef_construction': 200, 'random_state': 0}
    """

    name = "hnsw"

    def __init__(
        self,
        *,
        m: int = 16,
        ef_construction: int = 200,
        random_state: int | None = 0,
        graph: Graph | None = None,
    ) -> None:
        from foretell.recall.graph import Graph

        self.random_state = random_state
        self.graph = graph or Graph(m=m, ef_construction=ef_construction, random_state=random_state)

    def options(self) -> dict[str, Any]:
        """How the graph is built."""
        return {
            "m": self.graph.m,
            "ef_construction": self.graph.ef_construction,
            "random_state": self.random_state,
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a saved graph; rows that came later are linked by ``extend``."""
        from foretell.recall.graph import Graph

        self.graph = Graph.from_arrays(arrays, self.random_state)

    def extend(self, view: TableView) -> Links:
        """Link what is new."""
        vectors = view.columns.get("vectors")
        usable = vectors is not None and vectors.dtype == np.float32
        rows = vectors if usable and vectors is not None else view.columns["codes"]
        return self.graph.extend(Rows(rows.blocks, view.n, rows.shift), view.n)

    def candidates(self, state: Links, view: TableView, request: Request) -> NDArray[np.int64]:
        """Rows (q, count) with the highest votes among those that the walk meets."""
        codes = view.columns["codes"]
        codes = Rows(codes.blocks, view.n, codes.shift)
        alive = request.alive
        live = view.n if alive is None else int(alive.sum())
        ef = request.count * view.n // live  # removed rows take their share of the walk
        while True:
            rows, _, _ = state.search_tables(codes, request.tables.entries, ef, ef)
            if alive is not None:
                rows = np.where((rows >= 0) & alive[rows], rows, -1)
                order = np.argsort(rows < 0, axis=1, kind="stable")
                rows = np.take_along_axis(rows, order, 1)
            if (rows >= 0).sum(axis=1).min() >= min(request.least, live) or ef >= view.n:
                return rows[:, : request.count]
            ef = min(2 * ef, max(view.n, request.count))


BACKENDS: dict[str, Any] = {"numpy": ScanBackend, "fastscan": FastScanBackend, "hnsw": GraphBackend}


def as_backend(backend: str | Backend, options: Mapping[str, Any] | None = None) -> Backend:
    """The back end of a name, or the one that is given.

    Raises
    ------
    ParameterError
        For an unknown name.
    """
    if not isinstance(backend, str):
        return backend
    if backend not in BACKENDS:
        raise ParameterError(
            f"backend={backend!r} is unknown. Use one of {', '.join(map(repr, BACKENDS))}."
        )
    made: Backend = BACKENDS[backend](**(options or {}))
    return made
