"""Where nothing can be accepted: how many calibration cases would be enough, if any number is."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from foretell.trust.boundary import binomial_boundary
from foretell.trust.bounds import Guarantee, selection_inflation, smallest_n
from foretell.trust.selective.feasible import SCHEDULE, SortedCases

Array = NDArray[np.float64]

MOST = 1e9  # cases, beyond which it is said that more would not be enough


def cases_needed(
    guarantee: Guarantee,
    cases: SortedCases,
    alpha: float,
    delta: float,
    k0: int,
    *,
    level: float | None = None,
    pool: Array | None = None,
) -> int | None:
    """How many calibration cases would be enough, if errors kept their present pattern.

    Every count of calibration cases is scaled with n and the condition of the guarantee solved for
    the scale; for "pac" a Chernoff bound stands in for the boundary. None where every threshold has
    too many errors, or so nearly that a billion cases would be needed. `level` is that of a single
    test of "pac"; `pool` are the sorted unlabelled scores of "fdr", whose number stays.
    """
    least = smallest_n(guarantee, alpha, delta)
    if guarantee == "pac":
        level = min(delta if level is None else level, delta / 4)  # it falls as n grows
        return _whole(_for_pac(cases, alpha, level / 2, k0), cases.n, least)
    n = cases.n
    if pool is not None:
        share, errors = _in_pool(cases, pool, k0)
        slope, start = alpha * n * share - errors, alpha * share  # s slope + start >= 1
    else:
        usable = cases.ends >= min(k0, n)
        k, errors = cases.ends[usable].astype(float), cases.total[usable]
        if guarantee == "marginal":
            slope, start = alpha * n - errors, np.full_like(k, alpha)
        else:
            level = alpha / selection_inflation(n, k0) if guarantee == "plugin_corrected" else alpha
            slope, start = level * k - errors, np.zeros_like(k)
    rising = slope > 1e-12 * n
    scales = (1 - start[rising]) / slope[rising]
    return _whole(n * float(scales.min(initial=math.inf)), n, least)


def level_of_one_test(
    n: int, alpha: float, delta: float, k0: int, *, assume_monotone: bool, given: bool
) -> float:
    """The level at which "pac" tests a single threshold; below delta where it tests many.

    Examples
    --------
    >>> round(level_of_one_test(1000, 0.1, 0.1, 100, assume_monotone=True, given=False), 3)
    0.017
    """
    if given:
        return delta
    if not assume_monotone:
        return delta / SCHEDULE
    level = binomial_boundary(n, alpha, delta, k0).pointwise_level
    return delta if level is None else level


def advice(
    needed: int | None, cases: SortedCases, alpha: float, k0: int, pool: Array | None = None
) -> str:
    """What to do about it, in one or two sentences."""
    if needed is not None:
        return (
            f"About {needed} calibration cases would be enough, if errors are spread over the "
            "scores as in this sample."
        )
    if pool is None:
        usable = cases.ends >= min(k0, cases.n)
        share, where = cases.total[usable] / cases.ends[usable], "at any threshold"
    else:
        accepted, wrong = _in_pool(cases, pool, k0)
        share = np.minimum(wrong / cases.n / accepted, 1.0)
        where = f"at any threshold that accepts {k0} or more of the {pool.size} unlabelled cases"
    return (
        f"More cases of this kind would not be enough: the lowest share of wrong ones {where} is "
        f"about {float(share.min()):.3g}, and {alpha:.6g} is asked for. A better score or model is "
        "needed, or a larger alpha."
    )


def _for_pac(cases: SortedCases, alpha: float, level: float, k0: int) -> float:
    from scipy.special import rel_entr

    usable = cases.ends >= min(k0, cases.n)
    k = cases.ends[usable].astype(float)
    rate = np.minimum(cases.total[usable] / k, alpha)
    divergence = rel_entr(rate, alpha) + rel_entr(1 - rate, 1 - alpha)
    good = divergence > 1e-12
    accepted = math.log(1 / level) / divergence[good]
    return float((accepted * cases.n / k[good]).min(initial=math.inf))


def _whole(needed: float, n: int, least: int) -> int | None:
    """As a whole number above n, which was not enough; None from a billion on."""
    return max(least, n + 1, math.ceil(needed - 1e-9)) if needed < MOST else None


def _in_pool(cases: SortedCases, pool: Array, k0: int) -> tuple[Array, Array]:
    """For each threshold that accepts k0 of the pool: its share, and the calibration errors."""
    ends = np.append(np.flatnonzero(pool[1:] != pool[:-1]) + 1, pool.size)
    ends = ends[ends >= min(k0, pool.size)]
    groups = np.searchsorted(cases.u[cases.ends - 1], pool[ends - 1], side="right")
    return ends / pool.size, np.append(0.0, cases.total)[groups]
