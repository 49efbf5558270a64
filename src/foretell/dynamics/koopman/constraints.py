"""W as a function of the encoder: the regression, and multi-step bounds that correct it.

Everything here is differentiated through. With lifted windows z (B, H+1, Z) and inputs u (B, H, K),

    W0 = S G^-1                                    the regression alone ("none")
    W  = W0 + argmin over D of 1/2 tr(D (G + lam I) D') + penalty(|r(W0 + D)| - delta)

where r, affine in D, is one of

    gauss_newton   h-step error of the outputs, linearised exactly at W0
    prefix_sum     sum of the one-step residuals of the first h steps
    rollout        one-step residual from the state that a run of W0 reaches, held fixed

The linearised error is C z_h - x_h + C sum_j A_h..A_(j+1) D phi_j: the factors C A_h..A_(j+1) are
swept backwards from each horizon, N vectors instead of Z Q columns.

delta and lam are measured at W0 and not differentiated: delta is a share of the mean error of each
horizon and output, lam a share of the mean squared error (Levenberg-Marquardt).

Legend: B windows, H steps, Z lifted states, K inputs, Q features, N outputs, m = B |hset| N bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretell.core.errors import MissingExtraError
from foretell.dynamics.koopman.layer import ElasticQPLayer
from foretell.dynamics.koopman.linear import refuse_dependent

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a KoopmanQP") from error

FAMILIES = ("gauss_newton", "prefix_sum", "rollout", "none")


@dataclass(frozen=True)
class Bounds:
    """What the elastic program needs beside the data."""

    family: str
    horizons: tuple[int, ...]
    n_outputs: int
    bilinear: bool
    ridge: float
    mu: float
    tolerance_ratio: float
    damping: float


def horizon_set(horizon: int) -> tuple[int, ...]:
    """A third, two thirds and all of the horizon.

    Examples
    --------
    >>> horizon_set(15)
    (5, 10, 15)
    """
    return tuple(sorted({max(1, round(horizon / 3)), max(1, round(2 * horizon / 3)), horizon}))


def features(z: Tensor, u: Tensor, bilinear: bool) -> Tensor:
    """phi (.., Q) of z (.., Z) and u (.., K), in the order of `linear.features`."""
    parts = [z, u]
    if bilinear:
        parts += [z * u[..., i : i + 1] for i in range(u.shape[-1])]
    return torch.cat(parts, dim=-1)


def regression(z: Tensor, u: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """W0 and G of all one-step pairs in the windows.

    Raises
    ------
    NumericalError
        The ridge is zero and the features are linearly dependent.
    """
    phi = features(z[:, :-1], u, bounds.bilinear).reshape(-1, _n_features(z, u, bounds))
    target = z[:, 1:].reshape(-1, z.shape[-1])
    G = phi.T @ phi / len(phi) + bounds.ridge * torch.eye(phi.shape[1], dtype=phi.dtype)
    if not bounds.ridge:
        refuse_dependent(G.detach().numpy())
    return torch.linalg.solve(G, phi.T @ target / len(phi)).T, G


def rollout(W: Tensor, z0: Tensor, u: Tensor, bilinear: bool) -> tuple[Tensor, Tensor]:
    """States z_1 .. z_H (B, H, Z) and features phi_0 .. phi_(H-1) (B, H, Q) of a run of W."""
    z, states, phis = z0, [], []
    WT = W.T
    for k in range(u.shape[1]):
        phi = features(z, u[:, k], bilinear)
        z = phi @ WT
        phis.append(phi)
        states.append(z)
    return torch.stack(states, dim=1), torch.stack(phis, dim=1)


def embedded(
    z: Tensor, u: Tensor, bounds: Bounds, layer: ElasticQPLayer, *, windows: tuple[Tensor, Tensor]
) -> Tensor:
    """W (Z, Q): the regression on ``z, u``, corrected by bounds on ``windows``."""
    W0, G = regression(z, u, bounds)
    return W0 if bounds.family == "none" else corrected(W0, G, *windows, bounds, layer)


def corrected(
    W0: Tensor, G: Tensor, z: Tensor, u: Tensor, bounds: Bounds, layer: ElasticQPLayer
) -> Tensor:
    """W0 and the correction that the bounds on these windows ask for."""
    r, M = residuals(W0, z, u, bounds)
    with torch.no_grad():
        delta = bounds.tolerance_ratio * r.abs().mean(dim=0)
        lam = bounds.damping * (r**2).mean()
    P = G + lam * torch.eye(len(G), dtype=G.dtype)
    correction: Tensor = layer(
        P, torch.zeros(W0.numel(), dtype=W0.dtype), M, r.reshape(-1),
        delta.expand_as(r).reshape(-1), mu=bounds.mu,
    )  # fmt: skip
    return W0 + correction.reshape(W0.shape)


def residuals(W0: Tensor, z: Tensor, u: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """r(W0) (B, |hset|, N), and its derivative by W (m, Z Q), row-major."""
    build = {"gauss_newton": _gauss_newton, "prefix_sum": _prefix_sum, "rollout": _frozen}
    r, rows = build[bounds.family](W0, z, u, bounds)
    return r, rows.reshape(-1, W0.numel())


def _gauss_newton(W0: Tensor, z: Tensor, u: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    N, Z = bounds.n_outputs, z.shape[-1]
    states, phi = rollout(W0, z[:, 0], u, bounds.bilinear)
    r = torch.stack([states[:, h - 1, :N] - z[:, h, :N] for h in bounds.horizons], dim=1)
    C = torch.eye(N, Z, dtype=z.dtype)
    if bounds.bilinear:
        rows = [_swept(W0, C, u, phi, h) for h in bounds.horizons]
    else:
        A, row, powers = W0[:, :Z], C, [C]
        for _ in range(max(bounds.horizons) - 1):
            row = row @ A
            powers.append(row)
        stacked = torch.stack(powers)  # C A^i
        rows = [
            torch.einsum("jcz,bjq->bczq", stacked[:h].flip(0), phi[:, :h]) for h in bounds.horizons
        ]
    return r, torch.stack(rows, dim=1)


def _swept(W0: Tensor, C: Tensor, u: Tensor, phi: Tensor, h: int) -> Tensor:
    """d(C z_h)/dW where the step matrix depends on the input: A + sum_i u_i N_i."""
    Z, K = len(W0), u.shape[-1]
    N_KZZ = W0[:, Z + K :].reshape(Z, K, Z).transpose(0, 1)
    row = C.expand(len(u), *C.shape)
    factors = [row]
    for j in range(h - 1, 0, -1):
        row = row @ (W0[:, :Z] + torch.einsum("bk,kyz->byz", u[:, j], N_KZZ))
        factors.append(row)
    return torch.einsum("bjcz,bjq->bczq", torch.stack(factors[::-1], dim=1), phi[:, :h])


def _prefix_sum(W0: Tensor, z: Tensor, u: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    N = bounds.n_outputs
    phi = features(z[:, :-1], u, bounds.bilinear)
    sums = torch.cumsum(phi, dim=1)
    error = torch.cumsum(phi @ W0.T - z[:, 1:], dim=1)
    picked = [h - 1 for h in bounds.horizons]
    return error[:, picked, :N], _output_rows(sums[:, picked], N, len(W0))


def _frozen(W0: Tensor, z: Tensor, u: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    N = bounds.n_outputs
    with torch.no_grad():
        _, phi = rollout(W0, z[:, 0], u, bounds.bilinear)
    picked = phi[:, [h - 1 for h in bounds.horizons]]
    target = z[:, list(bounds.horizons), :N]
    return (picked @ W0.T)[..., :N] - target, _output_rows(picked, N, len(W0))


def _output_rows(phi: Tensor, N: int, Z: int) -> Tensor:
    """Rows whose only entries are those of output c in W: e_c (x) phi."""
    return torch.einsum("cz,bhq->bhczq", torch.eye(N, Z, dtype=phi.dtype), phi)


def _n_features(z: Tensor, u: Tensor, bounds: Bounds) -> int:
    Z, K = z.shape[-1], u.shape[-1]
    return Z + K + (Z * K if bounds.bilinear else 0)
