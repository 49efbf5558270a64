"""Where the Gauss-Newton program reproduces its reference, the true problem has no slope.

Repeating the program with its solution as the next reference, without damping, stops at W with
grad [1/2 tr(W G W') - tr(W S') + mu/(2m) sum relu(|true h-step error| - delta)^2] = 0.
Deterministic, no alarms.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the program of KoopmanQP is written with torch")

from foretell.dynamics.koopman.constraints import (  # noqa: E402
    Bounds,
    regression,
    residuals,
    rollout,
)
from foretell.solve.qp_elastic import solve_elastic  # noqa: E402

pytestmark = pytest.mark.theory


@pytest.mark.parametrize("bilinear", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_fixed_points_are_stationary(seed: int, bilinear: bool) -> None:
    rng = np.random.default_rng(seed)
    s = torch.from_numpy(np.cumsum(rng.normal(size=(20, 7, 2)), axis=1) * 0.3)
    z = torch.cat([s, torch.tanh(s[..., :1] * s[..., 1:])], dim=-1)
    u = torch.from_numpy(rng.normal(size=(20, 6, 1)))
    bounds = Bounds("gauss_newton", (2, 4, 6), 2, bilinear, 1e-2, 0.5, 0.5, 0.0)
    W0, G = regression(z, u, bounds)
    delta = 0.7 * residuals(W0, z, u, bounds)[0].abs().mean(dim=0)

    def objective(W):
        run, _ = rollout(W, z[:, 0], u, bilinear)
        r = torch.stack([run[:, h - 1, :2] - z[:, h, :2] for h in bounds.horizons], dim=1)
        over = torch.relu(r.abs() - delta)
        one_step = 0.5 * ((W - W0) @ G * (W - W0)).sum()
        return one_step + bounds.mu / (2 * r.numel()) * (over**2).sum()

    W = W0
    for _ in range(400):
        r, M = residuals(W, z, u, bounds)
        q = ((W0 - W) @ G).reshape(-1)
        step = solve_elastic(
            G.numpy(), q.numpy(), M.numpy(), r.reshape(-1).numpy(),
            delta.expand_as(r).reshape(-1).numpy(), mu=bounds.mu,
        ).w  # fmt: skip
        W = W + 0.5 * torch.from_numpy(step).reshape(W.shape)
        if np.abs(step).max() < 1e-10:
            break
    assert np.abs(step).max() < 1e-10
    assert not torch.allclose(W, W0)  # the bounds did something
    W = W.clone().requires_grad_()
    (slope,) = torch.autograd.grad(objective(W), W)
    assert slope.abs().max() < 1e-8
