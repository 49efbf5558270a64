"""Exact sums, checkpoints, faults and the loop of a single worker."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foretell.core import ArtifactError, ForetellWarning, NumericalError, ParameterError
from foretell.train import Gradient, train
from foretell.train.plan import StackPlacement
from foretell.train.stacked import Checkpoints, StackedLoop, UnitSum, parse_faults, placement_for
from foretell.train.stacked.states import digest, pack, unpack
from foretell.train.stacked.worker import Worker
from tests.train.stacked.helper_tasks import Bad, Impure, Regression

finite = st.floats(-1e3, 1e3, allow_nan=False)


# Sums ------------------------------------------------------------------------------------------
@given(
    values=st.lists(st.tuples(finite, st.integers(1, 50)), min_size=2, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_sums_are_the_same_bits_in_every_order_and_partition(values, order) -> None:  # type: ignore[no-untyped-def]
    def summed(groups: list[list[int]]) -> np.ndarray:
        parts = []
        for group in groups:
            one = UnitSum(2, n_units=len(values))
            for k in group:
                x, w = values[k]
                one.add(Gradient(x, np.array([x, -x / 3], dtype=np.float32), w))
            parts.append(one.buffer)
        return UnitSum(2, n_units=len(values)).mean(np.sum(parts, axis=0))

    ids = list(range(len(values)))
    first = summed([ids])
    order.shuffle(ids)
    cut = order.randrange(1, len(ids))
    assert first.tobytes() == summed([ids[:cut], ids[cut:]]).tobytes()
    weights = np.array([w for _, w in values], dtype=float)
    mean = np.average(np.float32([x for x, _ in values]).astype(float), weights=weights)
    assert abs(first[0] - mean) <= 2.0**-40 * len(values) + 1e-12 * abs(mean)


def test_values_beyond_the_guard_and_not_finite_are_told_apart() -> None:
    one = UnitSum(3, n_units=4, scale_bits=40)
    assert one.add(Gradient(0.0, np.array([1.0, np.inf, 0.0]))) == 1
    assert one.add(Gradient(0.0, np.array([0.0, 0.0, 1e7]))) == 2
    found = one.read(one.buffer)
    assert (found.units, found.not_finite, found.beyond) == (2, 1, 1)


def test_every_value_is_rounded_as_by_rint_and_nothing_is_left_of_the_step_before() -> None:
    rng = np.random.default_rng(0)
    halves = np.array([0.5, 1.5, -2.5, 2.0**51 - 0.5, 2.0**51 + 1, -(2.0**58), 0.0]) / 2**40
    values = np.concatenate([rng.normal(size=9000), halves, rng.normal(size=100) * 1e-9])
    one = UnitSum(values.size, n_units=4)
    one.add(Gradient(0.0, values[::-1].copy()))
    one.clear()
    one.add(Gradient(0.0, values))
    assert (one.buffer[8:] == np.rint(values * 2**40).astype(np.int64)).all()
    one.clear()
    one.tell(reform=False, stop=False, plan=0)  # a worker without units in this step
    assert not one.buffer.any()


def test_what_a_unit_may_not_be() -> None:
    one = UnitSum(3, n_units=4)
    with pytest.raises(ParameterError, match=r"shape \(2,\), and the parameters have \(3,\)"):
        one.add(Gradient(0.0, np.zeros(2)))
    with pytest.raises(ParameterError, match="weight 0"):
        one.add(Gradient(0.0, np.zeros(3), 0.0))
    with pytest.raises(ParameterError, match="scale_bits=70"):
        UnitSum(3, n_units=4, scale_bits=70)


# The loop --------------------------------------------------------------------------------------
def test_alone_it_agrees_with_the_plain_loop_to_rounding() -> None:
    plain, stacked = Regression(), Regression()
    train(plain, 60)
    StackedLoop(stacked, placement_for(1, 0)).run(60)
    assert np.allclose(plain.x, stacked.x, rtol=0, atol=1e-9)


def test_a_stream_of_chance_is_noticed() -> None:
    with pytest.raises(NumericalError, match="computed twice and gave two gradients"):
        StackedLoop(Impure(), placement_for(1, 0)).run(2)


def test_ten_steps_without_a_finite_gradient_are_an_error_and_named() -> None:
    said: list[dict[str, object]] = []
    loop = StackedLoop(Bad(), placement_for(1, 0), report=said.append)
    with pytest.raises(NumericalError, match="10 steps in a row"):
        loop.run(40)
    assert (loop.step, loop.skipped) == (13, 10)
    assert next(e for e in said if e["event"] == "value")["parameter"] == "weight[1]"


def test_a_gradient_beyond_64_bits_changes_nothing() -> None:
    task, said = Bad(), list[dict[str, object]]()
    task.value = 1e9
    loop = StackedLoop(task, placement_for(1, 0), report=said.append)
    with pytest.raises(NumericalError, match="the largest that can be added up in 64 bits"):
        loop.run(40)
    assert loop.step == 3
    assert next(e for e in said if e["event"] == "value")["parameter"] == "weight[1]"


def test_clocks_that_jump_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 1e9 + (-1) ** next(hours) * 1e8)
    one, two = Regression(), Regression()
    StackedLoop(one, placement_for(1, 0)).run(10)
    monkeypatch.undo()
    StackedLoop(two, placement_for(1, 0)).run(10)
    assert digest(one.state(), 10) == digest(two.state(), 10)


# Checkpoints -----------------------------------------------------------------------------------
STATE = {"x": np.arange(3.0)}


def test_the_newest_whole_one_is_gone_on_with(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "c", {"units": 8})
    for step in range(5):
        kept.save(step, {"x": np.full(3, float(step))}, {})
    assert [p.name[-1] for p in kept.found()] == ["2", "3", "4"]
    weights = kept.found()[-1] / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.warns(ForetellWarning, match="A checkpoint is skipped"):
        found = kept.latest()
    assert found is not None
    assert found[0] == 3
    with pytest.raises(ArtifactError, match="with units 8; this one has 14"):
        with pytest.warns(ForetellWarning):
            Checkpoints(tmp_path / "c", {"units": 14}).latest()


def test_a_full_disk_leaves_the_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Checkpoints(tmp_path / "c", {})
    kept.save(1, STATE, {})

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="no space left on device"):
        kept.save(2, STATE, {})
    monkeypatch.undo()
    assert [p.name for p in kept.found()] == ["step-00000001"]
    kept.save(3, STATE, {})
    found = kept.latest()
    assert found is not None
    assert found[0] == 3


def test_a_state_goes_through_bytes() -> None:
    state = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.zeros(0), "c": np.array(1.5)}
    again, fields = unpack(pack(state, {"step": 2}))
    assert fields == {"step": 2}
    assert digest(again, 2) == digest(state, 2)
    with pytest.raises(ArtifactError, match="not a packed state"):
        unpack(b"12345678no")


# Faults and placements -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kil:2@8", "'kil:2@8' is not a fault"),
        ("kill:9@8", "there is no worker 9; they are numbered from 0 to 3"),
        ("kill:2@8/lunch", "'lunch' is none of before, compute"),
        ("kill:2", "'kill:2' is not a fault"),
    ],
)
def test_faults_that_are_not_understood(text: str, said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_faults(text, 4)
    assert said in str(caught.value)


def test_workers_with_another_placement_do_not_train_together() -> None:
    """Their fingerprints differ, and whose differ are refused (test_membership)."""
    worker = Worker()
    one, other = (
        worker._fingerprint(StackPlacement(7, offsets=marks), 2, 14, Regression(), "0")
        for marks in ([0, 1, 3], [0, 2, 3])
    )
    assert [a == b for a, b in zip(one.split("; "), other.split("; "), strict=True)].count(
        False
    ) == 1
    assert "placement" in one


def test_any_so_many_may_fail_at_once() -> None:
    from itertools import combinations

    for n in range(1, 9):
        for survive in range(n):
            placement = placement_for(n, survive)
            assert all(placement.is_maskable(list(f)) for f in combinations(range(n), survive))
