"""The compiled inner loop of the certified flow; see `certified.py` for the mathematics.

Every step expands the exact flow of one region about the present state,

    z(t + D s) = sum_k b_k s^k,  0 <= s <= 1,  b_0 = z,  b_1 = D F(z),  b_(k+1) = D W_s b_k / (k+1),

which is the action of the exponential of the augmented generator [[W_s, h], [0, 0]]. With
D ||W_s|| <= 2 the terms fall below rounding after about 25 orders, for every W_s, singular and
defective ones included. Crossings are sought on the P scalar polynomials.

All of it is one file because the cache of compiled code does not follow changes across files.

Legend: M units, P rectified, K output times, b_QM series coefficients (Q orders); the matrix is
kept transposed (`wt_MM[j, i]` = W_s[i, j]) so that inner loops run along contiguous memory.
"""

from __future__ import annotations

from typing import Any

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
def copy_into(target: Array, source: Array) -> None:
    """target[:] = source (plain loops compile ten times faster than array expressions)."""
    for i in range(target.size):
        target[i] = source[i]


@njit(cache=True)
def length(z: Array) -> float:
    """Euclidean norm; infinite when it overflows."""
    total = 0.0
    for i in range(z.size):
        total += z[i] * z[i]
    return float(np.sqrt(total))


@njit(cache=True)
def region_matrix(A: Array, W: Array, code: Flags, wt: Array) -> float:
    """Write the transposed region matrix W_s^T into wt (M, M); return a bound of its norm."""
    M, P = A.size, code.size
    for j in range(M):
        on = j < M - P or code[j - (M - P)]
        for i in range(M):
            wt[j, i] = W[i, j] if on else 0.0
        wt[j, j] += A[j]
    return operator_norm(wt)


@njit(cache=True)
def operator_norm(wt: Array) -> float:
    """An upper bound of the spectral norm: Frobenius, or sqrt(1-norm times infinity-norm)."""
    M = wt.shape[0]
    rows, columns, squares = 0.0, 0.0, 0.0
    for j in range(M):
        column, row = 0.0, 0.0
        for i in range(M):
            column += abs(wt[j, i])
            row += abs(wt[i, j])
            squares += wt[j, i] * wt[j, i]
        columns, rows = max(columns, column), max(rows, row)
    return float(min(np.sqrt(squares), np.sqrt(columns * rows)))


@njit(cache=True)
def expand(wt: Array, drive: Array, z: Array, D: float, b: Array, scale: Array) -> int:
    """Fill b (Q, M) with the series on [0, D]; return the number of orders used.

    `scale` (M,) receives the magnitudes summed in each component, the yardstick of rounding.
    """
    M = z.size
    for i in range(M):
        b[0, i], b[1, i], scale[i] = z[i], drive[i], abs(drive[i])
    for j in range(M):
        if z[j] != 0.0:
            for i in range(M):
                b[1, i] += wt[j, i] * z[j]
                scale[i] += abs(wt[j, i] * z[j])
    size, largest = 0.0, 0.0
    for i in range(M):
        b[1, i] *= D
        scale[i] = abs(z[i]) + D * scale[i]
        largest = max(largest, abs(b[1, i]))
        size = max(size, abs(z[i]))
    size, small = 1e-20 * max(size, largest), False
    for k in range(2, ORDERS):
        for i in range(M):
            b[k, i] = 0.0
        factor = D / k
        for j in range(M):
            term = factor * b[k - 1, j]
            if term != 0.0:
                for i in range(M):
                    b[k, i] += wt[j, i] * term
        # Small against the whole and, so that weak separate units stay exact, against itself.
        before, small = small, True
        for i in range(M):
            small = small and abs(b[k, i]) <= size and abs(b[k, i]) <= 1e-18 * scale[i]
        if small and before:
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

    March from the left over pieces [a, a + w]. With |f''| <= K on [0, 1] a piece has no root when
    both ends exceed K w^2 / 8, and is monotone when |f'(middle)| > K w / 2. All else is halved,
    until a dip that could hide in the piece is less than `touch` deep: a touch, not a crossing.
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
def exponential(wt: Array, duration: float) -> Array:
    """The transpose of expm(W_s duration), by the series and repeated squaring."""
    M, halvings, part = wt.shape[0], 0, duration
    norm = operator_norm(wt)
    while part * norm > RADIUS:
        part, halvings = 0.5 * part, halvings + 1
    E, F = np.empty((M, M)), np.empty((M, M))
    b, scale, zero, unit = np.zeros((ORDERS, M)), np.empty(M), np.zeros(M), np.zeros(M)
    for j in range(M):
        unit[j] = 1.0
        n = expand(wt, zero, unit, part, b, scale)
        evaluate(b, n, 1.0, E[j])
        unit[j] = 0.0
    for _ in range(halvings):
        for j in range(M):
            for i in range(M):
                F[j, i] = 0.0
            for m in range(M):
                for i in range(M):
                    F[j, i] += E[j, m] * E[m, i]
        E, F = F, E
    return E


