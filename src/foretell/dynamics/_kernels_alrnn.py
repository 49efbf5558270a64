"""Fused kernels of the discrete almost-linear RNN: training loss with its gradient, and free run.

    z' = A z + W phi(z) + h + C u,   phi rectifies the last P units

One application is one sample; the sampling intervals are ignored, which is exactly what makes the
AL-RNN the reference for irregular stamps. The adjoint is written by hand: the state after every
forcing is kept, and one backward sweep returns all gradients.

Source: Brenner, Hemmer, Monfared, Durstewitz, "Almost-linear RNNs yield highly interpretable
symbolic codes in dynamical systems reconstruction", NeurIPS 2024.

Legend: B batch, T steps, M units, P rectified, N observed, K inputs; A (M,), W (M,M), h (M,),
C (M,K), L (M-N,N).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.dynamics._affine_columns import (
    affine,
    affine_adjoint,
    affine_row,
    as_columns,
    as_rows,
    copy_columns,
    copy_row,
    drive_row,
    gather,
    observe,
    observe_adjoint,
)

Array = NDArray[np.float64]


def alrnn_loss_and_gradient(
    A: Array,
    W: Array,
    h: Array,
    C: Array,
    L: Array,
    x_BTN: Array,
    u_BTK: Array,
    dt_BT: Array,
    forcing_interval: int,
    alpha: float,
    n_relu: int,
) -> tuple[float, Array, Array, Array, Array, Array]:
    """Teacher-forced loss of the AL-RNN and its gradients dA, dW, dh, dC, dL.

    ``x_BTN`` has T + 1 samples; NaN marks a missing target, which neither counts nor forces. The
    loss is the mean squared residual over the observed targets, taken before forcing; it is 0,
    with zero gradients, when nothing is observed. ``dt_BT`` is ignored.
    """
    c = as_columns(A, W, h, C, L, x_BTN, u_BTK, dt_BT)
    swept = _sweep(
        c.A_M,
        c.W_MM,
        c.W_transposed_MM,
        c.h_M,
        c.C_MK,
        c.start_MB,
        c.x_TNB,
        c.u_TKB,
        int(forcing_interval),
        float(alpha),
        int(n_relu),
        max(c.n_observed, 1),
    )
    return gather(c, *swept)


def alrnn_free_run(
    A: Array, W: Array, h: Array, C: Array, n_relu: int, z0_BM: Array, u_BTK: Array, dt_BT: Array
) -> Array:
    """States (B, T+1, M) of the AL-RNN left to itself, the first being z0; ``dt_BT`` is ignored."""
    A, W_transposed, h, C, z0, u, _ = as_rows(A, W, h, C, z0_BM, u_BTK, dt_BT)
    return np.asarray(_free_run(A, W_transposed, h, C, int(n_relu), z0, u))


@njit(cache=True)
def _sweep(
    A_M: Array,
    W_MM: Array,
    W_transposed_MM: Array,
    h_M: Array,
    C_MK: Array,
    start_MB: Array,
    x_TNB: Array,
    u_TKB: Array,
    forcing_interval: int,
    alpha: float,
    n_relu: int,
    n_observed: int,
) -> tuple[float, Array, Array, Array, Array, Array]:
    T = u_TKB.shape[0]
    M, B = start_MB.shape
    N, K = x_TNB.shape[1], u_TKB.shape[1]
    z_TMB = np.empty((T + 1, M, B))
    residual_TNB = np.empty((T + 1, N, B))
    copy_columns(start_MB, z_TMB[0])
    work_MB = np.empty((M, B))

    total = 0.0
    for k in range(1, T + 1):
        forced = k % forcing_interval == 0
        affine(A_M, W_MM, h_M, C_MK, n_relu, z_TMB[k - 1], u_TKB[k - 1], work_MB, z_TMB[k])
        total += observe(x_TNB[k], forced, alpha, z_TMB[k], residual_TNB[k])

    dA_MB, dh_MB = np.zeros((M, B)), np.zeros((M, B))
    dW_MM, dC_MKB = np.zeros((M, M)), np.zeros((M, K, B))
    g_MB, phi_BM = np.zeros((M, B)), np.empty((B, M))
    scale = 2.0 / n_observed
    for k in range(T, 0, -1):
        forced = k % forcing_interval == 0
        observe_adjoint(x_TNB[k], forced, alpha, residual_TNB[k], scale, g_MB)
        affine_adjoint(
            A_M,
            W_transposed_MM,
            n_relu,
            z_TMB[k - 1],
            u_TKB[k - 1],
            g_MB,
            phi_BM,
            dA_MB,
            dW_MM,
            dh_MB,
            dC_MKB,
            work_MB,
        )
        g_MB, work_MB = work_MB, g_MB
    return total, dA_MB, dW_MM, dh_MB, dC_MKB, g_MB


@njit(cache=True)
def _free_run(
    A_M: Array,
    W_transposed_MM: Array,
    h_M: Array,
    C_MK: Array,
    n_relu: int,
    z0_BM: Array,
    u_BTK: Array,
) -> Array:
    B, M = z0_BM.shape
    T = u_BTK.shape[1]
    z_BTM = np.empty((B, T + 1, M))
    drive_M = np.empty(M)
    for b in range(B):
        copy_row(z0_BM[b], z_BTM[b, 0])
        for k in range(T):
            drive_row(h_M, C_MK, u_BTK[b, k], drive_M)
            affine_row(A_M, W_transposed_MM, drive_M, n_relu, z_BTM[b, k], z_BTM[b, k + 1])
    return z_BTM
