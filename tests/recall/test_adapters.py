"""Candidates of other indexes in the order of estimated cosines."""

import sys

import numpy as np
import pytest

from foretell.core import DataError, MissingExtraError, ParameterError
from foretell.recall import CosineDecoder, SignSketch
from foretell.recall.adapters import from_faiss_binary, from_hnswlib, rerank_codes

D = 64


@pytest.fixture(scope="module")
def case() -> tuple[SignSketch, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, D))
    Q = X[:6] + 0.5 * rng.normal(size=(6, D))
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    sketch = SignSketch.from_matrix(rng.normal(size=(96, D)))
    return sketch, X, Q, sketch.transform(X)


def test_the_order_is_that_of_the_decoder(case) -> None:
    sketch, _, Q, codes = case
    candidates = np.random.default_rng(1).permuted(np.tile(np.arange(300), (6, 1)), axis=1)[:, :90]
    decoder = CosineDecoder("mle")
    found = rerank_codes(sketch, Q, candidates, codes, k=7, decoder=decoder)
    for q, plan in enumerate(decoder.prepare_many(sketch, Q)):
        rho = decoder.score(plan, codes[candidates[q]])
        assert np.allclose(found.cosines[q], np.sort(rho)[::-1][:7])
        assert found.ids[q, 0] == candidates[q, rho.argmax()]
        assert np.allclose(found.standard_errors[q], decoder.standard_error(plan, found.cosines[q]))
    assert repr(found) == "Reranked(6 queries, 7 each)"


def test_codes_of_each_query_and_missing_candidates(case) -> None:
    sketch, _, Q, codes = case
    candidates = np.tile(np.arange(20), (6, 1))
    candidates[:, 15:] = -1
    whole = rerank_codes(sketch, Q, candidates, codes, k=18)
    each = rerank_codes(sketch, Q, candidates, [codes[:15]] * 6, k=18)
    padded = rerank_codes(sketch, Q, candidates, [codes[:20]] * 6, k=18)
    assert np.array_equal(whole.ids, each.ids)
    assert np.array_equal(whole.ids, padded.ids)
    assert (whole.ids[:, 15:] == -1).all()
    assert np.isnan(whole.cosines[:, 15:]).all()


def test_impossible_requests(case) -> None:
    sketch, _, Q, codes = case
    candidates = np.tile(np.arange(20), (6, 1))
    with pytest.raises(ParameterError, match="k=21, and each query has 20 candidates"):
        rerank_codes(sketch, Q, candidates, codes, k=21)
    with pytest.raises(DataError, match=r"6 queries need ids \(nq, C\)"):
        rerank_codes(sketch, Q, candidates[:2], codes)
    with pytest.raises(DataError, match="type float64"):
        rerank_codes(sketch, Q, candidates * 1.0, codes)
    with pytest.raises(DataError, match="candidate 19 is not among the 10 codes"):
        rerank_codes(sketch, Q, candidates, codes[:10])
    with pytest.raises(DataError, match="6 queries and 2 lists of codes"):
        rerank_codes(sketch, Q, candidates, [codes, codes])
    with pytest.raises(DataError, match="Query 0 has 20 candidates and 3 codes"):
        rerank_codes(sketch, Q, candidates, [codes[:3]] * 6)
    with pytest.raises(DataError, match="uint8"):
        rerank_codes(sketch, Q, candidates, codes[:, :5])


def test_an_hnswlib_index_gives_labels_and_codes(case) -> None:
    sketch, X, _, codes = case

    class Index:
        def get_ids_list(self) -> list[int]:
            return [5, 3]

        def get_items(self, labels: np.ndarray) -> list[list[float]]:
            return [X[i].tolist() for i in labels]

    labels, found = from_hnswlib(Index(), sketch)
    assert labels.tolist() == [5, 3]
    assert np.array_equal(found, codes[[5, 3]])
    Index.get_ids_list = lambda self: []  # type: ignore[method-assign]
    with pytest.raises(DataError, match="empty"):
        from_hnswlib(Index(), sketch)


def test_faiss_indexes_without_codes_and_a_missing_faiss(monkeypatch) -> None:
    pytest.importorskip("faiss")
    with pytest.raises(DataError, match="A object does not show its codes"):
        from_faiss_binary(object())
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"foretell\[find\]"):
        from_faiss_binary(object())