@njit(cache=True)
def doubling_table(wt: Array, base: float, levels: int) -> tuple[Array, Array]:
    """Maps z -> E_j z + G_j drive over base 2^j, and growth bounds.

    Returns maps (J, 2, M, M), transposed, holding E_j and G_j, and bounds (J,) of ||expm(W_s t)||
    for t <= base 2^j.
    """
    M = wt.shape[0]
    maps, bounds = np.zeros((levels, 2, M, M)), np.empty(levels)
    b, scale, zero, unit = np.zeros((ORDERS, M)), np.empty(M), np.zeros(M), np.zeros(M)
    growth = 0.0  # bounds the largest eigenvalue of the symmetric part, by Gershgorin's circles
    for j in range(M):
        unit[j] = 1.0
        n = expand(wt, zero, unit, base, b, scale)
        evaluate(b, n, 1.0, maps[0, 0, j])
        n = expand(wt, unit, zero, base, b, scale)
        evaluate(b, n, 1.0, maps[0, 1, j])
        unit[j] = 0.0
        edge = wt[j, j]
        for i in range(M):
            if i != j:
                edge += 0.5 * abs(wt[i, j] + wt[j, i])
        growth = max(growth, edge * (1.0 + 1e-12))
    bounds[0] = np.exp(min(growth * base, RADIUS))
    for level in range(1, levels):
        E, G = maps[level - 1, 0], maps[level - 1, 1]
        for j in range(M):
            for i in range(M):
                maps[level, 1, j, i] = G[j, i]
            for m in range(M):
                for i in range(M):
                    maps[level, 0, j, i] += E[j, m] * E[m, i]
                    maps[level, 1, j, i] += G[j, m] * E[m, i]
        bounds[level] = bounds[level - 1] * max(1.0, operator_norm(E)) * (1.0 + 1e-12)
        exponent = growth * base * 2.0**level
        if exponent < 700.0:
            bounds[level] = min(bounds[level], np.exp(exponent))
    return maps, bounds


@njit(cache=True)
def no_crossing(
    wt: Array, drive: Array, code: Flags, z: Array, after: Array, D: float, bound: float
) -> bool:
    """Whether it is certain that no unit changes sign between z and `after`, a time D later.

    |d2z_i/dt2| <= ||W_s[i, :]|| ||F|| sup ||expm(W_s t)||, and `bound` is at least that supremum.
    """
    M, P = z.size, code.size
    size, speed = 0.0, 0.0
    for i in range(M):
        size = max(size, abs(z[i]), abs(after[i]))
        velocity = drive[i]
        for j in range(M):
            velocity += wt[j, i] * z[j]
        speed += velocity * velocity
    bend = np.sqrt(speed) * bound * D * D / 8.0
    for p in range(P):
        i = M - P + p
        row = 0.0
        for j in range(M):
            row += wt[j, i] * wt[j, i]
        if row == 0.0 and drive[i] == 0.0:
            continue  # this unit does not move
        sigma = 1.0 if code[p] else -1.0
        room = min(sigma * z[i], sigma * after[i])
        if not room > np.sqrt(row) * bend * (1.0 + 1e-12) + 1e-13 * size:
            return False
    return True


