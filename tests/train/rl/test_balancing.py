"""Plans keep every row, hold their promises on the load, and are the same for any order."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import DataError, ParameterError
from foretell.train.rl.balancing import POLICIES, balance, largest_over_mean, lower_bound


@st.composite
def rows(draw):
    n_parts = draw(st.integers(1, 6))
    n = draw(st.lists(st.integers(1, 500), min_size=1, max_size=40))
    now = [draw(st.integers(0, n_parts - 1)) for _ in n]
    return np.array(n), np.array(now), n_parts


@given(rows(), st.sampled_from(POLICIES), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_order_of_arrival_does_not_matter(case, policy, random) -> None:
    n, now, n_parts = case
    uid = np.arange(len(n)) * 7 % 1009
    plan = balance(policy, n, now, uid, n_parts)
    assert ((plan.owner >= 0) & (plan.owner < n_parts)).all()
    assert plan.largest >= lower_bound(n, n_parts) - 1e-9
    order = np.array(random.sample(range(len(n)), len(n)))
    again = balance(policy, n[order], now[order], uid[order], n_parts)
    assert (again.owner == plan.owner[order]).all()


@given(rows())
@settings(max_examples=100)
def test_min_move_never_makes_it_worse(case) -> None:
    n, now, n_parts = case
    plan = balance("min_move", n, now, np.arange(len(n)), n_parts)
    assert plan.largest <= largest_over_mean(n, now, n_parts) + 1e-9
    assert plan.largest == 1 or plan.moved <= 1
    again = balance("min_move", n, plan.owner, np.arange(len(n)), n_parts)
    assert again.moved == 0  # nothing to do when it is done


@given(rows())
@settings(max_examples=60)
def test_equal_numbers_of_rows(case) -> None:
    n, now, n_parts = case
    for policy in ("lpt_equal", "lpt_relabel"):
        counts = np.bincount(balance(policy, n, now, np.arange(len(n)), n_parts).owner,
                             minlength=n_parts)  # fmt: skip
        assert counts.max() - counts.min() <= 1


def test_differencing_is_near_the_best_of_all_plans() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = rng.integers(1, 50, size=7)
        best = min(
            max(sum(n[k] for k in range(7) if part[k] == p) for p in range(2))
            for part in itertools.product(range(2), repeat=7)
        )
        plan = balance("kk", n, np.zeros(7, dtype=np.int64), np.arange(7), 2)
        assert plan.largest * n.sum() / 2 <= best * 7 / 6 + 1e-9


def test_bad_input() -> None:
    one = np.array([3, 4]), np.array([0, 0])
    with pytest.raises(ParameterError, match="balance='best'; needed is one of keep, "):
        balance("best", *one, np.array([0, 1]), 2)
    with pytest.raises(DataError, match="uid 5 occurs 2 times"):
        balance("keep", *one, np.array([5, 5]), 2)
