"""Two samples of one law give a small divergence, as small as promised.

Two promises:
- over k well-filled cells, n times the divergence of two independent samples of n points is
  asymptotically chi-squared with k - 1 degrees of freedom;
- with `noise_floor` from m exchangeable stretches, a further stretch exceeds the floor with
  probability 1 / (m + 1), whatever the law and the dependence inside a stretch.

Seeds are fixed. Over the choice of seeds each test fails by chance with probability <= 1e-4: the
number of exceedances is compared with two-sided binomial quantiles.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom, chi2

from foretell.dynamics.longrun import (
    noise_floor,
    power_spectrum_hellinger,
    state_space_divergence,
)

CHANCE = 5e-5


@pytest.mark.theory
def test_divergence_of_equal_laws_is_chi_squared():
    rng = np.random.default_rng(0)
    k, n, repeats = 8, 4000, 2000
    law = np.array([4, 3, 3, 2, 2, 2, 1, 1]) / 18
    # Both ends of the range are cells, so that the grid is the same in every repeat.
    samples = rng.choice(k, p=law, size=(repeats, 2, n)) + 0.5
    samples[:, :, :2] = [0.0, 8.0]
    found = np.array([state_space_divergence(a, b, bins=k) for a, b in samples])
    assert (found >= 0).all()
    for level in (0.1, 0.01):
        floor = chi2.ppf(1 - level, k - 1) / n
        # Second-order terms at n = 4000 move the rate by less than a tenth of itself.
        least = binom.ppf(CHANCE / 2, repeats, 0.9 * level)
        most = binom.ppf(1 - CHANCE / 2, repeats, 1.1 * level)
        assert least <= np.count_nonzero(found > floor) <= most


@pytest.mark.theory
def test_a_further_stretch_exceeds_the_floor_at_the_stated_rate():
    rng = np.random.default_rng(1)
    m, repeats, n = 4, 300, 300
    exceeded = np.zeros(2, dtype=int)
    noise = rng.normal(size=(repeats, m + 2, n + 100, 2))
    for stretches in lfilter([1.0], [1.0, -0.9], noise, axis=2)[:, :, 100:]:
        first, *others, further = stretches
        floor = noise_floor(first, *others, bins=10)
        assert floor.false_alarm_rate == pytest.approx(1 / (m + 1))
        exceeded += [
            state_space_divergence(first, further, bins=10) > floor.state_space_divergence,
            power_spectrum_hellinger(first, further) > floor.power_spectrum_hellinger,
        ]
    least, most = binom.ppf([CHANCE / 2, 1 - CHANCE / 2], repeats, 1 / (m + 1))
    assert ((least <= exceeded) & (exceeded <= most)).all()
