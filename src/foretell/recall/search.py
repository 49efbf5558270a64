"""SketchIndex: many vectors behind one bit per direction, searched in two stages.

    stage 1   the codes with the highest weighted votes, by one of three back ends
    stage 2   exact cosines of these candidates; with a gate, as many of them as it takes

Codes stay in memory or in the page cache (n_bits / 8 bytes a vector); the vectors of stage 2 are
mapped from the disk where the index has a folder, and ``budget`` of them are read for each query.

Readers need no lock: a search works on what was published when it began. One thread at a time adds
or removes. See `store` for what is on the disk and what survives.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.recall import index_files as files
from foretell.recall.backends import Backend, as_backend
from foretell.recall.decoders import CosineDecoder
from foretell.recall.identity import IdentityMap
from foretell.recall.scan import checked_codes
from foretell.recall.search_results import Ids, SearchResult
from foretell.recall.sign_coding import SignCoding
from foretell.recall.snapshot import Snapshot
from foretell.recall.store import FolderTable, Verify
from foretell.recall.table import Column, MemoryTable, Table, TableView

if TYPE_CHECKING:
    from foretell.recall.sketch import SignSketch

_ROWS = 8192  # vectors encoded and written at a time


class SketchIndex:
    """Vectors by sign codes: add, search, remove, save and load.

    Parameters
    ----------
    sketch : SignSketch
        Fitted.
    decoder : CosineDecoder, optional
        How bits become cosines.
    backend : {"numpy", "fastscan", "hnsw"} or Backend
        How candidates are found: "numpy" scans in compiled code and needs nothing else,
        "fastscan" scans two to three times faster with faiss (extra ``find``), "hnsw" walks a
        graph and is fastest from about 10^5 vectors on. `GraphBackend` takes options.
    store : "memory" or path
        A new or empty folder, or memory.
    vectors : {"float32", "float16"} or None
        How the vectors are kept for the exact second stage. None keeps codes alone: results are
        estimates with error bars.

    Raises
    ------
    ParameterError, DataError
        For impossible choices and unusable vectors; each names what to write instead.
    ArtifactError
        When the folder cannot be used.

    Examples
    --------
    >>> from foretell.recall import SignSketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 64))
    >>> index = SketchIndex(SignSketch(n_bits=64, random_state=0).fit(X))
    >>> index.add(X)[-1]
    np.int64(1999)
    >>> q = X[7] / np.linalg.norm(X[7])
    >>> ids, cosines, info = index.search(q, k=3, budget=50)
    >>> int(ids[0, 0]), round(float(cosines[0, 0]), 6), info.reads
    (7, 1.0, array([50]))
    """

    def __init__(
        self,
        sketch: SignSketch,
        decoder: CosineDecoder | None = None,
        backend: str | Backend = "numpy",
        store: str | os.PathLike[str] = "memory",
        *,
        vectors: str | None = "float32",
    ) -> None:
        decoder = decoder or CosineDecoder()
        backend = as_backend(backend)
        if vectors not in ("float32", "float16", None):
            raise ParameterError(
                f'vectors={vectors!r} is unknown. Use "float32", "float16" or None (codes alone).'
            )
        fields = files.describe(sketch, decoder, backend, vectors)
        if sketch.mean_ is not None and backend.name != "numpy":
            raise ParameterError(
                f'The sketch is centred, and backend="{backend.name}" cannot weigh votes by norms. '
                'Use backend="numpy", or a sketch with center=None.'
            )
        columns = {"codes": Column("|u1", sketch.n_bytes_), "ids": Column("<i8", 1)}
        if vectors is not None:
            kind = {"float32": "<f4", "float16": "<f2"}[vectors]
            columns["vectors"] = Column(kind, sketch.n_features_in_)
        if sketch.mean_ is not None:
            columns["norms"] = Column("<f4", 1)
        table: Table
        if store == "memory":
            table = MemoryTable(columns)
            table.commit(fields=fields)
        else:
            blobs = {"sketch": files.packed(sketch.to_arrays())}
            table = FolderTable.create(store, columns, blobs=blobs, fields=fields)
        self._begin(sketch, decoder, backend, table)

    def _begin(
        self, coding: SignCoding, decoder: CosineDecoder, backend: Backend, table: Table
    ) -> None:
        self.coding, self.decoder, self.backend = coding, decoder, backend
        self._table = table
        self._writing = threading.Lock()
        view = table.view()
        ids = view.columns["ids"].all().ravel()
        self._identities = IdentityMap()
        self._identities.add(ids, 0)
        self._next_id = int(ids.max(initial=-1)) + 1
        self._publish(view, files.alive_rows(view))

    def _publish(self, view: TableView, alive: NDArray[np.bool_] | None) -> None:
        self._snapshot = Snapshot(
            self.coding, self.decoder, self.backend, view, self.backend.extend(view), alive
        )

    @property
    def sketch(self) -> SignSketch:
        """The sketch whose codes these are."""
        from foretell.recall.sketch import SignSketch  # brings scikit-learn, so only when asked

        if not isinstance(self.coding, SignSketch):
            self.coding = SignSketch.from_arrays(self.coding.to_dict(), self.coding.to_arrays())
        return self.coding

    def __len__(self) -> int:
        """Vectors that can be found."""
        return self._snapshot.live

    def __repr__(self) -> str:
        where = self.path or "memory"
        bits = self.coding.n_bits
        return f"SketchIndex({len(self)} vectors, {bits} bits, {self.backend.name}, {where})"

    @property
    def path(self) -> Path | None:
        """The folder, or None in memory."""
        return self._table.folder if isinstance(self._table, FolderTable) else None

    @property
    def nbytes(self) -> dict[str, int]:
        """Bytes of each column and, for a graph, of its links."""
        snapshot = self._snapshot
        sizes = {
            name: snapshot.view.n * rows.width * rows.dtype.itemsize
            for name, rows in snapshot.view.columns.items()
        }
        links = getattr(snapshot.state, "nbytes", None)
        return sizes if links is None else {**sizes, "links": int(links)}

    # Writing -------------------------------------------------------------------------------------

    def add(self, X: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add vectors; when this returns, they are on the disk and can be found.

        Memory is needed for a few thousand vectors at a time beyond what is stored.

        Parameters
        ----------
        X : array (n, d)
            Only the directions count; what is stored has length one. May be memory-mapped.
        ids : array (n,) of whole numbers >= 0, optional
            Names that stay with the vectors. By default the next free numbers.

        Returns
        -------
        array (n,)
            The ids.

        Raises
        ------
        DataError
            For rows that are not finite or have norm zero (named), another dimension, and ids that
            are in use or occur twice. Then nothing is added.
        ArtifactError
            When the disk is full. The first ``len(index)`` vectors are then in the index.
        """
        rows = files.checked_vectors(X, self.coding.n_features_in_)
        return self._add(rows, None, ids)

    def add_codes(self, codes: ArrayLike, ids: ArrayLike | None = None) -> Ids:
        """Add codes that you already have, to an index with ``vectors=None``.

        Parameters
        ----------
        codes : array (n, n_bits / 8), uint8
            Made with the matrix and the bit order of the sketch, uncentred.
        ids : array (n,), optional
            As in :meth:`add`.
        """
        if "vectors" in self._table.view().columns or self.coding.mean_ is not None:
            raise ParameterError(
                "This index keeps vectors or norms beside its codes. Give add(X), or make it with "
                "SketchIndex(sketch, vectors=None) and a sketch with center=None."
            )
        checked = checked_codes(np.asarray(codes), self.coding.matrix_.shape[0])
        return self._add(checked, checked, ids)

    def _add(self, rows: NDArray[Any], codes: NDArray[np.uint8] | None, ids: Any) -> Ids:
        with self._writing:
            self._absorb()
            names = files.checked_ids(ids, len(rows), self._next_id)
            self._refuse_known(names)
            for start in range(0, len(rows), _ROWS):
                part = slice(start, start + _ROWS)
                columns: dict[str, NDArray[Any]] = {"ids": names[part, None]}
                if codes is None:
                    view = self._table.view()
                    columns |= files.columns_of(rows[part], self.coding, view)
                else:
                    columns["codes"] = codes[part]
                self._table.commit(columns)
                self._absorb()
            return names

    def _absorb(self) -> None:
        """Publish what is committed and not yet known here."""
        view, before = self._table.view(), self._snapshot.view.n
        if view is self._snapshot.view:
            return
        new = view.columns["ids"].take(np.arange(before, view.n)).ravel()
        self._identities.add(new, before)
        self._next_id = max(self._next_id, int(new.max(initial=-1)) + 1)
        self._publish(view, files.alive_rows(view))

    def _refuse_known(self, names: Ids) -> None:
        rows = self._identities.rows(names)
        alive = self._snapshot.alive
        known = rows >= 0 if alive is None else (rows >= 0) & alive[rows]
        if known.any():
            raise DataError(
                f"The id {names[known][0]} is in use ({known.sum()} of {len(names)} ids are). "
                "Remove it first: index.remove(ids); or leave ids out."
            )

    def remove(self, ids: ArrayLike) -> None:
        """Remove vectors by id, at once and for all; their ids may be given again.

        The rows stay in the store until :meth:`save` writes a new folder.

        Raises
        ------
        DataError
            For ids that are not in the index; then nothing is removed.
        """
        with self._writing:
            self._absorb()
            snapshot = self._snapshot
            names = files.checked_ids(ids, np.size(ids), 0)
            if not names.size:
                return
            rows = self._identities.rows(names)
            alive = np.ones(snapshot.view.n, np.bool_) if snapshot.alive is None else snapshot.alive
            missing = (rows < 0) | ~alive[rows] if len(alive) else np.ones(len(names), np.bool_)
            if missing.any():
                raise DataError(
                    f"The id {names[missing][0]} is not in the index ({missing.sum()} of "
                    f"{len(names)} ids are not). Give ids that add() returned."
                )
            alive = alive.copy()
            alive[rows] = False
            self._table.commit(blobs={"removed": np.packbits(~alive).tobytes()})
            self._absorb()

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write everything to a folder, or leave what was there untouched.

        Without a path, or with that of the index itself, only the graph is written, so that
        :meth:`load` need not build it again; vectors are on the disk since :meth:`add`.
        To another folder, rows that were removed are not written (with a graph they are).

        Raises
        ------
        ArtifactError
            When the folder holds something else, or the disk is full.
        """
        with self._writing:
            own = self.path
            target = files.target_of(path, own)
            arrays = self._graph_arrays()
            if own is not None and target == own:
                if arrays is not None:
                    self._table.commit(blobs={"graph": files.packed(arrays)})
                return own
            return files.write_copy(target, self._snapshot.view, self._snapshot.alive,
                                    self.coding, arrays)  # fmt: skip

    def _graph_arrays(self) -> dict[str, NDArray[Any]] | None:
        graph = getattr(self.backend, "graph", None)
        return None if graph is None else dict(graph.to_arrays())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        backend: str | Backend | None = None,
        verify: Verify = "all",
    ) -> Self:
        """Open the folder of an index; codes and vectors are mapped, not read into memory.

        Parameters
        ----------
        path : path
            The folder.
        backend : optional
            Another back end than the one it was made with.
        verify : {"all", "codes", "none"}
            What is checked against its checksums. "all" reads every vector once, about a second
            for a gigabyte.

        Raises
        ------
        ArtifactError
            Names the file that is missing, cut off or changed.
        """
        table = FolderTable.open(path, verify=verify)
        view = table.view()
        sketch, decoder, own = files.restored(view, backend)
        index = cls.__new__(cls)
        index._begin(sketch, decoder, own, table)
        return index

    def refresh(self) -> None:
        """See what another process has added or removed since."""
        if isinstance(self._table, FolderTable):
            with self._writing:
                self._table.refresh()
                self._absorb()

    def close(self) -> None:
        """Let another process write to the folder; searching stays possible."""
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading -------------------------------------------------------------------------------------

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        budget: int = 100,
        *,
        rerank: bool = True,
        gate: float | None = None,
    ) -> SearchResult:
        """The k vectors of highest cosine with each query.

        Parameters
        ----------
        Q : array (nq, d) or (d,)
            Queries; they are normalised, with a warning.
        k : int
            Results a query.
        budget : int
            Candidates of stage 1, at least k; the most vectors that are read.
        rerank : bool
            Whether to read the vectors of the candidates; without, cosines are estimates.
        gate : float, optional
            Stop reading once the k-th best exact cosine is at least the next estimate plus this
            many standard errors. 1.5 to 2 are usual.

        Raises
        ------
        ParameterError
            For k above the number of vectors, a budget below k, a negative gate, a re-rank without
            vectors.
        DataError
            For queries that are not finite, have norm zero or another dimension, and for an empty
            index.
        """
        return self._snapshot.search(Q, k, budget, rerank, gate)

    def candidates(self, Q: ArrayLike, budget: int) -> Ids:
        """Rows of stage 1 as ids (nq, budget), highest votes first; -1 where there are fewer."""
        return self._snapshot.candidates(Q, budget)

    def second_stage(
        self, Q: ArrayLike, budget: int
    ) -> tuple[
        list[NDArray[np.float64]], list[NDArray[np.float64]], list[NDArray[np.float64]], Any
    ]:
        """For planning: exact cosines, estimates and their errors of all candidates, and their ids.

        Each a list with one array per query, in the order of the estimates.
        """
        return self._snapshot.second_stage(Q, budget)

    def view(self) -> tuple[TableView, NDArray[np.bool_] | None]:
        """Columns as they are now, and which rows are not removed (None: all)."""
        return self._snapshot.view, self._snapshot.alive
