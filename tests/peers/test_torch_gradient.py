"""Gradients and optimiser against torch: automatic differentiation knows nothing of our adjoint."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.dynamics.optimise import RAdam
from foretell.solve.piecewise import PiecewiseLinearField, flow
from tests.solve.dyadic_problems import NAMES, problem

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.peer


def region_maps(A, W, H, on, n_levels):
    """E_l and G_l for the durations 2^l u of one region, as tensors with a history."""
    u = 2.0**-n_levels
    X = u * (torch.diag(A) + W * on)
    one = torch.eye(A.numel(), dtype=A.dtype)
    E = [one + X + X @ X / 2 + X @ X @ X / 6 + X @ X @ X @ X / 24]
    G = [u * (one + X / 2 + X @ X / 6 + X @ X @ X / 24) @ H]
    for _ in range(n_levels):
        G.append(G[-1] + E[-1] @ G[-1])
        E.append(E[-1] @ E[-1])
    return E, G


def torch_loss(parameters, p):
    """The same discretised computation, written eagerly; p.dt holds whole time units."""
    A, W, h, C, L = parameters
    M, N, P = A.numel(), p.x.shape[2], p.n_relu
    H = torch.cat([h[:, None], C], dim=1)
    maps, total, count = {}, 0.0, 0

    def code(z):
        return tuple((z[M - P :] > 0).tolist())

    def of(c):
        if c not in maps:
            on = torch.tensor([1.0] * (M - P) + [float(v) for v in c], dtype=A.dtype)
            maps[c] = region_maps(A, W, H, on, p.n_levels)
        return maps[c]

    for x, u, dt in zip(p.x, p.u, p.dt, strict=True):
        x = torch.from_numpy(x)
        z = torch.cat([x[0], L @ x[0]])
        for k in range(1, len(x)):
            w = torch.cat([torch.ones(1, dtype=A.dtype), torch.from_numpy(u[k - 1])])
            pieces, cap = round(dt[k - 1] * 2**p.n_levels), p.n_levels
            while pieces:
                level = min(cap, pieces.bit_length() - 1)
                E, G = of(code(z))
                while True:
                    ahead = E[level] @ z + G[level] @ w
                    crossed = code(ahead) != code(z)
                    if level == 0 or not crossed:
                        break
                    level -= 1
                    cap = level
                z, pieces = ahead, pieces - 2**level
                if crossed:
                    cap = p.n_levels
                elif cap < p.n_levels:
                    cap = level - 1 if level else p.n_levels
            seen = ~torch.isnan(x[k])
            total = total + ((z[:N] - x[k])[seen] ** 2).sum()
            count += int(seen.sum())
            if k % p.interval == 0:
                forced = torch.where(seen, (1 - p.alpha) * z[:N] + p.alpha * x[k], z[:N])
                z = torch.cat([forced, z[N:]])
    return total / count


@pytest.mark.parametrize(
    "options", [{}, {"K": 2, "alpha": 0.3, "interval": 1}, {"N": 5, "P": 4, "interval": 3}]
)
def test_autograd_finds_the_same_gradient(options):
    p = problem(3, B=2, T=12, irregular=False, n_levels=3, **options)
    p.dt[:, ::3] = 2.5
    tensors = [torch.tensor(v, requires_grad=True) for v in p.parameters()]
    loss = torch_loss(tensors, p)
    loss.backward()
    found = p.fast()
    assert found.n_maps > 2 * 12 + 10  # crossings on the way
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    for name, tensor in zip(NAMES, tensors, strict=True):
        if tensor.numel():
            assert_allclose(getattr(found, f"d{name}"), tensor.grad.numpy(), rtol=0, atol=1e-8)


def test_matrix_exponential_without_crossings():
    p = problem(0, M=5, N=2, P=2, B=1, T=3, irregular=False, interval=1000, n_levels=11)
    p.h[3:] = 8.0  # the rectified units stay on
    p.x[0, 0] = 0.3
    p.L[1:] = 5.0
    p.dt[:] = 0.25
    field = PiecewiseLinearField(p.A, p.W, p.h, p.n_relu)
    times = np.append(0.0, np.cumsum(p.dt[0]))
    assert len(flow(field, p.starts()[0], times).events) == 0
    A, W, h, _, L = tensors = [torch.tensor(v, requires_grad=True) for v in p.parameters()]
    x = torch.from_numpy(p.x[0])
    bottom = torch.zeros(1, 6, dtype=A.dtype)
    generator = torch.cat([torch.cat([torch.diag(A) + W, h[:, None]], 1), bottom])
    z, total = torch.cat([x[0], L @ x[0], torch.ones(1, dtype=A.dtype)]), 0.0
    for k in range(1, 4):
        z = torch.matrix_exp(0.25 * generator) @ z
        total = total + ((z[:2] - x[k]) ** 2).mean() / 3
    total.backward()
    found = p.fast()
    assert found.loss == pytest.approx(total.item(), rel=1e-9)
    for name, tensor in zip(NAMES, tensors, strict=True):
        if tensor.numel():
            scale = tensor.grad.abs().max().item()
            expected = tensor.grad.numpy()
            assert_allclose(getattr(found, f"d{name}"), expected, rtol=0, atol=1e-8 * scale)


def test_radam_takes_the_steps_of_torch():
    rng = np.random.default_rng(0)
    ours = rng.normal(size=40)
    theirs = torch.tensor(ours, requires_grad=True)
    optimiser, peer = RAdam(40), torch.optim.RAdam([theirs], lr=5e-3)
    for step in range(50):
        gradient = rng.normal(size=40) * 10.0 ** rng.integers(-6, 3)
        rate = 5e-3 * 0.9**step
        peer.param_groups[0]["lr"] = rate
        theirs.grad = torch.tensor(gradient)
        peer.step()
        optimiser.update(ours, gradient, learning_rate=rate)
        assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-10)
