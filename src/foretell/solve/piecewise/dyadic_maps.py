"""The maps of one region for dyadic durations, and the way back from their gradients.

Plain functions of arrays, compiled. E (R, L, M, M) and G (R, L, Q, M) are the maps, X2 and Y the
two products behind the shortest one, Ws the generators W_s; see ``dyadic`` for the legend.
"""

# Compiled functions: their types are those of the arrays they meet.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from foretell.solve.piecewise.simd import add_product, add_transposed_product

_FLAGS = {"contract"}  # fused multiply-add only: NaN checks stay


@njit(cache=True, forceinline=True, fastmath=_FLAGS)
def add_scaled(out, c, v):
    """Out += c v for vectors."""
    for i in range(v.shape[0]):
        out[i] += c * v[i]


@njit(cache=True, fastmath=_FLAGS)
def add_outer(out, a, b):
    """Out += a b^T."""
    for i in range(a.shape[0]):
        c = a[i]
        for j in range(b.shape[0]):
            out[i, j] += c * b[j]


@njit(cache=True)
def add_matrix(out, c, v):
    """Out += c v for matrices."""
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            out[i, j] += c * v[i, j]


@njit(cache=True)
def product(A, B, out):
    """Out = A B."""
    np.dot(A, B, out)


@njit(cache=True)
def product_nt(A, B, out):
    """Out = A B^T."""
    np.dot(A, B.T, out)


@njit(cache=True)
def product_tn(A, B, out):
    """Out = A^T B."""
    np.dot(A.T, B, out)


@njit(cache=True, fastmath=_FLAGS)
def taylor_drive(X, h, v1, v2, v3):
    """v3 = h/24, v2 = h/6 + X v3, v1 = h/2 + X v2: Horner for (I + X/2 + X^2/6 + X^3/24) h."""
    for i in range(h.shape[0]):
        v3[i] = h[i] / 24.0
        v2[i] = h[i] / 6.0
        v1[i] = h[i] / 2.0
    add_product(v2, X, v3)
    add_product(v1, X, v2)


@njit(cache=True, fastmath=_FLAGS)
def build_region(code, r, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws):
    """Fill the maps of region ``r`` for the durations u, 2u, .., 2^J u."""
    pad = W.shape[0]
    first = n_units - n_relu
    n_levels = E.shape[1]
    n_drive = H.shape[0]
    X = np.empty((pad, pad))
    for i in range(pad):
        for j in range(pad):
            on = j < first or (j < n_units and (code >> (j - first)) & 1 == 1)
            Ws[r, i, j] = W[i, j] if on else 0.0
        Ws[r, i, i] += A[i]
        for j in range(pad):
            X[i, j] = u * Ws[r, i, j]
    # E_0 = I + X + X^2 Y with Y = I/2 + X/6 + X^2/24: Taylor of order four in two products
    product(X, X, X2[r])
    for i in range(pad):
        for j in range(pad):
            Y[r, i, j] = X[i, j] / 6.0 + X2[r, i, j] / 24.0
        Y[r, i, i] += 0.5
    product(X2[r], Y[r], E[r, 0])
    for i in range(pad):
        for j in range(pad):
            E[r, 0, i, j] += X[i, j]
        E[r, 0, i, i] += 1.0
    # G_0 = u (I + X/2 + X^2/6 + X^3/24) H by Horner, column by column
    v3, v2, v1 = np.empty(pad), np.empty(pad), np.empty(pad)
    for q in range(n_drive):
        taylor_drive(X, H[q], v1, v2, v3)
        v0 = G[r, 0, q]
        for i in range(pad):
            v0[i] = H[q, i]
        add_product(v0, X, v1)
        for i in range(pad):
            v0[i] *= u
    for level in range(1, n_levels):
        product(E[r, level - 1], E[r, level - 1], E[r, level])
        for q in range(n_drive):
            for i in range(pad):
                G[r, level, q, i] = G[r, level - 1, q, i]
            add_product(G[r, level, q], E[r, level - 1], G[r, level - 1, q])


@njit(cache=True, fastmath=_FLAGS)
def unwind_region(r, H, u, E, G, X2, Y, Ws, dE, dG, dWs, dH, top):
    """From the gradients of all maps of region ``r`` to those of W_s (into dWs) and H (dH)."""
    pad = Ws.shape[1]
    n_drive = H.shape[0]
    tmp = np.empty((pad, pad))
    for level in range(top, 0, -1):
        low = E[r, level - 1]
        product_nt(dE[level], low, tmp)
        add_matrix(dE[level - 1], 1.0, tmp)
        product_tn(low, dE[level], tmp)
        add_matrix(dE[level - 1], 1.0, tmp)
        for q in range(n_drive):
            add_outer(dE[level - 1], dG[level, q], G[r, level - 1, q])
            add_scaled(dG[level - 1, q], 1.0, dG[level, q])
            add_transposed_product(dG[level - 1, q], low, dG[level, q])
    X = np.zeros((pad, pad))
    add_matrix(X, u, Ws[r])
    dX = np.zeros((pad, pad))
    add_matrix(dX, 1.0, dE[0])
    # G_0
    v3, v2, v1 = np.empty(pad), np.empty(pad), np.empty(pad)
    for q in range(n_drive):
        taylor_drive(X, H[q], v1, v2, v3)
        a0, a1, a2, a3 = np.zeros(pad), np.zeros(pad), np.zeros(pad), np.zeros(pad)
        add_scaled(a0, u, dG[0, q])
        add_transposed_product(a1, X, a0)
        add_transposed_product(a2, X, a1)
        add_transposed_product(a3, X, a2)
        add_outer(dX, a0, v1)
        add_outer(dX, a1, v2)
        add_outer(dX, a2, v3)
        add_scaled(dH[q], 1.0, a0)
        add_scaled(dH[q], 1.0 / 2.0, a1)
        add_scaled(dH[q], 1.0 / 6.0, a2)
        add_scaled(dH[q], 1.0 / 24.0, a3)
    # E_0
    dX2 = np.empty((pad, pad))
    product_nt(dE[0], Y[r], dX2)
    product_tn(X2[r], dE[0], tmp)
    add_matrix(dX, 1.0 / 6.0, tmp)
    add_matrix(dX2, 1.0 / 24.0, tmp)
    product_nt(dX2, X, tmp)
    add_matrix(dX, 1.0, tmp)
    product_tn(X, dX2, tmp)
    add_matrix(dX, 1.0, tmp)
    add_matrix(dWs, u, dX)
