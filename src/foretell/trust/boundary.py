"""How many errors a walk may have made after k cases: boundaries with exact crossing probability.

Paper of the problem: arXiv:2512.01556 (selection-conditioned risk). The boundary is ours.

A threshold rule looks at E_k, the number of wrong ones among the k surest cases, for every k from
k0 to n, and takes the largest k with E_k <= q_k. It errs when E_k, at the level alpha a walk with
Bernoulli(alpha) steps, falls to the boundary at any k. `binomial_boundary` with ``kind="minp"``
gives every k the same pointwise level d, the largest one that keeps the probability of
*any* crossing at delta.

Idea of the computation: q rises by ones, about alpha n times; between two rises no crossing is
possible. So the law of the walk above the boundary is carried from rise to rise by a convolution
with a binomial law, and states above q_n, which can never cross, are dropped: all terms are
positive, nothing cancels. That is O(alpha n^2) for one d; d is found by a root search.

Legend: k accepted cases, E_k wrong among them, q_k the most that are allowed (-1: none),
j a number of errors, t_j the first k with q_k >= j.

Differs from the source: it takes every k at level delta (``kind="pointwise"``), which crosses with
probability .44 instead of .1 at n = 1000, or compares with a line (``kind="linear"``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
BoundaryKind = Literal["minp", "pointwise", "linear"]

EVERY_RISE = 20_000  # up to this n each rise is a knot; above, a geometric schedule of them
KNOTS = 64
RELATIVE = 1e-3  # of the level d
NEGLIGIBLE = 1e-20  # probability of a state that is not carried on


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """The most errors allowed among the k surest cases, for each k.

    Parameters
    ----------
    most_errors : integers of shape (n + 1,)
        Entry k; -1 where k cases may not be accepted however few errors there are.
    crossing : float
        Probability that a walk with Bernoulli(alpha) steps is at or below it at any k.
    pointwise_level : float or None
        Probability at one k, at most; None for ``kind="linear"``.
    n, alpha, delta, k0, kind
        As asked for.
    """

    most_errors: Integers = field(repr=False)
    crossing: float
    pointwise_level: float | None
    n: int
    alpha: float
    delta: float
    k0: int
    kind: str


def binomial_boundary(
    n: int, alpha: float, delta: float = 0.1, k0: int = 1, kind: BoundaryKind = "minp"
) -> Boundary:
    """The most errors allowed among the k surest of n cases, for each k from k0 to n.

    Parameters
    ----------
    n : int
        Number of calibration cases, at least 1.
    alpha : float
        Share of wrong ones to stay below, between 0 and 1.
    delta : float
        Allowed probability of a mistake.
    k0 : int
        Fewest cases that may be accepted; a larger one gives a higher boundary beyond it.
    kind : {"minp", "pointwise", "linear"}
        "minp" keeps the probability of any crossing at delta; "pointwise" only that at each k
        (not a valid rule; for comparison); "linear" is ``E_k + 1 <= alpha k``.

    Returns
    -------
    Boundary
        Above n = 20,000 the "minp" boundary rises at 64 knots only, in geometric steps from k0 to
        n, and is flat between them: still exactly valid, and lower by at most the growth of
        alpha k between two knots.

    Raises
    ------
    ParameterError
        For an alpha or delta outside (0, 1), an n or k0 below 1, a k0 above n, another kind.

    Examples
    --------
    >>> boundary = binomial_boundary(1000, 0.1, 0.1)
    >>> boundary.most_errors[[21, 100, 1000]]
    array([-1,  3, 79])
    >>> round(boundary.crossing, 3), round(0.1 / boundary.pointwise_level, 1)
    (0.1, 7.2)
    """
    check_level("alpha", alpha)
    check_level("delta", delta)
    n, k0 = check_count("n", n), check_count("k0", k0)
    if k0 > n:
        raise ParameterError(
            f"k0={k0} is above n={n}: fewer cases are there than must be accepted. Write k0={n} "
            "or less."
        )
    if kind not in get_args(BoundaryKind):
        raise ParameterError(f"kind={kind!r} is not one of {', '.join(get_args(BoundaryKind))}.")
    return _boundary(n, float(alpha), float(delta), k0, kind)


def crossing_probability(most_errors: ArrayLike, rate: float) -> float:
    """Probability that a walk with Bernoulli(rate) steps is ever at or below a boundary.

    Parameters
    ----------
    most_errors : integers of shape (n + 1,)
        Entry k is the boundary after k steps; -1 cannot be reached.
    rate : float
        Probability of an error in each step, between 0 and 1.

    Returns
    -------
    float
        Exact up to rounding (1e-12).

    Examples
    --------
    The published rule finds a threshold this often, although every fifth answer is wrong
    whatever its score:

    >>> k = np.arange(21)
    >>> round(crossing_probability(np.floor(0.1 * k + 1e-12) - 1, 0.2), 3)
    0.136
    """
    check_level("rate", rate)
    most = np.maximum.accumulate(np.asarray(most_errors, dtype=np.float64).astype(np.int64))
    steps = np.flatnonzero(np.diff(most, prepend=-1) > 0)
    return _crossing(steps.astype(np.int64), most[steps], float(rate))


def at_most(numbers: ArrayLike) -> Integers:
    """The largest whole numbers not above these, where 2.9999999999999996 counts as 3.

    Examples
    --------
    >>> at_most(np.array([0.3, 0.1]) * 10 * 3)
    array([9, 3])
    """
    x = np.asarray(numbers, dtype=np.float64)
    return np.floor(x + 1e-12 + 1e-14 * np.abs(x)).astype(np.int64)


def check_level(name: str, value: float) -> None:
    """Raise a ParameterError unless the value is a number strictly between 0 and 1."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not 0 < value < 1:
        raise ParameterError(
            f"{name}={value!r} is not a number strictly between 0 and 1. Write for instance "
            f"{name}=0.1."
        )


