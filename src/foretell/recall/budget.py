"""How many candidates are enough: measured on a sample of queries, with intervals.

A neighbour is found when it is among the candidates. Over the sample, recall at a budget C is the
share of true neighbours of rank C or better in stage 1; the budget for 95 % is a quantile of these
ranks. Queries are resampled for the interval, since the neighbours of one query share its luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.core.random import as_generator
from foretell.recall import gate as gates

if TYPE_CHECKING:
    from foretell.recall.search import SketchIndex

Ids = NDArray[np.int64]
Array = NDArray[np.float64]

_ROWS = 65536
_DRAWS = 1000
_GATES = np.round(np.arange(0.0, 6.01, 0.1), 1)


@dataclass(frozen=True)
class BudgetPlan:
    """The budget that reaches a recall on the sample.

    Parameters
    ----------
    budget : int
        Candidates a query: give it to ``search(..., budget=...)``.
    low, high : int
        Interval over resampled queries; plan with ``high`` to be on the safe side.
    recall : float
        What was asked for.
    level : float
        Of the interval.
    n_queries : int
        Queries in the sample.

    Examples
    --------
    >>> BudgetPlan(51, 47, 58, 0.95, 0.95, 200)
    BudgetPlan(51 candidates [47, 58] for 95% recall; 200 queries)
    """

    budget: int
    low: int
    high: int
    recall: float
    level: float
    n_queries: int

    def __repr__(self) -> str:
        return (
            f"BudgetPlan({self.budget} candidates [{self.low}, {self.high}] for "
            f"{self.recall:.0%} recall; {self.n_queries} queries)"
        )


@dataclass(frozen=True)
class GatePlan:
    """The gate that reaches a recall on the sample.

    Parameters
    ----------
    gate : float
        Standard errors: give it to ``search(..., gate=...)``.
    budget : int
        Most candidates a query.
    reads, low, high : float
        Mean vectors read a query, with an interval over resampled queries.
    recall : float
        Reached on the sample.
    n_queries : int
        Queries in the sample.
    """

    gate: float
    budget: int
    reads: float
    low: float
    high: float
    recall: float
    n_queries: int

    def __repr__(self) -> str:
        return (
            f"GatePlan(gate={self.gate}, budget={self.budget}: {self.reads:.1f} reads "
            f"[{self.low:.1f}, {self.high:.1f}], {self.recall:.1%} recall; "
            f"{self.n_queries} queries)"
        )


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Stage 1 on a sample of queries.

    Parameters
    ----------
    budgets : array (b,)
        Candidates a query.
    recall : array (b,)
        Share of the true neighbours among them.
    ranks : array (nq, k)
        Rank of each true neighbour in stage 1, from 1 on; above every budget where it was not
        found.
    """

    budgets: NDArray[np.int64]
    recall: Array
    ranks: NDArray[np.int64]

    def __repr__(self) -> str:
        points = ", ".join(
            f"{r:.3f} at {b}" for b, r in zip(self.budgets, self.recall, strict=True)
        )
        return f"Evaluation(recall {points})"

    def budget_for(self, recall: float) -> int:
        """Smallest budget with that recall on the sample."""
        return _quantile(self.ranks, recall)


def true_neighbours(index: SketchIndex, Q: ArrayLike, k: int = 10) -> Ids:
    """Ids (nq, k) of the nearest vectors by exact cosine, from all vectors of the index.

    Raises
    ------
    DataError
        When the index keeps no vectors.
    """
    view, alive = index.view()
    if "vectors" not in view.columns:
        raise DataError(
            "The index keeps codes alone, so its true neighbours are not known. Give truth=ids "
            "(nq, k) from an exact search."
        )
    units = index.coding.normalised_queries(Q).astype(np.float32)
    best = np.full((len(units), k), -np.inf, np.float32)
    rows = np.full((len(units), k), -1, np.int64)
    for start in range(0, view.n, _ROWS):
        stop = min(start + _ROWS, view.n)
        for first, piece in view.columns["vectors"].pieces(start, stop):
            scores = units @ piece.astype(np.float32, copy=False).T
            if alive is not None:
                scores[:, ~alive[first : first + len(piece)]] = -np.inf
            both = np.concatenate([best, scores], axis=1)
            top = np.argpartition(-both, min(k, both.shape[1]) - 1, axis=1)[:, :k]
            found = np.where(
                top < k, np.take_along_axis(rows, np.minimum(top, k - 1), 1), top - k + first
            )
            best, rows = np.take_along_axis(both, top, 1), found
    order = np.argsort(-best, axis=1, kind="stable")
    rows = np.take_along_axis(rows, order, 1)
    return np.asarray(view.columns["ids"].take(rows.ravel()).reshape(rows.shape))


