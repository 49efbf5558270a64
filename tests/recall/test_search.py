"""SketchIndex: what is found, and how ids and removal behave."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import (
    DataError,
    ParameterError,
)
from foretell.recall import CosineDecoder, SignSketch, SketchIndex, backends
from foretell.recall.identity import IdentityMap
from foretell.recall.scan import byte_tables, rounded_tables, table_sums
from tests.recall.vectors import D, clustered, recall, true_top, unit

# What is found ------------------------------------------------------------------------------------


def test_every_back_end_finds_the_neighbours(X, Q, sketch, backend) -> None:
    index = SketchIndex(sketch, backend=backend)
    assert index.add(X).tolist() == list(range(6000))
    result = index.search(Q, k=5, budget=600)
    assert recall(result.ids, true_top(X, Q, 5)) > 0.9
    exact = np.take_along_axis(Q @ unit(X).T, result.ids, 1)
    assert np.allclose(result.cosines, exact, atol=1e-6)
    assert (np.diff(result.cosines, axis=1) <= 0).all()
    assert not result.standard_errors.any()
    assert result.info.reads.tolist() == [600] * 20
    assert "600.0 reads a query" in repr(result)


def test_a_full_budget_is_an_exact_search(X, Q, sketch) -> None:
    index = SketchIndex(sketch)
    index.add(X)
    ids, _, info = index.search(Q, k=7, budget=10**9)
    assert (ids == true_top(X, Q, 7)).all()
    assert info.reads[0] == 6000


def test_small_additions_and_one_large_one_are_the_same(X, Q, sketch, backend) -> None:
    whole, parts = SketchIndex(sketch, backend=backend), SketchIndex(sketch, backend=backend)
    whole.add(X)
    for start, stop in [(0, 1), (1, 1), (1, 4100), (4100, 5990), (5990, 6000)]:
        parts.add(X[start:stop])
    a, b = whole.search(Q, k=5, budget=300), parts.search(Q, k=5, budget=300)
    if backend != "hnsw":  # whose floors are drawn anew for each addition
        assert np.array_equal(a.ids, b.ids)
    assert recall(b.ids, true_top(X, Q, 5)) > 0.8


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("n", [1, 60, 3000])
def test_a_small_index_is_scanned_alike_with_and_without_compiled_code(
    X, Q, n, order, monkeypatch
) -> None:
    sketch = SignSketch(n_bits=40, bit_order=order, random_state=0).fit(X)
    index = SketchIndex(sketch)
    index.add(X[:n])
    index.remove(range(0, n - 1, 3))
    count = max(1, len(index) // 3)
    plain = index.candidates(Q, count)
    monkeypatch.setattr(backends, "_LITTLE", 0)
    compiled = index.candidates(Q, count)
    weights = np.stack([plan.weights for plan in CosineDecoder().prepare_many(sketch, Q)])
    sums = backends.Tables(weights, 5, order)
    for rows, others, entries in zip(plain, compiled, sums.entries, strict=True):
        votes = table_sums(entries, sketch.transform(X[:n]), np.int32)
        assert np.array_equal(votes[rows], votes[others])  # equal sums may change places
        assert len(set(rows)) == count


def test_tables_are_sums_of_signed_weights_to_half_a_step() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 24)).astype(np.float32)
    weights[1] = 0
    for order in ("little", "big"):
        entries, steps = rounded_tables(weights, order == "big")
        for w, table, step in zip(weights, entries, steps, strict=True):
            exact = byte_tables(w.astype(float), order)
            assert np.abs(table * step - exact).max() <= (0.5 + 1e-2) * step
            assert np.abs(table.astype(int)).max() in (0, 32767)


def test_without_a_re_rank_cosines_are_estimates_with_errors(X, Q, sketch) -> None:
    index = SketchIndex(sketch, vectors=None)
    index.add(X)
    result = index.search(Q, k=20, budget=50, rerank=False)
    exact = np.take_along_axis(Q @ unit(X).T, result.ids, 1)
    assert np.abs(result.cosines - exact).max() < 5 * result.standard_errors.max()
    assert (result.standard_errors > 0.02).all()
    assert not result.info.reads.any()


@pytest.mark.parametrize("method", ["hamming", "linear", "normalized", "llr", "mle"])
def test_every_decoder_searches(X, Q, sketch, method) -> None:
    index = SketchIndex(sketch, CosineDecoder(method))
    index.add(X)
    truth = true_top(X, Q, 5)
    assert recall(index.search(Q, k=5, budget=600).ids, truth) > 0.8
    assert recall(index.search(Q, k=5, budget=600, gate=3.0).ids, truth) > 0.8
    assert index.search(Q, k=5, budget=60, rerank=False).ids.shape == (20, 5)


def test_the_gate_reads_less_and_loses_little(X, Q, sketch) -> None:
    index = SketchIndex(sketch)
    index.add(X)
    fixed = index.search(Q, k=5, budget=2000)
    reads = []
    for z in (0.0, 1.0, 3.0):
        result = index.search(Q, k=5, budget=2000, gate=z)
        reads.append(result.info.reads.mean())
    assert reads[0] < reads[1] < reads[2] < 2000
    assert recall(result.ids, fixed.ids) > 0.97


def test_centred_sketches_weigh_by_norms(Q) -> None:
    X = clustered(3000) + 2.0
    sketch = SignSketch(n_bits=32, center="mean", random_state=0).fit(X)
    queries = unit(X[:20] + 0.2)
    index = SketchIndex(sketch)
    index.add(X)
    codes, norms, decoder = sketch.transform(X), sketch.residual_norms(X), CosineDecoder()
    plans = decoder.prepare_many(sketch, queries)
    scores = np.stack([decoder.score(plan, codes, norms) for plan in plans])
    found = index.candidates(queries, 60)
    assert recall(found, np.argsort(-scores, axis=1)[:, :60]) > 0.98  # 16-bit tables
    assert recall(index.search(queries, k=5, budget=600).ids, true_top(X, queries, 5)) > 0.8
    assert index.search(queries, k=5, budget=60, gate=2.0).info.reads.max() <= 60
    assert index.nbytes["norms"] == 4 * 3000


def test_half_precision_vectors(X, Q, sketch, backend) -> None:
    index = SketchIndex(sketch, backend=backend, vectors="float16")
    index.add(X)
    result = index.search(Q, k=5, budget=900)
    exact = np.take_along_axis(Q @ unit(X).T, result.ids, 1)
    assert np.abs(result.cosines - exact).max() < 2e-3
    assert index.nbytes["vectors"] == 2 * D * 6000
    assert index.search(Q, k=5, budget=900, gate=2.0).ids.shape == (20, 5)


@pytest.mark.parametrize("order", ["little", "big"])
def test_codes_that_exist_already(X, Q, backend, order) -> None:
    G = np.random.default_rng(3).normal(size=(48, D))
    codes = np.packbits(X @ G.T >= 0, axis=1, bitorder=order)
    sketch = SignSketch.from_matrix(G, bit_order=order)
    index = SketchIndex(sketch, backend=backend, vectors=None)
    index.add_codes(codes, ids=np.arange(6000) * 2)
    found = index.candidates(Q, 400)
    assert recall(found, 2 * true_top(X, Q, 5)) > 0.5
    assert np.isin(found[found >= 0], np.arange(6000) * 2).all()
    with pytest.raises(ParameterError, match="keeps vectors or norms"):
        SketchIndex(sketch).add_codes(codes)


# Ids, removal -------------------------------------------------------------------------------------


def test_removed_vectors_are_never_found_and_ids_stay(X, Q, sketch, backend) -> None:
    index = SketchIndex(sketch, backend=backend)
    names = np.random.default_rng(2).permutation(10**6)[:6000]
    index.add(X[:5000], ids=names[:5000])
    gone = true_top(X[:5000], Q, 3)
    index.remove(names[np.unique(gone)])
    index.add(X[5000:], ids=names[5000:])
    assert len(index) == 6000 - len(np.unique(gone))
    result = index.search(Q, k=5, budget=600)
    assert not np.isin(result.ids, names[np.unique(gone)]).any()
    left = np.delete(X, np.unique(gone), axis=0)
    truth = np.delete(names, np.unique(gone))[true_top(left, Q, 5)]
    assert recall(result.ids, truth) > 0.8


def test_removing_nothing_changes_nothing(X, Q, sketch) -> None:
    index = SketchIndex(sketch)
    index.remove([])
    assert index.add(X[:50]).tolist() == list(range(50))
    index.remove([])
    assert index.search(Q[:1], k=50, budget=50).ids.shape == (1, 50)


def test_a_removed_id_can_be_given_again(X, Q, sketch) -> None:
    index = SketchIndex(sketch)
    index.add(X[:100])
    index.remove([7, 8])
    index.add(X[200:201], ids=[7])
    assert len(index) == 99
    assert index.search(unit(X[200]), k=1, budget=99).ids[0, 0] == 7
    with pytest.raises(DataError, match="id 8 is not in the index"):
        index.remove([8])
    index.remove(7)
    assert index.search(unit(X[200]), k=1, budget=98).ids[0, 0] != 7
    assert index.add(X[300:302]).tolist() == [100, 101]


def test_nine_of_ten_removed(X, Q, sketch, backend) -> None:
    index = SketchIndex(sketch, backend=backend)
    index.add(X)
    keep = np.arange(0, 6000, 10)
    index.remove(np.setdiff1d(np.arange(6000), keep))
    ids, _, _ = index.search(Q, k=5, budget=100)
    assert (ids >= 0).all()
    assert recall(ids, keep[true_top(X[keep], Q, 5)]) > 0.75


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=9), max_size=12))
@settings(max_examples=200)
def test_identities_agree_with_a_dictionary(batches: list[list[int]]) -> None:
    known, table, row = IdentityMap(), {}, 0
    for ids in batches:
        known.add(np.array(ids, np.int64), row)
        for one in ids:
            table[one] = row
            row += 1
    asked = np.arange(-1, 32)
    assert known.rows(asked).tolist() == [table.get(int(i), -1) for i in asked]
