"""Formulas, failure models and the simulator: what they agree on, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.core import DataError, ParameterError
from foretell.train.plan import (
    CheckpointPolicy,
    EnduranceModel,
    FailureModel,
    MaskingPolicy,
    OverheadModel,
    ReorderController,
    StackPlacement,
    TimeToTrainSimulator,
    TrainingCosts,
    default_redundancy,
    optimize_redundancy,
    predict,
    published_mean,
    young_interval,
)

COSTS = TrainingCosts(compute_s=64.0, reduce_s=6.0, save_s=60.0, restart_s=3600.0)


def test_the_interval_is_where_availability_is_largest():
    policy = CheckpointPolicy(60.0, 3600.0, 300.0)
    best = policy.interval(150.0)
    around = [policy.availability(best * f, 150.0) for f in (0.9, 1.0, 1.1)]
    assert max(around) == around[1]
    quick = CheckpointPolicy(1e-3, 1e-3, 300.0)
    assert_allclose(quick.interval(150.0), young_interval(1e-3, 45_000.0), rtol=1e-3)


@pytest.mark.parametrize("n", [200, 600, 1000])
def test_the_published_cost_is_least_at_the_default(n):
    policy, cost = CheckpointPolicy(60.0, 3600.0, 300.0), {}
    for r in range(2, 14):
        mean = published_mean(n, r)
        load = OverheadModel(StackPlacement(n, 2)).mean_load(mean)
        cost[r] = load / policy.availability(policy.interval(mean), mean)
    assert min(cost, key=cost.get) == {200: 8, 600: 10, 1000: 10}[n] == default_redundancy(n)


def test_micro_stacks_need_less_redundancy_and_time():
    choice = dict(save_s=60.0, restart_s=3600.0, redundancies=range(2, 12))
    whole = optimize_redundancy(600, 300.0, micro=1, **choice).best
    micro = optimize_redundancy(600, 300.0, micro=8, **choice).best
    both = optimize_redundancy(600, 300.0, **choice)
    assert repr(both.best) == repr(micro)
    assert len(both.alternatives) == 20
    assert micro.redundancy < whole.redundancy
    assert micro.time_ratio < 0.75 * whole.time_ratio


def test_closed_mean_loads_follow_the_sums():
    for n, r, q in ((600, 20, 1), (1000, 10, 1), (600, 10, 8), (200, 9, 8)):
        model = OverheadModel(StackPlacement(n, r), q)
        mean = EnduranceModel(model.placement).mean()
        assert_allclose(model.closed_mean_load(mean), model.mean_load(mean), rtol=0.03)


def test_survival_is_a_law():
    for scheme in ("golomb", "contiguous", "block", "elastic"):
        model = EnduranceModel(StackPlacement(60, None if scheme == "elastic" else 5, scheme))
        s = model.survival(np.arange(61))
        assert s[0] == 1.0
        assert s[-1] == 0.0
        assert (np.diff(s) <= 0).all()
        assert model.quantile(0.0) <= model.quantile(0.5) <= model.quantile(1.0) <= 60


def test_weibull_clocks_have_the_mean_they_are_given():
    rng = np.random.default_rng(0)
    for shape in (0.6, 1.0, 2.0):
        model = FailureModel.weibull(shape, 300.0)
        times = np.concatenate([model.epoch(400, 0.0, rng)[0] for _ in range(50)])
        assert_allclose(times.mean(), 400 * 300.0, rtol=0.05)


def test_mean_times_are_those_of_simulated_epochs():
    rng = np.random.default_rng(1)
    for shape in (0.78, 1.0):
        model = FailureModel.weibull(shape, 300.0)
        drawn = np.mean([model.epoch(200, 0.0, rng)[0] for _ in range(400)], axis=0)
        for k in (20, 60, 120):
            assert_allclose(model.mean_times(200)[k], drawn[k - 1], rtol=0.05)
            assert_allclose(model.time_to(k, 200), drawn[k - 1], rtol=0.05)


def test_a_domain_fails_as_a_whole():
    racks = np.arange(40) // 8
    model = FailureModel.exponential(60.0).domains(racks, 1.0)
    times, groups = model.epoch(40, 0.0, np.random.default_rng(0))
    assert np.unique(times).size == 5
    for t in np.unique(times):
        assert np.unique(racks[groups[times == t]]).size == 1


def test_a_trace_is_replayed_in_its_domains():
    model = FailureModel.trace([0.0, 10.0, 11.0, 50.0], [0, 1, 1, 0])
    times, groups = model.epoch(8, 5.0, np.random.default_rng(0))
    assert times[:3].tolist() == [5.0, 6.0, 45.0]
    assert (groups[:2] >= 4).all()
    assert groups[2] < 4
    assert len(set(groups.tolist())) == groups.size == 8


def test_runs_under_a_trace_start_at_moments_of_their_own():
    """Half of this trace is calm: starting at its beginning every run would be calm."""
    trace = FailureModel.trace(np.r_[0.0, 1e6 + 300.0 * np.arange(3000)])
    policy = MaskingPolicy(StackPlacement(60, 4), 8)
    run = TimeToTrainSimulator(policy, trace, COSTS).run(300, 8)
    assert run.failures.min() == 0
    assert run.failures.max() > 20


def test_without_failures_only_saves_cost_time():
    calm = FailureModel.exponential(1e12)
    policy = MaskingPolicy(StackPlacement(60, 4), 8, interval_s=6000.0)
    run = TimeToTrainSimulator(policy, calm, COSTS).run(2000, 3)
    assert_allclose(run.time_ratio, 1 / 0.99, rtol=0.005)
    assert run.failures.sum() == run.restarts.sum() == 0
    assert_allclose(run.load, 1.0)


def test_seeds_repeat_and_differ():
    failures = FailureModel.weibull(0.78, 300.0)
    simulator = TimeToTrainSimulator(MaskingPolicy(StackPlacement(60, 4)), failures, COSTS)
    one, again = simulator.run(500, 2), simulator.run(500, 2)
    assert (one.time_ratio == again.time_ratio).all()
    assert one.time_ratio[0] != one.time_ratio[1]
    assert simulator.run(500, 1, first_seed=1).time_ratio[0] == one.time_ratio[1]


@pytest.mark.parametrize(
    "policy",
    [
        MaskingPolicy(StackPlacement(200, 6), 8),
        MaskingPolicy(StackPlacement(200, 9), 1),
        MaskingPolicy(StackPlacement(198, 3, "block"), 1, "replicate"),
        MaskingPolicy(StackPlacement(200, scheme="elastic"), 8, restart_at=0.35),
        MaskingPolicy(StackPlacement(200, 1), 1, "drop", restart_at=0.35),
    ],
    ids=["micro", "whole", "replicate", "elastic", "drop"],
)
def test_prediction_and_simulation_agree(policy):
    failures = FailureModel.weibull(0.78, 300.0)
    run = TimeToTrainSimulator(policy, failures, COSTS).run(3000, 4)
    assert run.finished.all()
    assert_allclose(predict(policy, failures, COSTS).time_ratio, run.time_ratio.mean(), rtol=0.08)


def test_a_run_that_gets_nowhere_is_given_up():
    policy = MaskingPolicy(StackPlacement(200, 1), 1)
    run = TimeToTrainSimulator(policy, FailureModel.exponential(300.0), COSTS).run(
        500, 1, give_up=5.0
    )
    assert not run.finished.any()
    assert "at least" in repr(run)


def test_dropped_shards_take_more_steps():
    policy = MaskingPolicy(StackPlacement(60, 1), 1, "drop", restart_at=0.5)
    run = TimeToTrainSimulator(policy, FailureModel.exponential(1000.0), COSTS).run(1000, 2)
    assert (run.time_ratio > 1.2).all()
    assert_allclose(run.load, 1.0, atol=1e-3)


PLACEMENTS = {
    "more hosts than groups": (dict(n_groups=7, redundancy=8), "more than the 7 groups"),
    "no room for a ruler": (dict(n_groups=50, redundancy=8), "redundancy=7; for more"),
    "blocks that do not fit": (dict(n_groups=50, redundancy=4, scheme="block"), "n_groups=48"),
    "offsets that repeat": (dict(n_groups=7, offsets=[0, 1, 8]), "distinct modulo the 7"),
    "offsets that are no numbers": (dict(n_groups=7, offsets=[0, 1.5]), "whole number"),
    "other redundancy than offsets": (dict(n_groups=7, redundancy=2, offsets=[0, 1, 3]), "Leave"),
    "too few domains": (dict(n_groups=7, failure_domains=[0, 1]), r"\(2,\).*\(7,\)"),
    "an unknown scheme": (dict(n_groups=7, scheme="golom"), "'golomb'"),
    "no groups": (dict(n_groups=0), "n_groups=0"),
    "half a group": (dict(n_groups=7.5), "whole number"),
    "elastic with hosts": (dict(n_groups=7, redundancy=3, scheme="elastic"), "Leave redundancy"),
}


@pytest.mark.parametrize(("given", "said"), PLACEMENTS.values(), ids=list(PLACEMENTS))
def test_impossible_placements_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        StackPlacement(**given)


PLACEMENT = StackPlacement(7, 3)
REFUSED = {
    "failed out of range": (lambda: PLACEMENT.is_maskable([7]), "id 7"),
    "failed twice": (lambda: PLACEMENT.is_maskable([1, 1]), "id 1 2 times"),
    "failed as text": (lambda: PLACEMENT.is_maskable(["a"]), "whole numbers"),
    "no units": (lambda: ReorderController(PLACEMENT, 0), "micro=0"),
    "alive of another size": (
        lambda: ReorderController(PLACEMENT).plan(np.ones(8, dtype=bool)),
        "one boolean",
    ),
    "alive out of range": (lambda: ReorderController(PLACEMENT).plan([0, 9]), "id 9"),
    "no time between failures": (lambda: FailureModel.exponential(0.0), "mtbf_s=0.0"),
    "a shape of nothing": (lambda: FailureModel.weibull(0.0, 300.0), "shape=0.0"),
    "a share above one": (
        lambda: FailureModel.exponential(1.0).domains([0, 1], 1.5),
        "domain_share=1.5",
    ),
    "a save without time": (lambda: CheckpointPolicy(0.0, 1.0, 1.0), "save_s=0.0"),
    "a restart without time": (lambda: CheckpointPolicy(1.0, -1.0, 1.0), "restart_s=-1.0"),
    "a restart at once": (lambda: CheckpointPolicy(1.0, 0.0, 1.0), "restart_s=0.0; needed is"),
    "a restart at once, simulated": (
        lambda: TrainingCosts(64.0, 1.0, 60.0, 0),
        "restart_s=0; needed is a finite number of seconds above 0",
    ),
    "a restart at once, planned": (
        lambda: optimize_redundancy(7, 300.0, save_s=60.0, restart_s=0.0),
        "restart_s=0.0",
    ),
    "failures that are no number": (
        lambda: CheckpointPolicy(1.0, 1.0, float("nan")),
        "mtbf_s=nan",
    ),
    "a period within the save": (
        lambda: CheckpointPolicy(60.0, 1.0, 1.0).availability(60.0),
        "not longer than the save",
    ),
    "a period within the save, simulated": (
        lambda: TimeToTrainSimulator(
            MaskingPolicy(PLACEMENT, interval_s=30.0), FailureModel.exponential(9.0), COSTS
        ),
        "not longer than the save",
    ),
    "costs below zero": (lambda: TrainingCosts(64.0, -1.0, 60.0, 60.0), "reduce_s=-1.0"),
    "an unknown mode": (lambda: MaskingPolicy(PLACEMENT, 1, "skip"), "'reorder'"),
    "units of what is replicated": (lambda: MaskingPolicy(PLACEMENT, 8, "replicate"), "micro=1"),
    "a restart at nothing": (lambda: MaskingPolicy(PLACEMENT, restart_at=0.0), "restart_at=0.0"),
    "failures of nobody": (lambda: EnduranceModel(PLACEMENT).survival(8), "from 0 to 7"),
    "load of nobody": (lambda: OverheadModel(PLACEMENT).load(7), "somebody must"),
    "nothing to compare": (
        lambda: optimize_redundancy(7, 1.0, save_s=1.0, restart_s=1.0, micro=[]),
        "compares nothing",
    ),
    "a plan that gets nowhere": (
        lambda: optimize_redundancy(3, 10.0, save_s=600.0, restart_s=3600.0),
        "gets anywhere",
    ),
    "stacks that are none": (
        lambda: StackPlacement.from_stacks([[0, 1], [1, 1]]),
        "every shard",
    ),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=list(REFUSED))
def test_impossible_arguments_are_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


def test_traces_that_are_none_are_refused():
    with pytest.raises(DataError, match=r"times_s\[1\] = 1 is before"):
        FailureModel.trace([2.0, 1.0])
    with pytest.raises(DataError, match="two or more"):
        FailureModel.trace([2.0])
    with pytest.raises(DataError, match="one number from 0 on"):
        FailureModel.trace([1.0, 2.0], [0, -5])