def evaluate(
    index: SketchIndex,
    Q: ArrayLike,
    truth: ArrayLike | None = None,
    *,
    k: int = 10,
    budgets: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
) -> Evaluation:
    """Recall of stage 1 at several budgets.

    Parameters
    ----------
    index : SketchIndex
        With any back end; a graph is walked anew for each budget.
    Q : array (nq, d)
        Queries like those to come.
    truth : array (nq, k), optional
        Ids that should be found; by default the exact neighbours.
    k : int
        Neighbours a query, where ``truth`` is not given.
    budgets : tuple of int
        Those above the number of vectors are left out.

    Examples
    --------
    >>> from foretell.recall import SignSketch, SketchIndex
    >>> X = np.random.default_rng(0).normal(size=(500, 32))
    >>> index = SketchIndex(SignSketch(n_bits=64, random_state=0).fit(X))
    >>> _ = index.add(X)
    >>> Q = X[:50] / np.linalg.norm(X[:50], axis=1, keepdims=True)
    >>> evaluate(index, Q, k=1, budgets=(1, 10))
    Evaluation(recall 1.000 at 1, 1.000 at 10)
    """
    wanted = _truth(index, Q, truth, k)
    usable = np.array(sorted({min(b, len(index)) for b in budgets}))
    if index.backend.name == "hnsw":
        ranks = np.full(wanted.shape, np.iinfo(np.int64).max)
        recall = []
        for budget in usable[::-1]:  # small budgets last: the ranks of the shortest walk count
            found = _ranks(index.candidates(Q, int(budget)), wanted)
            inside = found <= budget
            recall.append(inside.mean())
            ranks = np.where(inside, budget, ranks)
        return Evaluation(usable, np.array(recall[::-1]), ranks)
    ranks = _ranks(index.candidates(Q, int(usable[-1])), wanted)
    recall = [(ranks <= budget).mean() for budget in usable]
    return Evaluation(usable, np.array(recall), ranks)


