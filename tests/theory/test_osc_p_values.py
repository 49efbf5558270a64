"""The p-value of a recall is never too small, however few facts are stored.

At paths where nothing is stored, the share of answers with a p-value up to alpha is at most alpha:
for one candidate and for the best of many, for memories of one fact to many. Where many facts are
stored the bound is nearly reached at order 2, so that the test keeps its power.

Each count is compared with the binomial quantile at 1 - 1e-6; with 30 comparisons the file fails by
chance with probability below 1e-4. The normal law that the p-value replaces is shown to fail.
"""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from foretell.recall import OSCMemory

pytestmark = pytest.mark.theory
LEVELS = (0.1, 0.01, 0.001)


def empty_answers(facts, candidates, asked=1000, **arguments):
    memory = OSCMemory(vocabulary=range(200), capacity=10**6, **arguments)
    # All fillers that are asked about are stored, often, at other paths.
    memory.store_many([("full", n) for n in range(facts)], [n % candidates for n in range(facts)])
    paths = [("empty", n) for n in range(asked)]
    return memory.recall_many(paths, 1, range(candidates))


@pytest.mark.parametrize("facts", [1, 3, 30, 300])
@pytest.mark.parametrize("shape", [(2, 64), (3, 16)])
def test_one_candidate_at_an_empty_path(facts, shape):
    order, dim = shape
    p = np.array([a.p_value for a in empty_answers(facts, 1, order=order, dim=dim)])
    for level in LEVELS:
        assert np.count_nonzero(p <= level) <= binom.ppf(1 - 1e-6, p.size, level)
    if facts == 300:
        assert np.count_nonzero(p <= 0.1) >= binom.ppf(1e-6, p.size, 0.08)


@pytest.mark.parametrize("facts", [1, 10, 100])
def test_the_best_of_many_candidates_at_an_empty_path(facts):
    p = np.array([a.p_value for a in empty_answers(facts, 100)])
    for level in LEVELS:
        assert np.count_nonzero(p <= level) <= binom.ppf(1 - 1e-6, p.size, level)


def test_the_normal_law_would_raise_false_alarms_when_few_facts_are_stored():
    z = np.array([a.z for a in empty_answers(1, 100)])
    false = np.count_nonzero(1 - ndtr(z) ** 100 <= 1e-3)
    assert false > binom.ppf(1 - 1e-6, z.size, 1e-2)
