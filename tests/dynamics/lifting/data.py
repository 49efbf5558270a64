"""Small recordings of noisy systems."""

from typing import Any

import numpy as np


def noisy_paths(n_paths: int, n_steps: int, *, seed: int = 0, n: int = 1) -> Any:
    """Paths (B, T, n) of x' = 0.8 x + 0.3 noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_paths, n_steps + 1, n))
    for t in range(n_steps):
        x[:, t + 1] = 0.8 * x[:, t] + 0.3 * x[:, t + 1]
    return x


def ring_paths(starts: Any, n_steps: int, *, seed: int = 0, length: float = 0.6) -> Any:
    """Paths (B, T, cells) of a stochastic Allen-Cahn ring with noise correlated in space.

    du = (0.05 u_xx + u - u^3) dt + (0.25 + 0.15 tanh u) dW, dt = 0.1 in ten steps.
    """
    rng, u = np.random.default_rng(seed), np.array(starts, dtype=float)
    angle = 2 * np.pi * np.arange(u.shape[1]) / u.shape[1]
    away = np.abs(angle[:, None] - angle)
    away = np.minimum(away, 2 * np.pi - away)
    values, vectors = np.linalg.eigh(np.exp(-(away**2) / (2 * length**2)))
    factor = vectors * np.sqrt(np.maximum(values, 0.0))
    dx, h, path = 2 * np.pi / u.shape[1], 0.01, [u]
    for _ in range(n_steps):
        for _ in range(10):
            bend = (np.roll(u, 1, 1) + np.roll(u, -1, 1) - 2 * u) / dx**2
            dW = np.sqrt(h) * rng.standard_normal(u.shape) @ factor.T
            u = u + h * (0.05 * bend + u - u**3) + (0.25 + 0.15 * np.tanh(u)) * dW
        path.append(u)
    return np.stack(path, axis=1)
