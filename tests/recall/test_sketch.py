"""SignSketch: what it makes, that it is an estimator, and what it refuses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from foretell.core import DataError, ForetellWarning, ParameterError
from foretell.recall import CosineDecoder, SignSketch

KINDS = ("orthogonal", "gaussian", "hadamard")


def unit(n, d, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# Two checks pass rows of zeros, of which no cosine exists; "keep" is the setting that takes them.
@parametrize_with_checks([SignSketch(n_bits=16, zero_rows="keep", random_state=0)])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bit_order", ["little", "big"])
def test_bits_are_the_signs_of_the_projections(kind, bit_order):
    X = unit(200, 24)
    sketch = SignSketch(n_bits=40, projection=kind, bit_order=bit_order, random_state=1).fit(X)
    codes = sketch.transform(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (200, 5)
    bits = np.unpackbits(codes, axis=1, bitorder=bit_order).astype(bool)
    assert (bits == (X @ sketch.matrix_.T >= 0)).all()
    np.testing.assert_allclose(sketch.project(X), X @ sketch.matrix_.T, atol=1e-12)


@pytest.mark.parametrize(("n_bits", "d"), [(16, 24), (24, 24), (40, 24), (48, 24), (8, 1)])
def test_orthogonal_rows_are_orthonormal_or_a_tight_frame(n_bits, d):
    sketch = SignSketch(n_bits=n_bits, random_state=0).fit(unit(3, d))
    G = sketch.matrix_
    np.testing.assert_allclose(np.linalg.norm(G, axis=1), 1, atol=1e-12)
    if n_bits <= d:
        np.testing.assert_allclose(G @ G.T, np.eye(n_bits), atol=1e-12)
    assert sketch.orthogonal_
    assert SignSketch.from_matrix(3 * G).orthogonal_
    assert sketch.constraint_ == pytest.approx(min(n_bits / d, 1), abs=0.05) or d == 1


def test_independent_rows_are_seen_to_be_independent():
    for n_bits in (16, 64, 256):
        sketch = SignSketch(n_bits=n_bits, projection="gaussian", random_state=0).fit(unit(3, 64))
        assert not sketch.orthogonal_
        assert not SignSketch.from_matrix(sketch.matrix_).orthogonal_
        assert sketch.constraint_ < 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_codes_whatever_the_type_and_the_batch(kind):
    X = unit(50, 20).astype(np.float32)
    a = SignSketch(n_bits=32, projection=kind, random_state=7).fit(X)
    b = clone(a).fit(X.astype(np.float64))
    codes = a.transform(X)
    assert (codes == b.transform(X.astype(np.float64))).all()
    assert (codes[3:4] == a.transform(X[3:4])).all()
    assert (codes == a.transform(5 * X)).all()


def test_zero_counts_as_plus_one():
    sketch = SignSketch.from_matrix(np.eye(8))
    assert sketch.transform(np.eye(8)[:1]).tolist() == [[255]]
    assert sketch.transform(-np.eye(8)[:1]).tolist() == [[254]]


def test_bits_that_fill_the_last_byte_weigh_nothing():
    G, X = np.random.default_rng(0).normal(size=(12, 6)), unit(30, 6)
    sketch = SignSketch.from_matrix(G)
    assert sketch.n_bytes_ == 2
    codes = sketch.transform(X)
    decoder = CosineDecoder("linear")
    plan = decoder.prepare(sketch, X[0])
    other = codes.copy()
    other[:, 1] |= 0b11110000
    assert (decoder.score(plan, codes) == decoder.score(plan, other)).all()


def test_centring_is_undone_by_the_norms():
    X = unit(400, 32) + 0.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    sketch = SignSketch(n_bits=1024, center="mean", random_state=0).fit(X)
    decoder = CosineDecoder()
    plan = decoder.prepare(sketch, X[0])
    norms = sketch.residual_norms(X)
    error = decoder.score(plan, sketch.transform(X), norms) - X @ X[0]
    assert np.sqrt((error**2).mean()) < 0.04
    reported = decoder.standard_error(plan, X @ X[0], norms)
    assert 0.5 < np.sqrt((error**2).mean() / (reported**2).mean()) < 1.5


def test_a_query_at_the_mean_is_scored_by_norms_alone():
    X = unit(50, 32) + 0.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    q = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
    sketch = SignSketch.from_matrix(np.eye(32), center=q)
    decoder = CosineDecoder()
    scores = decoder.score(
        decoder.prepare(sketch, q), sketch.transform(X), sketch.residual_norms(X)
    )
    np.testing.assert_allclose(scores, X @ q, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("center", [None, "mean"])
def test_saved_and_loaded_it_makes_the_same_codes(kind, center):
    X = unit(60, 20)
    sketch = SignSketch(n_bits=24, projection=kind, center=center, random_state=0).fit(X)
    again = SignSketch.from_arrays(sketch.to_dict(), sketch.to_arrays())
    assert (again.transform(X) == sketch.transform(X)).all()
    np.testing.assert_allclose(again.residual_norms(X), sketch.residual_norms(X))
    wrong = {**sketch.to_dict(), "centred": center is None}
    with pytest.raises(DataError, match="do not belong together"):
        SignSketch.from_arrays(wrong, sketch.to_arrays())


def _rows(row, value):
    X = unit(20, 8)
    X[row] = value
    return X


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (_rows(7, np.nan), "(?s)Rows 7.*NaN"),
        (_rows([2, 5], np.inf), "Rows 2, 5"),
        (_rows(slice(0, 9), 0.0), r"0, 1, 2, 3, 4 and 4 more.*norm zero"),
    ],
)
def test_bad_rows_are_named(X, words):
    with pytest.raises(DataError, match=words):
        SignSketch(n_bits=8).fit(X)
    with pytest.raises(DataError, match=words):
        SignSketch(n_bits=8, random_state=0).fit(unit(5, 8)).transform(X)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_bits": 100}, "n_bits=104"),
        ({"n_bits": 0}, "n_bits"),
        ({"n_bits": 16.0}, "n_bits"),
        ({"projection": "haar"}, "orthogonal"),
        ({"projection": np.eye(8), "n_bits": 16}, "from_matrix"),
        ({"center": "median"}, "center"),
        ({"bit_order": "middle"}, "packbits"),
        ({"zero_rows": "drop"}, "zero_rows"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(ParameterError, match=words):
        SignSketch(**{"n_bits": 8, **settings}).fit(unit(5, 8))


@pytest.mark.parametrize(
    ("G", "center", "words"),
    [
        (np.ones(8), None, "matrix"),
        (np.vstack([np.eye(8), np.zeros(8)]), None, "Directions 8"),
        (np.full((8, 8), np.nan), None, "not finite"),
        (np.eye(8), np.zeros(7), "center"),
        (np.eye(8), np.full(8, np.nan), "center"),
    ],
)
def test_directions_that_cannot_be_are_refused(G, center, words):
    with pytest.raises(DataError, match=words):
        SignSketch.from_matrix(G, center=center)


def test_queries_are_checked_and_normalised():
    X = unit(20, 8)
    sketch = SignSketch(n_bits=8, random_state=0).fit(X)
    with pytest.raises(DataError, match=r"(?s)9.*8"):
        sketch.project(unit(2, 9))
    with pytest.raises(DataError, match="Queries 1 contain NaN"):
        sketch.project(_rows(1, np.nan))
    with pytest.raises(DataError, match="Queries 3 have norm zero"):
        sketch.project(_rows(3, 0.0))
    with pytest.raises(DataError, match="numbers"):
        sketch.project(np.array([["a"] * 8]))
    with pytest.warns(ForetellWarning, match="norm one"):
        scaled = sketch.project(3 * X)
    np.testing.assert_allclose(scaled, sketch.project(X))
    assert sketch.project(X[0]).shape == (1, 8)