def plan_budget(
    index: SketchIndex,
    Q_sample: ArrayLike,
    recall: float = 0.95,
    *,
    k: int = 10,
    truth: ArrayLike | None = None,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> BudgetPlan:
    """The smallest budget that reaches a recall, with an interval.

    Parameters
    ----------
    index : SketchIndex
        Filled.
    Q_sample : array (nq, d)
        Queries like those to come, a hundred or more; not the stored vectors themselves, which
        find themselves too easily.
    recall : float
        In (0, 1).
    k : int
        Neighbours that should be found.
    truth : array (nq, k), optional
        As in :func:`evaluate`.
    level : float
        Of the interval.
    random_state : int, numpy.random.Generator or None
        Of the resampling.

    Raises
    ------
    ParameterError
        For a recall or level outside of (0, 1), and when no budget reaches the recall.

    Examples
    --------
    >>> from foretell.recall import SignSketch, SketchIndex
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 32))
    >>> index = SketchIndex(SignSketch(n_bits=64, random_state=0).fit(X))
    >>> _ = index.add(X)
    >>> Q = X[:100] + 0.3 * rng.normal(size=(100, 32))
    >>> plan = plan_budget(index, Q / np.linalg.norm(Q, axis=1, keepdims=True), k=5)
    >>> plan.low <= plan.budget <= plan.high
    True
    """
    for name, value in (("recall", recall), ("level", level)):
        if not 0 < value < 1:
            raise ParameterError(f"{name}={value!r} must lie between 0 and 1. Write {name}=0.95.")
    wanted = _truth(index, Q_sample, truth, k)
    budget = min(max(20 * k, 100), len(index))
    while True:
        budgets = tuple(np.unique(np.geomspace(k, budget, 25).astype(int)).tolist())
        found = evaluate(index, Q_sample, wanted, budgets=budgets)
        if (found.ranks <= budget).mean() >= recall:
            break
        if budget >= len(index):
            raise ParameterError(
                f"No budget reaches {recall:.0%}: the graph misses neighbours. Use a larger m or "
                "ef_construction, or another back end."
            )
        budget = min(4 * budget, len(index))
    ranks = found.ranks
    generator = as_generator(random_state)
    draws = [
        _quantile(ranks[generator.integers(len(ranks), size=len(ranks))], recall)
        for _ in range(_DRAWS)
    ]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    top = len(index)
    return BudgetPlan(
        _quantile(ranks, recall), int(min(low, top)), int(min(high, top)), recall, level, len(ranks)
    )


def plan_gate(
    index: SketchIndex,
    Q_sample: ArrayLike,
    recall: float = 0.95,
    *,
    k: int = 10,
    budget: int = 1000,
    truth: ArrayLike | None = None,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> GatePlan:
    """The smallest gate that reaches a recall within a budget, and what it reads.

    Parameters
    ----------
    index : SketchIndex
        With vectors.
    Q_sample, recall, k, truth, level, random_state
        As in :func:`plan_budget`.
    budget : int
        Most candidates a query.

    Raises
    ------
    ParameterError
        When the budget itself does not reach the recall.
    """
    wanted = _truth(index, Q_sample, truth, k)
    budget = min(budget, len(index))
    exact, estimates, errors, found = index.second_stage(Q_sample, budget)
    reads = np.empty(len(wanted))
    hits = np.empty(len(wanted))
    curves = [gates.running_kth(cosines, k) for cosines in exact]
    for gate in _GATES:
        for q in range(len(wanted)):
            count = gates.reads(*curves[q], estimates[q] + gate * errors[q])
            best = found[q][np.argsort(-exact[q][:count], kind="stable")[:k]]
            reads[q], hits[q] = count, np.isin(wanted[q], best).mean()
        if hits.mean() >= recall:
            generator = as_generator(random_state)
            means = [
                reads[generator.integers(len(reads), size=len(reads))].mean() for _ in range(_DRAWS)
            ]
            low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
            return GatePlan(
                float(gate), budget, float(reads.mean()), float(low), float(high),
                float(hits.mean()), len(wanted),
            )  # fmt: skip
    raise ParameterError(
        f"A budget of {budget} reaches {hits.mean():.1%} on the sample, and {recall:.0%} was asked "
        f"for. Write budget={4 * budget}, or ask for less."
    )


def _truth(index: SketchIndex, Q: ArrayLike, truth: ArrayLike | None, k: int) -> Ids:
    wanted = true_neighbours(index, Q, k) if truth is None else np.asarray(truth)
    if wanted.ndim != 2 or len(wanted) != len(np.atleast_2d(np.asarray(Q))) or not len(wanted):
        raise DataError(
            f"truth has shape {wanted.shape}; needed is one row of ids for each query (nq, k)."
        )
    return wanted.astype(np.int64)


def _ranks(candidates: Ids, wanted: Ids) -> NDArray[np.int64]:
    """Place (nq, k), from 1 on, of each wanted id among the candidates, huge if absent."""
    ranks = np.full(wanted.shape, np.iinfo(np.int64).max)
    for q, (found, ids) in enumerate(zip(candidates, wanted, strict=True)):
        order = np.argsort(found, kind="stable")
        place = np.minimum(np.searchsorted(found[order], ids), len(found) - 1)
        hit = found[order[place]] == ids
        ranks[q, hit] = order[place[hit]] + 1
    return ranks


def _quantile(ranks: NDArray[np.int64], recall: float) -> int:
    """Smallest rank that at least this share of all ranks do not exceed."""
    flat = np.sort(ranks.ravel())
    return int(flat[min(int(np.ceil(recall * flat.size)) - 1, flat.size - 1)])
