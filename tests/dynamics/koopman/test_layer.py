"""The program as a layer, and W as a function of the encoder: derivatives against differences."""

from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="a layer of a network needs torch")

from foretell.core import ParameterError  # noqa: E402
from foretell.dynamics.koopman.constraints import (  # noqa: E402
    FAMILIES,
    Bounds,
    embedded,
    horizon_set,
    regression,
    residuals,
    rollout,
)
from foretell.dynamics.koopman.layer import ElasticQPLayer  # noqa: E402


def program(seed: int, batch: int = 0):
    rng = np.random.default_rng(seed)
    lead = (batch,) if batch else ()
    R = rng.normal(size=(*lead, 9, 3))
    given = (
        np.swapaxes(R, -1, -2) @ R / 9, rng.normal(size=(*lead, 6)),
        rng.normal(size=(*lead, 8, 6)), rng.normal(size=(*lead, 8)),
        rng.uniform(0.3, 0.6, (*lead, 8)),
    )  # fmt: skip
    return [torch.from_numpy(x).requires_grad_() for x in given]


@pytest.mark.parametrize("seed", range(3))
def test_the_layer_passes_the_gradient_check(seed: int) -> None:
    layer = ElasticQPLayer()
    G, *rest = program(seed)
    root = torch.linalg.cholesky(G.detach()).requires_grad_()

    def solve(root, q, M, c, delta):
        return layer(root @ root.T, q, M, c, delta, mu=20.0)

    assert torch.autograd.gradcheck(solve, (root, *rest), eps=1e-7, atol=1e-5)


def test_a_batch_is_solved_one_by_one() -> None:
    layer, given = ElasticQPLayer(), program(5, batch=3)
    w = layer(*given, mu=5.0)
    for n in range(3):
        assert torch.equal(w[n], layer(*(x[n] for x in given), mu=5.0))
    w.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in given)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_the_same_solution_and_gradient_as_qpth(seed: int) -> None:
    pytest.importorskip("qpth", reason="qpth is not installed")
    found = []
    for backend in ("active_set", "qpth"):
        G, q, M, c, delta = program(seed)
        w = ElasticQPLayer(backend)(G, q, M, c, delta, mu=20.0)
        weights = torch.arange(1.0, 7.0, dtype=torch.float64)
        found.append((w.detach(), *torch.autograd.grad((weights * w).sum(), (q, M, c, delta))))
    (ours, *slopes), (theirs, *their_slopes) = found
    assert (ours - theirs).abs().max() < 1e-8
    for one, two in zip(slopes, their_slopes, strict=True):
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-5)


def test_unknown_backends_are_refused() -> None:
    with pytest.raises(ParameterError, match="active_set"):
        ElasticQPLayer("magic")
    if find_spec("qpth") is None:
        with pytest.raises(ParameterError, match="pip install qpth"):
            ElasticQPLayer("qpth")(*program(0))


def windows(seed: int, bilinear: bool):
    rng = np.random.default_rng(seed)
    s = torch.from_numpy(0.3 * np.cumsum(rng.normal(size=(12, 7, 2)), axis=1))
    u = torch.from_numpy(rng.normal(size=(12, 6, 1)))
    return s, u, Bounds("gauss_newton", (2, 4, 6), 2, bilinear, 1e-2, 5.0, 0.5, 1.0)


@pytest.mark.parametrize("bilinear", [False, True])
def test_the_rows_are_the_derivative_of_the_true_error(bilinear: bool) -> None:
    s, u, bounds = windows(0, bilinear)
    z = torch.cat([s, torch.sin(s[..., :1])], dim=-1)
    W, _ = regression(z, u, bounds)

    def error(W):
        run, _ = rollout(W, z[:, 0], u, bilinear)
        return torch.stack([run[:, h - 1, :2] - z[:, h, :2] for h in bounds.horizons], 1)

    _, M = residuals(W, z, u, bounds)
    exact = torch.autograd.functional.jacobian(error, W).reshape(M.shape)
    assert torch.allclose(M, exact, atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_w_depends_smoothly_on_the_encoder(family: str) -> None:
    """One parameter of a lifting, by automatic and by finite differences."""
    s, u, bounds = windows(1, False)
    bounds = Bounds(**{**bounds.__dict__, "family": family, "tolerance_ratio": 0.0, "damping": 0.0})
    layer = ElasticQPLayer()

    def outcome(a):
        z = torch.cat([s, torch.sin(a * s[..., :1])], dim=-1)
        return embedded(z, u, bounds, layer, windows=(z, u)).sum()

    a = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(outcome(a), a)
    expected = (outcome(a + 1e-6) - outcome(a - 1e-6)) / 2e-6
    if family == "rollout":  # whose run of the regression is held fixed on purpose
        assert torch.isfinite(slope)
    else:
        assert np.isclose(slope.item(), expected.item(), rtol=1e-3, atol=1e-6)


def test_horizons_are_thirds() -> None:
    assert horizon_set(2) == (1, 2)
    assert horizon_set(40) == (13, 27, 40)
