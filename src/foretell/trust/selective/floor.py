"""What "pac" should test, learnt on other cases: the floor of its boundary, or its thresholds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.trust.boundary import binomial_boundary, check_count, check_level
from foretell.trust.selective import checks
from foretell.trust.selective.feasible import SortedCases

Array = NDArray[np.float64]

FLOORS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHARES = 200


def choose_min_retention(
    scores: ArrayLike, errors: ArrayLike, *, n: int, alpha: float, delta: float = 0.1
) -> float:
    """The `min_retention` with which n calibration cases can be expected to accept the most.

    A higher floor leaves fewer thresholds to test, so that each may have more errors; too high a
    floor accepts nothing. The cases must be other ones than those of the calibration, or the
    guarantee is lost.

    Parameters
    ----------
    scores : array of shape (m,)
        Uncertainty, lower = surer.
    errors : array of shape (m,)
        0 or 1.
    n : int
        Size of the calibration sample to come.
    alpha, delta : float
        As for `SelectiveThreshold`.

    Returns
    -------
    float
        The floor with the largest expected acceptance: the mean, over shares s, of the probability
        that the best single share from s on stays within the boundary at the error rates seen here.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> u = rng.uniform(size=2000)
    >>> choose_min_retention(u, rng.uniform(size=2000) < 0.2 * u, n=500, alpha=0.1)
    0.4
    """
    shares, _, rates = _curve(scores, errors, n, alpha, delta)
    accepted = np.maximum(np.round(shares * n).astype(np.int64), 1)
    best, chosen = -1.0, FLOORS[0]
    for floor in FLOORS:
        most = binomial_boundary(n, alpha, delta, max(1, int(np.ceil(floor * n)))).most_errors
        reached = np.maximum.accumulate(_passes(most[accepted], accepted, rates)[::-1])
        value = float(reached.mean())  # reached: at this share or above
        if value > best:
            best, chosen = value, floor
    return chosen


def choose_thresholds(
    scores: ArrayLike, errors: ArrayLike, *, n: int, alpha: float, delta: float = 0.1
) -> Array:
    """Thresholds for `test_at`, with which n calibration cases can be expected to accept the most.

    Tests run from the surest threshold on and end at the first failure, so the first one must be
    likely to pass, and a low start costs nothing but a risk of failing early.

    Parameters
    ----------
    scores, errors, n, alpha, delta
        As for `choose_min_retention`; the cases must be other ones than those of the calibration.

    Returns
    -------
    array
        Increasing quantiles of the scores, from the best start on.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> u = rng.uniform(size=2000)
    >>> t = choose_thresholds(u, rng.uniform(size=2000) < 0.2 * u, n=500, alpha=0.1)
    >>> round(float(t[0]), 2)
    0.44
    """
    shares, thresholds, rates = _curve(scores, errors, n, alpha, delta)
    accepted = np.maximum(np.round(shares * n).astype(np.int64), 1)
    most = binomial_boundary(n, alpha, delta, kind="pointwise").most_errors[accepted]
    passes = _passes(most, accepted, rates)
    # From start i: all tests up to j pass about as often as the worst of them does.
    values = [
        shares[i] * passes[i] + np.minimum.accumulate(passes[i:])[1:].sum() / shares.size
        for i in range(shares.size)
    ]
    return np.unique(thresholds[int(np.argmax(values)) :])


def _curve(
    scores: ArrayLike, errors: ArrayLike, n: int, alpha: float, delta: float
) -> tuple[Array, Array, Array]:
    """Accepted shares, their thresholds, and the error rates there."""
    check_level("alpha", alpha)
    check_level("delta", delta)
    check_count("n", n)
    u = checks.scores_array(scores)
    cases = SortedCases.of(u, checks.errors_array(errors, u.size, fractional=False))
    shares = np.linspace(0, 1, SHARES + 1)[1:]
    at = np.searchsorted(cases.ends / cases.n, shares, side="left").clip(max=cases.ends.size - 1)
    rates = (cases.total[at] + 0.5) / (cases.ends[at] + 1)
    return shares, cases.u[cases.ends[at] - 1], rates


def _passes(most: NDArray[np.int64], accepted: NDArray[np.int64], rates: Array) -> Array:
    """Probability that the errors among so many cases stay within the boundary."""
    from scipy.special import bdtr

    found = bdtr(np.maximum(most, 0).astype(np.float64), accepted, rates)
    return np.asarray(np.where(most >= 0, found, 0.0))