@njit(cache=True)
def leap(
    wt: Array, drive: Array, code: Flags, z: Array, maps: Array, bounds: Array, base: float,
    top: int, max_norm: float, after: Array,
) -> int:  # fmt: skip
    """The highest level <= top over which a leap is certified, its end in `after`; 0 for none."""
    M = z.size
    for level in range(top, 0, -1):
        for i in range(M):
            after[i] = 0.0
        for j in range(M):
            for i in range(M):
                after[i] += maps[level, 0, j, i] * z[j] + maps[level, 1, j, i] * drive[j]
        if length(after) <= max_norm and no_crossing(
            wt, drive, code, z, after, base * 2.0**level, bounds[level]
        ):
            return level
    return 0


@njit(cache=True)
def first_exit(
    b: Array, n: int, code: Flags, scale: Array, tol: float, leaving: Flags, d: Array
) -> float:
    """The step fraction at which the first unit leaves its side; 2 for none within the step.

    -1 means now: the unit is at zero and the sign of its first derivative that is not noise
    contradicts the code. `leaving` (P,) marks the units. A zero at the start is divided out of the
    series.
    """
    P = code.size
    first = scale.size - P
    best = 2.0
    for p in range(P):
        leaving[p] = False
    for p in range(P):
        i = first + p
        sigma = 1.0 if code[p] else -1.0
        for k in range(n):
            d[k] = sigma * b[k, i]
        noise, touch = ROUNDING * scale[i], tol * scale[i]
        start, found = 0, 2.0
        if d[0] <= 0.0:
            start = sign_at_zero(d[:n], noise)
            if d[0] < -touch or (start > 0 and d[start] < 0.0):
                found = -1.0
            elif start == 0:
                continue
        if found > 0.0 and best > 0.0:
            found = first_crossing(d[start:n], min(1.0, best), touch, noise)
        if found < best:
            best = found
            for q in range(p):
                leaving[q] = False
        leaving[p] = found == best and found < 2.0
    return best


@njit(cache=True)
def escape_fraction(b: Array, n: int, high: float, max_norm: float, trial: Array) -> float:
    """Where in [0, high] the norm passes max_norm, by bisection."""
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        evaluate(b, n, middle, trial)
        if length(trial) <= max_norm:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True)
def record(log: Array, row: int, t: float, unit: int, z: Array, code: Flags) -> Array:
    """Write one flip into the log (rows: time, unit, state, code before), growing it if full."""
    if row == log.shape[0]:
        larger = np.empty((2 * row, log.shape[1]))
        for r in range(row):
            copy_into(larger[r], log[r])
        log = larger
    log[row, 0], log[row, 1] = t, unit
    for i in range(z.size):
        log[row, 2 + i] = z[i]
    for p in range(code.size):
        log[row, 2 + z.size + p] = code[p]
    return log


