"""CosineDecoder: the estimators against their definitions, error bars, posteriors, refusals."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from foretell.core import DataError, ParameterError
from foretell.recall import CosineDecoder, CosinePrior, SignSketch, scaled_variance
from foretell.recall.likelihood import maximum_likelihood

METHODS = ("hamming", "linear", "normalized", "llr", "decorrelated", "mle")


def near_and_far(d=64, n=300, seed=11):
    """A query, and documents with cosines spread over (-0.9, 0.9), not from the sketches' seed."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=d)
    q /= np.linalg.norm(q)
    w = rng.normal(size=(n, d))
    w -= np.outer(w @ q, q)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    rho = np.linspace(-0.9, 0.9, n)[:, None]
    return q, rho * q + np.sqrt(1 - rho**2) * w, rho[:, 0]


def prepared(method, projection="gaussian", n_bits=64, **settings):
    q, X, rho = near_and_far()
    sketch = SignSketch(n_bits=n_bits, projection=projection, random_state=0).fit(X)
    decoder = CosineDecoder(method, **settings)
    return decoder, decoder.prepare(sketch, q), sketch.transform(X), rho


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("projection", ["gaussian", "orthogonal", "hadamard"])
def test_estimates_are_near_the_cosines(method, projection):
    decoder, plan, codes, rho = prepared(method, projection, n_bits=512)
    estimates = decoder.score(plan, codes)
    error = np.abs(estimates - rho) / decoder.standard_error(plan, rho)
    assert np.quantile(error, 0.5) < 1.0
    assert error.max() < 6


@pytest.mark.parametrize("method", METHODS)
def test_the_ranking_score_is_the_weighted_vote(method):
    _, plan, codes, _ = prepared(method)
    expected = plan.offset + plan.scale * plan.signs(codes) @ plan.weights
    np.testing.assert_allclose(plan.ranking(codes), expected, atol=1e-5)


