"""Bounds for shares of errors: binomial, valid at all times, conformal, and for selection.

Functions of arrays without state; NumPy and scipy.special only.

- `binomial_interval`: exact (Clopper-Pearson), for a number of cases fixed in advance.
- `empirical_bernstein_upper`: for a mean watched while it grows; valid at every moment at once.
- `conformal_selection_pvalues`: the share of known errors that look at least as sure as a new case.
- `selection_inflation`, `pool_inflation`: what picking the best threshold can add to a mean risk.
- `smallest_n`: how many calibration cases a guarantee needs before it can accept anything.

The boundary for "the largest k that passes" is in `foretell.trust.boundary`.

Sources: Clopper and Pearson (1934); Fan, Grama and Liu (2015) and Howard et al. (2021) for the
exponential process behind the Bernstein bound; Jin and Candes (2023) for conformal selection; the
two inflation factors are derived on the page of the method (docs/methods/lec.md).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.trust.boundary import check_count, check_level

Array = NDArray[np.float64]
Guarantee = Literal["fdr", "pac", "marginal", "plugin", "plugin_corrected"]
GUARANTEES: tuple[str, ...] = get_args(Guarantee)

DRAWS = 4000  # of the two inflation factors
INFLATION_KNOTS = 1024
RATES = 0.75 * 2.0 ** -np.arange(24)  # of the exponential processes in the Bernstein bound
SHARES = 1.0 / ((np.arange(24) + 1.0) * (np.arange(24) + 2.0))  # of delta for each; sum < 1


def binomial_interval(errors: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Array, Array]:
    """Exact two-sided interval for a share of errors (Clopper-Pearson).

    Parameters
    ----------
    errors, n : integers of one shape
        Wrong ones among n; n = 0 gives (0, 1).
    level : float
        Probability that the interval covers; half of the rest is left on each side.

    Returns
    -------
    lower, upper : arrays

    Examples
    --------
    >>> lower, upper = binomial_interval(3, 100)
    >>> round(float(lower), 4), round(float(upper), 4)
    (0.0062, 0.0852)
    """
    check_level("level", level)
    rest = (1 - level) / 2
    return binomial_lower(errors, n, rest), binomial_upper(errors, n, rest)


def binomial_upper(errors: ArrayLike, n: ArrayLike, delta: float) -> Array:
    """Exact one-sided upper bound: the true share is above it with probability at most delta.

    Examples
    --------
    >>> round(float(binomial_upper(0, 45, 0.1)), 3)
    0.05
    """
    from scipy.special import betaincinv

    v, k = _counts(errors, n)
    inside = v < k
    bound = betaincinv(np.where(inside, v + 1, 1), np.where(inside, k - v, 1), 1 - delta)
    return np.asarray(np.where(inside, bound, 1.0))


def binomial_lower(errors: ArrayLike, n: ArrayLike, delta: float) -> Array:
    """Exact one-sided lower bound: the true share is below it with probability at most delta.

    Examples
    --------
    >>> round(float(binomial_lower(45, 45, 0.1)), 3)
    0.95
    """
    from scipy.special import betaincinv

    v, k = _counts(errors, n)
    inside = v > 0
    bound = betaincinv(np.where(inside, v, 1), np.where(inside, k - v + 1, 1), delta)
    return np.asarray(np.where(inside, bound, 0.0))


def empirical_bernstein_upper(
    n: ArrayLike, total: ArrayLike, spread: ArrayLike, delta: float
) -> Array:
    """Upper bound of the mean of bounded values, valid at all times at once.

    With probability at least 1 - delta, for *every* n: the mean of the conditional expectations of
    the first n values, given what came before each, is at most the bound. The values may depend
    on the past in any way. It says nothing about the next value's expectation by itself.

    Parameters
    ----------
    n, total, spread : arrays of one shape
        Number of values seen, their sum, and their `predictable_spread`. Values lie in [0, 1].
    delta : float

    Returns
    -------
    array
        Clipped to [0, 1]; 1 where n is 0.

    Notes
    -----
    For Y >= -1 and 0 <= s < 1, E exp(s (Y - E Y) + (log(1 - s) + s) Y^2) <= 1 (Fan, Grama and Liu
    2015). With Y = guess - value this makes a supermartingale for each rate s; Ville's inequality
    and a union over the geometric grid of s give the bound, and the best s may be read off later.
    For the lower bound use the values subtracted from 1.

    Examples
    --------
    >>> values = np.tile([0.0] * 9 + [1.0], 100)
    >>> spread = predictable_spread(values)[-1]
    >>> round(float(empirical_bernstein_upper(1000, values.sum(), spread, 0.05)), 3)
    0.136
    """
    check_level("delta", delta)
    count, summed, scatter = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64)[..., None] for x in (n, total, spread))
    )
    cost = -np.log1p(-RATES) - RATES
    radius = ((cost * scatter + np.log(1 / (delta * SHARES))) / RATES).min(axis=-1)
    seen = np.maximum(count[..., 0], 1)
    bound = np.where(count[..., 0] > 0, (summed[..., 0] + radius) / seen, 1.0)
    return np.asarray(np.clip(bound, 0.0, 1.0))


def predictable_spread(values: ArrayLike) -> Array:
    """Running sum of squared distances of each value from a guess made before it was seen.

    The guess is the mean of the earlier values and of one made-up value 1/2.

    Parameters
    ----------
    values : array of shape (T,) or (T, ...)
        In [0, 1]; the sum runs over the first axis.

    Examples
    --------
    >>> predictable_spread([1.0, 1.0])
    array([0.25  , 0.3125])
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size and (not np.isfinite(x).all() or x.min() < 0 or x.max() > 1):
        raise DataError(
            "values must lie in [0, 1]; scale them, for instance values / values.max()."
        )
    earlier = np.cumsum(x, axis=0) - x
    count = np.arange(x.shape[0]).reshape((-1,) + (1,) * (x.ndim - 1))
    return np.asarray(np.cumsum((x - (earlier + 0.5) / (count + 1)) ** 2, axis=0))


