"""The graph and its compiled loops against slow, plain versions."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import ArtifactError, ParameterError
from foretell.recall._graph_kernels import _put
from foretell.recall.backends import Tables
from foretell.recall.graph import Graph
from foretell.recall.rows import GrowingRows, Rows
from foretell.recall.scan import byte_tables
from tests.recall.vectors import D, clustered, recall, true_top, unit


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return unit(clustered(3000)).astype(np.float32)


@pytest.fixture(scope="module")
def Q(X: np.ndarray) -> np.ndarray:
    return unit(X[:60] + 0.05).astype(np.float32)


@pytest.fixture(scope="module")
def graph(X: np.ndarray) -> Graph:
    rows = GrowingRows(D, np.float32, shift=9)  # in several blocks
    rows.append(X)
    graph = Graph(m=8, ef_construction=80, random_state=0)
    for stop in (1, 2, 700, 3000):
        graph.extend(rows.view(), stop)
    return graph


@given(st.lists(st.integers(-(2**62), 2**62), max_size=40), st.integers(1, 12))
@settings(max_examples=100)
def test_the_pool_keeps_the_smallest_in_order(keys: list[int], ef: int) -> None:
    pool, count = np.empty(ef, np.int64), 0
    for key in keys:
        if count == ef and key >= pool[ef - 1]:
            continue
        place = _put(pool, count, key)
        assert pool[place] == key
        count = min(count + 1, ef)
    assert pool[:count].tolist() == sorted(keys)[:ef]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("bits", [24, 64, 5])
def test_tables_are_those_of_the_scan(bits: int, order: str) -> None:
    W = np.random.default_rng(bits).normal(size=(3, bits))
    width = -(-bits // 8)
    tables = Tables(W, width, order)
    for q in range(3):
        exact = byte_tables(W[q], order)
        assert np.abs(tables.entries[q] * tables.scales[q] - exact).max() <= 2e-5 * exact.max()
    assert Tables(np.zeros((1, bits)), width, order).entries.any() == np.False_


def test_most_neighbours_are_found_and_scores_are_inner_products(graph, X, Q) -> None:
    links = graph.links()
    truth = true_top(X, Q, 10)
    found = [recall(links.search_vectors(Rows.of(X), Q, ef, 10)[0], truth) for ef in (10, 30, 90)]
    assert found[0] < found[1] < found[2]
    assert found[2] > 0.97
    rows, scores, scored = links.search_vectors(Rows.of(X), Q, 90, 10)
    assert np.allclose(scores, np.take_along_axis(Q @ X.T, rows, 1), atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert ((scored >= 90) & (scored < 3000)).all()


@pytest.mark.parametrize("width", [8, 5])
def test_codes_are_walked_by_their_table_sums(graph, width: int) -> None:
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 256, (3000, width), dtype=np.uint8)
    tables = Tables(rng.normal(size=(4, 8 * width)), width, "little").entries
    rows, scores, _ = graph.links().search_tables(Rows.of(codes), tables, 3000, 40)
    for q in range(4):
        sums = tables[q][np.arange(width), codes].astype(np.int64).sum(axis=1)
        assert np.array_equal(scores[q], sums[rows[q]].astype(np.float32))
        assert np.array_equal(np.sort(sums)[::-1][:40], scores[q])  # ef = all: an exact search


def test_a_graph_over_codes_alone(X) -> None:
    codes = np.packbits(X >= 0, axis=1)
    graph = Graph(m=8, ef_construction=60, random_state=0)
    links = graph.extend(Rows.of(codes), 3000)
    W = np.where(X[:50] >= 0, 1.0, -1.0)
    tables = Tables(W, 4, "big").entries
    rows, scores, _ = links.search_tables(Rows.of(codes), tables, 100, 1)
    assert (scores[:, 0] * 8 / 32767 / 32 > 0.99).mean() > 0.95  # its own code, or an equal one
    assert rows.shape == (50, 1)


def test_every_link_is_a_row_and_lists_have_no_holes(graph) -> None:
    arrays = graph.to_arrays()
    base = arrays["base"]
    assert base.min() >= -1
    assert base.max() < 3000
    assert not ((base[:, :-1] < 0) & (base[:, 1:] >= 0)).any()
    assert (base != np.arange(3000)[:, None]).all()
    assert (base[:, 0] >= 0).all()


def test_a_graph_comes_back_from_its_arrays(graph, X, Q) -> None:
    again = Graph.from_arrays(graph.to_arrays())
    one, two = (g.links().search_vectors(Rows.of(X), Q, 20, 5)[0] for g in (graph, again))
    assert np.array_equal(one, two)
    grown = again.extend(Rows.of(np.concatenate([X, X[:5]])), 3005)
    assert (grown.n, graph.links().n) == (3005, 3000)


@pytest.mark.parametrize("name", ["base", "upper", "upper_start", "numbers"])
def test_links_that_point_nowhere_are_refused(graph, name: str) -> None:
    arrays = {key: value.copy() for key, value in graph.to_arrays().items()}
    arrays[name].flat[1 if name == "numbers" else 0] = 10**6
    with pytest.raises(ArtifactError, match="point nowhere"):
        Graph.from_arrays(arrays)


def test_searches_beyond_255_and_in_other_threads_do_not_mix(graph, X, Q) -> None:
    links, rows = graph.links(), Rows.of(X)
    expected = links.search_vectors(rows, Q, 20, 5)[0]
    out: list[np.ndarray] = []

    def work() -> None:
        out.extend(links.search_vectors(rows, Q, 20, 5)[0] for _ in range(12))  # 720 queries

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(out) == 36
    assert all(np.array_equal(one, expected) for one in out)


def test_an_empty_graph_and_rows_that_are_not_there_yet(graph, X, Q) -> None:
    empty, _, scored = Graph().links().search_vectors(Rows.of(X), Q, 10, 5)
    assert (empty == -1).all()
    assert not scored.any()
    few = Rows.of(X[:10])
    rows, _, _ = graph.links().search_vectors(few, Q, 20, 5)
    assert rows.max() < 10


def test_impossible_graphs(graph, X, Q) -> None:
    with pytest.raises(ParameterError, match="count=5 needs an ef at least as large"):
        graph.links().search_vectors(Rows.of(X), Q, 4, 5)
    with pytest.raises(ParameterError, match="not float64"):
        Graph().extend(Rows.of(X.astype(float)), 10)
    with pytest.raises(ParameterError, match="too many for one graph"):
        Graph().extend(Rows.of(X), 2**31)
