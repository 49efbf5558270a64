"""Our scan, graph and adapters against faiss."""

import numpy as np
import pytest

from foretell.recall import CosineDecoder, SignSketch
from foretell.recall.adapters import from_faiss_binary
from foretell.recall.backends import sign_index
from foretell.recall.graph import Graph
from foretell.recall.rows import GrowingRows, Rows
from tests.recall.vectors import D, clustered, recall, true_top, unit

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
pytestmark = pytest.mark.peer


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("bits", [8, 40, 128])
def test_sign_centroids_give_the_weighted_votes(bits: int, order: str) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 256, (3000, bits // 8), dtype=np.uint8)
    rows = GrowingRows(bits // 8, np.uint8, shift=10)
    rows.append(codes)
    W = rng.normal(size=(4, bits)).astype(np.float32)
    scores, found = sign_index(rows.view(), 100, order).search(W, 20)
    signs = np.unpackbits(codes[100:], axis=1, bitorder=order) * 2.0 - 1.0
    votes = W @ signs.T
    # faiss rounds the four-bit tables to a byte each.
    step = 2 * np.abs(W).reshape(4, -1, 4).sum(axis=2).max(axis=1) / 255
    error = np.abs(np.take_along_axis(votes, found, 1) - scores)
    assert (error <= (bits // 4) * step[:, None]).all()
    best = -np.sort(-votes, axis=1)[:, :20]
    assert (np.abs(best - np.take_along_axis(votes, found, 1)) <= (bits // 4) * step[:, None]).all()


def test_hamming_votes_rank_as_the_binary_index() -> None:
    X = clustered(2000)
    Q = unit(X[:10])
    sketch = SignSketch(n_bits=64, projection="gaussian", random_state=0).fit(X)
    codes = sketch.transform(X)
    index = faiss.IndexBinaryFlat(64)
    index.add(codes)
    distances, _ = index.search(sketch.transform(Q), 50)
    decoder = CosineDecoder("hamming")
    for q, plan in enumerate(decoder.prepare_many(sketch, Q)):
        votes = np.sort(plan.ranking(codes))[::-1][:50]
        assert np.allclose((1 - votes) * 32, distances[q])
    assert np.array_equal(from_faiss_binary(index), codes)


def test_a_faiss_graph_walked_by_us_finds_the_same() -> None:
    X = unit(clustered(3000)).astype(np.float32)
    Q = unit(X[:50] + 0.05).astype(np.float32)
    index = faiss.IndexHNSWFlat(D, 8, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 60
    faiss.omp_set_num_threads(1)
    index.add(X)
    graph = Graph.from_faiss(index)
    truth = true_top(X, Q, 5)
    for ef in (10, 40):
        index.hnsw.efSearch = ef
        _, theirs = index.search(Q, 5)
        ours, scores, _ = graph.links().search_vectors(Rows.of(X), Q, ef, 5)
        assert abs(recall(ours, truth) - recall(theirs, truth)) < 0.05
        assert np.allclose(scores, np.take_along_axis(Q @ X.T, ours, 1), atol=1e-5)
