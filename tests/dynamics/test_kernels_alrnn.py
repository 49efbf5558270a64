"""The fused AL-RNN kernel against a slow reference, central differences and hand-made cases."""

import numpy as np
import pytest

from foretell.core.errors import ParameterError
from foretell.dynamics._kernels_alrnn import alrnn_free_run, alrnn_loss_and_gradient
from tests.dynamics.slow_learners import (
    alrnn_step,
    central_differences,
    flat,
    random_problem,
    slow_free_run,
    slow_loss_and_gradient,
)

CASES = {
    "sparse forcing": {},
    "gentle forcing every sample": {"interval": 1, "alpha": 0.15},
    "never forced": {"interval": 1000},
    "no hidden units": {"M": 3, "N": 3, "P": 2},
    "no inputs": {"K": 0},
    "all rectified": {"P": 7},
    "none rectified": {"P": 0},
    "one sequence": {"B": 1},
    "nothing missing": {"missing": 0.0},
    "sizes that fit the blocks": {"M": 8, "N": 4, "P": 4, "B": 16},
    "one unit": {"M": 1, "N": 1, "P": 1, "B": 3},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_agrees_with_the_slow_reference(options):
    p = random_problem(3, **options)
    loss, *gradients = alrnn_loss_and_gradient(*p.arguments())
    slow_loss, slow_gradient = slow_loss_and_gradient(p, alrnn_step)
    assert loss == pytest.approx(slow_loss, rel=1e-12)
    scale = np.abs(slow_gradient).max()
    np.testing.assert_allclose(flat(gradients), slow_gradient, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_slope_of_the_loss(seed):
    p = random_problem(seed, interval=3, alpha=0.7)
    _, *gradients = alrnn_loss_and_gradient(*p.arguments())
    direction = np.random.default_rng(seed).normal(size=p.theta.size)
    slope = central_differences(lambda q: alrnn_loss_and_gradient(*q.arguments())[0], p, direction)
    assert flat(gradients) @ direction == pytest.approx(slope, rel=1e-6)


def test_one_step_by_hand():
    # z0 = [2, L * 2] = [2, -1]; the second unit is rectified and silent.
    loss, dA, dW, dh, dC, dL = alrnn_loss_and_gradient(
        A=np.array([0.5, 0.25]),
        W=np.array([[0.0, 3.0], [1.0, 0.0]]),
        h=np.array([0.1, 0.0]),
        C=np.array([[10.0], [0.0]]),
        L=np.array([[-0.5]]),
        x_BTN=np.array([[[2.0], [1.0]]]),
        u_BTK=np.array([[[0.3]]]),
        dt_BT=np.ones((1, 1)),
        forcing_interval=1,
        alpha=1.0,
        n_relu=1,
    )
    residual = 0.5 * 2 + 0.1 + 3.0 - 1.0
    assert loss == pytest.approx(residual**2)
    np.testing.assert_allclose(dA, [2 * residual * 2, 0])
    np.testing.assert_allclose(dW, [[2 * residual * 2, 0], [0, 0]])
    np.testing.assert_allclose(dh, [2 * residual, 0])
    np.testing.assert_allclose(dC, [[2 * residual * 0.3], [0]])
    np.testing.assert_allclose(dL, [[0.0]], atol=1e-15)


def test_intervals_do_not_matter():
    p = random_problem(1)
    loss = alrnn_loss_and_gradient(*p.arguments())[0]
    p.dt = 7.0 * p.dt
    assert alrnn_loss_and_gradient(*p.arguments())[0] == loss


def test_nothing_observed_gives_zero_loss_and_gradient():
    p = random_problem(1)
    p.x[:, 1:] = np.nan
    loss, *gradients = alrnn_loss_and_gradient(*p.arguments())
    assert loss == 0.0
    assert not flat(gradients).any()


def test_a_missing_start_counts_as_the_mean():
    p = random_problem(1)
    q = random_problem(1)
    p.x[0, 0, 1], q.x[0, 0, 1] = np.nan, 0.0
    first, second = (alrnn_loss_and_gradient(*v.arguments()) for v in (p, q))
    assert first[0] == second[0]
    np.testing.assert_array_equal(flat(first[1:]), flat(second[1:]))


def test_an_overflow_shows_in_the_loss():
    p = random_problem(1, interval=1000, T=40)
    p.A[:] = 1e30
    loss, *_ = alrnn_loss_and_gradient(*p.arguments())
    assert not np.isfinite(loss)


def test_inputs_stay_untouched_and_may_be_read_only_views():
    p = random_problem(5)
    expected = alrnn_loss_and_gradient(*p.arguments())
    for name in ("A", "W", "h", "C", "L", "x", "u", "dt"):
        view = np.repeat(getattr(p, name), 2, axis=-1)[..., ::2]
        view.flags.writeable = False
        setattr(p, name, view)
    again = alrnn_loss_and_gradient(*p.arguments())
    assert again[0] == expected[0]
    np.testing.assert_array_equal(flat(again[1:]), flat(expected[1:]))


@pytest.mark.parametrize("options", [{}, {"M": 4, "N": 4, "P": 4}, {"K": 0}, {"M": 9, "P": 0}])
def test_free_run_agrees_with_the_slow_reference(options):
    p = random_problem(2, **options)
    B, T = p.dt.shape
    z0 = np.random.default_rng(0).normal(size=(B, p.A.size))
    states = alrnn_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0, p.u, p.dt)
    assert states.shape == (B, T + 1, p.A.size)
    for b in range(B):
        slow = slow_free_run(p, alrnn_step, z0[b], p.u[b], p.dt[b])
        np.testing.assert_allclose(states[b], slow, rtol=1e-12, atol=1e-12)


def test_wrong_shapes_are_refused_by_name():
    p = random_problem(0)
    arguments = dict(enumerate(p.arguments()))
    arguments[2] = np.zeros(3)
    with pytest.raises(ParameterError, match=r"h has shape \(3,\); needed is \(7,\)"):
        alrnn_loss_and_gradient(*arguments.values())
    with pytest.raises(ParameterError, match="u has shape"):
        alrnn_free_run(p.A, p.W, p.h, p.C, p.n_relu, np.zeros((5, 7)), p.u[:, :-1], p.dt)
