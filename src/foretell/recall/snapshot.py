"""An index at one moment, and the two stages of a search in it.

    stage 1   rows with the highest weighted votes, by the back end
    stage 2   their exact cosines, from the vectors

A snapshot never changes, so that any number of threads may search it while a writer goes on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.recall.backends import Backend, Request, Tables, batches
from foretell.recall.decoders import CosineDecoder, QueryPlan
from foretell.recall.gate import gated
from foretell.recall.search_results import Ids, SearchInfo, SearchResult
from foretell.recall.sign_coding import SignCoding
from foretell.recall.table import TableView


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a reader needs; replaced as a whole by the writer.

    Parameters
    ----------
    coding : SignCoding
    decoder : CosineDecoder
    backend : Backend
    view : TableView
        The rows that are committed.
    state : object
        What the back end made of them.
    alive : array (n,) of bool, or None
        False for removed rows; None where none was removed.
    """

    coding: SignCoding
    decoder: CosineDecoder
    backend: Backend
    view: TableView
    state: Any
    alive: NDArray[np.bool_] | None

    @property
    def live(self) -> int:
        """Vectors that can be found."""
        return self.view.n if self.alive is None else int(self.alive.sum())

    def search(
        self, Q: ArrayLike, k: int, budget: int, rerank: bool, gate: float | None
    ) -> SearchResult:
        """See `SketchIndex.search`."""
        self._check(k, budget, rerank, gate)
        plans, units, budget = self._prepared(Q, budget)
        began = time.perf_counter()
        candidates = self._candidates(plans, budget, k)
        middle = time.perf_counter()
        if rerank and gate is None:
            ids, cosines, errors, reads = self._rerank(units, candidates, k)
        else:
            ids, cosines, errors, reads = self._estimate(units, plans, candidates, k, gate)
        end = time.perf_counter()
        info = SearchInfo(reads, 1e3 * (middle - began), 1e3 * (end - middle))
        return SearchResult(ids, cosines, errors, info)

    def candidates(self, Q: ArrayLike, budget: int) -> Ids:
        """See `SketchIndex.candidates`."""
        self._check(1, budget, False, None)
        plans, _, budget = self._prepared(Q, budget)
        return _named(self.view, self._candidates(plans, budget, 1))

    def second_stage(
        self, Q: ArrayLike, budget: int
    ) -> tuple[
        list[NDArray[np.float64]], list[NDArray[np.float64]], list[NDArray[np.float64]], Any
    ]:
        """See `SketchIndex.second_stage`."""
        self._check(1, budget, True, None)
        plans, units, budget = self._prepared(Q, budget)
        out: tuple[list[Any], ...] = ([], [], [], [])
        found = self._candidates(plans, budget, 1)
        for unit, plan, some in zip(units, plans, found, strict=True):
            rows, rho, error = self._estimates(plan, some[some >= 0])
            exact = self.view.columns["vectors"].take(rows).astype(np.float32) @ unit
            for part, values in zip(out, (exact, rho, error, rows), strict=True):
                part.append(values)
        exacts, estimates, errors, row_lists = out
        return exacts, estimates, errors, [_named(self.view, rows) for rows in row_lists]

    def _prepared(
        self, Q: ArrayLike, budget: int
    ) -> tuple[list[QueryPlan], NDArray[np.float32], int]:
        plans = self.decoder.prepare_many(self.coding, Q)
        units = self.coding.normalised_queries(_quiet(Q)).astype(np.float32)
        return plans, units, min(budget, self.live)

    def _estimates(
        self, plan: QueryPlan, rows: Ids
    ) -> tuple[Ids, NDArray[np.float64], NDArray[np.float64]]:
        """Rows by falling estimate, the estimates, and their standard errors."""
        norms = (
            self.view.columns["norms"].take(rows).ravel() if "norms" in self.view.columns else None
        )
        rho = self.decoder.score(plan, self.view.columns["codes"].take(rows), norms)
        error = self.decoder.standard_error(plan, rho, norms)
        order = np.argsort(-rho, kind="stable")
        return rows[order], rho[order], error[order]

    def _candidates(self, plans: list[QueryPlan], budget: int, least: int) -> Ids:
        out = np.empty((len(plans), budget), np.int64)
        for part in batches(len(plans)):
            weights = np.stack([plan.weights for plan in plans[part]])
            if self.coding.mean_ is not None:  # norms differ, so the scale of a query matters
                weights = weights * np.array([[plan.scale] for plan in plans[part]])
            order = self.coding.bit_order
            tables = Tables(weights, self.coding.n_bytes_, order)
            request = Request(tables, budget, least, self.alive, order)
            out[part] = self.backend.candidates(self.state, self.view, request)
        return out

    def _rerank(
        self, units: NDArray[np.float32], candidates: Ids, k: int
    ) -> tuple[Ids, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        vectors = self.view.columns["vectors"]
        rows = np.full((len(units), k), -1, np.int64)
        cosines = np.full((len(units), k), np.nan, np.float32)
        if vectors.dtype == np.float32:
            from foretell.recall import _scan_kernels as kernels

            where = (vectors.addresses, vectors.shift, 4 * vectors.width)
            kernels.exact_top(units, where, candidates, rows, cosines)
        else:
            for q, (unit, found) in enumerate(zip(units, candidates, strict=True)):
                some = found[found >= 0]
                exact = vectors.take(some).astype(np.float32) @ unit
                best = np.argsort(-exact, kind="stable")[:k]
                rows[q, : len(best)], cosines[q, : len(best)] = some[best], exact[best]
        reads = (candidates >= 0).sum(axis=1)
        errors = np.where(rows >= 0, 0.0, np.nan)
        return _named(self.view, rows), cosines.astype(np.float64), errors, reads

    def _estimate(
        self,
        units: NDArray[np.float32],
        plans: list[QueryPlan],
        candidates: Ids,
        k: int,
        gate: float | None,
    ) -> tuple[Ids, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        rows = np.full((len(plans), k), -1, np.int64)
        cosines, errors = np.full(rows.shape, np.nan), np.full(rows.shape, np.nan)
        reads = np.zeros(len(plans), np.int64)
        for q, (plan, found) in enumerate(zip(plans, candidates, strict=True)):
            some, rho, error = self._estimates(plan, found[found >= 0])
            if gate is not None:
                upper = rho + gate * error
                some, rho, reads[q] = gated(self.view.columns["vectors"], units[q], some, upper, k)
                error = np.zeros(len(some))
            best = min(k, len(some))
            rows[q, :best], cosines[q, :best] = some[:best], rho[:best]
            errors[q, :best] = error[:best]
        return _named(self.view, rows), cosines, errors, reads

    def _check(self, k: int, budget: int, rerank: bool, gate: float | None) -> None:
        if self.live == 0:
            raise DataError("The index is empty. Add vectors first: index.add(X).")
        for name, value in (("k", k), ("budget", budget)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ParameterError(f"{name}={value!r} is not a whole number from 1 on.")
        if k > self.live:
            raise ParameterError(
                f"k={k}, and the index holds {self.live} vectors. Write k={self.live}."
            )
        if budget < k:
            raise ParameterError(
                f"budget={budget} is below k={k}: results come from the candidates. "
                f"Write budget={max(k, 10 * k)}."
            )
        if gate is not None and not (np.isfinite(gate) and gate >= 0):
            raise ParameterError(f"gate={gate!r} is not a number >= 0. Write gate=2.0.")
        if gate is not None and not rerank:
            raise ParameterError("A gate decides what is re-ranked. Write rerank=True, or no gate.")
        if rerank and "vectors" not in self.view.columns:
            raise ParameterError(
                "The index keeps codes alone, so nothing can be re-ranked. Write rerank=False, or "
                'build it with vectors="float32".'
            )


def _quiet(Q: ArrayLike) -> NDArray[np.float64]:
    """Queries of length one, so that the second look at them does not warn again."""
    queries = np.atleast_2d(np.asarray(Q, dtype=np.float64))
    return np.asarray(queries / np.linalg.norm(queries, axis=1, keepdims=True))


def _named(view: TableView, rows: Ids) -> Ids:
    """Ids of rows of any shape; -1 stays."""
    names = view.columns["ids"].take(np.maximum(rows, 0).ravel()).reshape(rows.shape)
    return np.where(rows >= 0, names, -1)
