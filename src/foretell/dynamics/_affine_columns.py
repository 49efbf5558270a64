"""One rectified-affine map on a batch of states, its adjoint, and the teacher forcing around it.

    F(z) = A z + W phi(z) + h + C u,   phi rectifies the last P units

Both reference learners are made of this map: the AL-RNN applies it once a sample, the ReLU neural
ODE four times a Runge-Kutta step. The batch is the innermost axis, so that every inner loop runs
over contiguous memory with the weights held in registers, and W meets the whole batch at once.

Legend: B batch, T steps, M units, P rectified, N observed, K inputs; A (M,), W (M,M), h (M,),
C (M,K). Arrays end in their axes: z_MB is (units, batch). g is an adjoint (gradient of the loss).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core.errors import ParameterError

Array = NDArray[np.float64]


class Columns(NamedTuple):
    """The arguments of a loss kernel, checked, copied and turned batch-innermost."""

    A_M: Array
    W_MM: Array
    W_transposed_MM: Array
    h_M: Array
    C_MK: Array
    start_MB: Array
    x_TNB: Array
    u_TKB: Array
    dt_TB: Array
    n_observed: int


def as_columns(
    A: Array, W: Array, h: Array, C: Array, L: Array, x_BTN: Array, u_BTK: Array, dt_BT: Array
) -> Columns:
    """Check the shapes (a kernel does not) and lay everything out with the batch innermost.

    The initial state is [x_0; L x_0]; a missing entry of x_0 counts as 0, the mean of
    standardised data. ``n_observed`` counts the observed targets, x_1 .. x_T.
    """
    B, T1, N = x_BTN.shape
    M, K = C.shape
    _check_shapes(
        {
            "A": (A, (M,)),
            "W": (W, (M, M)),
            "h": (h, (M,)),
            "L": (L, (M - N, N)),
            "u": (u_BTK, (B, T1 - 1, K)),
            "dt": (dt_BT, (B, T1 - 1)),
        }
    )
    x_TNB = packed(x_BTN.transpose(1, 2, 0))
    start_NB = np.nan_to_num(x_TNB[0], nan=0.0)
    return Columns(
        A_M=packed(A),
        W_MM=packed(W),
        W_transposed_MM=packed(W.T),
        h_M=packed(h),
        C_MK=packed(C),
        start_MB=np.concatenate([start_NB, L @ start_NB]),
        x_TNB=x_TNB,
        u_TKB=packed(u_BTK.transpose(1, 2, 0)),
        dt_TB=packed(dt_BT.T),
        n_observed=int(np.count_nonzero(~np.isnan(x_TNB[1:]))),
    )


def as_rows(
    A: Array, W: Array, h: Array, C: Array, z0_BM: Array, u_BTK: Array, dt_BT: Array
) -> tuple[Array, ...]:
    """Check and copy the arguments of a free run: A, W transposed, h, C, z0, u, dt."""
    B, M = z0_BM.shape
    T, K = dt_BT.shape[1], C.shape[1]
    _check_shapes(
        {
            "A": (A, (M,)),
            "W": (W, (M, M)),
            "h": (h, (M,)),
            "C": (C, (M, K)),
            "u": (u_BTK, (B, T, K)),
            "dt": (dt_BT, (B, T)),
        }
    )
    return tuple(packed(v) for v in (A, W.T, h, C, z0_BM, u_BTK, dt_BT))


def _check_shapes(needed: dict[str, tuple[Array, tuple[int, ...]]]) -> None:
    for name, (array, shape) in needed.items():
        if array.shape != shape:
            raise ParameterError(
                f"{name} has shape {array.shape}; needed is {shape} beside the other arrays."
            )


def packed(array: Array) -> Array:
    """A writable C-ordered copy: one memory layout means one compiled version of every kernel."""
    return np.array(array, dtype=np.float64, order="C")


def gather(
    columns: Columns,
    total: float,
    dA_MB: Array,
    dW_MM: Array,
    dh_MB: Array,
    dC_MKB: Array,
    g_MB: Array,
) -> tuple[float, Array, Array, Array, Array, Array]:
    """Loss, dA, dW, dh, dC, dL from what a sweep returns; g is the adjoint of [x_0; L x_0]."""
    start_NB = columns.start_MB[: columns.x_TNB.shape[1]]
    dL = np.asarray(g_MB[start_NB.shape[0] :] @ start_NB.T)
    loss = total / max(columns.n_observed, 1)
    return loss, dA_MB.sum(axis=1), dW_MM, dh_MB.sum(axis=1), dC_MKB.sum(axis=2), dL


@njit(cache=True)
def copy_row(source_M: Array, target_M: Array) -> None:
    """Copy a row; array assignment would cost seconds of compilation."""
    for m in range(source_M.size):
        target_M[m] = source_M[m]


@njit(cache=True)
def copy_columns(source_MB: Array, target_MB: Array) -> None:
    """Copy a batch of columns."""
    for m in range(source_MB.shape[0]):
        for b in range(source_MB.shape[1]):
            target_MB[m, b] = source_MB[m, b]


@njit(cache=True)
def add_product(W_MJ: Array, p_JB: Array, out_MB: Array) -> None:
    """Add W p to out; blocks of 4 x 4 weights stay in registers while the batch streams by."""
    M, J = W_MJ.shape
    B = p_JB.shape[1]
    M4, J4 = M - M % 4, J - J % 4
    for m in range(0, M4, 4):
        for j in range(0, J4, 4):
            a0, a1, a2, a3 = W_MJ[m, j], W_MJ[m, j + 1], W_MJ[m, j + 2], W_MJ[m, j + 3]
            b0, b1, b2, b3 = (
                W_MJ[m + 1, j],
                W_MJ[m + 1, j + 1],
                W_MJ[m + 1, j + 2],
                W_MJ[m + 1, j + 3],
            )
            c0, c1, c2, c3 = (
                W_MJ[m + 2, j],
                W_MJ[m + 2, j + 1],
                W_MJ[m + 2, j + 2],
                W_MJ[m + 2, j + 3],
            )
            d0, d1, d2, d3 = (
                W_MJ[m + 3, j],
                W_MJ[m + 3, j + 1],
                W_MJ[m + 3, j + 2],
                W_MJ[m + 3, j + 3],
            )
            for b in range(B):
                p0, p1, p2, p3 = p_JB[j, b], p_JB[j + 1, b], p_JB[j + 2, b], p_JB[j + 3, b]
                out_MB[m, b] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                out_MB[m + 1, b] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
                out_MB[m + 2, b] += c0 * p0 + c1 * p1 + c2 * p2 + c3 * p3
                out_MB[m + 3, b] += d0 * p0 + d1 * p1 + d2 * p2 + d3 * p3
        for j in range(J4, J):
            a0, b0, c0, d0 = W_MJ[m, j], W_MJ[m + 1, j], W_MJ[m + 2, j], W_MJ[m + 3, j]
            for b in range(B):
                out_MB[m, b] += a0 * p_JB[j, b]
                out_MB[m + 1, b] += b0 * p_JB[j, b]
                out_MB[m + 2, b] += c0 * p_JB[j, b]
                out_MB[m + 3, b] += d0 * p_JB[j, b]
    for m in range(M4, M):
        for j in range(J):
            a0 = W_MJ[m, j]
            for b in range(B):
                out_MB[m, b] += a0 * p_JB[j, b]


@njit(cache=True)
def affine(
    A_M: Array,
    W_MM: Array,
    h_M: Array,
    C_MK: Array,
    n_relu: int,
    z_MB: Array,
    u_KB: Array,
    phi_MB: Array,
    out_MB: Array,
) -> None:
    """Write F(z) into out; phi is work space."""
    M, B = z_MB.shape
    for m in range(M):
        a, h = A_M[m], h_M[m]
        rectified = m >= M - n_relu
        for b in range(B):
            z = z_MB[m, b]
            out_MB[m, b] = a * z + h
            phi_MB[m, b] = max(z, 0.0) if rectified else z
        for k in range(C_MK.shape[1]):
            c = C_MK[m, k]
            for b in range(B):
                out_MB[m, b] += c * u_KB[k, b]
    add_product(W_MM, phi_MB, out_MB)


@njit(cache=True)
def affine_adjoint(
    A_M: Array,
    W_transposed_MM: Array,
    n_relu: int,
    z_MB: Array,
    u_KB: Array,
    g_MB: Array,
    phi_BM: Array,
    dA_MB: Array,
    dW_MM: Array,
    dh_MB: Array,
    dC_MKB: Array,
    out_MB: Array,
) -> None:
    """Write the adjoint of z into out, given g of F(z), and add to the parameter gradients."""
    M, B = z_MB.shape
    for m in range(M):
        a = A_M[m]
        rectified = m >= M - n_relu
        for b in range(B):
            z, g = z_MB[m, b], g_MB[m, b]
            dh_MB[m, b] += g
            dA_MB[m, b] += g * z
            out_MB[m, b] = 0.0
            phi_BM[b, m] = max(z, 0.0) if rectified else z
        for k in range(dC_MKB.shape[1]):
            for b in range(B):
                dC_MKB[m, k, b] += g_MB[m, b] * u_KB[k, b]
    add_product(g_MB, phi_BM, dW_MM)
    add_product(W_transposed_MM, g_MB, out_MB)
    for m in range(M):
        a = A_M[m]
        rectified = m >= M - n_relu
        for b in range(B):
            through = 0.0 if rectified and not z_MB[m, b] > 0.0 else out_MB[m, b]
            out_MB[m, b] = a * g_MB[m, b] + through


@njit(cache=True)
def observe(x_NB: Array, forced: bool, alpha: float, z_MB: Array, residual_NB: Array) -> float:
    """Residuals of one step (0 where x is missing), then forcing in place; the sum of squares."""
    total = 0.0
    N, B = x_NB.shape
    for n in range(N):
        for b in range(B):
            x = x_NB[n, b]
            residual = 0.0
            if not np.isnan(x):
                residual = z_MB[n, b] - x
                if forced:
                    z_MB[n, b] = (1.0 - alpha) * z_MB[n, b] + alpha * x
            residual_NB[n, b] = residual
            total += residual * residual
    return total


@njit(cache=True)
def observe_adjoint(
    x_NB: Array, forced: bool, alpha: float, residual_NB: Array, scale: float, g_MB: Array
) -> None:
    """Turn the adjoint of the state after forcing into the one before it, in place."""
    N, B = x_NB.shape
    for n in range(N):
        for b in range(B):
            keep = 1.0 - alpha if forced and not np.isnan(x_NB[n, b]) else 1.0
            g_MB[n, b] = keep * g_MB[n, b] + scale * residual_NB[n, b]


@njit(cache=True)
def affine_row(
    A_M: Array, W_transposed_MM: Array, drive_M: Array, n_relu: int, z_M: Array, out_M: Array
) -> None:
    """Write A z + W phi(z) + drive of one state into out; units are innermost here."""
    M = z_M.size
    linear = M - n_relu
    for m in range(M):
        out_M[m] = A_M[m] * z_M[m] + drive_M[m]
    M4 = M - M % 4
    for j in range(0, M4, 4):
        p0, p1, p2, p3 = z_M[j], z_M[j + 1], z_M[j + 2], z_M[j + 3]
        if j + 3 >= linear:
            p0 = max(p0, 0.0) if j >= linear else p0
            p1 = max(p1, 0.0) if j + 1 >= linear else p1
            p2 = max(p2, 0.0) if j + 2 >= linear else p2
            p3 = max(p3, 0.0)
        for m in range(M):
            out_M[m] += (
                W_transposed_MM[j, m] * p0
                + W_transposed_MM[j + 1, m] * p1
                + W_transposed_MM[j + 2, m] * p2
                + W_transposed_MM[j + 3, m] * p3
            )
    for j in range(M4, M):
        p0 = max(z_M[j], 0.0) if j >= linear else z_M[j]
        for m in range(M):
            out_M[m] += W_transposed_MM[j, m] * p0


@njit(cache=True)
def drive_row(h_M: Array, C_MK: Array, u_K: Array, out_M: Array) -> None:
    """Write h + C u into out."""
    for m in range(h_M.size):
        total = h_M[m]
        for k in range(u_K.size):
            total += C_MK[m, k] * u_K[k]
        out_M[m] = total
