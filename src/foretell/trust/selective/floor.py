"""How few accepted cases are worth testing for: the floor of "pac", learnt on other cases."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from foretell.trust.boundary import binomial_boundary, check_count, check_level
from foretell.trust.selective import checks
from foretell.trust.selective.feasible import SortedCases

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
    from scipy.special import bdtr

    check_level("alpha", alpha)
    check_level("delta", delta)
    n = check_count("n", n)
    u = checks.scores_array(scores)
    cases = SortedCases.of(u, checks.errors_array(errors, u.size, fractional=False))
    shares = np.linspace(0, 1, SHARES + 1)[1:]
    at = np.searchsorted(cases.ends / cases.n, shares, side="left").clip(max=cases.ends.size - 1)
    rates = (cases.total[at] + 0.5) / (cases.ends[at] + 1)
    accepted = np.maximum(np.round(shares * n).astype(np.int64), 1)
    best, chosen = -1.0, FLOORS[0]
    for floor in FLOORS:
        k0 = max(1, int(np.ceil(floor * n)))
        most = binomial_boundary(n, alpha, delta, k0).most_errors[accepted]
        possible = most >= 0
        passes = bdtr(np.maximum(most, 0).astype(float), accepted, rates)
        reached = np.maximum.accumulate(np.where(possible, passes, 0.0)[::-1])  # at this or above
        value = float(reached.mean())
        if value > best:
            best, chosen = value, floor
    return chosen
