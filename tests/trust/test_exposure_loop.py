"""The closed loop: a process without memory, the same luck for every policy, and its measures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.core import Process
from foretell.trust import (
    MMR,
    ClosedLoopSimulator,
    EchoRanker,
    ExposureRegulator,
    SimulatedUsers,
    exposure_metrics as metrics,
)
from tests.trust.exposure_worlds import known_model, runs_log

C, ITEMS = 4, 80


@pytest.fixture(scope="module")
def world():
    log = runs_log(n_users=60)
    # Two categories saturate six times as much as the other two, so there is always a way out.
    model = known_model(np.full((60, C), 0.25), np.diag([0.3, 0.3, 0.05, 0.05]), 0.2)
    rng = np.random.default_rng(0)
    kinds = np.arange(ITEMS) % C
    taste = rng.dirichlet(np.full(C, 0.7), size=60)
    users = SimulatedUsers(rng.normal(size=(60, ITEMS)), kinds, taste, fatigue=2.0)
    ranker = EchoRanker(users.utility, kinds, taste, pool=ITEMS)
    return log, model, users, ranker


def simulated(world, n_steps=40, delay=0, **settings):
    log, model, users, ranker = world
    regulator = ExposureRegulator(model, rho=1.0, limit=0.5, **settings).fit(log, warm=False)
    simulator = ClosedLoopSimulator(users, ranker, regulator, delay=delay)
    return simulator.run(50, n_steps, random_state=3)


def test_users_are_a_process_that_keeps_no_memory(world):
    users = world[2]
    assert isinstance(users, Process)
    state = users.reset(5, np.random.default_rng(0))
    slate = np.tile(np.arange(5), (5, 1))
    kept = state.preference.copy()
    one, two = (users.step(state, slate, np.random.default_rng(1)) for _ in range(2))
    assert (one.observation == two.observation).all()
    assert (state.preference == kept).all()
    assert_allclose(one.state.preference.sum(1), 1.0)
    assert ((one.observation >= 0) == (one.reward == 1)).all()


def test_the_barrier_holds_where_the_ranker_alone_does_not(world):
    log, model, users, ranker = world
    held = simulated(world, mode="barrier", diversifier=None)
    free = ClosedLoopSimulator(
        users, ranker, None, world=ExposureRegulator(model, rho=1.0).fit(log, warm=False).state_,
        limit=0.5,
    ).run(50, 40, random_state=3)  # fmt: skip
    assert held.violation_rate == 0.0
    assert free.violation_rate > 0.1
    assert held.changed.mean() > 0
    assert free.changed.mean() == 0


def test_the_dual_steers_towards_its_target(world):
    run = simulated(world, n_steps=120, diversifier=None, target_violation=0.05)
    assert run.violated[40:].mean() < 0.08


def test_the_same_seed_is_the_same_run_and_the_regulator_is_left_alone(world):
    log, model, users, ranker = world
    regulator = ExposureRegulator(model, rho=1.0, limit=0.5).fit(log, warm=False)
    simulator = ClosedLoopSimulator(users, ranker, regulator)
    one, two = (simulator.run(20, 15, random_state=1) for _ in range(2))
    assert (one.clicked == two.clicked).all()
    assert (one.saturation == two.saturation).all()
    assert (regulator.state_.S_ == 0).all()


def test_late_feedback_and_a_shock_still_run(world):
    late = simulated(world, delay=5, mode="barrier", diversifier=MMR(0.7))
    assert late.violation_rate < 0.5
    users = world[2]
    shock = np.array([1.0, 0, 0, 0])
    moved = SimulatedUsers(
        users.utility, users.categories, users.preference, shock_step=2, shock=shock
    )
    state = moved.reset(60, np.random.default_rng(0))
    for _ in range(3):
        state = moved.step(state, np.tile(np.arange(5), (60, 1)), np.random.default_rng(0)).state
    assert state.preference[:, 0].min() > 0.5


def test_a_run_tells_every_measure(world):
    run = simulated(world)
    summary = run.summary()
    assert summary["clicks"] == (run.clicked >= 0).sum(0).mean()
    assert summary["violations"] == run.violated.mean()
    assert 0 <= summary["gini_items"] <= 1
    frame = run.frame()
    assert len(frame) == 40 * 50
    assert frame["violated"].mean() == run.violation_rate
    assert "clicks a user" in repr(run)


def test_pictures(world):
    pytest.importorskip("matplotlib")
    from foretell.trust import exposure_plots as plots

    run = simulated(world)
    axes = [
        plots.plot_saturation(run, 2),
        plots.plot_excitation(world[1], list("abcd")),
        plots.plot_recovery({"ours": run}),
        plots.plot_pareto({"MMR": [(0.1, 5.0), (0.2, 6.0)], "ours": [(0.0, 5.5)]}),
    ]
    for one in axes:
        one.figure.canvas.draw()
        assert one.get_xlabel()


def test_stretches_above_the_limit():
    violated = np.array([[1, 1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1]]).T
    told = metrics.recovery_time(violated)
    assert (told.mean, told.n, told.censored) == (1.5, 2, 2)
    assert metrics.recovery_time(np.zeros((3, 2))).mean == 0.0


def test_price_at_a_rate_is_interpolated_and_not_beyond():
    assert metrics.reward_price([10, 8], [0.2, 0.0], 10, at=0.1) == pytest.approx(0.1)
    assert np.isnan(metrics.reward_price([10, 8], [0.2, 0.1], 10, at=0.05))


def test_dominance_needs_both_and_one_strictly():
    same = [1.0, 2.0], [0.1, 0.2]
    assert not metrics.dominates(*same, *same)
    assert metrics.dominates([1.1, 2.1], [0.1, 0.2], *same)
    assert not metrics.dominates([1.1, 2.1], [0.2, 0.3], *same)
