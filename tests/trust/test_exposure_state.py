"""Saturation: worked numbers, looking ahead against doing it, memberships, many users at once."""

import numpy as np
from numpy.testing import assert_allclose

from foretell.trust import SaturationState
from tests.trust.exposure_worlds import known_model, random_model, runs_log

LN2 = np.log(2)


def two_categories(rho):
    return SaturationState(known_model([[0.5, 0.5]], 0.3 * np.eye(2), LN2), rho=rho)


def test_worked_numbers():
    wide, tight = two_categories(2.0), two_categories(1.0)
    for state in (wide, tight):
        state.update([0], [0])
    assert_allclose(tight.S_, [[1.0, 0.0]])
    assert_allclose([wide.saturation()[0], tight.saturation()[0]], [0.0, 0.3])
    for state in (wide, tight):
        state.update([0], [0])
    assert_allclose(tight.S_, [[1.5, 0.0]])
    assert_allclose([wide.saturation()[0], tight.saturation()[0]], [0.0, 0.45])
    for _ in range(60):
        tight.update([0], [0])
    assert_allclose(tight.saturation(), 0.6)  # the fixed point, S = 2


def test_worked_recovery():
    state = two_categories(1.0)
    state.update([0], [0]).update([0], [0])
    path = [state.update([0], None).saturation()[0] for _ in range(3)]
    assert_allclose(path, [0.225, 0.1125, 0.05625])


def test_worked_feasibility():
    assert_allclose(two_categories(1.0).smallest_limit(), 0.6)
    assert two_categories(2.0).smallest_limit()[0] < 0.6  # slack of rho lowers it


def test_looking_ahead_is_doing_it():
    for seed in range(20):
        model = random_model(seed)
        state = SaturationState(model, rho=1.3)
        rng = np.random.default_rng(seed)
        for _ in range(10):
            state.update(state.labels_, rng.integers(5, size=20), rng.integers(2, size=20))
        ahead = state.lookahead(dt=0.7)
        kept = state.S_.copy()
        for c in range(5):
            state.S_ = kept.copy()
            state.update(state.labels_, np.full(20, c), dt=0.7)
            assert_allclose(state.saturation(), ahead[:, c], atol=1e-12)


def test_memberships_share_the_jump():
    state = SaturationState(random_model(1), rho=1.0)
    half = np.array([[0.5, 0.5, 0, 0, 0]])
    ahead = state.lookahead(memberships=half)
    state.update([3], half)
    assert_allclose(state.saturation([3]), ahead[3], atol=1e-12)


def test_a_batch_is_its_users_one_by_one():
    model = random_model(2)
    together, alone = SaturationState(model), SaturationState(model)
    rng = np.random.default_rng(0)
    for _ in range(5):
        categories, engaged = rng.integers(-1, 5, size=20), rng.integers(2, size=20)
        dt = rng.uniform(0, 2, 20)
        together.update(np.arange(20), categories, engaged, dt=dt)
        for u in range(20):
            alone.update([u], [categories[u]], [engaged[u]], dt=dt[u])
    assert (together.S_ == alone.S_).all()


def test_replay_is_the_log_played_through():
    log = runs_log(n_users=3, n_events=30)
    model = random_model(0, n_categories=4, n_users=3)
    state = SaturationState(model, rho=1.0, warm=False)
    D = []
    for u in range(3):
        for row in range(log.starts[u], log.starts[u + 1]):
            state.update([u], [log.categories[row]])
            D.append(state.saturation([u])[0])
    assert_allclose(state.replay(log), D, atol=1e-12)


def test_warm_users_begin_where_the_log_ended_and_new_ones_unexcited():
    from foretell.trust import ExcitationModel

    log = runs_log()
    state = SaturationState(ExcitationModel(decay=0.2).fit(log), rho=1.0)
    last = state.replay(log)[log.starts[1:] - 1]
    assert_allclose(state.saturation(), last, atol=1e-12)
    state.add([1000])
    assert_allclose(state.saturation([1000]), 0.0)
    assert_allclose(state.mu_[-1], state.model.prior_)
    state.reset([0])
    assert_allclose(state.saturation([0]), 0.0)
