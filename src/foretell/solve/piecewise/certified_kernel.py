"""The compiled inner loop of the certified flow; see `certified.py` for the mathematics.

Every step expands the exact flow of one region about the present state,

    z(t + D s) = sum_k b_k s^k on 0 <= s <= 1,   b_0 = z,  b_1 = D F(z),  b_(k+1) = D W_s b_k / (k+1),

which is the action of the exponential of the augmented generator [[W_s, h], [0, 0]]. With
D ||W_s|| <= 2 the terms fall below rounding after about 25 orders, for every W_s, singular and
defective ones included. Crossings are sought on the P scalar polynomials.

Legend: M units, P rectified, K output times, b_QM series coefficients (Q orders); the matrix is kept
transposed (`wt_MM[j, i]` = W_s[i, j]) so that the inner loops run along contiguous memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

RADIUS = 2.0
"""Largest D ||W_s|| of one series step."""
ORDERS = 36
"""Most series coefficients kept; 2^35 / 35! is 3e-30."""
ROUNDING = 16 * 2.220446049250313e-16
"""Relative size, in units of the accumulated magnitudes, below which a number counts as zero."""
DONE, ESCAPED, STALLED = 0, 1, 2


@njit(cache=True)
def region_matrix(A: Array, W: Array, code: Flags) -> Array:
    """The transposed region matrix W_s^T, shape (M, M)."""
    M, P = A.size, code.size
    wt = W.T.copy()
    for j in range(M - P, M):
        if not code[j - (M - P)]:
            wt[j] = 0.0
    for j in range(M):
        wt[j, j] += A[j]
    return wt


@njit(cache=True)
def operator_norm(wt: Array) -> float:
    """An upper bound of the spectral norm: the least of three that are cheap."""
    M = wt.shape[0]
    rows, columns, squares = np.zeros(M), 0.0, 0.0
    for j in range(M):
        column = 0.0
        for i in range(M):
            size = abs(wt[j, i])
            column += size
            rows[i] += size
            squares += size * size
        columns = max(columns, column)
    return float(min(np.sqrt(squares), np.sqrt(columns * rows.max())))


@njit(cache=True)
def expand(wt: Array, drive: Array, z: Array, D: float, b: Array, scale: Array) -> int:
    """Fill b (Q, M) with the series on [0, D]; return the number of orders used.

    `scale` (M,) receives the magnitudes summed in each component, the yardstick of rounding.
    """
    M = z.size
    b[0] = z
    velocity = drive.copy()
    for i in range(M):
        scale[i] = abs(drive[i])
    for j in range(M):
        if z[j] != 0.0:
            for i in range(M):
                velocity[i] += wt[j, i] * z[j]
                scale[i] += abs(wt[j, i] * z[j])
    size, largest = 0.0, 0.0
    for i in range(M):
        b[1, i] = D * velocity[i]
        scale[i] = abs(z[i]) + D * scale[i]
        largest = max(largest, abs(b[1, i]))
        size = max(size, abs(z[i]))
    size = 1e-20 * max(size, largest)
    for k in range(2, ORDERS):
        b[k] = 0.0
        factor = D / k
        for j in range(M):
            term = factor * b[k - 1, j]
            if term != 0.0:
                for i in range(M):
                    b[k, i] += wt[j, i] * term
        before, largest = largest, np.abs(b[k]).max()
        if largest <= size and before <= size:
            return k + 1
    return ORDERS


@njit(cache=True)
def evaluate(b: Array, n: int, s: float, z: Array) -> None:
    """Write the state at step fraction s into z."""
    M = z.size
    for i in range(M):
        z[i] = b[n - 1, i]
    for k in range(n - 2, -1, -1):
        for i in range(M):
            z[i] = z[i] * s + b[k, i]


@njit(cache=True)
def value_and_slope(f: Array, s: float) -> tuple[float, float]:
    """A scalar polynomial and its derivative at s."""
    value, slope = 0.0, 0.0
    for k in range(f.size - 1, -1, -1):
        slope = slope * s + value
        value = value * s + f[k]
    return value, slope


@njit(cache=True)
def polish(f: Array, low: float, high: float) -> float:
    """The root of f in [low, high], where f(low) >= 0 > f(high): Newton kept inside a bracket."""
    s = 0.5 * (low + high)
    for _ in range(200):
        value, slope = value_and_slope(f, s)
        if value >= 0.0:
            low = s
        else:
            high = s
        following = s - value / slope if slope != 0.0 else low
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - s) <= 1e-17 + 2.3e-16 * s or value == 0.0:
            return following if value != 0.0 else s
        s = following
    return s


@njit(cache=True)
def first_crossing(f: Array, end: float, touch: float, noise: float) -> float:
    """First s in (0, end] where the polynomial f passes from >= 0 to < 0; 2.0 when there is none.

    March from the left over pieces [a, a + w]. With |f''| <= K on [0, 1] a piece has no root when both
    ends exceed K w^2 / 8, and is monotone when |f'(middle)| > K w / 2. Anything else is halved, until
    a dip that could hide in the piece is less than `touch` deep: that is a touch and not a crossing.
    """
    bend, rest = 0.0, 0.0
    for k in range(1, f.size):
        bend += k * (k - 1) * abs(f[k])
        rest += abs(f[k])
    if f[0] > rest + noise or abs(f[0]) + rest <= noise:
        return 2.0
    bend *= 1.0 + 1e-12
    a, w, above, at_a = 0.0, end, 0.0, f[0]
    while a < end:
        b = min(a + w, end)
        at_b, _ = value_and_slope(f, b)
        sag = bend * (b - a) * (b - a) / 8.0
        slope = 0.0
        if min(at_a, at_b) <= sag + noise:
            _, slope = value_and_slope(f, 0.5 * (a + b))
            if abs(slope) <= bend * (b - a) / 2.0 + noise and sag > touch:
                w = 0.5 * (b - a)
                continue
        if at_b < (-noise if b == end and slope < 0.0 else -touch):
            return polish(f, above, b)
        a, at_a, w = b, at_b, 2.0 * (b - a)
        if at_b >= 0.0:
            above = b
    return 2.0


@njit(cache=True)
def sign_at_zero(d: Array, noise: float) -> int:
    """Order of the first coefficient beyond d_0 that is not noise; 0 when there is none."""
    for k in range(1, d.size):
        if abs(d[k]) > noise:
            return k
    return 0


@njit(cache=True)
def advance(
    A: Array,
    W: Array,
    drives: Array,
    code: Flags,
    z0: Array,
    times: Array,
    max_norm: float,
    tol: float,
) -> tuple[int, float, int, Array, Flags, int, Array, NDArray[np.int64], Array, Flags]:
    """Follow the flow through all output times.

    `drives` has one row for a constant drive, or K rows of which row k holds on [t_k, t_(k+1)).
    `code` is the code at the start; units at zero are settled here and not logged.
    Returns status, last time, outputs filled, states (K, M), codes (K, P), number of flips, and per
    flip: time, unit, state, code before it.
    """
    M, P, K = z0.size, code.size, times.size
    first = M - P
    states, codes = np.full((K, M), np.nan), np.zeros((K, P), dtype=np.bool_)
    flip_times, flip_units = np.empty(64), np.empty(64, dtype=np.int64)
    flip_states, flip_codes = np.empty((64, M)), np.empty((64, P), dtype=np.bool_)
    n_flips = 0
    z, code, t, k_next, stop = z0.copy(), code.copy(), times[0], 1, times[K - 1]
    states[0], codes[0] = z, code
    stepwise = drives.shape[0] > 1
    wt = region_matrix(A, W, code)
    norm = operator_norm(wt)
    b, scale, d = np.zeros((ORDERS, M)), np.empty(M), np.empty(ORDERS)
    trial, crossing = np.empty(M), np.zeros(P, dtype=np.bool_)
    settled, idle = False, 0
    if K == 1:
        stop = t
    while k_next < K or not settled:
        drive = drives[min(k_next - 1, K - 1)] if stepwise else drives[0]
        if stepwise and k_next < K:
            stop = times[k_next]
        span = stop - t
        instant = span == 0.0  # only the signs at this very time are asked for
        reachable = span if not instant else 1.0
        D = reachable if norm * reachable <= RADIUS else RADIUS / norm
        whole = D == span
        forced = idle > 4 * P + 8
        if forced and not instant:
            D, whole = D * 2.0**-40, False
        n = expand(wt, drive, z, D, b, scale)
        # The first unit to leave its side, if any.
        s_star = 2.0
        crossing[:] = False
        if not forced:
            for p in range(P):
                i = first + p
                sigma = 1.0 if code[p] else -1.0
                for k in range(n):
                    d[k] = sigma * b[k, i]
                noise, touch = ROUNDING * scale[i], tol * scale[i]
                start = 0
                if d[0] <= 0.0:
                    if d[0] < -touch:
                        s_star = -1.0
                        crossing[p] = True
                        continue
                    start = sign_at_zero(d[:n], noise)
                    if start == 0:
                        continue
                    if d[start] < 0.0:
                        s_star = -1.0
                        crossing[p] = True
                        continue
                if s_star > 0.0:
                    s = first_crossing(d[start:n], min(1.0, s_star), touch, noise)
                    if s < s_star:
                        s_star = s
                        crossing[:] = False
                        crossing[p] = True
        if not settled:
            if s_star < 0.0 and idle <= 4 * P + 8:
                for p in range(P):
                    if crossing[p]:
                        code[p] = not code[p]
                wt = region_matrix(A, W, code)
                norm = operator_norm(wt)
                idle += 1
                continue
            settled, idle = True, 0
            codes[0] = code
            if K == 1:
                break
            continue
        if instant and s_star > 0.0:
            s_star = 2.0
        reach = 0.0 if s_star < 0.0 or instant else min(s_star, 1.0)
        end = stop if whole and reach == 1.0 else t + reach * D
        # Outputs inside the step come from the same series.
        while k_next < K and (times[k_next] < end or (times[k_next] == end and s_star > 1.0)):
            evaluate(b, n, min((times[k_next] - t) / D, 1.0), trial)
            if not np.linalg.norm(trial) <= max_norm:
                break
            states[k_next] = trial
            codes[k_next] = code
            k_next += 1
        evaluate(b, n, reach, trial)
        over = not np.linalg.norm(trial) <= max_norm
        if over or (k_next < K and times[k_next] < end):
            low, high = 0.0, reach if over else (times[k_next] - t) / D
            for _ in range(60):
                middle = 0.5 * (low + high)
                evaluate(b, n, middle, trial)
                if np.linalg.norm(trial) <= max_norm:
                    low = middle
                else:
                    high = middle
            return (
                ESCAPED, t + high * D, k_next, states, codes, n_flips,
                flip_times, flip_units, flip_states, flip_codes,
            )  # fmt: skip
        if end == t:
            idle += 1
            if s_star > 1.0 and not forced and not instant:
                return (
                    STALLED, t, k_next, states, codes, n_flips,
                    flip_times, flip_units, flip_states, flip_codes,
                )  # fmt: skip
        else:
            idle = 0
        z[:] = trial
        t = end
        if s_star <= 1.0:
            for p in range(P):
                i = first + p
                if crossing[p] or abs(z[i]) <= ROUNDING * scale[i]:
                    if s_star >= 0.0 or abs(z[i]) <= tol * scale[i]:
                        z[i] = 0.0
            for p in range(P):
                if not crossing[p]:
                    continue
                if n_flips == flip_times.size:
                    flip_times = np.concatenate((flip_times, np.empty(n_flips)))
                    flip_units = np.concatenate((flip_units, np.empty(n_flips, dtype=np.int64)))
                    flip_states = np.concatenate((flip_states, np.empty((n_flips, M))))
                    flip_codes = np.concatenate(
                        (flip_codes, np.empty((n_flips, P), dtype=np.bool_))
                    )
                flip_times[n_flips], flip_units[n_flips] = t, first + p
                flip_states[n_flips], flip_codes[n_flips] = z, code
                n_flips += 1
                code[p] = not code[p]
            wt = region_matrix(A, W, code)
            norm = operator_norm(wt)
    return (
        DONE, t, k_next, states, codes, n_flips, flip_times, flip_units, flip_states, flip_codes
    )  # fmt: skip