@njit(cache=True)
def advance(
    A: Array,
    W: Array,
    drives: Array,
    start_code: Flags,
    z0: Array,
    times: Array,
    max_norm: float,
    tol: float,
    states: Array,
    codes: Flags,
) -> tuple[int, float, int, int, Array]:
    """Follow the flow through all output times, filling states (K, M) and codes (K, P).

    `drives` has one row for a constant drive, or K rows of which row k holds on [t_k, t_(k+1)).
    `start_code` is the code by sign; units at zero are settled here, and not logged.
    Returns the status, the last time, the number of outputs filled, the number of flips, their log.
    """
    M, P, K = z0.size, start_code.size, times.size
    z, code, t, k_next, stop = z0.copy(), start_code.copy(), times[0], 1, times[K - 1]
    stepwise, drive = drives.shape[0] > 1, drives[0]
    wt = np.empty((M, M))
    norm = region_matrix(A, W, code, wt)
    b, scale, d = np.zeros((ORDERS, M)), np.empty(M), np.empty(ORDERS)
    trial, leaving = np.empty(M), np.zeros(P, dtype=np.bool_)
    log = np.empty((16, 2 + M + P))
    n_flips: Any = np.int64(0)  # as a constant it would compile `record` anew
    settled, idle = False, 0  # idle: flips since time last advanced
    calm, level = 0, 0  # steps since the last flip, level of the last leap
    maps, bounds = np.empty((0, 2, M, M)), np.empty(0)
    copy_into(states[0], z)
    while k_next < K or not settled:
        if stepwise:
            drive = drives[min(k_next - 1, K - 2)]
            stop = times[min(k_next, K - 1)]
        base = RADIUS / norm if norm > 0.0 else np.inf
        if calm > 2 * M:
            # A long stay is crossed in certified leaps, by repeated squaring.
            quiet = times[k_next] - t
            if maps.shape[0] == 0 and quiet > 4.0 * base:
                levels = 5 + int(min(np.log2(quiet / base), 60.0))
                maps, bounds = doubling_table(wt, base, levels)
            level = min(level + 1, maps.shape[0] - 1)
            while level > 0 and base * 2.0**level >= quiet:
                level -= 1
            level = leap(wt, drive, code, z, maps, bounds, base, level, max_norm, trial)
            if level > 0:
                copy_into(z, trial)
                t += base * 2.0**level
                continue
        span = stop - t
        instant = span == 0.0  # only the signs at this very time are asked for
        D = min(span if not instant else 1.0, base)
        stuck = idle > 4 * P + 8
        if stuck and not instant:
            D *= 2.0**-40
        n = expand(wt, drive, z, D, b, scale)
        s = 2.0 if stuck else first_exit(b, n, code, scale, tol, leaving, d)
        if not settled:
            settled = s > 0.0
            idle = 0 if settled else idle + 1
            for p in range(P):
                if not settled and leaving[p]:
                    code[p] = not code[p]
                codes[0, p] = code[p]
            norm = region_matrix(A, W, code, wt)
            continue
        if instant and s > 0.0:
            s = 2.0
        reach = 0.0 if s < 0.0 or instant else min(s, 1.0)
        end = stop if D == span and reach == 1.0 else t + reach * D
        over = False
        last = K if instant else K - 1  # the last output waits for the signs at its very time
        while (
            k_next < K
            and not over
            and (times[k_next] < end or (times[k_next] == end and s > 1.0 and k_next < last))
        ):
            fraction = min((times[k_next] - t) / D, 1.0)
            evaluate(b, n, fraction, trial)
            over = not length(trial) <= max_norm
            if not over:
                copy_into(states[k_next], trial)
                for p in range(P):
                    codes[k_next, p] = code[p]
                k_next += 1
            else:
                reach = fraction
        evaluate(b, n, reach, trial)
        if over or not length(trial) <= max_norm:
            t += D * escape_fraction(b, n, reach, max_norm, trial)
            return ESCAPED, t, k_next, n_flips, log
        idle = idle + 1 if end == t else 0
        if end == t and s > 1.0 and not stuck and not instant:
            return STALLED, t, k_next, n_flips, log
        copy_into(z, trial)
        t = end
        calm += 1
        if s <= 1.0:
            for p in range(P):
                i = M - P + p
                size = abs(z[i])
                if size <= ROUNDING * scale[i] or (
                    leaving[p] and (s > 0.0 or size <= tol * scale[i])
                ):
                    z[i] = 0.0
            for p in range(P):
                if leaving[p]:
                    log = record(log, n_flips, t, M - P + p, z, code)
                    n_flips += 1
                    code[p] = not code[p]
            norm = region_matrix(A, W, code, wt)
            calm, level, maps = 0, 0, maps[:0]
    return DONE, t, k_next, n_flips, log
