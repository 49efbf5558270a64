"""Simulated stochastic systems and the measures of the lifting benchmarks."""

import time
from typing import Any

import numpy as np

from foretell.dynamics.lifting import StochasticLifting
from foretell.dynamics.longrun import energy_distance, wasserstein

DT = 0.1
CELLS = 32


def double_well(start: Any, n_steps: int, rng: Any, *, substeps: int = 10) -> Any:
    """Paths (B, n_steps + 1, 1) of dx = (x - x^3) dt + (0.5 + 0.25 tanh x) dW."""
    x = np.array(start, dtype=float).reshape(-1, 1)
    h, path = DT / substeps, [x]
    for _ in range(n_steps):
        for _ in range(substeps):
            dW = np.sqrt(h) * rng.standard_normal(x.shape)
            x = x + h * (x - x**3) + (0.5 + 0.25 * np.tanh(x)) * dW
        path.append(x)
    return np.stack(path, axis=1)


def correlated(length: float, cells: int = CELLS) -> Any:
    """Factor whose product with white noise has covariance exp(-distance^2 / 2 length^2)."""
    angle = 2 * np.pi * np.arange(cells) / cells
    away = np.abs(angle[:, None] - angle)
    away = np.minimum(away, 2 * np.pi - away)
    covariance = np.exp(-(away**2) / (2 * length**2))
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def ring(start: Any, n_steps: int, rng: Any, *, length: float = 0.6, substeps: int = 20) -> Any:
    """Paths (B, n_steps + 1, 32) of the stochastic Allen-Cahn ring.

    du = (0.05 u_xx + u - u^3) dt + (0.25 + 0.15 tanh u) dW, dW correlated over ``length``.
    """
    u, factor = np.array(start, dtype=float), correlated(length)
    dx, h = 2 * np.pi / u.shape[1], DT / substeps
    path = [u]
    for _ in range(n_steps):
        for _ in range(substeps):
            bend = (np.roll(u, 1, 1) + np.roll(u, -1, 1) - 2 * u) / dx**2
            dW = np.sqrt(h) * rng.standard_normal(u.shape) @ factor.T
            u = u + h * (0.05 * bend + u - u**3) + (0.25 + 0.15 * np.tanh(u)) * dW
        path.append(u)
    return np.stack(path, axis=1)


def ring_starts(n: int, rng: Any, length: float = 0.6) -> Any:
    return 0.6 * rng.standard_normal((n, CELLS)) @ correlated(length).T


def relative_energy_distance(draws: Any, truth: Any) -> float:
    """Energy distance over the mean distance of two true draws."""
    half = len(truth) // 2
    apart = np.linalg.norm(truth[:half] - truth[half : 2 * half], axis=1).mean()
    return energy_distance(draws, truth) / float(apart)


def relative_wasserstein(draws: Any, truth: Any) -> float:
    return wasserstein(draws, truth) / float(np.std(truth))


class MeanOnly(StochasticLifting):
    """The mean network alone: what regression without labels gives."""

    def rollout(self, x0: Any, n_steps: int, n_members: int = 1, *_: Any, **__: Any) -> Any:
        path = [np.atleast_2d(np.asarray(x0, dtype=float))]
        for _ in range(n_steps):
            path.append(self.mean_next(path[-1]))
        runs = np.stack(path, axis=1)[:, None]
        return np.repeat(runs, n_members, axis=1)


class Timed(Exception):
    """Ends a fit once its updates have been timed."""


def seconds_per_step(model: Any, paths: Any, n_steps: int = 30) -> float:
    """CPU time of an update of the last phase of a training."""

    def run(phases: Any, training: Any) -> None:
        task = phases[-1].begin()
        for step in range(n_steps + 5):
            if step == 5:
                begin = time.process_time()
            task.apply(step, task.gradient(step, 0).values)
        raise Timed((time.process_time() - begin) / n_steps)

    model._run_phases = run
    try:
        model.fit(paths)
    except Timed as found:
        return float(found.args[0])
    raise RuntimeError("the fit ended without an update")