def test_each_estimator_is_its_formula():
    _, plan, codes, _ = prepared("linear")
    signs, t, m = plan.signs(codes), plan.projections, plan.n_bits
    y = signs * t
    by_method = {method: prepared(method) for method in METHODS}
    scores = {m_: d.score(p, c) for m_, (d, p, c, _) in by_method.items()}
    np.testing.assert_allclose(scores["hamming"], np.cos(np.pi * (y < 0).mean(axis=1)), atol=1e-6)
    np.testing.assert_allclose(scores["linear"], np.sqrt(np.pi / 2) * y.mean(axis=1), rtol=0.01)
    np.testing.assert_allclose(
        scores["normalized"],
        np.sqrt(np.pi / 2) * y.mean(axis=1) / np.sqrt((t**2).mean()),
        atol=1e-5,
    )
    for row in (0, 100, 299):
        slow = minimize_scalar(
            lambda r, y=y[row]: -log_ndtr(r / np.sqrt(1 - r * r) * y).sum(),
            bounds=(-0.999, 0.999),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert scores["mle"][row] == pytest.approx(slow.x, abs=1e-6)
    assert m == 64


def test_llr_votes_are_the_log_likelihood_ratio():
    _, plan, codes, _ = prepared("llr", design_cosine=0.6)
    y = plan.signs(codes) * plan.projections
    ratio = (log_ndtr(0.75 * y) - np.log(0.5)).sum(axis=1)
    votes = plan.signs(codes) @ plan.weights
    np.testing.assert_allclose(ratio - ratio[0], votes - votes[0], atol=1e-9)


def test_llr_is_linear_for_a_tiny_design_cosine():
    q, X, _ = near_and_far()
    sketch = SignSketch(n_bits=64, projection="gaussian", random_state=0).fit(X)
    tiny = CosineDecoder("llr", design_cosine=1e-4).prepare(sketch, q)
    assert np.corrcoef(tiny.weights, tiny.projections)[0, 1] > 1 - 1e-9


def test_auto_looks_at_the_rows():
    assert prepared("auto", "orthogonal")[1].method == "linear"
    assert prepared("auto", "gaussian")[1].method == "decorrelated"
    # On orthonormal rows there is no correlation to remove, and the ranking is the same.
    _, linear, _, _ = prepared("linear", "orthogonal")
    _, better, _, _ = prepared("decorrelated", "orthogonal")
    np.testing.assert_allclose(
        linear.weights / np.linalg.norm(linear.weights),
        better.weights / np.linalg.norm(better.weights),
        atol=1e-12,
    )


def test_agreeing_bits_have_the_largest_cosine():
    y = np.abs(np.random.default_rng(0).normal(size=(1, 64)))
    assert maximum_likelihood(y)[0] > 0.999
    assert maximum_likelihood(-y)[0] < -0.999
    assert np.isfinite(maximum_likelihood(1e6 * np.array([[1.0, -1e-3]]))).all()


def test_many_queries_are_one_query_many_times():
    _, X, _ = near_and_far()
    sketch = SignSketch(n_bits=64, projection="gaussian", random_state=0).fit(X)
    for method in METHODS:
        decoder = CosineDecoder(method)
        for row, plan in zip(X[:3], decoder.prepare_many(sketch, X[:3]), strict=True):
            np.testing.assert_allclose(plan.weights, decoder.prepare(sketch, row).weights)


def test_a_posterior_holds_the_truth_as_often_as_it_says():
    decoder, plan, codes, rho = prepared("mle", "gaussian", n_bits=128)
    posterior = decoder.posterior(plan, codes)
    np.testing.assert_allclose(posterior.probability.sum(axis=1), 1)
    low, high = posterior.interval(0.9).T
    assert 0.83 <= ((low <= rho) & (rho <= high)).mean() <= 0.97
    assert (
        np.abs(posterior.mean - maximum_likelihood(plan.signs(codes) * plan.projections)).max()
        < 0.1
    )


def test_a_prior_pulls_towards_itself():
    decoder, plan, codes, _ = prepared("linear", n_bits=16)
    flat = decoder.posterior(plan, codes)
    pulled = decoder.posterior(plan, codes, CosinePrior(0.0, 0.05, tail=0.0))
    assert np.abs(pulled.mean).max() < 0.2 < np.abs(flat.mean).max()
    assert pulled.std.max() < flat.std.min()
    assert "300 candidates" in repr(flat)


def test_codes_of_another_kind_are_refused():
    decoder, plan, codes, _ = prepared("linear")
    with pytest.raises(DataError, match=r"(?s)\(300, 7\).*\(n, 8\)"):
        decoder.score(plan, codes[:, :7])
    with pytest.raises(DataError, match="int32"):
        decoder.score(plan, codes.astype(np.int32))
    _, X, _ = near_and_far()
    sketch = SignSketch(n_bits=8).fit(X)
    with pytest.raises(DataError, match="one query"):
        decoder.prepare(sketch, X[:2])


def test_centred_and_uncentred_codes_do_not_mix():
    q, X, _ = near_and_far()
    plain = SignSketch(n_bits=32, random_state=0).fit(X)
    centred = SignSketch(n_bits=32, center="mean", random_state=0).fit(X)
    for method in METHODS:
        decoder = CosineDecoder(method)
        with pytest.raises(DataError, match="residual_norms"):
            decoder.score(decoder.prepare(centred, q), centred.transform(X))
        with pytest.raises(DataError, match="not centred"):
            decoder.score(decoder.prepare(plain, q), plain.transform(X), np.ones(len(X)))
    decoder = CosineDecoder()
    plan = decoder.prepare(centred, q)
    with pytest.raises(DataError, match="need 300"):
        decoder.score(plan, centred.transform(X), np.ones(5))
    with pytest.raises(DataError, match="uncentred"):
        decoder.posterior(plan, centred.transform(X))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "cosine"}, "decorrelated"),
        ({"design_cosine": 0.0}, "design_cosine"),
        ({"design_cosine": 1.0}, "design_cosine"),
    ],
)
def test_impossible_decoders_are_refused(arguments, words):
    with pytest.raises(ParameterError, match=words):
        CosineDecoder(**arguments)


def test_impossible_questions_are_refused():
    with pytest.raises(ParameterError, match="Clip"):
        scaled_variance("linear", 1.0)
    with pytest.raises(ParameterError, match="no closed form"):
        scaled_variance("stored-norm", 0.5)
    with pytest.raises(ParameterError, match="no closed form"):
        scaled_variance("median", 0.5)
    with pytest.raises(ParameterError, match="prior"):
        CosinePrior(std=0.0)
    with pytest.raises(ParameterError, match="two vectors"):
        CosinePrior.from_pairs(np.ones((1, 4)))
    decoder, plan, codes, _ = prepared("linear")
    with pytest.raises(ParameterError, match="level"):
        decoder.posterior(plan, codes).interval(1.0)
