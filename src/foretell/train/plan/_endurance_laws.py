"""Laws of K, the failure that takes the last host of some shard: exact recursions and Monte Carlo.

Failures hit alive groups at random, each equally likely. P(K > k) is the probability that no shard
has lost all r hosts after k failures. All recursions run over conditional probabilities, so they
neither overflow nor cancel.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]
Index = NDArray[np.int64]
NEGLIGIBLE = 1e-14


def contiguous_survival(n: int, r: int) -> Array:
    """P(K > k) for k = 0, ..., n where r neighbours on a circle must not all fail.

    k failures cut the circle of n into m = n - k gaps between survivors, uniformly among the
    compositions of k into m parts; every gap must be below r. Gap by gap, with f_m[k] the
    probability for m parts: the first gap is g with weight w_g, w_0 = (m - 1) / (m + k - 1),
    w_{g+1} = w_g (k - g) / (m + k - 2 - g).

    Examples
    --------
    >>> contiguous_survival(5, 2)  # two failures among five: 5 of 10 pairs are no neighbours
    array([1. , 1. , 0.5, 0. , 0. , 0. ])
    """
    survival = np.zeros(n + 1)
    k = np.arange(n + 1, dtype=np.float64)
    f = (k < r).astype(np.float64)  # one gap takes all
    for m in range(1, n + 1):
        if m > 1:
            weight = (m - 1) / (m + k - 1)
            new = weight * f
            for g in range(min(r - 1, n)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    weight = np.where(k > g, weight * (k - g) / (m + k - 2 - g), 0.0)
                new[g + 1 :] += weight[g + 1 :] * f[: n - g]
            f = new
        survival[n - m] = f[n - m]
    survival[n] = 0.0
    return survival


def block_survival(n: int, r: int) -> Array:
    """P(K > k) for disjoint blocks of r: block by block, a hypergeometric number below r fails.

    Examples
    --------
    >>> block_survival(4, 2).round(4)
    array([1.    , 1.    , 0.6667, 0.    , 0.    ])
    """
    f = np.ones(1)
    for b in range(1, n // r + 1):
        size = b * r
        k = np.arange(size + 1)
        new = np.zeros(size + 1)
        for g in range(r):
            rest = k - g
            usable = (rest >= 0) & (rest <= size - r)
            weight = np.exp(
                _log_choose(r, g)
                + _log_choose(size - r, rest[usable])
                - _log_choose(size, k[usable])
            )
            new[usable] += weight * f[rest[usable]]
        f = new
    return f


def overlap_survival(n: int, r: int, pairs: dict[int, int]) -> Array:
    """P(K > k) to second order, from how many pairs of shards share 0, 1, 2, ... hosts.

    X shards are lost. With Lambda = E[X], ln P(X = 0) ~ -Lambda + (E[X (X - 1)] - Lambda^2) / 2:
    the Poisson law and the first correction for what overlaps. It is an approximation, made
    for few overlaps.

    Examples
    --------
    >>> overlap_survival(7, 3, {0: 0, 1: 21}).round(3)
    array([1.   , 1.   , 1.   , 0.803, 0.326, 0.05 , 0.002, 0.   ])

    Exact, by looking at every set: 1, 1, 1, 0.8, 0.2, 0, 0, 0.
    """
    k = np.arange(n + 1)
    first = n * np.exp(_log_all_failed(n, k, r))
    second = np.zeros(n + 1)
    for shared, count in pairs.items():
        if count:
            second += 2 * count * np.exp(_log_all_failed(n, k, 2 * r - shared))
    survival = np.exp(-first + np.clip(0.5 * (second - first**2), -first, 0.5 * first))
    survival[:r] = 1.0
    survival[n] = 0.0
    survival[survival < NEGLIGIBLE] = 0.0
    return np.minimum.accumulate(np.minimum(survival, 1.0))


def small_survival(hosts: Index) -> Array:
    """P(K > k) for any placement of up to 20 groups, by looking at every set of failures.

    Examples
    --------
    >>> small_survival(np.array([[0, 1], [1, 0]]))
    array([1., 1., 0.])
    """
    n = hosts.shape[0]
    sets = np.arange(1 << n, dtype=np.int64)
    masks = np.unique((1 << hosts).sum(axis=1))
    masked = np.ones(sets.size, dtype=bool)
    for mask in masks.tolist():
        masked &= (sets & mask) != mask
    sizes = np.bitwise_count(sets)
    counts = np.bincount(sizes[masked], minlength=n + 1)
    return counts / np.bincount(sizes, minlength=n + 1)


@njit(cache=True)
def fatal_indices(hosts, order):  # type: ignore[no-untyped-def]  # pragma: no cover
    """K of every row of ``order`` (T, N), in which group order[t, m] fails as number m + 1."""
    n_trials, n = order.shape
    r = hosts.shape[1]
    fatal = np.empty(n_trials, np.int64)
    rank = np.empty(n, np.int64)
    for t in range(n_trials):
        for m in range(n):
            rank[order[t, m]] = m + 1
        first = n
        for i in range(n):
            last = 0
            for p in range(r):
                at = rank[hosts[i, p]]
                if at > last:
                    last = at
                    if last >= first:
                        break
            if last < first:
                first = last
        fatal[t] = first
    return fatal


def _log_all_failed(n: int, k: Index, size: int) -> Array:
    """ln of the probability that ``size`` given groups are all among k failed ones of n."""
    value = np.full(k.shape, -np.inf)
    if size <= n:
        enough = k >= size
        value[enough] = _log_choose(n - size, k[enough] - size) - _log_choose(n, k[enough])
    return value


def _log_choose(n: int, k: Index | int) -> Array:
    value: Array = gammaln(n + 1.0) - gammaln(np.add(k, 1.0)) - gammaln(n - np.asarray(k) + 1.0)
    return value
