"""Engine R3: the flow by dyadic pieces, with an exact adjoint. Made for training.

Time is counted in units of u = (one sample interval) / 2^J. For every region that is visited the
affine maps z -> E_l z + G_l w for durations 2^l u are built once, by squaring. An interval is
crossed by the largest pieces that keep the region code; where a piece would end in another region
it is halved, and at the finest level the code is read off the signs. The overshoot of a crossing
is at most u, and because the field is continuous across the boundary the state error is O(u^2).
Only affine maps are recorded, so the adjoint is exact for what was computed:

    lam <- E^T lam,  dE += lam z^T,  dG += lam w^T,  then the squaring chain is unwound.

The part of an interval that is no whole number of units is a Taylor step of order three.

Legend: B sequences, T intervals, M units (padded to a multiple of four inside), P rectified,
N observed, K inputs, Q = K + 1 drive columns (the constant one first), L = J + 1 levels,
R regions. ``key = region * (L + 1) + level`` names a map; level L names the generator W_s itself.

Differs from the paper: no eigen-decomposition, no root finding while training, gradients through
switching times are dropped because they are exactly zero (the field is continuous).

Source: Braendle et al., ICML 2026, arXiv 2602.15649 (model, training); scaling and squaring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.simd import add_product, add_transposed_product

Array = NDArray[np.float64]

_OK, _ESCAPED, _REGIONS_FULL, _TAPE_FULL = 0, 1, 2, 3
_SAME_TIME = 1e-6  # share of a time unit below which two durations are the same
_FLAGS = {"contract"}  # fused multiply-add only: NaN checks stay


@dataclass(frozen=True)
class SequenceGradient:
    """Loss of a batch and its gradient; ``escaped`` when a state left the allowed range."""

    loss: float
    dA: Array
    dW: Array
    dh: Array
    dC: Array
    dL: Array
    escaped: bool
    n_regions: int
    n_maps: int


# --------------------------------------------------------------------------- small linear algebra
@njit(cache=True, forceinline=True, fastmath=_FLAGS)
def _add_scaled(out, c, v):  # type: ignore[no-untyped-def]
    for i in range(v.shape[0]):
        out[i] += c * v[i]


@njit(cache=True, fastmath=_FLAGS)
def _add_outer(out, a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        c = a[i]
        for j in range(b.shape[0]):
            out[i, j] += c * b[j]


@njit(cache=True)
def _add_matrix(out, c, v):  # type: ignore[no-untyped-def]
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            out[i, j] += c * v[i, j]


@njit(cache=True)
def _product(A, B, out):  # type: ignore[no-untyped-def]
    np.dot(A, B, out)


@njit(cache=True)
def _product_nt(A, B, out):  # type: ignore[no-untyped-def]
    np.dot(A, B.T, out)


@njit(cache=True)
def _product_tn(A, B, out):  # type: ignore[no-untyped-def]
    np.dot(A.T, B, out)


@njit(cache=True, forceinline=True)
def _code(z, first, n_relu):  # type: ignore[no-untyped-def]
    code = 0
    for i in range(n_relu):
        if z[first + i] > 0.0:
            code |= 1 << i
    return code


# --------------------------------------------------------------------------- maps of one region
@njit(cache=True, fastmath=_FLAGS)
def _taylor_drive(X, h, v1, v2, v3):  # type: ignore[no-untyped-def]
    """v3 = h/24, v2 = h/6 + X v3, v1 = h/2 + X v2: Horner for (I + X/2 + X^2/6 + X^3/24) h."""
    for i in range(h.shape[0]):
        v3[i] = h[i] / 24.0
        v2[i] = h[i] / 6.0
        v1[i] = h[i] / 2.0
    add_product(v2, X, v3)
    add_product(v1, X, v2)


@njit(cache=True, fastmath=_FLAGS)
def _build_region(code, r, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws):  # type: ignore[no-untyped-def]
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
    _product(X, X, X2[r])
    for i in range(pad):
        for j in range(pad):
            Y[r, i, j] = X[i, j] / 6.0 + X2[r, i, j] / 24.0
        Y[r, i, i] += 0.5
    _product(X2[r], Y[r], E[r, 0])
    for i in range(pad):
        for j in range(pad):
            E[r, 0, i, j] += X[i, j]
        E[r, 0, i, i] += 1.0
    # G_0 = u (I + X/2 + X^2/6 + X^3/24) H by Horner, column by column
    v3, v2, v1 = np.empty(pad), np.empty(pad), np.empty(pad)
    for q in range(n_drive):
        _taylor_drive(X, H[q], v1, v2, v3)
        v0 = G[r, 0, q]
        for i in range(pad):
            v0[i] = H[q, i]
        add_product(v0, X, v1)
        for i in range(pad):
            v0[i] *= u
    for level in range(1, n_levels):
        _product(E[r, level - 1], E[r, level - 1], E[r, level])
        for q in range(n_drive):
            for i in range(pad):
                G[r, level, q, i] = G[r, level - 1, q, i]
            add_product(G[r, level, q], E[r, level - 1], G[r, level - 1, q])


@njit(cache=True, fastmath=_FLAGS)
def _unwind_region(r, H, u, E, G, X2, Y, Ws, dE, dG, dWs, dH, top):  # type: ignore[no-untyped-def]
    """From the gradients of all maps of region ``r`` to those of W_s (into dWs) and H (dH)."""
    pad = Ws.shape[1]
    n_drive = H.shape[0]
    tmp = np.empty((pad, pad))
    for level in range(top, 0, -1):
        low = E[r, level - 1]
        _product_nt(dE[level], low, tmp)
        _add_matrix(dE[level - 1], 1.0, tmp)
        _product_tn(low, dE[level], tmp)
        _add_matrix(dE[level - 1], 1.0, tmp)
        for q in range(n_drive):
            _add_outer(dE[level - 1], dG[level, q], G[r, level - 1, q])
            _add_scaled(dG[level - 1, q], 1.0, dG[level, q])
            add_transposed_product(dG[level - 1, q], low, dG[level, q])
    X = np.zeros((pad, pad))
    _add_matrix(X, u, Ws[r])
    dX = np.zeros((pad, pad))
    _add_matrix(dX, 1.0, dE[0])
    # G_0
    v3, v2, v1 = np.empty(pad), np.empty(pad), np.empty(pad)
    for q in range(n_drive):
        _taylor_drive(X, H[q], v1, v2, v3)
        a0, a1, a2, a3 = np.zeros(pad), np.zeros(pad), np.zeros(pad), np.zeros(pad)
        _add_scaled(a0, u, dG[0, q])
        add_transposed_product(a1, X, a0)
        add_transposed_product(a2, X, a1)
        add_transposed_product(a3, X, a2)
        _add_outer(dX, a0, v1)
        _add_outer(dX, a1, v2)
        _add_outer(dX, a2, v3)
        _add_scaled(dH[q], 1.0, a0)
        _add_scaled(dH[q], 1.0 / 2.0, a1)
        _add_scaled(dH[q], 1.0 / 6.0, a2)
        _add_scaled(dH[q], 1.0 / 24.0, a3)
    # E_0
    dX2 = np.empty((pad, pad))
    _product_nt(dE[0], Y[r], dX2)
    _product_tn(X2[r], dE[0], tmp)
    _add_matrix(dX, 1.0 / 6.0, tmp)
    _add_matrix(dX2, 1.0 / 24.0, tmp)
    _product_nt(dX2, X, tmp)
    _add_matrix(dX, 1.0, tmp)
    _product_tn(X, dX2, tmp)
    _add_matrix(dX, 1.0, tmp)
    _add_matrix(dWs, u, dX)


# --------------------------------------------------------------------------- region table
@njit(cache=True)
def _find_region(code, table, codes, n_regions):  # type: ignore[no-untyped-def]
    """Slot of ``code`` in the open-addressing table (its value is -1 when it is new)."""
    mask = table.shape[0] - 1
    slot = (code * 0x9E3779B1 >> 7) & mask
    while table[slot] >= 0 and codes[table[slot]] != code:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, fastmath=_FLAGS)
def _region(code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws):  # type: ignore[no-untyped-def]
    """Index of the region with this code, built if new; -1 when the workspace is full."""
    slot = _find_region(code, table, codes, count[0])
    if table[slot] >= 0:
        return table[slot]
    r = count[0]
    if r >= codes.shape[0]:
        return -1
    codes[r] = code
    table[slot] = r
    count[0] = r + 1
    _build_region(code, r, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws)
    return r


# --------------------------------------------------------------------------- one interval
@njit(cache=True, forceinline=True, fastmath=_FLAGS)
def _advance(  # type: ignore[no-untyped-def]
    z, out, r, n_pieces, rest, w, interval, A, W, H, n_units, n_relu, u,
    E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval, used, record,
):  # fmt: skip
    """Advance z by ``n_pieces`` units and a rest in time; returns (status, region, entries used)."""
    pad = z.shape[0]
    first = n_units - n_relu
    top = E.shape[1] - 1
    n_drive = H.shape[0]
    cap = top
    remaining = n_pieces
    while remaining > 0:
        level = cap
        while (1 << level) > remaining:
            level -= 1
        while True:
            for i in range(pad):
                out[i] = G[r, level, 0, i]
            for q in range(1, n_drive):
                _add_scaled(out, w[q], G[r, level, q])
            add_product(out, E[r, level], z)
            code = _code(out, first, n_relu)
            crossed = code != codes[r]
            if level == 0 or not crossed:
                break
            level -= 1
            cap = level
        if record:
            if used >= tape_key.shape[0]:
                return _TAPE_FULL, r, used
            tape_key[used] = r * (top + 2) + level
            tape_interval[used] = interval
            for i in range(pad):
                tape_z[used, i] = z[i]
            used += 1
        for i in range(pad):
            z[i] = out[i]
        remaining -= 1 << level
        if crossed:
            cap = top
            r = _region(
                code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws
            )  # fmt: skip
            if r < 0:
                return _REGIONS_FULL, r, used
        elif cap < top:
            # the piece that failed ends within the next 2^level units: go on halving
            cap = level - 1 if level > 0 else top
    if rest != 0.0:
        if record and used + 3 > tape_key.shape[0]:
            return _TAPE_FULL, r, used
        v = z.copy()
        scale = 1.0
        for k in range(3):
            if record:
                tape_key[used] = r * (top + 2) + top + 1
                tape_interval[used] = interval
                for i in range(pad):
                    tape_z[used, i] = v[i]
                used += 1
            for i in range(pad):
                out[i] = 0.0
            if k == 0:
                for q in range(n_drive):
                    _add_scaled(out, w[q], H[q])
            add_product(out, Ws[r], v)
            scale *= rest / (k + 1)
            _add_scaled(z, scale, out)
            for i in range(pad):
                v[i] = out[i]
        code = _code(z, first, n_relu)
        if code != codes[r]:
            r = _region(
                code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws
            )  # fmt: skip
            if r < 0:
                return _REGIONS_FULL, r, used
    return _OK, r, used


# --------------------------------------------------------------------------- training kernel
@njit(cache=True, fastmath=_FLAGS)
def _forward(  # type: ignore[no-untyped-def]
    A, W, H, Lmap, x, w, pieces, rest, n_units, n_relu, u, interval, alpha, z_max,
    E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval, start, states,
):  # fmt: skip
    n_batch, n_samples, n_obs = x.shape
    pad = W.shape[0]
    n_steps = n_samples - 1
    first = n_units - n_relu
    z = np.zeros(pad)
    out = np.zeros(pad)
    used = np.int64(0)
    record = np.bool_(True)
    for b in range(n_batch):
        for i in range(pad):
            z[i] = 0.0
        for i in range(n_obs):
            z[i] = x[b, 0, i]
        for i in range(n_units - n_obs):
            s = 0.0
            for j in range(n_obs):
                s += Lmap[i, j] * x[b, 0, j]
            z[n_obs + i] = s
        code = _code(z, first, n_relu)
        r = _region(code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws)
        if r < 0:
            return _REGIONS_FULL, used
        for k in range(n_steps):
            start[b, k] = used
            status, r, used = _advance(
                z, out, r, pieces[b, k], rest[b, k], w[b, k], b * n_steps + k, A, W, H, n_units,
                n_relu, u, E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval,
                used, record,
            )  # fmt: skip
            if status != _OK:
                return status, used
            for i in range(n_obs):
                states[b, k, i] = z[i]
            for i in range(n_units):
                if not abs(z[i]) < z_max:
                    return _ESCAPED, used
            if (k + 1) % interval == 0 and k + 1 < n_steps:
                for i in range(n_obs):
                    if not np.isnan(x[b, k + 1, i]):
                        z[i] = (1.0 - alpha) * z[i] + alpha * x[b, k + 1, i]
                if n_obs > first:
                    code = _code(z, first, n_relu)
                    if code != codes[r]:
                        r = _region(
                            code, table, codes, count, A, W, H, n_units, n_relu, u,
                            E, G, X2, Y, Ws,
                        )  # fmt: skip
                        if r < 0:
                            return _REGIONS_FULL, used
        start[b, n_steps] = used
    return _OK, used


@njit(cache=True, fastmath=_FLAGS)
def _loss(x, states):  # type: ignore[no-untyped-def]
    """(mean squared error, number of observed values) of the predictions against x[:, 1:]."""
    total, n_seen = 0.0, 0
    for b in range(states.shape[0]):
        for k in range(states.shape[1]):
            for i in range(states.shape[2]):
                if not np.isnan(x[b, k + 1, i]):
                    n_seen += 1
                    total += (states[b, k, i] - x[b, k + 1, i]) ** 2
    return total / max(n_seen, 1), n_seen


@njit(cache=True, fastmath=_FLAGS)
def _sweep_back(  # type: ignore[no-untyped-def]
    x, w, rest, n_units, interval, alpha, n_seen, E, Ws, tape_lam, tape_key, start, states, dH, dL,
):  # fmt: skip
    """The adjoint along the tape, newest entry first; fills tape_lam and dL."""
    n_batch, n_samples, n_obs = x.shape
    pad = tape_lam.shape[1]
    n_steps = n_samples - 1
    n_keys = E.shape[1] + 1
    n_drive = dH.shape[0]
    lam, new, a2, a3 = np.zeros(pad), np.zeros(pad), np.zeros(pad), np.zeros(pad)
    for b in range(n_batch):
        for i in range(pad):
            lam[i] = 0.0
        for k in range(n_steps - 1, -1, -1):
            forced = (k + 1) % interval == 0 and k + 1 < n_steps
            for i in range(n_obs):
                if not np.isnan(x[b, k + 1, i]):
                    if forced:
                        lam[i] *= 1.0 - alpha
                    lam[i] += 2.0 / n_seen * (states[b, k, i] - x[b, k + 1, i])
            e = start[b, k + 1] - 1
            if rest[b, k] != 0.0:
                # z' = z + c1 v1 + c2 v2 + c3 v3 with v1 = W z + d, v2 = W v1, v3 = W v2
                r = tape_key[e] // n_keys
                c1 = rest[b, k]
                c2 = c1 * c1 / 2.0
                c3 = c2 * c1 / 3.0
                for i in range(pad):
                    a3[i] = c3 * lam[i]
                    a2[i] = c2 * lam[i]
                    new[i] = c1 * lam[i]
                add_transposed_product(a2, Ws[r], a3)
                add_transposed_product(new, Ws[r], a2)
                for i in range(pad):
                    tape_lam[e, i] = a3[i]
                    tape_lam[e - 1, i] = a2[i]
                    tape_lam[e - 2, i] = new[i]
                for q in range(n_drive):
                    _add_scaled(dH[q], w[b, k, q], new)
                add_transposed_product(lam, Ws[r], tape_lam[e - 2])
                e -= 3
            while e >= start[b, k]:
                for i in range(pad):
                    tape_lam[e, i] = lam[i]
                    new[i] = 0.0
                key = tape_key[e]
                r = key // n_keys
                add_transposed_product(new, E[r, key - r * n_keys], lam)
                for i in range(pad):
                    lam[i] = new[i]
                e -= 1
        for i in range(n_units - n_obs):
            for j in range(n_obs):
                dL[i, j] += lam[n_obs + i] * x[b, 0, j]


@njit(cache=True, fastmath=_FLAGS)
def _sorted_by_key(tape_key, used, n_keys):  # type: ignore[no-untyped-def]
    """Counting sort: (order, offset) with the entries of key k at order[offset[k]:offset[k+1]]."""
    offset = np.zeros(n_keys + 1, np.int64)
    for e in range(used):
        offset[tape_key[e] + 1] += 1
    for k in range(n_keys):
        offset[k + 1] += offset[k]
    place = np.empty(n_keys, np.int64)
    for k in range(n_keys):
        place[k] = offset[k]
    order = np.empty(used, np.int64)
    for e in range(used):
        k = tape_key[e]
        order[place[k]] = e
        place[k] += 1
    return order, offset


@njit(cache=True, fastmath=_FLAGS)
def _gather_gradient(  # type: ignore[no-untyped-def]
    H, w, n_units, n_relu, u, E, G, X2, Y, Ws, codes, n_regions, tape_z, tape_lam, tape_key,
    tape_interval, used, dA, dW, dH,
):  # fmt: skip
    """One matrix product for each map of the tape, then unwind every region's squaring chain."""
    pad = tape_z.shape[1]
    first = n_units - n_relu
    n_levels = E.shape[1]
    n_drive = H.shape[0]
    order, offset = _sorted_by_key(tape_key, used, n_regions * (n_levels + 1))
    lam_buf, z_buf = np.empty((used, pad)), np.empty((used, pad))
    dE = np.empty((n_levels + 1, pad, pad))
    dG = np.empty((n_levels, n_drive, pad))
    for r in range(n_regions):
        top = np.int64(-1)
        for level in range(n_levels + 1):
            key = r * (n_levels + 1) + level
            n = offset[key + 1] - offset[key]
            for i in range(pad):
                for j in range(pad):
                    dE[level, i, j] = 0.0
            if level < n_levels:
                for q in range(n_drive):
                    for i in range(pad):
                        dG[level, q, i] = 0.0
            if n == 0:
                continue
            for m in range(n):
                e = order[offset[key] + m]
                for i in range(pad):
                    lam_buf[m, i] = tape_lam[e, i]
                    z_buf[m, i] = tape_z[e, i]
                if level < n_levels:
                    for q in range(n_drive):
                        _add_scaled(dG[level, q], w[tape_interval[e], q], tape_lam[e])
            _product_tn(lam_buf[:n], z_buf[:n], dE[level])
            if level < n_levels:
                top = level
        dWs = dE[n_levels]
        if top >= 0:
            _unwind_region(r, H, u, E, G, X2, Y, Ws, dE, dG, dWs, dH, top)
        for i in range(n_units):
            dA[i] += dWs[i, i]
            for j in range(n_units):
                if j < first or (codes[r] >> (j - first)) & 1 == 1:
                    dW[i, j] += dWs[i, j]


