"""The closed-form variances of cosine estimates from sign bits hold by simulation.

For independent rows the pairs (z_j, t_j) are independent bivariate normal with correlation rho; for
a whole rotation they are the coordinates of a random pair of unit vectors with cosine rho. Both are
drawn anew for every estimate, so that the variance is over directions too. Variances of n estimates
have a relative standard deviation of sqrt(2 / n): 0.9 % for the most likely cosines (n = 24 576),
0.64 % for the others. The bound is 5 %, and terms of higher order in 1/m take up to 1 % of it, so a
false alarm is beyond 4.4 and 6.2 standard deviations: its rate is 1e-4 for a whole run.
"""

import numpy as np
import pytest

from foretell.recall.likelihood import maximum_likelihood
from foretell.recall.variance import scaled_variance

pytestmark = pytest.mark.theory

COSINES = (0.0, 0.2, 0.5, 0.8, 0.95)
M, BLOCK, BLOCKS, BOUND = 384, 4096, 12, 0.05


def independent(rng, rho, n):
    t, noise = rng.standard_normal((2, n, M))
    return rho * t + np.sqrt(1 - rho**2) * noise, t


def rotated(rng, rho, n, d=M):
    """Coordinates of x and q times sqrt(d), <x, q> = rho; the first M of d."""
    x, w = rng.standard_normal((2, n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w -= (w * x).sum(axis=1, keepdims=True) * x
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    q = rho * x + np.sqrt(1 - rho**2) * w
    return x[:, :M] * np.sqrt(d), q[:, :M] * np.sqrt(d)


def hamming(z, t):
    return np.sin(np.pi / 2 * (np.sign(z) * np.sign(t)).mean(axis=1))


def linear(z, t):
    return np.sqrt(np.pi / 2) * (np.sign(z) * t).mean(axis=1)


def normalized(z, t):
    return linear(z, t) / np.sqrt((t**2).mean(axis=1))


def stored_norm(z, t):
    return (np.sign(z) * t).sum(axis=1) / np.abs(z).sum(axis=1)


ESTIMATORS = {
    independent: (("hamming", hamming), ("linear", linear), ("normalized", normalized)),
    rotated: (("hamming", hamming), ("linear", linear), ("stored-norm", stored_norm)),
}


@pytest.mark.parametrize("draw", ESTIMATORS)
@pytest.mark.parametrize("rho", COSINES)
def test_the_variance_is_the_closed_form(draw, rho):
    rng = np.random.default_rng(4)
    found: dict[str, list[float]] = {}
    for block in range(BLOCKS):
        z, t = draw(rng, rho, BLOCK)
        for method, estimate in ESTIMATORS[draw]:
            found.setdefault(method, []).extend(estimate(z, t))
        if block < BLOCKS // 2:
            found.setdefault("mle", []).extend(maximum_likelihood(np.sign(z) * t))
    fixed = 1.0 if draw is rotated else 0.0
    for method, values in found.items():
        expected = scaled_variance(method, rho, bits_per_dimension=fixed)
        assert abs(M * np.var(values) / expected - 1) <= BOUND, method
        assert abs(np.mean(values) - rho) <= 0.01, method


def test_half_a_rotation_is_half_as_far_from_independent():
    rng = np.random.default_rng(5)
    for method, estimate in (("linear", linear), ("hamming", hamming), ("normalized", normalized)):
        parts = [estimate(*rotated(rng, 0.5, BLOCK, 2 * M)) for _ in range(4)]
        found = np.concatenate(parts).var() * M
        expected = scaled_variance(method, 0.5, bits_per_dimension=0.5)
        assert abs(found / expected - 1) <= BOUND  # 16 384 pairs: 1.1 %


def test_near_a_right_angle_the_query_is_worth_root_two_over_pi():
    linear_error, hamming_error = (
        float(scaled_variance(method, 0.0)) ** 0.5 for method in ("linear", "hamming")
    )
    assert linear_error / hamming_error == pytest.approx(np.sqrt(2 / np.pi), rel=1e-12)
    # No decoder of independent bits does better there: the likelihood's bound is met.
    assert scaled_variance("mle", 0.0) == pytest.approx(np.pi / 2, rel=1e-9)


def test_the_likelihood_is_never_worse_than_the_others_on_independent_bits():
    rho = np.linspace(-0.98, 0.98, 99)
    best = scaled_variance("mle", rho)
    for method in ("hamming", "linear", "normalized"):
        assert (best <= scaled_variance(method, rho) * (1 + 1e-9)).all()