def conformal_selection_pvalues(
    scores: ArrayLike, wrong_scores: ArrayLike, n_calibration: int
) -> Array:
    """P-values of "this answer is wrong": small where few known errors looked as sure.

    ``p = (1 + number of wrong calibration cases with u <= score) / (n + 1)``. Given to the
    procedure of Benjamini and Hochberg they control the false discovery rate of a batch (Jin and
    Candes 2023).

    Parameters
    ----------
    scores : array of shape (m,)
        Uncertainty of the new cases, lower = surer.
    wrong_scores : array of shape (w,)
        Uncertainty of the calibration cases that were wrong.
    n_calibration : int
        All calibration cases, right and wrong.

    Examples
    --------
    >>> conformal_selection_pvalues([0.1, 0.2, 0.5], [0.2, 0.9], 4)
    array([0.2, 0.4, 0.4])
    """
    n = check_count("n_calibration", n_calibration)
    wrong = np.sort(np.asarray(wrong_scores, dtype=np.float64))
    if wrong.size > n:
        raise DataError(f"wrong_scores has {wrong.size} cases, more than n_calibration={n}.")
    below = np.searchsorted(wrong, np.asarray(scores, dtype=np.float64), side="right")
    return np.asarray((1 + below) / (n + 1))


def selection_inflation(n: int, k0: int) -> float:
    """The factor B by which the best of many thresholds may exceed the level on average.

    B(n, k0) = E max over k0 <= k <= n of k / ((n + 1) U_(k+1)), with U the ordered values of
    n + 1 uniform numbers. The rule "E_k + 1 <= (alpha / B) k, k >= k0" keeps the expected risk of
    the accepted, abstention counted as none, at most at alpha for every distribution.

    Returns
    -------
    float
        By simulation with a fixed stream, plus three standard errors, so that it errs upwards.
        Where n - k0 > 1024, between knots the larger value is taken.

    Examples
    --------
    >>> round(selection_inflation(100, 20), 2), round(selection_inflation(1000, 100), 2)
    (1.15, 1.08)
    """
    n, k0 = check_count("n", n), check_count("k0", k0)
    if k0 > n:
        raise ParameterError(f"k0={k0} is above n={n}; write k0={n} or less.")
    return _inflation(n + 1, k0, 1)


