"""How a HybridLatentODE is trained, apart from data and networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What a training needs beside data and networks; the names are those of the constructor."""

    horizons: tuple[int, ...]
    updates_per_horizon: int
    batch_size: int
    lr: float
    final_lr: float
    grad_clip: float
    weights: Mapping[str, float]
    seam_weight: float
    spread: float
    variance_floor: float
    substeps: int
    seed: int

    @property
    def n_updates(self) -> int:
        """Updates of the whole curriculum."""
        return self.updates_per_horizon * len(self.horizons)

    def horizon(self, step: int) -> int:
        """Length of the rollouts of an update."""
        return self.horizons[min(step // self.updates_per_horizon, len(self.horizons) - 1)]