# --------------------------------------------------------------------------- free run
@njit(cache=True, fastmath=_FLAGS)
def _free_run(  # type: ignore[no-untyped-def]
    A, W, H, z0, w, pieces, rest, n_units, n_relu, u, z_max,
    E, G, X2, Y, Ws, table, codes, count, states, done,
):  # fmt: skip
    """States (B, T + 1, M) from z0; done[b] = first sample not reached (escape) or T + 1."""
    n_batch, n_steps = pieces.shape
    pad = W.shape[0]
    first = n_units - n_relu
    z = np.zeros(pad)
    out = np.zeros(pad)
    tape_z = np.empty((1, pad))
    tape_key = np.empty(1, np.int64)
    zero, record = np.int64(0), np.bool_(False)
    for b in range(n_batch):
        k0 = done[b]
        for i in range(pad):
            z[i] = states[b, k0 - 1, i] if i < n_units else 0.0
        code = _code(z, first, n_relu)
        r = _region(code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws)
        if r < 0:
            return _REGIONS_FULL
        for k in range(k0 - 1, n_steps):
            status, r, _ = _advance(
                z, out, r, pieces[b, k], rest[b, k], w[b, k], zero, A, W, H, n_units, n_relu, u,
                E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_key, zero, record,
            )  # fmt: skip
            if status != _OK:
                return status
            fine = True
            for i in range(n_units):
                states[b, k + 1, i] = z[i]
                if not abs(z[i]) < z_max:
                    fine = False
            if not fine:
                break
            done[b] = k + 2
    return _OK