def pool_inflation(m: int, k0: int) -> float:
    """The same factor for a threshold that was chosen with the help of m unlabelled cases.

    E max over k0 <= k <= m of (k / m) / U_(k): the most by which the share of the pool below a
    threshold can exceed the true share, on average, where at least k0 of the pool are accepted.
    Infinite for k0 = 1.

    Examples
    --------
    >>> round(pool_inflation(1000, 100), 2)
    1.08
    """
    m, k0 = check_count("m", m), check_count("k0", k0)
    if k0 > m:
        raise ParameterError(f"k0={k0} is above m={m}; write k0={m} or less.")
    return _inflation(m, k0, 0)


def smallest_n(guarantee: Guarantee, alpha: float, delta: float = 0.1) -> int:
    """The fewest calibration cases with which anything can be accepted, were all of them right.

    Parameters
    ----------
    guarantee : {"fdr", "pac", "marginal", "plugin", "plugin_corrected"}
    alpha, delta : float
        ``delta`` matters for "pac" only.

    Examples
    --------
    >>> smallest_n("pac", 0.05, 0.1), smallest_n("plugin", 0.05), smallest_n("fdr", 0.05)
    (45, 20, 19)
    """
    check_level("alpha", alpha)
    if guarantee == "pac":
        check_level("delta", delta)
        return math.ceil(math.log(delta) / math.log1p(-alpha) - 1e-12)
    if guarantee in ("fdr", "marginal"):
        return max(1, math.ceil(1 / alpha - 1 - 1e-9))
    if guarantee in ("plugin", "plugin_corrected"):
        return math.ceil(1 / alpha - 1e-9)
    raise ParameterError(f"guarantee={guarantee!r} is not one of {', '.join(GUARANTEES)}.")


@lru_cache(maxsize=64)
def _inflation(points: int, k0: int, shift: int) -> float:
    """E max of (k / points) / U_(k + shift), U ordered uniforms; k from k0 to points - shift.

    U_(k) = G_k / G_(points + 1) with G sums of exponentials; at knots only their gamma increments
    are drawn. Between two knots k / U_(k) is at most (next knot) / U_(knot). The value
    of k / U_(k + shift) at k0 is correlated with the maximum and has the mean k0 / (first - 1): it
    serves as a control variate.
    """
    last, first = points - shift, k0 + shift
    if first == 1:
        return math.inf  # 1 / U_(1) has no mean
    knots = np.unique(np.geomspace(k0, last, min(INFLATION_KNOTS, last - k0 + 1)).astype(np.int64))
    if last - k0 < INFLATION_KNOTS:
        knots = np.arange(k0, last + 1)
    upper = np.append(knots[1:] - 1, last)  # the largest k that the knot answers for
    rng = np.random.default_rng(20_261_130)
    maxima, controls = np.empty(DRAWS), np.empty(DRAWS)
    steps = np.diff(np.append(0, knots + shift))
    rest = points + 1 - int(knots[-1] + shift)
    for i in range(DRAWS):
        sums = np.cumsum(rng.standard_gamma(steps))
        whole = sums[-1] + rng.standard_gamma(rest)
        maxima[i] = (upper / sums).max() * whole / points
        controls[i] = k0 / sums[0] * whole / points
    if first > 2:  # the control variate has a finite variance
        both = np.cov(maxima, controls)
        estimates = maxima - both[0, 1] / both[1, 1] * (controls - k0 / (first - 1))
    else:
        estimates = maxima
    error = float(estimates.std(ddof=1)) / math.sqrt(DRAWS)
    return max(1.0, float(estimates.mean()) + 3 * error)


def _counts(errors: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    v, k = np.broadcast_arrays(np.asarray(errors, float), np.asarray(n, float))
    if (v < 0).any() or (v > k).any():
        at = int(np.flatnonzero(((v < 0) | (v > k)).ravel())[0])
        raise DataError(
            f"errors must lie between 0 and n; entry {at} has {v.ravel()[at]:g} of "
            f"{k.ravel()[at]:g}."
        )
    return v, k