def check_count(name: str, value: int) -> int:
    """The value as int; a ParameterError unless it is a whole number of at least 1."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ParameterError(
            f"{name}={value!r} is not a whole number >= 1. Write for instance {name}=1."
        )
    return int(value)


@lru_cache(maxsize=64)
def _boundary(n: int, alpha: float, delta: float, k0: int, kind: str) -> Boundary:
    level: float | None = None
    if kind == "linear":
        most = np.where(np.arange(n + 1) >= k0, at_most(alpha * np.arange(n + 1)) - 1, -1)
        crossing = crossing_probability(most, alpha)
    else:
        dense = n <= EVERY_RISE or kind == "pointwise"
        at = (_rises_everywhere if dense else _rises_at_knots)(n, alpha, k0)
        level = delta
        if kind == "minp":
            level = _largest_level(at, alpha, delta, tests=n if dense else KNOTS)
        times, states = at(level)
        crossing = _crossing(times, states, alpha)
        most = np.full(n + 1, -1)
        most[times] = states
        most = np.maximum.accumulate(most)
    most.setflags(write=False)
    return Boundary(most, crossing, level, n, alpha, delta, k0, kind)


Rises = Callable[[float], tuple[Integers, Integers]]


def _largest_level(rises: Rises, alpha: float, delta: float, tests: int) -> float:
    """A root between delta / tests, valid by the union bound, and delta; then down to validity."""
    if _crossing(*rises(delta), alpha) <= delta:
        return delta
    from scipy.optimize import brentq

    level = float(
        brentq(
            lambda d: _crossing(*rises(d), alpha) - delta,
            delta / tests,
            delta,
            xtol=0.5 * RELATIVE * delta / tests,
            rtol=0.5 * RELATIVE,
        )
    )
    while _crossing(*rises(level), alpha) > delta:
        level *= 1 - RELATIVE
    return level


def _rises_everywhere(n: int, alpha: float, k0: int) -> Rises:
    """For a level d: the times t_j at which j errors come to have P(Bin(t_j, alpha) <= j) <= d."""
    from scipy.special import bdtr, ndtri

    def at(level: float) -> tuple[Integers, Integers]:
        z = -float(ndtri(level))
        # t alpha - z sqrt(t alpha (1 - alpha)) = j + 1/2, solved for sqrt(t): the start only.
        last = int(n * alpha) + 1
        j = np.arange(last + 1)
        b = z * math.sqrt(alpha * (1 - alpha))
        root = (b + np.sqrt(b * b + 4 * alpha * (j + 0.5))) / (2 * alpha)
        t = np.maximum(np.ceil(np.minimum(root**2, n + 1)).astype(np.int64), j + 1)
        moving = np.flatnonzero(t <= n)  # beyond n nothing can rise
        while moving.size:  # up to the first t with the property ...
            moving = moving[bdtr(j[moving].astype(float), t[moving], alpha) > level]
            t[moving] += 1
            moving = moving[t[moving] <= n]
        moving = np.flatnonzero(t > j + 1)
        while moving.size:  # ... and down to it
            earlier = bdtr(j[moving].astype(float), t[moving] - 1, alpha) <= level
            moving = moving[earlier & (t[moving] - 1 > j[moving])]
            t[moving] -= 1
        t = np.maximum(t, k0)
        keep = (t <= n) & np.append(t[1:] != t[:-1], True)  # the highest of those at k0
        return t[keep], j[keep]

    return at


def _rises_at_knots(n: int, alpha: float, k0: int) -> Rises:
    """For a level d: knots in geometric steps, and the most errors with P(...) <= d at each."""
    from scipy.special import bdtr, ndtri

    knots = np.unique(np.geomspace(k0, n, KNOTS).round().astype(np.int64))
    knots[0], knots[-1] = k0, n

    def at(level: float) -> tuple[Integers, Integers]:
        z = float(ndtri(level))
        j = np.floor(alpha * knots + z * np.sqrt(knots * alpha * (1 - alpha))).astype(np.int64)
        j = np.clip(j, -1, knots - 1)
        moving = np.arange(j.size)
        while moving.size:
            above = j[moving] + 1
            moving = moving[
                (bdtr(above.astype(float), knots[moving], alpha) <= level) & (above < knots[moving])
            ]
            j[moving] += 1
        moving = np.flatnonzero(j >= 0)
        while moving.size:
            moving = moving[bdtr(j[moving].astype(float), knots[moving], alpha) > level]
            j[moving] -= 1
            moving = moving[j[moving] >= 0]
        rising = np.diff(j, prepend=-1) > 0
        return knots[rising], j[rising]

    return at


def _crossing(times: Integers, states: Integers, rate: float) -> float:
    """Probability of E_t <= state at any of the times; both increase strictly."""
    if not times.size:
        return 0.0
    top, base, before, crossed = int(states[-1]), 0, 0, 0.0
    alive = np.ones(1)  # probabilities of base, base + 1, ... errors, uncrossed; above top: dropped
    pieces: dict[int, tuple[int, Array]] = {}
    for time, state in zip(times.tolist(), states.tolist(), strict=True):
        gap = time - before
        if gap not in pieces:
            pieces[gap] = _binomial_law(gap, rate)
        first, law = pieces[gap]
        alive = _convolve(alive, law)[: max(top - base - first + 1, 0)]
        base += first
        reached = state - base + 1
        if reached > 0:
            crossed += float(alive[:reached].sum())
            alive, base = alive[reached:], base + reached
        carried = np.flatnonzero(alive >= NEGLIGIBLE)
        alive = alive[: carried[-1] + 1] if carried.size else alive[:0]
        before = time
        if not alive.size:
            break
    return min(crossed, 1.0)


def _binomial_law(trials: int, rate: float) -> tuple[int, Array]:
    """The first count that matters and the probabilities from there on."""
    from scipy.special import gammaln, xlog1py, xlogy

    deviation = math.sqrt(trials * rate * (1 - rate))
    low = max(0, int(trials * rate - 8.5 * deviation - 40))
    high = min(trials, int(trials * rate + 8.5 * deviation + 40))
    j = np.arange(low, high + 1, dtype=np.float64)
    logarithm = gammaln(trials + 1.0) - gammaln(j + 1) - gammaln(trials - j + 1)
    return low, np.exp(logarithm + xlogy(j, rate) + xlog1py(trials - j, -rate))


def _convolve(a: Array, b: Array) -> Array:
    if min(a.size, b.size) < 64:
        return np.convolve(a, b)
    from scipy.fft import irfft, next_fast_len, rfft

    size = a.size + b.size - 1
    length = next_fast_len(size, real=True)
    product = irfft(rfft(a, length) * rfft(b, length), length)[:size]
    return np.asarray(np.maximum(product, 0.0), dtype=np.float64)