# --------------------------------------------------------------------------- what others call
class DyadicFlow:
    """The fused flow of a continuous piecewise-linear field for batches of sequences.

    Parameters
    ----------
    n_units : int
        M, the number of latent units.
    n_relu : int
        P, how many of the last units are rectified (at most 62).
    n_controls : int
        K, the number of inputs.
    n_levels : int
        J; the shortest piece is 2^-J of the time unit.

    Notes
    -----
    An object keeps its work arrays between calls and must not be shared by threads.

    Examples
    --------
    >>> import numpy as np
    >>> flow = DyadicFlow(n_units=1, n_relu=0)
    >>> states, reached = flow.free_run(
    ...     np.array([-1.0]), np.zeros((1, 1)), np.zeros(1), None, np.ones((1, 1)), None,
    ...     np.ones((1, 2)),
    ... )
    >>> np.round(states[0, :, 0], 6)
    array([1.      , 0.367879, 0.135335])
    """

    def __init__(
        self, *, n_units: int, n_relu: int, n_controls: int = 0, n_levels: int = 5
    ) -> None:
        if not 0 <= n_relu <= min(n_units, 62):
            raise ParameterError(
                f"n_relu={n_relu} is not possible; it must lie between 0 and "
                f"min(n_units, 62) = {min(n_units, 62)}."
            )
        if not 0 <= n_levels <= 20:
            raise ParameterError(f"n_levels={n_levels} is not between 0 and 20.")
        self.n_units, self.n_relu, self.n_controls = n_units, n_relu, n_controls
        self.n_levels = n_levels
        self._pad = -(-max(n_units, 1) // 4) * 4
        self._n_drive = n_controls + 1
        self._allocate(64)
        self._tape(0)

    def loss_and_gradient(
        self,
        A: Array,
        W: Array,
        h: Array,
        C: Array | None,
        L: Array,
        x: Array,
        u: Array | None,
        dt: Array,
        *,
        forcing_interval: int,
        alpha: float = 1.0,
        z_max: float = 1e6,
    ) -> SequenceGradient:
        """Mean squared error of forced predictions over a batch, and its gradient.

        Parameters
        ----------
        A, W, h, C : arrays (M,), (M, M), (M,), (M, K) or None
            The field. C is None without inputs.
        L : array (M - N, N)
            Initial values of the unobserved units, z_0 = [x_0; L x_0].
        x : array (B, T + 1, N)
            Observed sequences; NaN marks a value that is neither forced nor counted. The first
            sample of each sequence must be complete.
        u : array (B, T, K) or None
            Inputs, held over each interval.
        dt : array (B, T)
            Interval lengths in model time.
        forcing_interval : int
            After so many samples the observed units are moved to the data.
        alpha : float
            How far they are moved (1 replaces them).
        z_max : float
            A larger state ends the evaluation with ``escaped=True`` and a zero gradient.
        """
        A_M, W_MM, H_QM = self._pad_field(A, W, h, C)
        x_BTN = np.ascontiguousarray(x, dtype=np.float64)
        n_batch, n_samples, n_obs = x_BTN.shape
        w_BTQ, pieces, rest = self._drive_and_pieces(u, dt)
        n_hidden = self.n_units - n_obs
        L_map = np.ascontiguousarray(L, dtype=np.float64).reshape(n_hidden, n_obs)
        start = np.empty((n_batch, n_samples), np.int64)
        states = np.empty((n_batch, n_samples - 1, n_obs))
        unit = 2.0**-self.n_levels
        self._tape(2 * n_batch * n_samples)
        while True:
            self._reset()
            status, used = _forward(
                A_M, W_MM, H_QM, L_map, x_BTN, w_BTQ, pieces, rest, self.n_units, self.n_relu,
                unit, forcing_interval, alpha, z_max, *self._regions, self._table, self._codes,
                self._count, *self._records, start, states,
            )  # fmt: skip
            if not self._grow(status):
                break
        dA, dh = np.zeros(self.n_units), np.zeros(self.n_units)
        dW, dL = np.zeros((self.n_units, self.n_units)), np.zeros((n_hidden, n_obs))
        dH = np.zeros((self._n_drive, self._pad))
        loss = np.inf
        if status == _OK:
            tape_z, tape_key, tape_interval = self._records
            loss, n_seen = _loss(x_BTN, states)
            E, Ws = self._regions[0], self._regions[4]
            _sweep_back(
                x_BTN, w_BTQ, rest, self.n_units, forcing_interval, alpha, n_seen, E, Ws,
                self._tape_lam, tape_key, start, states, dH, dL,
            )  # fmt: skip
            _gather_gradient(
                H_QM, w_BTQ.reshape(-1, self._n_drive), self.n_units, self.n_relu, unit,
                *self._regions, self._codes, int(self._count[0]), tape_z, self._tape_lam, tape_key,
                tape_interval, used, dA, dW, dH,
            )  # fmt: skip
            dh[:] = dH[0, : self.n_units]
        return SequenceGradient(
            loss=float(loss),
            dA=dA,
            dW=dW,
            dh=dh,
            dC=np.ascontiguousarray(dH[1:, : self.n_units].T),
            dL=dL,
            escaped=status == _ESCAPED,
            n_regions=int(self._count[0]),
            n_maps=int(used),
        )

    def free_run(
        self,
        A: Array,
        W: Array,
        h: Array,
        C: Array | None,
        z0: Array,
        u: Array | None,
        dt: Array,
        *,
        z_max: float = 1e6,
    ) -> tuple[Array, NDArray[np.int64]]:
        """States of shape (B, T + 1, M) that start at ``z0`` (B, M) and see no data.

        Returns the states and, for each sequence, how many samples were reached before a state
        exceeded ``z_max``; the samples after that are NaN.
        """
        A_M, W_MM, H_QM = self._pad_field(A, W, h, C)
        w_BTQ, pieces, rest = self._drive_and_pieces(u, dt)
        n_batch, n_steps = pieces.shape
        states = np.full((n_batch, n_steps + 1, self.n_units), np.nan)
        states[:, 0] = z0
        done = np.ones(n_batch, np.int64)
        self._reset()
        while True:
            status = _free_run(
                A_M, W_MM, H_QM, states, w_BTQ, pieces, rest, self.n_units, self.n_relu,
                2.0**-self.n_levels, z_max, *self._regions, self._table, self._codes, self._count,
                states, done,
            )  # fmt: skip
            if status == _OK:
                break
            if not self._grow(status, can_forget=True):
                break
            self._reset()
        for b in range(n_batch):
            states[b, done[b] :] = np.nan
        return states, done

    # ------------------------------------------------------------------ work arrays
    def _pad_field(
        self, A: Array, W: Array, h: Array, C: Array | None
    ) -> tuple[Array, Array, Array]:
        M, pad = self.n_units, self._pad
        A_M, W_MM, H_QM = np.zeros(pad), np.zeros((pad, pad)), np.zeros((self._n_drive, pad))
        A_M[:M], W_MM[:M, :M], H_QM[0, :M] = A, W, h
        if C is not None and self.n_controls:
            H_QM[1:, :M] = np.asarray(C).T
        return A_M, W_MM, H_QM

    def _drive_and_pieces(
        self, u: Array | None, dt: Array
    ) -> tuple[Array, NDArray[np.int64], Array]:
        dt_BT = np.asarray(dt, dtype=np.float64)
        w_BTQ = np.ones((*dt_BT.shape, self._n_drive))
        if self.n_controls:
            if u is None:
                raise ParameterError(
                    f"this field has {self.n_controls} inputs, and none were given; pass controls."
                )
            w_BTQ[..., 1:] = u
        units = dt_BT * 2.0**self.n_levels
        pieces = np.rint(units).astype(np.int64)
        rest = dt_BT - pieces * 2.0**-self.n_levels
        rest[np.abs(rest) < _SAME_TIME * np.maximum(1.0, dt_BT)] = 0.0  # rounding of the stamps
        return w_BTQ, pieces, rest

    def _allocate(self, n_regions: int) -> None:
        pad, levels = self._pad, self.n_levels + 1
        self._regions = (
            np.empty((n_regions, levels, pad, pad)),
            np.empty((n_regions, levels, self._n_drive, pad)),
            np.empty((n_regions, pad, pad)),
            np.empty((n_regions, pad, pad)),
            np.empty((n_regions, pad, pad)),
        )
        self._table = np.empty(1 << (2 * n_regions - 1).bit_length(), np.int64)
        self._codes = np.zeros(n_regions, np.int64)
        self._count = np.zeros(1, np.int64)

    def _tape(self, n_maps: int) -> None:
        if n_maps and n_maps <= self._tape_lam.shape[0]:
            return
        self._records = (
            np.empty((n_maps, self._pad)),
            np.empty(n_maps, np.int64),
            np.empty(n_maps, np.int64),
        )
        self._tape_lam = np.empty((n_maps, self._pad))

    def _reset(self) -> None:
        self._table[:] = -1
        self._count[0] = 0

    def _grow(self, status: int, *, can_forget: bool = False) -> bool:
        """Enlarge what was full; False when there was nothing to enlarge."""
        if status == _TAPE_FULL:
            self._tape(2 * self._tape_lam.shape[0])
            return True
        if status == _REGIONS_FULL:
            n_regions = self._codes.size
            bytes_needed = 2 * n_regions * (self.n_levels + 4) * self._pad**2 * 8
            if bytes_needed < 2e9:
                self._allocate(2 * n_regions)
            elif not can_forget:
                raise NumericalError(
                    f"the batch visits more than {n_regions} regions, which would need "
                    f"{bytes_needed / 1e9:.1f} GB. Use fewer rectified units (n_relu), a smaller "
                    "batch_size or a shorter sequence_length."
                )
            return True
        return False
