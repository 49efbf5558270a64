"""What every sampler of transitions offers, whatever is behind it."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@runtime_checkable
class TransitionSampler(Protocol):
    """Learns from pairs of states and draws what comes next."""

    def fit_transitions(
        self, X: ArrayLike, Y: ArrayLike, groups: ArrayLike | None = None, **options: Any
    ) -> Self:
        """Learn from states X (N, ...) and the next ones Y (N, ...)."""
        ...

    def sample_next(
        self,
        x: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Draw next states, (B, S, ...)."""
        ...

    def rollout(
        self,
        x0: ArrayLike,
        n_steps: int,
        n_members: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Run freely, (B, S, n_steps + 1, ...)."""
        ...
