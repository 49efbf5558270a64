"""The fused Runge-Kutta kernel against a slow reference, central differences and known flows."""

import numpy as np
import pytest
from scipy.linalg import expm

from foretell.core.errors import ParameterError
from foretell.dynamics._kernels_rk4 import rk4_free_run, rk4_loss_and_gradient
from tests.dynamics.slow_learners import (
    central_differences,
    flat,
    random_problem,
    rk4_step,
    slow_free_run,
    slow_loss_and_gradient,
)

CASES = {
    "sparse forcing": ({}, 1),
    "two substeps": ({}, 2),
    "gentle forcing, three substeps": ({"interval": 1, "alpha": 0.15}, 3),
    "never forced": ({"interval": 1000}, 1),
    "no hidden units": ({"M": 3, "N": 3, "P": 2}, 2),
    "no inputs": ({"K": 0}, 1),
    "all rectified": ({"P": 7}, 1),
    "one sequence": ({"B": 1}, 1),
    "sizes that fit the blocks": ({"M": 8, "N": 4, "P": 4, "B": 16}, 1),
}


@pytest.mark.parametrize(("options", "substeps"), CASES.values(), ids=CASES)
def test_agrees_with_the_slow_reference(options, substeps):
    p = random_problem(3, **options)
    loss, *gradients = rk4_loss_and_gradient(*p.arguments(), substeps)
    slow_loss, slow_gradient = slow_loss_and_gradient(p, rk4_step(substeps))
    assert loss == pytest.approx(slow_loss, rel=1e-12)
    scale = np.abs(slow_gradient).max()
    np.testing.assert_allclose(flat(gradients), slow_gradient, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_the_slope_of_the_loss(seed):
    p = random_problem(seed, interval=3, alpha=0.7)
    _, *gradients = rk4_loss_and_gradient(*p.arguments(), 2)
    direction = np.random.default_rng(seed).normal(size=p.theta.size)
    slope = central_differences(lambda q: rk4_loss_and_gradient(*q.arguments(), 2)[0], p, direction)
    assert flat(gradients) @ direction == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"M": 4, "N": 4, "P": 4}, {"K": 0}, {"M": 9, "P": 0}])
def test_free_run_agrees_with_the_slow_reference(options):
    p = random_problem(2, **options)
    B, T = p.dt.shape
    z0 = np.random.default_rng(0).normal(size=(B, p.A.size))
    states = rk4_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0, p.u, p.dt, 2)
    assert states.shape == (B, T + 1, p.A.size)
    for b in range(B):
        slow = slow_free_run(p, rk4_step(2), z0[b], p.u[b], p.dt[b])
        np.testing.assert_allclose(states[b], slow, rtol=1e-12, atol=1e-12)


def test_fourth_order_towards_the_matrix_exponential():
    p = random_problem(4, P=0, K=0, B=1, T=6)
    z0 = np.random.default_rng(1).normal(size=(1, 7))
    G = np.zeros((8, 8))
    G[:7, :7], G[:7, 7] = np.diag(p.A) + p.W, p.h
    exact = (expm(G * p.dt.sum()) @ np.append(z0, 1.0))[:7]
    errors = [
        np.abs(rk4_free_run(p.A, p.W, p.h, p.C, 0, z0, p.u, p.dt, s)[0, -1] - exact).max()
        for s in (4, 8)
    ]
    assert errors[0] < 1e-4
    assert 12 < errors[0] / errors[1] < 20


def test_substeps_are_finer_intervals():
    p = random_problem(6)
    z0 = np.random.default_rng(2).normal(size=(5, 7))
    coarse = rk4_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0, p.u, p.dt, 3)
    u, dt = np.repeat(p.u, 3, axis=1), np.repeat(p.dt / 3, 3, axis=1)
    fine = rk4_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0, u, dt, 1)
    np.testing.assert_allclose(coarse, fine[:, ::3], rtol=1e-12, atol=1e-13)


def test_loss_follows_the_free_run_when_nothing_forces():
    p = random_problem(8, interval=1000, missing=0.3)
    z0 = np.concatenate([p.x[:, 0], p.x[:, 0] @ p.L.T], axis=1)
    states = rk4_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0, p.u, p.dt, 1)
    expected = np.nanmean((states[:, 1:, :3] - p.x[:, 1:]) ** 2)
    assert rk4_loss_and_gradient(*p.arguments(), 1)[0] == pytest.approx(expected, rel=1e-12)


def test_nothing_observed_gives_zero_loss_and_gradient():
    p = random_problem(1)
    p.x[:, 1:] = np.nan
    loss, *gradients = rk4_loss_and_gradient(*p.arguments(), 1)
    assert loss == 0.0
    assert not flat(gradients).any()


def test_substeps_must_be_at_least_one():
    p = random_problem(0)
    with pytest.raises(ParameterError, match="substeps=0"):
        rk4_loss_and_gradient(*p.arguments(), 0)
