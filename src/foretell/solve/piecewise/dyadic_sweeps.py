"""The compiled sweeps of the dyadic engine: forward with a tape, the adjoint, and the free run.

Plain functions of arrays; see ``dyadic`` for the method and the legend. The tape holds, for every
map that was applied, the state before it, its key, and the interval it belongs to.
"""

# Compiled functions: their types are those of the arrays they meet.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from foretell.solve.piecewise.dyadic_maps import add_scaled, build_region, product_tn, unwind_region
from foretell.solve.piecewise.simd import add_product, add_transposed_product

OK, ESCAPED, REGIONS_FULL, TAPE_FULL = 0, 1, 2, 3
_FLAGS = {"contract"}  # fused multiply-add only: NaN checks stay


@njit(cache=True, forceinline=True)
def _code(z, first, n_relu):
    code = 0
    for i in range(n_relu):
        if z[first + i] > 0.0:
            code |= 1 << i
    return code


@njit(cache=True)
def _find_region(code, table, codes, n_regions):
    """Slot of ``code`` in the open-addressing table (its value is -1 when it is new)."""
    mask = table.shape[0] - 1
    mixed = (code ^ (code >> 29)) * -7046029254386353131  # odd, near 2^64 times the golden ratio
    slot = (mixed >> 40) & mask
    while table[slot] >= 0 and codes[table[slot]] != code:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, fastmath=_FLAGS)
def _region(code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws):
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
    build_region(code, r, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws)
    return r


@njit(cache=True, forceinline=True, fastmath=_FLAGS)
def _advance(
    z, out, r, n_pieces, rest, w, interval, A, W, H, n_units, n_relu, u,
    E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval, used, record,
):  # fmt: skip
    """Advance z by ``n_pieces`` units and a rest in time; (status, region, tape entries used)."""
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
                add_scaled(out, w[q], G[r, level, q])
            add_product(out, E[r, level], z)
            code = _code(out, first, n_relu)
            crossed = code != codes[r]
            if level == 0 or not crossed:
                break
            level -= 1
            cap = level
        if record:
            if used >= tape_key.shape[0]:
                return TAPE_FULL, r, used
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
                return REGIONS_FULL, r, used
        elif cap < top:
            # the piece that failed ends within the next 2^level units: go on halving
            cap = level - 1 if level > 0 else top
    if rest != 0.0:
        if record and used + 3 > tape_key.shape[0]:
            return TAPE_FULL, r, used
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
                    add_scaled(out, w[q], H[q])
            add_product(out, Ws[r], v)
            scale *= rest / (k + 1)
            add_scaled(z, scale, out)
            for i in range(pad):
                v[i] = out[i]
        code = _code(z, first, n_relu)
        if code != codes[r]:
            r = _region(
                code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws
            )  # fmt: skip
            if r < 0:
                return REGIONS_FULL, r, used
    return OK, r, used


@njit(cache=True, fastmath=_FLAGS)
def forward(
    A, W, H, Lmap, x, w, pieces, rest, n_units, n_relu, u, interval, alpha, z_max,
    E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval, start, states,
):  # fmt: skip
    """Forced run of all sequences with a tape; (status, tape entries used)."""
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
            return REGIONS_FULL, used
        for k in range(n_steps):
            start[b, k] = used
            status, r, used = _advance(
                z, out, r, pieces[b, k], rest[b, k], w[b, k], b * n_steps + k, A, W, H, n_units,
                n_relu, u, E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_interval,
                used, record,
            )  # fmt: skip
            if status != OK:
                return status, used
            for i in range(n_obs):
                states[b, k, i] = z[i]
            for i in range(n_units):
                if not abs(z[i]) < z_max:
                    return ESCAPED, used
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
                            return REGIONS_FULL, used
        start[b, n_steps] = used
    return OK, used


@njit(cache=True, fastmath=_FLAGS)
def loss(x, states):
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
def sweep_back(
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
                    add_scaled(dH[q], w[b, k, q], new)
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
def _sorted_by_key(tape_key, used, n_keys):
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
def gather_gradient(
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
                        add_scaled(dG[level, q], w[tape_interval[e], q], tape_lam[e])
            product_tn(lam_buf[:n], z_buf[:n], dE[level])
            if level < n_levels:
                top = level
        dWs = dE[n_levels]
        if top >= 0:
            unwind_region(r, H, u, E, G, X2, Y, Ws, dE, dG, dWs, dH, top)
        for i in range(n_units):
            dA[i] += dWs[i, i]
            for j in range(n_units):
                if j < first or (codes[r] >> (j - first)) & 1 == 1:
                    dW[i, j] += dWs[i, j]


@njit(cache=True, fastmath=_FLAGS)
def free_run(
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
        if k0 > n_steps:
            continue
        for i in range(pad):
            z[i] = states[b, k0 - 1, i] if i < n_units else 0.0
        code = _code(z, first, n_relu)
        r = _region(code, table, codes, count, A, W, H, n_units, n_relu, u, E, G, X2, Y, Ws)
        if r < 0:
            return REGIONS_FULL
        for k in range(k0 - 1, n_steps):
            status, r, _ = _advance(
                z, out, r, pieces[b, k], rest[b, k], w[b, k], zero, A, W, H, n_units, n_relu, u,
                E, G, X2, Y, Ws, table, codes, count, tape_z, tape_key, tape_key, zero, record,
            )  # fmt: skip
            if status != OK:
                return status
            fine = True
            for i in range(n_units):
                states[b, k + 1, i] = z[i]
                if not abs(z[i]) < z_max:
                    fine = False
            if not fine:
                break
            done[b] = k + 2
    return OK
