"""Budgets and gates that are planned on a sample hold on other queries."""

import numpy as np
import pytest

from foretell.core import DataError, ParameterError
from foretell.recall import SignSketch, SketchIndex
from foretell.recall.budget import evaluate, plan_budget, plan_gate, true_neighbours
from foretell.recall.gate import gated, reads, running_kth
from foretell.recall.rows import Rows
from tests.recall.vectors import D, clustered, recall, true_top, unit


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return clustered(4000)


@pytest.fixture(scope="module")
def Q(X: np.ndarray) -> np.ndarray:
    return unit(X[:300] + 0.3 * np.random.default_rng(1).normal(size=(300, D)))


@pytest.fixture(scope="module")
def index(X: np.ndarray) -> SketchIndex:
    index = SketchIndex(SignSketch(n_bits=32, random_state=0).fit(X))
    index.add(X)
    return index


def test_true_neighbours_are_those_of_brute_force(index, X, Q) -> None:
    assert np.array_equal(true_neighbours(index, Q[:20], 5), true_top(X, Q[:20], 5))


def test_removed_vectors_are_no_neighbours(X, Q) -> None:
    index = SketchIndex(SignSketch(n_bits=32, random_state=0).fit(X), vectors="float16")
    index.add(X, ids=np.arange(4000) + 7)
    index.remove(np.arange(0, 4000, 2) + 7)
    truth = true_neighbours(index, Q[:20], 5)
    assert (truth % 2 == 0).all()
    assert recall(truth, 2 * true_top(X[1::2], Q[:20], 5) + 8) > 0.97


def test_recall_at_a_budget_is_what_a_search_finds(index, X, Q) -> None:
    found = evaluate(index, Q, k=5, budgets=(5, 50, 500, 10**9))
    assert found.budgets.tolist() == [5, 50, 500, 4000]
    assert found.recall[-1] == 1.0
    ids = index.search(Q, k=5, budget=50).ids
    assert abs(recall(ids, true_top(X, Q, 5)) - found.recall[1]) < 1e-3
    assert "1.000 at 4000" in repr(found)
    budget = found.budget_for(0.9)
    assert (found.ranks <= budget).mean() >= 0.9 > (found.ranks <= budget - 1).mean()


def test_a_planned_budget_holds_on_other_queries(index, X, Q) -> None:
    plan = plan_budget(index, Q[:150], 0.9, k=5)
    assert plan.low <= plan.budget <= plan.high
    for budget, holds in ((plan.high, True), (plan.low // 2, False)):
        ids = index.search(Q[150:], k=5, budget=max(budget, 5)).ids
        assert (recall(ids, true_top(X, Q[150:], 5)) > 0.88) == holds
    assert "candidates" in repr(plan)
    assert "150 queries" in repr(plan)


def test_a_planned_budget_for_a_graph(X, Q) -> None:
    index = SketchIndex(SignSketch(n_bits=32, random_state=0).fit(X), backend="hnsw")
    index.add(X)
    plan = plan_budget(index, Q[:60], 0.9, k=5)
    ids = index.search(Q[60:], k=5, budget=plan.high).ids
    assert recall(ids, true_top(X, Q[60:], 5)) > 0.85


def test_a_planned_gate_reads_what_it_says(index, X, Q) -> None:
    plan = plan_gate(index, Q[:150], 0.9, k=5, budget=1500)
    result = index.search(Q[:150], k=5, budget=1500, gate=plan.gate)
    assert abs(result.info.reads.mean() - plan.reads) < 0.05 * plan.reads
    assert abs(recall(result.ids, true_top(X, Q[:150], 5)) - plan.recall) < 0.01
    other = index.search(Q[150:], k=5, budget=1500, gate=plan.gate)
    assert recall(other.ids, true_top(X, Q[150:], 5)) > 0.85
    assert "reads" in repr(plan)


def test_the_gate_stops_at_the_first_candidate_that_cannot_matter() -> None:
    cosines = np.linspace(0.9, 0.1, 100)
    rows = Rows.of(np.stack([cosines, np.sqrt(1 - cosines**2)], 1).astype(np.float32))
    query, order = np.array([1, 0], np.float32), np.arange(100)
    for k, upper in ((3, cosines), (3, cosines + 0.3), (20, cosines), (3, np.full(100, 2.0))):
        best, exact, read = gated(rows, query, order, upper, k)
        assert best.tolist() == list(range(k))
        assert np.allclose(exact, cosines[:k], atol=1e-6)
        assert read == reads(*running_kth(cosines, k), upper)
        assert read == 100 or upper[read] <= cosines[k - 1] + 1e-6
    assert gated(rows, query, order[:2], cosines[:2], 3)[2] == 2


@pytest.mark.parametrize("value", [0.0, 1.0, 1.5])
def test_impossible_plans(index, Q, value) -> None:
    with pytest.raises(ParameterError, match="must lie between 0 and 1"):
        plan_budget(index, Q, value)
    with pytest.raises(ParameterError, match="level="):
        plan_budget(index, Q, level=value)


def test_what_cannot_be_reached_or_known(index, X, Q) -> None:
    with pytest.raises(ParameterError, match=r"budget of 6 reaches .* Write budget=24"):
        plan_gate(index, Q[:20], 0.99, k=5, budget=6)
    with pytest.raises(DataError, match="one row of ids for each query"):
        evaluate(index, Q, np.zeros((3, 5), int))
    codes = SketchIndex(index.sketch, vectors=None)
    codes.add(X[:100])
    with pytest.raises(DataError, match="keeps codes alone"):
        evaluate(codes, Q)
