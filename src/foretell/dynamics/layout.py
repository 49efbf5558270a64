"""The parameters that the learners trained by teacher forcing have in common, and their kernel.

They differ in how one sample leads to the next: that step, with its adjoint, is a
``SequenceKernel``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Where A (M,), W (M, M), h (M,), C (M, K) and L (M-N, N) lie in one flat array."""

    n_units: int
    n_observed: int
    n_controls: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        M, N, K = self.n_units, self.n_observed, self.n_controls
        return M + M * M + M + M * K + (M - N) * N

    def views(self, theta: Array) -> tuple[Array, Array, Array, Array, Array]:
        """A, W, h, C, L as views into ``theta``."""
        M, N, K = self.n_units, self.n_observed, self.n_controls
        ends = np.cumsum([M, M * M, M, M * K, (M - N) * N])
        A, W, h, C, L = (
            theta[stop - size : stop]
            for stop, size in zip(ends, (M, M * M, M, M * K, (M - N) * N), strict=True)
        )
        return A, W.reshape(M, M), h, C.reshape(M, K), L.reshape(M - N, N)


class LossAndGradient(Protocol):
    """What a kernel returns for a batch; the loss is not finite when a state escaped."""

    @property
    def loss(self) -> float:
        """Mean squared error of the batch."""
        ...

    @property
    def dA(self) -> Array:
        """Gradient by A."""
        ...

    @property
    def dW(self) -> Array:
        """Gradient by W."""
        ...

    @property
    def dh(self) -> Array:
        """Gradient by h."""
        ...

    @property
    def dC(self) -> Array:
        """Gradient by C."""
        ...

    @property
    def dL(self) -> Array:
        """Gradient by L."""
        ...


class SequenceKernel(Protocol):
    """One learner's step from sample to sample, with its adjoint."""

    def loss_and_gradient(
        self, A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array | None,
        dt: Array, *, forcing_interval: int, alpha: float,
    ) -> LossAndGradient:  # fmt: skip
        """Forced mean squared error over x (B, T+1, N) and its gradient."""
        ...

    def free_run(
        self, A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array | None, dt: Array
    ) -> Array:
        """States (B, T+1, M) from z0 (B, M); NaN after an escape."""
        ...
