"""The kernels of the two reference learners as the trainer sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics._kernels_alrnn import alrnn_free_run, alrnn_loss_and_gradient
from foretell.dynamics._kernels_rk4 import rk4_free_run, rk4_loss_and_gradient

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelGradient:
    """Loss of a batch and its gradient; not finite when a state left the range of numbers."""

    loss: float
    dA: Array
    dW: Array
    dh: Array
    dC: Array
    dL: Array


def _inputs(u: Array | None, dt: Array) -> Array:
    return np.zeros((*dt.shape, 0)) if u is None else np.ascontiguousarray(u)


@dataclass(frozen=True)
class ALRNNKernel:
    """One application of the map for each sample."""

    n_relu: int

    def loss_and_gradient(
        self, A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array | None,
        dt: Array, *, forcing_interval: int, alpha: float,
    ) -> KernelGradient:  # fmt: skip
        """Forced mean squared error and its gradient."""
        return KernelGradient(
            *alrnn_loss_and_gradient(
                A, W, h, C, L, x, _inputs(u, dt), dt, forcing_interval, alpha, self.n_relu
            )
        )

    def free_run(
        self, A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array | None, dt: Array
    ) -> Array:
        """States (B, T+1, M)."""
        return alrnn_free_run(A, W, h, C, self.n_relu, z0, _inputs(u, dt), dt)


@dataclass(frozen=True)
class RK4Kernel:
    """The field followed by ``substeps`` Runge-Kutta steps for each sample."""

    n_relu: int
    substeps: int

    def loss_and_gradient(
        self, A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array | None,
        dt: Array, *, forcing_interval: int, alpha: float,
    ) -> KernelGradient:  # fmt: skip
        """Forced mean squared error and its gradient."""
        return KernelGradient(
            *rk4_loss_and_gradient(
                A, W, h, C, L, x, _inputs(u, dt), dt, forcing_interval, alpha, self.n_relu,
                self.substeps,
            )
        )  # fmt: skip

    def free_run(
        self, A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array | None, dt: Array
    ) -> Array:
        """States (B, T+1, M)."""
        return rk4_free_run(A, W, h, C, self.n_relu, z0, _inputs(u, dt), dt, self.substeps)
