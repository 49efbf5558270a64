"""T1: the risk bound of a cell holds at all times at once, for the average of the past only.

For adapted violations with chances p_s, with probability at least 1 - delta: for every n, the mean
of p_1..p_n is at most the bound. Checked on 1500 self-exciting runs at delta = 0.1, at every step;
the number of runs in which it ever fails is compared with the binomial quantile at 1 - 1e-4, so the
false-alarm rate is at most 1e-4. The other half of the statement, that the next chance is not
bounded, is an observation on fixed seeds: its false-alarm rate is 0.

The published radii are checked beside it: one does not shrink with the number of observations.
"""

import numpy as np
import pytest
from scipy.stats import binom

from foretell.trust import RiskBound

pytestmark = pytest.mark.theory

RUNS, STEPS, DELTA = 1500, 400, 0.1


@pytest.fixture(scope="module")
def played():
    """Violations that excite themselves: a cell for each run, (steps, runs) of chance and bound."""
    rng = np.random.default_rng(0)
    bound = RiskBound(RUNS, delta=DELTA)
    heat = np.zeros(RUNS)
    chances, uppers = np.zeros((STEPS, RUNS)), np.zeros((STEPS, RUNS))
    for t in range(STEPS):
        chances[t] = np.minimum(0.9, 0.02 + 0.25 * heat)
        violated = rng.random(RUNS) < chances[t]
        heat = 0.75 * heat + violated
        bound.update(np.arange(RUNS), violated)
        uppers[t] = bound.upper()
    return chances, uppers


def test_the_average_of_the_past_is_bounded_at_every_step(played):
    chances, uppers = played
    past = np.cumsum(chances, axis=0) / np.arange(1, STEPS + 1)[:, None]
    failed = int((past > uppers).any(axis=0).sum())
    assert failed <= binom.ppf(1 - 1e-4, RUNS, DELTA)
    assert (uppers[-1] - past[-1]).mean() < 0.2  # and it is no triviality


def test_the_next_chance_is_not_bounded(played):
    chances, uppers = played
    below = (uppers[50:-1] < chances[51:]).any(axis=0)
    assert below.mean() > 0.1  # far more runs than delta would allow


def test_the_published_radius_for_recorded_data_does_not_shrink():
    # sqrt((2 ln(2/delta) / N) sum lam^2) + 2 ln(2/delta) / (3 N): the sum grows like N.
    log_term = np.log(2 / DELTA)

    def radius(n, mean_square):
        return np.sqrt(2 * log_term / n * (n * mean_square)) + 2 * log_term / (3 * n)

    assert radius(100, 0.05) == pytest.approx(0.57, abs=0.01)
    assert radius(1000, 0.5) == pytest.approx(1.73, abs=0.01)
    assert radius(10**6, 0.05) > 0.54  # a bound of 1 million observations that says nothing

    ours = RiskBound(1, delta=DELTA)
    ours.update(np.zeros(10**6, dtype=int), np.zeros(10**6))
    assert ours.upper()[0] < 1e-4


def test_the_published_radius_in_simulation_is_above_one_for_a_user_and_category():
    # A Bernstein radius with the factor 2 ln(2/delta) in place of ln(2/delta), variance 0.09.
    def radius(n):
        twice = 2 * np.log(2 / DELTA)
        return np.sqrt(2 * 0.09 * twice / n) + 3 * twice / n

    assert radius(10) == pytest.approx(2.1, abs=0.05)
    assert radius(100) == pytest.approx(0.28, abs=0.01)
    few = RiskBound(1, delta=DELTA)
    few.update([0] * 10, [0] * 9 + [1])
    assert few.upper()[0] > 0.5  # ten observations bound little, by any method: pool them
