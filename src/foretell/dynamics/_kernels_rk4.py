"""Fused kernels of the ReLU neural ODE: training loss with its gradient, and free run.

    dz/dt = A z + W phi(z) + h + C u,   phi rectifies the last P units

The field is that of the continuous piecewise-linear RNN; here every sampling interval dt is
crossed in ``substeps`` equal steps of the classical fourth-order Runge-Kutta method, with the
input held. The gradient is that of the discrete scheme, written by hand: the four stage states of
every step are kept (8 * 4 * substeps * T * M * B bytes) and one backward sweep returns everything.

Source: Chen, Rubanova, Bettencourt, Duvenaud, "Neural ordinary differential equations",
NeurIPS 2018, with the gradient by discretise-then-optimise.

Legend: B batch, T intervals, S substeps, M units, P rectified, N observed, K inputs; A (M,),
W (M,M), h (M,), C (M,K), L (M-N,N).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
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


def rk4_loss_and_gradient(
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
    substeps: int,
) -> tuple[float, Array, Array, Array, Array, Array]:
    """Teacher-forced loss of the ReLU neural ODE and its gradients dA, dW, dh, dC, dL.

    ``x_BTN`` has T + 1 samples; NaN marks a missing target, which neither counts nor forces. The
    loss is the mean squared residual over the observed targets, taken before forcing; it is 0,
    with zero gradients, when nothing is observed.
    """
    _check_substeps(substeps)
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
        c.dt_TB,
        int(forcing_interval),
        float(alpha),
        int(n_relu),
        int(substeps),
        max(c.n_observed, 1),
    )
    return gather(c, *swept)


def rk4_free_run(
    A: Array,
    W: Array,
    h: Array,
    C: Array,
    n_relu: int,
    z0_BM: Array,
    u_BTK: Array,
    dt_BT: Array,
    substeps: int,
) -> Array:
    """States (B, T+1, M) of the ReLU neural ODE left to itself, the first being z0."""
    _check_substeps(substeps)
    A, W_transposed, h, C, z0, u, dt = as_rows(A, W, h, C, z0_BM, u_BTK, dt_BT)
    return np.asarray(_free_run(A, W_transposed, h, C, int(n_relu), z0, u, dt, int(substeps)))


def _check_substeps(substeps: int) -> None:
    if substeps < 1:
        raise ParameterError(f"substeps={substeps}; needed is a whole number >= 1.")


@njit(cache=True)
def _forward_step(
    A_M: Array,
    W_MM: Array,
    h_M: Array,
    C_MK: Array,
    n_relu: int,
    u_KB: Array,
    step_B: Array,
    stage_4MB: Array,
    phi_MB: Array,
    k_MB: Array,
    out_MB: Array,
) -> None:
    """One Runge-Kutta step from stage 0 into out; fills stages 1 to 3."""
    M, B = out_MB.shape
    for i in range(4):
        affine(A_M, W_MM, h_M, C_MK, n_relu, stage_4MB[i], u_KB, phi_MB, k_MB)
        weight = 1.0 / 6.0 if i == 0 or i == 3 else 1.0 / 3.0
        reach = 1.0 if i == 2 else 0.5
        source = 0 if i == 0 else 1
        for m in range(M):
            for b in range(B):
                slope = step_B[b] * k_MB[m, b]
                before = out_MB[m, b] if source else stage_4MB[0, m, b]
                out_MB[m, b] = before + weight * slope
                if i < 3:
                    stage_4MB[i + 1, m, b] = stage_4MB[0, m, b] + reach * slope


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
    dt_TB: Array,
    forcing_interval: int,
    alpha: float,
    n_relu: int,
    substeps: int,
    n_observed: int,
) -> tuple[float, Array, Array, Array, Array, Array]:
    T = u_TKB.shape[0]
    M, B = start_MB.shape
    N, K = x_TNB.shape[1], u_TKB.shape[1]
    stage_S4MB = np.empty((T * substeps + 1, 4, M, B))
    residual_TNB = np.empty((T + 1, N, B))
    copy_columns(start_MB, stage_S4MB[0, 0])
    phi_MB, k_MB, step_B = np.empty((M, B)), np.empty((M, B)), np.empty(B)

    total = 0.0
    for k in range(1, T + 1):
        for b in range(B):
            step_B[b] = dt_TB[k - 1, b] / substeps
        for s in range((k - 1) * substeps, k * substeps):
            _forward_step(
                A_M,
                W_MM,
                h_M,
                C_MK,
                n_relu,
                u_TKB[k - 1],
                step_B,
                stage_S4MB[s],
                phi_MB,
                k_MB,
                stage_S4MB[s + 1, 0],
            )
        forced = k % forcing_interval == 0
        total += observe(x_TNB[k], forced, alpha, stage_S4MB[k * substeps, 0], residual_TNB[k])

    dA_MB, dh_MB = np.zeros((M, B)), np.zeros((M, B))
    dW_MM, dC_MKB = np.zeros((M, M)), np.zeros((M, K, B))
    g_MB, total_MB, phi_BM = np.zeros((M, B)), np.empty((M, B)), np.empty((B, M))
    back_MB = phi_MB
    scale = 2.0 / n_observed
    for k in range(T, 0, -1):
        forced = k % forcing_interval == 0
        observe_adjoint(x_TNB[k], forced, alpha, residual_TNB[k], scale, g_MB)
        for b in range(B):
            step_B[b] = dt_TB[k - 1, b] / substeps
        for s in range(k * substeps - 1, (k - 1) * substeps - 1, -1):
            # z' = y0 + step/6 (k1 + 2 k2 + 2 k3 + k4); y1 = y0 + step/2 k1, y2 = y0 + step/2 k2,
            # y3 = y0 + step k3. k_MB is the adjoint of a slope, back_MB that of its stage state.
            for i in range(3, -1, -1):
                weight = 1.0 / 6.0 if i == 0 or i == 3 else 1.0 / 3.0
                reach = 0.0 if i == 3 else (1.0 if i == 2 else 0.5)
                for m in range(M):
                    for b in range(B):
                        if i == 3:
                            total_MB[m, b] = g_MB[m, b]
                            back_MB[m, b] = 0.0
                        k_MB[m, b] = step_B[b] * (weight * g_MB[m, b] + reach * back_MB[m, b])
                affine_adjoint(
                    A_M,
                    W_transposed_MM,
                    n_relu,
                    stage_S4MB[s, i],
                    u_TKB[k - 1],
                    k_MB,
                    phi_BM,
                    dA_MB,
                    dW_MM,
                    dh_MB,
                    dC_MKB,
                    back_MB,
                )
                for m in range(M):
                    for b in range(B):
                        total_MB[m, b] += back_MB[m, b]
            g_MB, total_MB = total_MB, g_MB
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
    dt_BT: Array,
    substeps: int,
) -> Array:
    B, M = z0_BM.shape
    T = u_BTK.shape[1]
    z_BTM = np.empty((B, T + 1, M))
    drive_M, k_M, y_M, z_M = np.empty(M), np.empty(M), np.empty(M), np.empty(M)
    for b in range(B):
        copy_row(z0_BM[b], z_BTM[b, 0])
        for k in range(T):
            drive_row(h_M, C_MK, u_BTK[b, k], drive_M)
            step = dt_BT[b, k] / substeps
            copy_row(z_BTM[b, k], z_M)
            for _ in range(substeps):
                copy_row(z_M, y_M)
                copy_row(z_M, z_BTM[b, k + 1])
                for i in range(4):
                    affine_row(A_M, W_transposed_MM, drive_M, n_relu, y_M, k_M)
                    weight = step / 6.0 if i == 0 or i == 3 else step / 3.0
                    reach = step if i == 2 else 0.5 * step
                    for m in range(M):
                        y_M[m] = z_M[m] + reach * k_M[m]
                        z_BTM[b, k + 1, m] += weight * k_M[m]
                copy_row(z_BTM[b, k + 1], z_M)
    return z_BTM
