"""The controller: exact loads, fewest moves, who computes what at once."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from foretell.core import WipeoutError
from foretell.train.plan import ReorderController, StackPlacement


def hall(placement, failed, q):
    """Units a group must take, by looking at every set of shards; None where one is lost."""
    n, worst = placement.n_groups, q
    hosts = [set(placement.hosts(i).tolist()) - set(failed) for i in range(n)]
    for size in range(1, n + 1):
        for shards in combinations(range(n), size):
            helpers = set().union(*(hosts[i] for i in shards))
            if not helpers:
                return None
            worst = max(worst, -(-size * q // len(helpers)))
    return worst


def checked(placement, assignment, alive, q):
    """An assignment that is one."""
    owner, spare = assignment.owner, assignment.spare
    n = placement.n_groups
    for i in range(n):
        assert set(owner[i].tolist()) <= set(placement.hosts(i).tolist()) & set(alive)
        assert set(spare[i].tolist()) <= (set(placement.hosts(i).tolist()) & set(alive)) | {-1}
        assert (owner[i] != spare[i]).all()
    assert (np.bincount(owner.ravel(), minlength=n) == assignment.load).all()
    busy = assignment.load + np.bincount(spare[spare >= 0], minlength=n)
    assert busy.max() <= assignment.capacity
    assert set(assignment.interim.ravel().tolist()) <= set(alive)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_load_is_the_maximum_of_hall_for_every_set_of_failures(q):
    placement, n_maskable = StackPlacement(7, 3), 0
    for size in range(1, 6):
        for failed in combinations(range(7), size):
            alive = [g for g in range(7) if g not in failed]
            expected = hall(placement, failed, q)
            controller = ReorderController(placement, q)
            if expected is None:
                with pytest.raises(WipeoutError):
                    controller.plan(alive)
                continue
            assignment = controller.plan(alive)
            assert assignment.capacity == expected
            checked(placement, assignment, alive, q)
            n_maskable += 1
    assert n_maskable == 63  # and the empty set: 64


@pytest.mark.parametrize("scheme", ["golomb", "contiguous", "random", "block", "elastic"])
@pytest.mark.parametrize("q", [1, 4])
def test_one_failure_after_another_ends_where_all_at_once_does(scheme, q):
    placement = StackPlacement(24, None if scheme == "elastic" else 4, scheme)
    rng = np.random.default_rng(3)
    for _ in range(4):
        order = rng.permutation(24).tolist()
        controller = ReorderController(placement, q)
        for k in range(1, 20):
            alive = order[k:]
            if not placement.is_maskable(order[:k]):
                with pytest.raises(WipeoutError):
                    controller.plan(alive)
                break
            assignment = controller.plan(alive)
            checked(placement, assignment, alive, q)
            assert assignment.capacity == ReorderController(placement, q).plan(alive).capacity


def fewest_moves(placement, before, alive, q, capacity):
    """By linear programming, whose optimum is integral here."""
    n, r = placement.hosts_of.shape
    had = np.array(
        [[(before[i] == h).sum() for h in placement.hosts(i)] for i in range(n)], dtype=float
    )
    had[~np.isin(placement.hosts_of, alive)] = 0
    edges = [(i, p) for i in range(n) for p in range(r) if placement.hosts_of[i, p] in alive]
    stay = [had[e] for e in edges]
    m = len(edges)
    shard, group = np.zeros((n, 2 * m)), np.zeros((n, 2 * m))
    for e, (i, p) in enumerate(edges):
        shard[i, [e, m + e]] = 1
        group[placement.hosts_of[i, p], [e, m + e]] = 1
    solved = linprog(
        np.r_[np.zeros(m), np.ones(m)],
        A_ub=group,
        b_ub=np.full(n, capacity),
        A_eq=shard,
        b_eq=np.full(n, q),
        bounds=[(0, s) for s in stay] + [(0, q)] * m,
    )
    return round(solved.fun)


@pytest.mark.parametrize("q", [2, 3])
def test_moves_are_the_fewest(q):
    placement, rng, chains = StackPlacement(15, 3), np.random.default_rng(5), 0
    for _ in range(12):
        controller = ReorderController(placement, q)
        order = rng.permutation(15).tolist()
        for k in range(1, 8):
            if not placement.is_maskable(order[:k]):
                break
            old, alive = controller.assignment_, order[k:]
            after_spares = np.where(np.isin(old.owner, alive), old.owner, old.spare)
            assignment = controller.plan(alive)
            least = fewest_moves(placement, after_spares, alive, q, assignment.capacity)
            assert assignment.moved == least
            lost = (~np.isin(after_spares, alive)).sum()
            chains += least > lost
    assert chains > 0  # some needed more moves than units were lost


def test_patch_is_what_the_dead_had_and_is_spread():
    placement = StackPlacement(200, 6)
    controller = ReorderController(placement, 8)
    old = controller.assignment_
    alive = np.ones(200, dtype=bool)
    alive[17] = False
    assignment = controller.plan(alive)
    changed = assignment.interim != old.owner
    assert (changed == (old.owner == 17)).all()
    assert changed.sum() == assignment.patch.sum() == 8
    assert assignment.patch.max() == 1
    assert assignment.patch_stacks == 1 / 8


def test_a_spare_that_takes_over_has_nothing_to_patch():
    placement = StackPlacement(60, 6)
    controller = ReorderController(placement, 1)
    alive = np.ones(60, dtype=bool)
    alive[0] = False
    first = controller.plan(alive)
    covered = np.flatnonzero((first.spare[:, 0] >= 0) & (first.owner[:, 0] == np.arange(60)))
    alive[covered[5]] = False
    second = controller.plan(alive)
    assert second.phase == "fixed"
    assert second.patch.sum() == second.moved == 0


def test_a_second_failure_in_one_step_goes_on_from_the_first():
    placement = StackPlacement(31, 6)
    controller = ReorderController(placement, 4)
    alive = np.ones(31, dtype=bool)
    alive[3] = False
    first = controller.plan(alive)
    helper = int(np.flatnonzero(first.patch)[0])
    alive[helper] = False
    second = controller.plan(alive, same_step=True)
    gone = first.interim == helper
    assert gone.sum() > 4  # what it owned, and what it had just taken over
    assert ((second.interim != first.interim) == gone).all()
    assert alive[second.interim].all()


def test_all_who_see_the_same_members_decide_the_same():
    placement = StackPlacement(57, 8)
    one, other = ReorderController(placement, 4), ReorderController(placement, 4)
    alive = set(range(57))
    for g in (5, 9, 33, 20):
        alive.discard(g)
        a, b = one.plan(alive), other.plan(sorted(alive))
        assert (a.owner == b.owner).all()
        assert (a.interim == b.interim).all()
    late = ReorderController(placement, 4)
    late.adopt(one.assignment_, alive)
    alive.discard(50)
    assert (late.plan(alive).owner == one.plan(alive).owner).all()


def test_groups_that_come_back_lower_the_load():
    placement = StackPlacement(57, 8)
    controller = ReorderController(placement, 4)
    start = controller.assignment_.owner.copy()
    down = controller.plan([g for g in range(57) if g % 9])
    assert down.stacks == 1.25
    up = controller.plan(np.ones(57, dtype=bool))
    assert up.stacks == 1.0
    assert (up.owner == start).all()
    assert (up.interim == down.owner).all()


def test_a_wipe_out_leaves_the_assignment_alone():
    placement = StackPlacement(7, 3)
    controller = ReorderController(placement, 2)
    controller.plan([0, 1, 2, 3, 4, 6])
    before = controller.assignment_
    with pytest.raises(WipeoutError, match=r"Every host of 1 shard failed \(5\)") as raised:
        controller.plan([0, 1, 3, 6])
    assert raised.value.shards == [5]
    assert controller.assignment_ is before
