"""The laws of K, the failure that takes the last host of a shard, hold.

By counting: up to 12 groups every set of failures is looked at, and the exact recursions must
agree to rounding (false-alarm rate 0). By Monte Carlo, 2000 trials a cell: exact means within 4
standard errors, 6e-5 a cell by chance, 1e-3 in all; approximate means within their stated error
(1.5 % from 5 hosts on, 4 % below) and 4 standard errors.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.train.plan import EnduranceModel, StackPlacement, corrected_mean, disjoint_mean
from foretell.train.plan._endurance_laws import (
    block_survival,
    contiguous_survival,
    small_survival,
)

pytestmark = pytest.mark.theory
TRIALS = 2000


@pytest.mark.parametrize("n", range(2, 13))
def test_recursions_are_exact(n):
    for r in range(1, n + 1):
        counted = small_survival(StackPlacement(n, r, "contiguous").hosts_of)
        assert_allclose(contiguous_survival(n, r), counted, atol=1e-12)
        if n % r == 0:
            counted = small_survival(StackPlacement(n, r, "block").hosts_of)
            assert_allclose(block_survival(n, r), counted, atol=1e-12)


def measured(placement):
    K = EnduranceModel(placement).simulate(TRIALS, placement.n_groups + placement.redundancy)
    return K.mean(), K.std(ddof=1) / TRIALS**0.5


@pytest.mark.parametrize("n", [50, 200, 600])
@pytest.mark.parametrize("scheme", ["contiguous", "block"])
def test_exact_means(n, scheme):
    for r in (2, 4, 5, 8, 10):
        if n % r:
            continue
        placement = StackPlacement(n, r, scheme)
        mean, error = measured(placement)
        assert abs(EnduranceModel(placement).mean() - mean) <= 4 * error


@pytest.mark.parametrize("n", [50, 200, 600])
def test_means_of_rulers(n):
    for r in range(2, 13):
        if r * (r - 1) > n - 1:
            break
        placement = StackPlacement(n, r)
        mean, error = measured(placement)
        share = 0.015 if r >= 5 else 0.04
        assert abs(EnduranceModel(placement).mean() - mean) <= share * mean + 4 * error
        if n >= 200 or r >= 5:
            assert abs(corrected_mean(n, r) - mean) <= share * mean + 4 * error


def test_blocks_endure_longer_than_rulers_and_contiguous_lie_between():
    for n, r in ((600, 8), (1000, 10), (200, 5)):
        ruler, contiguous, block = (
            EnduranceModel(StackPlacement(n, r, s)).mean()
            for s in ("golomb", "contiguous", "block")
        )
        assert ruler < contiguous < block
        assert_allclose(block, disjoint_mean(n, r), rtol=0.01)


def test_second_order_is_nearer_than_poisson_at_few_groups():
    placement = StackPlacement(13, 4)
    counted = small_survival(placement.hosts_of)
    k = np.arange(14)
    first = 13 * np.array([_all_failed(13, x, 4) for x in k])
    from foretell.train.plan._endurance_laws import overlap_survival

    second = overlap_survival(13, 4, placement.overlap_counts())
    assert np.abs(second - counted).sum() < 0.7 * np.abs(np.exp(-first) - counted).sum()


def _all_failed(n, k, r):
    share = 1.0
    for j in range(r):
        share *= max(0, k - j) / (n - j)
    return share
