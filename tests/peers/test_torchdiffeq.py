"""ReLUNeuralODE's Runge-Kutta steps against torchdiffeq's rk4.

The peer uses the 3/8 rule, ours is the classical one. Both have four stages and order four, so on
an affine field they are one polynomial of the step; they differ where a step crosses a boundary.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.dynamics._kernels_rk4 import rk4_free_run
from tests.dynamics.slow_learners import random_problem

torch = pytest.importorskip("torch", reason="torch is not installed")
torchdiffeq = pytest.importorskip("torchdiffeq", reason="torchdiffeq is not installed")
pytestmark = pytest.mark.peer


def both(p, substeps):
    """States of ours and of theirs at the sample times."""
    A, W, h = (torch.from_numpy(v) for v in (p.A, p.W, p.h))
    first = p.A.size - p.n_relu

    def field(t, z):
        return A * z + W @ torch.cat([z[:first], z[first:].relu()]) + h

    z0 = np.random.default_rng(0).normal(size=p.A.size)
    times = np.append(0.0, np.cumsum(np.repeat(p.dt[0] / substeps, substeps)))
    theirs = torchdiffeq.odeint(
        field, torch.from_numpy(z0), torch.from_numpy(times), method="rk4"
    ).numpy()[::substeps]
    ours = rk4_free_run(p.A, p.W, p.h, p.C, p.n_relu, z0[None], p.u, p.dt, substeps)[0]
    return ours, theirs


@pytest.mark.parametrize("substeps", [1, 3])
def test_the_same_steps_where_the_field_is_affine(substeps):
    ours, theirs = both(random_problem(3, K=0, B=1, T=8, P=0), substeps)
    assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_the_same_steps_inside_one_region():
    p = random_problem(3, K=0, B=1, T=8, P=2)
    p.h[-2:] = 30.0
    p.dt[:] = 0.1
    p.dt[0, 0] = 2.5  # both units are on after the first step
    ours, theirs = both(p, 1)
    assert (ours[1:, -2:] > 0).all()
    from_there = p.dt[:, 1:], p.u[:, 1:]
    again = rk4_free_run(p.A, p.W, p.h, p.C, 2, theirs[None, 1], from_there[1], from_there[0], 1)
    assert_allclose(again[0], theirs[1:], rtol=0, atol=1e-10)


def test_the_same_orbit_across_boundaries():
    coarse, fine = (both(random_problem(5, K=0, B=1, T=8), n) for n in (20, 400))
    assert_allclose(*coarse, rtol=0, atol=1e-3)
    assert_allclose(*fine, rtol=0, atol=1e-5)
