"""The reference learners again, slowly: one sequence at a time, gradients by forward tangents.

Every state carries its derivative by all parameters along. Nothing of the fast kernels is used, not
even the direction of differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np


@dataclass
class Problem:
    """Parameters, data and forcing of one loss evaluation, in the order the kernels take them."""

    A: np.ndarray
    W: np.ndarray
    h: np.ndarray
    C: np.ndarray
    L: np.ndarray
    x: np.ndarray
    u: np.ndarray
    dt: np.ndarray
    forcing_interval: int
    alpha: float
    n_relu: int

    def arguments(self):
        return tuple(getattr(self, f.name) for f in fields(self))

    def with_parameters(self, theta):
        parts, at = [], 0
        for value in self.arguments()[:5]:
            parts.append(theta[at : at + value.size].reshape(value.shape))
            at += value.size
        return Problem(*parts, *self.arguments()[5:])

    @property
    def theta(self):
        return np.concatenate([v.ravel() for v in self.arguments()[:5]])


def random_problem(seed, *, M=7, N=3, P=3, K=2, B=5, T=11, missing=0.2, interval=4, alpha=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(B, T + 1, N))
    x[:, 1:][rng.random((B, T, N)) < missing] = np.nan
    return Problem(
        A=rng.uniform(-0.9, 0.6, M),
        W=rng.normal(size=(M, M)) * 0.4 / np.sqrt(M),
        h=rng.normal(size=M) * 0.3,
        C=rng.normal(size=(M, K)),
        L=rng.normal(size=(M - N, N)),
        x=x,
        u=rng.normal(size=(B, T, K)),
        dt=rng.uniform(0.2, 1.5, (B, T)),
        forcing_interval=interval,
        alpha=alpha,
        n_relu=P,
    )


def field_with_tangent(p: Problem, z, dz, u):
    """F(z) and its derivative by theta, given dz = dz/dtheta of shape (M, size of theta)."""
    M, K = p.C.shape
    on = np.ones(M)
    on[M - p.n_relu :] = z[M - p.n_relu :] > 0
    phi = on * z
    value = p.A * z + p.W @ phi + p.h + p.C @ u
    d = p.A[:, None] * dz + p.W @ (on[:, None] * dz)
    at = 0
    d[:, at : at + M] += np.diag(z)
    at += M
    for m in range(M):
        d[m, at + m * M : at + (m + 1) * M] += phi
    at += M * M
    d[:, at : at + M] += np.eye(M)
    at += M
    for m in range(M):
        d[m, at + m * K : at + (m + 1) * K] += u
    return value, d


def alrnn_step(p: Problem, z, dz, u, dt):
    return field_with_tangent(p, z, dz, u)


def rk4_step(substeps: int) -> Callable:
    def step(p: Problem, z, dz, u, dt):
        s = dt / substeps
        for _ in range(substeps):
            k1, d1 = field_with_tangent(p, z, dz, u)
            k2, d2 = field_with_tangent(p, z + s / 2 * k1, dz + s / 2 * d1, u)
            k3, d3 = field_with_tangent(p, z + s / 2 * k2, dz + s / 2 * d2, u)
            k4, d4 = field_with_tangent(p, z + s * k3, dz + s * d3, u)
            z = z + s / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            dz = dz + s / 6 * (d1 + 2 * d2 + 2 * d3 + d4)
        return z, dz

    return step


def slow_loss_and_gradient(p: Problem, step: Callable):
    """Loss and gradient by theta."""
    M, N, size = p.A.size, p.x.shape[2], p.theta.size
    total, gradient, count = 0.0, np.zeros(size), 0
    for x, u, dt in zip(p.x, p.u, p.dt, strict=True):
        x0 = np.where(np.isnan(x[0]), 0.0, x[0])
        z = np.concatenate([x0, p.L @ x0])
        dz = np.zeros((M, size))
        for m in range(M - N):
            begin = size - p.L.size + m * N
            dz[N + m, begin : begin + N] = x0
        for k in range(1, len(x)):
            z, dz = step(p, z, dz, u[k - 1], dt[k - 1])
            for n in np.flatnonzero(~np.isnan(x[k])):
                residual = z[n] - x[k, n]
                total += residual**2
                gradient = gradient + 2 * residual * dz[n]
                count += 1
            if k % p.forcing_interval == 0:
                for n in np.flatnonzero(~np.isnan(x[k])):
                    z[n] = (1 - p.alpha) * z[n] + p.alpha * x[k, n]
                    dz[n] = (1 - p.alpha) * dz[n]
    return total / max(count, 1), gradient / max(count, 1)


def slow_free_run(p: Problem, step: Callable, z0, u, dt):
    states = [z0]
    for k in range(len(dt)):
        z, _ = step(p, states[-1], np.zeros((z0.size, p.theta.size)), u[k], dt[k])
        states.append(z)
    return np.array(states)


def flat(gradients):
    return np.concatenate([np.asarray(g).ravel() for g in gradients])


def central_differences(loss: Callable, p: Problem, direction, step=1e-6):
    """Directional derivative of the loss along a direction in theta."""
    ahead = loss(p.with_parameters(p.theta + step * direction))
    back = loss(p.with_parameters(p.theta - step * direction))
    return (ahead - back) / (2 * step)
