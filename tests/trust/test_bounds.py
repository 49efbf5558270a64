"""Bounds against plain definitions, and the values of their worked examples."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, false_discovery_control

from foretell.core import DataError, ParameterError
from foretell.trust import (
    binomial_boundary,
    binomial_interval,
    binomial_lower,
    binomial_upper,
    conformal_selection_pvalues,
    crossing_probability,
    empirical_bernstein_upper,
    pool_inflation,
    predictable_spread,
    selection_inflation,
    smallest_n,
)


@pytest.mark.parametrize(("v", "k"), [(0, 1), (0, 45), (3, 10), (10, 10), (499, 1000)])
def test_binomial_bounds_are_those_of_scipy(v, k):
    expected = binomtest(v, k).proportion_ci(0.9, method="exact")
    assert binomial_interval(v, k, 0.9) == pytest.approx((expected.low, expected.high))
    if v < k:
        assert binom.cdf(v, k, binomial_upper(v, k, 0.1)) == pytest.approx(0.1)
    assert binomial_lower(0, k, 0.1) == 0
    assert binomial_upper(k, k, 0.1) == 1
    assert binomial_interval(0, 0) == (0, 1)


def test_impossible_counts_name_the_entry():
    with pytest.raises(DataError, match="entry 1 has 3 of 2"):
        binomial_upper([0, 3], [2, 2], 0.1)


def test_boundary_of_a_pointwise_level():
    most = binomial_boundary(20, 0.3, 0.1, kind="pointwise").most_errors
    assert most[6] == -1
    assert most[7] == 0
    assert most[10] == 0
    for k in range(1, 21):
        v = np.flatnonzero(binom.cdf(np.arange(k + 1), k, 0.3) <= 0.1)
        assert most[k] == (v[-1] if v.size else -1)


def test_boundaries_are_kept_and_cannot_be_written_on():
    first = binomial_boundary(400, 0.1, 0.1, 40)
    assert binomial_boundary(400, 0.1, 0.1, 40) is first
    with pytest.raises(ValueError, match="read-only"):
        first.most_errors[0] = 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n=0"),
        ({"n": 2.5}, "n=2.5"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"alpha": 1}, "alpha=1"),
        ({"delta": -0.1}, "delta=-0.1"),
        ({"k0": 11}, "k0=11 is above n=10"),
        ({"kind": "best"}, "minp, pointwise, linear"),
    ],
)
def test_impossible_boundaries(arguments, message):
    with pytest.raises(ParameterError, match=message):
        binomial_boundary(**{"n": 10, "alpha": 0.1, **arguments})


def test_a_boundary_may_fall_and_touch_zero_steps():
    assert crossing_probability([-1, 0, -1, -1], 0.25) == pytest.approx(0.75)
    assert crossing_probability([-1, -1], 0.25) == 0
    assert crossing_probability([0, 0], 0.25) == pytest.approx(1.0)


def test_bernstein_beats_nothing_at_first_and_shrinks():
    values = np.zeros(10_000)
    spread = predictable_spread(values)
    n = np.arange(1, 10_001)
    bound = empirical_bernstein_upper(n, 0.0, spread, 0.05)
    assert bound[0] == 1.0
    assert bound[-1] < 0.003
    assert empirical_bernstein_upper(0, 0.0, 0.0, 0.05) == 1.0
    with pytest.raises(DataError, match=r"\[0, 1\]"):
        predictable_spread([0.5, 1.5])


def test_conformal_pvalues_and_their_batch():
    p = conformal_selection_pvalues([0.1, 0.2, 0.5], [0.9, 0.2], 4)
    assert p == pytest.approx([0.2, 0.4, 0.4])
    assert (false_discovery_control(p) <= 0.5).all()
    with pytest.raises(DataError, match="more than n_calibration=1"):
        conformal_selection_pvalues([0.1], [0.2, 0.3], 1)


@pytest.mark.parametrize(
    ("n", "k0", "expected"), [(50, 10, 1.21), (100, 50, 1.07), (300, 50, 1.10), (5000, 500, 1.03)]
)
def test_selection_inflation(n, k0, expected):
    assert selection_inflation(n, k0) == pytest.approx(expected, abs=0.012)


def test_inflation_against_its_definition():
    u = np.sort(np.random.default_rng(0).uniform(size=(40_000, 61)), axis=1)
    k = np.arange(10, 61)
    plain = (k / 61 / u[:, 10:61]).max(axis=1)
    error = plain.std() / 200
    assert abs(selection_inflation(60, 10) - plain.mean()) < 5 * error + 0.012
    k = np.arange(10, 62)
    plain = (k / 61 / u[:, 9:61]).max(axis=1)
    assert abs(pool_inflation(61, 10) - plain.mean()) < 5 * plain.std() / 200 + 0.015
    assert pool_inflation(10, 1) == np.inf
    with pytest.raises(ParameterError, match="k0=11"):
        selection_inflation(10, 11)
    with pytest.raises(ParameterError, match="k0=11"):
        pool_inflation(10, 11)


def test_smallest_n():
    assert [smallest_n("pac", a, 0.1) for a in (0.05, 0.1, 0.3)] == [45, 22, 7]
    assert [smallest_n(g, 0.1) for g in ("plugin", "plugin_corrected")] == [10, 10]
    assert [smallest_n(g, 0.1) for g in ("fdr", "marginal")] == [9, 9]
    with pytest.raises(ParameterError, match="plugin_corrected"):
        smallest_n("luck", 0.1)
