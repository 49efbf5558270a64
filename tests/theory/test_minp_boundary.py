"""The minP boundary is crossed with probability delta, exactly; the pointwise one far more often.

Exact statements against a plain dynamic programme over all states; no chance of a false alarm.
"""

import numpy as np
import pytest

from foretell.trust import binomial_boundary, crossing_probability


def plain_crossing(most: np.ndarray, rate: float) -> float:
    p, crossed = np.zeros(most.size + 1), 0.0
    p[0] = 1.0
    for limit in most[1:]:
        p[1:] = p[1:] * (1 - rate) + p[:-1] * rate
        p[0] *= 1 - rate
        if limit >= 0:
            crossed += p[: limit + 1].sum()
            p[: limit + 1] = 0
    return crossed


@pytest.mark.theory
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.35, 0.9])
@pytest.mark.parametrize("k0", [1, 30])
@pytest.mark.parametrize("kind", ["minp", "pointwise", "linear"])
def test_crossing_agrees_with_the_plain_programme(alpha, k0, kind):
    boundary = binomial_boundary(300, alpha, 0.1, k0, kind)
    assert boundary.crossing == pytest.approx(
        plain_crossing(boundary.most_errors, alpha), abs=1e-11
    )
    other = plain_crossing(boundary.most_errors, 0.5 * alpha)
    found = crossing_probability(boundary.most_errors, 0.5 * alpha)
    assert found == pytest.approx(other, abs=1e-11)


@pytest.mark.theory
@pytest.mark.parametrize("n", [1, 2, 21, 22, 50, 300, 1000, 21_000])
def test_minp_is_valid_and_nearly_uses_delta_up(n):
    boundary = binomial_boundary(n, 0.1, 0.1)
    assert boundary.crossing <= 0.1
    assert boundary.crossing == pytest.approx(plain_crossing(boundary.most_errors, 0.1), abs=1e-10)
    if n >= 300:
        assert boundary.crossing > 0.0985
    if n < 22:
        assert boundary.most_errors.max() == -1


@pytest.mark.theory
def test_known_levels():
    for n, k0, ratio in (
        (100, 1, 2.4),
        (300, 1, 4.3),
        (1000, 1, 7.2),
        (200, 60, 2.8),
        (1000, 300, 3.8),
    ):
        level = binomial_boundary(n, 0.1, 0.1, k0).pointwise_level
        assert 0.1 / level == pytest.approx(ratio, abs=0.05)
    for n, crossing in ((50, 0.143), (100, 0.229), (300, 0.338), (1000, 0.442)):
        found = binomial_boundary(n, 0.1, 0.1, kind="pointwise").crossing
        assert found == pytest.approx(crossing, abs=5e-4)


@pytest.mark.theory
def test_knots_above_twenty_thousand_stay_below_the_dense_boundary():
    knotted = binomial_boundary(20_001, 0.1, 0.1, 2000).most_errors
    dense = binomial_boundary(20_000, 0.1, 0.1, 2000).most_errors
    assert (knotted[:20_001] <= dense + 12).all()
    assert (knotted[2000:20_001] >= dense[2000:] - 0.1 * 0.04 * np.arange(2000, 20_001) - 2).all()
