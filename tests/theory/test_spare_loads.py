"""Rulers reach the least load that any placement can have; the load is the maximum of Hall.

Exact, false-alarm rate 0: for every placement here and every set of failures, the matching needs
max over sets T of shards of ceil(q |T| / living hosts of T). By simulation, with fixed seeds, so
that the test itself never fails by chance: rulers at the bound ceil(q N / (N - k)) / q in 99.5 % of
the states for whole stacks, in 99 % for micro-stacks up to 0.9 E[K] (those that miss it stand just
before an early wipe-out). Tanner's bound on the hosts of any shards holds exactly for every ruler.
"""

from itertools import combinations

import numpy as np
import pytest

from foretell.core import WipeoutError
from foretell.train.plan import (
    EnduranceModel,
    OverheadModel,
    ReorderController,
    StackPlacement,
    golomb_offsets,
)
from foretell.train.plan.rulers import SHORT_RULERS, second_value

pytestmark = pytest.mark.theory


def hall(hosts, alive, q):
    """The least capacity by subsets, as bits; None where a shard is lost."""
    n = len(hosts)
    helpers = [0] * (1 << n)
    worst = q
    masks = [sum(1 << int(h) for h in row if h in alive) for row in hosts]
    for shards in range(1, 1 << n):
        low = (shards & -shards).bit_length() - 1
        helpers[shards] = helpers[shards & (shards - 1)] | masks[low]
        if not helpers[shards]:
            return None
        worst = max(worst, -(-shards.bit_count() * q // helpers[shards].bit_count()))
    return worst


@pytest.mark.parametrize(
    ("n", "r", "scheme"),
    [(6, 2, "golomb"), (7, 3, "golomb"), (8, 3, "contiguous"), (9, 3, "block"), (9, 3, "random")],
)
def test_every_set_of_failures(n, r, scheme):
    placement = StackPlacement(n, r, scheme)
    for size in range(1, n):
        for failed in combinations(range(n), size):
            alive = set(range(n)) - set(failed)
            expected = hall(placement.hosts_of, alive, 2)
            try:
                found = ReorderController(placement, 2).plan(alive).capacity
            except WipeoutError:
                found = None
            assert found == expected


@pytest.mark.parametrize(("n", "r"), [(200, 9), (600, 10)])
def test_whole_stacks_of_rulers_reach_the_bound(n, r):
    assert OverheadModel(StackPlacement(n, r), 1).simulate(10, 0).at_bound >= 0.995


@pytest.mark.parametrize(
    ("n", "r", "share"), [(200, 7, 0.99), (600, 7, 0.99), (1000, 7, 0.99), (600, 10, 0.99)]
)
def test_micro_stacks_of_rulers_reach_the_bound(n, r, share):
    model = OverheadModel(StackPlacement(n, r), 8)
    found = model.simulate(10, 0)
    early = found.failures <= 0.9 * EnduranceModel(model.placement).mean()
    assert np.mean(found.load[early] <= found.bound[early] + 1e-9) >= share


@pytest.mark.parametrize(
    "placement", [StackPlacement(200, 5), StackPlacement(60, 4), StackPlacement(57, 8)]
)
def test_any_shards_have_as_many_hosts_as_tanner_says(placement):
    n, r = placement.n_groups, placement.redundancy
    rng, second = np.random.default_rng(0), second_value(placement.offsets, n)
    incidence = np.zeros((n, n))
    incidence[np.arange(n)[:, None], placement.hosts_of] = 1
    assert np.isclose(np.linalg.svd(incidence, compute_uv=False)[1], second)
    for m in range(1, n):
        for shards in (rng.choice(n, m, replace=False), np.arange(m)):
            hosts = np.unique(placement.hosts_of[shards]).size
            assert hosts >= r**2 * m / (second**2 + (r**2 - second**2) * m / n) - 1e-6


def test_the_chosen_ruler_spreads_wider_than_a_short_one():
    for n, r in ((200, 5), (600, 7), (1000, 7)):
        assert second_value(golomb_offsets(n, r), n) < second_value(SHORT_RULERS[r], n) - 0.5


def test_contiguous_stacks_do_not():
    assert OverheadModel(StackPlacement(200, 9, "contiguous"), 1).simulate(10, 0).at_bound < 0.9
