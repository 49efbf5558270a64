"""Placements: rulers, hosts, and failure domains that are kept apart."""

import warnings

import numpy as np
import pytest

from foretell.core import ForetellWarning
from foretell.train.plan import StackPlacement, golomb_offsets, largest_redundancy
from foretell.train.plan._fields import bose, singer
from foretell.train.plan.rulers import SHORT_RULERS, is_golomb, overlaps, spread_offsets

SCHEMES = ["golomb", "contiguous", "block", "random"]


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 11, 13])
def test_sets_from_finite_fields_have_distinct_differences(q):
    for (numbers, v), size in ((singer(q), q + 1), (bose(q), q)):
        assert len(numbers) == size
        assert is_golomb(numbers, v)
    numbers, v = singer(q)  # and Singer's have every difference
    assert overlaps(numbers, v).tolist() == [1] * (v - 1)


def test_published_rulers_are_rulers():
    for r, ruler in SHORT_RULERS.items():
        assert len(ruler) == r
        assert is_golomb(ruler, 2 * ruler[-1] + 1)


@pytest.mark.parametrize("n", [7, 13, 21, 31, 57, 50, 200, 600])
def test_offsets_are_a_ruler_wherever_they_are_given(n):
    for r in range(1, min(largest_redundancy(n), 12) + 1):
        offsets = golomb_offsets(n, r)
        if offsets is not None:
            assert offsets[0] == 0
            assert len(offsets) == r
            assert is_golomb(offsets, n)


@pytest.mark.parametrize(("n", "r"), [(7, 3), (13, 4), (21, 5), (31, 6), (57, 8), (307, 18)])
def test_perfect_difference_sets_are_found(n, r):
    assert largest_redundancy(n) == r
    assert is_golomb(golomb_offsets(n, r), n)


def test_without_a_ruler_the_largest_overlap_is_kept_small():
    with pytest.warns(ForetellWarning, match="some shards share more than one host"):
        placement = StackPlacement(32, 6)
    assert placement.max_overlap() == 2
    assert overlaps(spread_offsets(32, 6), 32).max() == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_shard_has_r_hosts_and_every_group_r_shards(scheme):
    placement = StackPlacement(24, 4, scheme)
    for i in range(24):
        assert len(set(placement.hosts(i).tolist())) == 4
        assert len(set(placement.stack(i).tolist())) == 4
        assert placement.stack(i)[0] == placement.hosts(i)[0] == i
        for g in placement.hosts(i):
            assert i in placement.stack(g)


def test_masks_exactly_the_sets_that_leave_a_host():
    placement = StackPlacement(9, 3, "block")
    assert placement.is_maskable([0, 1, 3, 4, 6])
    assert placement.lost_shards({0, 1, 2, 5}).tolist() == [0, 1, 2]


def test_overlaps_of_each_scheme():
    assert StackPlacement(60, 5).max_overlap() == 1
    assert StackPlacement(60, 5, "contiguous").max_overlap() == 4
    assert StackPlacement(60, 5, "block").max_overlap() == 5
    counts = StackPlacement(60, 5).overlap_counts()
    assert counts == {0: 60 * 59 // 2 - 60 * 10, 1: 60 * 10}


@pytest.mark.parametrize(
    ("n", "r", "size"),
    [(12, 3, 4), (24, 3, 4), (96, 6, 16), (60, 5, 12), (100, 5, 10), (337, 7, 6), (600, 8, 8)],
)
@pytest.mark.parametrize("scheme", ["golomb", "contiguous", "block"])
def test_hosts_lie_in_different_domains(n, r, size, scheme):
    if scheme == "block" and n % r:
        pytest.skip("blocks do not fit")
    domains = np.arange(n) // size
    placement = StackPlacement(n, r, scheme, failure_domains=domains)
    assert placement.max_hosts_per_domain() == 1
    for domain in range(int(domains.max()) + 1):
        assert placement.is_maskable(np.flatnonzero(domains == domain))
    if scheme == "golomb":
        assert placement.max_overlap() <= 1


def test_labels_of_domains_may_be_words_in_any_order():
    labels = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c", "d", "e", "f"], 5))
    placement = StackPlacement(30, 4, failure_domains=labels)
    assert placement.max_hosts_per_domain() == 1


def test_too_few_domains_are_said_with_the_number_of_hosts():
    with pytest.warns(ForetellWarning, match=r"only 2 failure domains for 4 hosts.*up to 2 hosts"):
        StackPlacement(24, 4, "block", failure_domains=np.arange(24) // 12)


def test_a_domain_that_is_too_large_is_said():
    labels = np.r_[np.zeros(20, int), np.arange(1, 11)]
    with pytest.warns(ForetellWarning, match="20 of 30 groups, more than one in 3"):
        StackPlacement(30, 3, failure_domains=labels)


def test_elastic_masks_everything_but_the_loss_of_all():
    placement = StackPlacement(12, scheme="elastic")
    assert placement.is_maskable(range(11))
    assert not placement.is_maskable(range(12))


def test_fingerprints_tell_placements_apart():
    prints = {StackPlacement(24, 4, s).fingerprint() for s in SCHEMES}
    assert len(prints) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert StackPlacement(24, 4).fingerprint() == StackPlacement(24, 4).fingerprint()
        assert StackPlacement(24, 4).fingerprint() != StackPlacement(24, 4, seed=3).fingerprint()
