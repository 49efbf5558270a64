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
