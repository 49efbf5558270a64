"""For each guarantee: the thresholds that it allows, and the largest of them.

Legend: n calibration cases sorted by uncertainty u (lower = surer); k a number of accepted cases,
always the end of a group of equal u; E_k their losses; alpha the level; m unlabelled cases.
A rule accepts u <= threshold, so that equal scores are treated alike.

    plugin            E_k + 1 <= alpha k                                  (arXiv:2512.01556)
    plugin_corrected  E_k + 1 <= alpha k / B(n, k0), k >= k0
    marginal          E_k + 1 <= alpha (n + 1)
    pac               E_k <= q_k, the minP boundary, k >= k0; or, for any order of the scores,
                      exact tests on a fixed schedule of k, or at thresholds given beforehand
    fdr               1 + V(u) <= alpha (n + 1) A(u) / m, where V counts wrong calibration cases and
                      A unlabelled cases up to u
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.trust.boundary import at_most, binomial_boundary
from foretell.trust.bounds import selection_inflation

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SCHEDULE = 12  # tests of the "any order" mode


@dataclass(frozen=True, slots=True, eq=False)
class SortedCases:
    """Calibration cases in the order of their uncertainty, grouped by equal scores."""

    u: Array = field(repr=False)  # (n,) sorted
    loss: Array = field(repr=False)  # (n,) in that order
    ends: Integers = field(repr=False)  # (groups,) number of cases up to the end of each group
    total: Array = field(repr=False)  # (groups,) their losses
    binary: bool  # whether every loss is 0 or 1

    @classmethod
    def of(cls, scores: Array, losses: Array) -> SortedCases:
        """The cases in order; O(n log n)."""
        order = np.argsort(scores)  # the order within a group of equal scores does not matter
        u, loss = scores[order], losses[order]
        ends = np.append(np.flatnonzero(u[1:] != u[:-1]) + 1, u.size)
        return cls(u, loss, ends, np.cumsum(loss)[ends - 1], _binary(loss))

    @property
    def n(self) -> int:
        """Number of cases."""
        return int(self.u.size)


@dataclass(frozen=True, slots=True)
class Choice:
    """A threshold, how many calibration (or unlabelled) cases it accepts, and their losses."""

    threshold: float
    accepted: int
    of: int
    loss: float


def choose(cases: SortedCases, allowed: NDArray[np.bool_]) -> Choice | None:
    """The largest allowed threshold."""
    passing = np.flatnonzero(allowed)
    if not passing.size:
        return None
    at = int(passing[-1])
    k = int(cases.ends[at])
    return Choice(float(cases.u[k - 1]), k, cases.n, float(cases.total[at]))


def plugin(cases: SortedCases, alpha: float, k0: int) -> Choice | None:
    """The published rule."""
    fits = cases.total + 1 <= _bound(cases, alpha * cases.ends)
    return choose(cases, fits & (cases.ends >= k0))


def plugin_corrected(cases: SortedCases, alpha: float, k0: int) -> Choice | None:
    """The published rule at a level that pays for choosing the best threshold."""
    return plugin(cases, alpha / selection_inflation(cases.n, k0), k0)


def marginal(cases: SortedCases, alpha: float, k0: int) -> Choice | None:
    """Conformal risk control of "wrong and accepted"."""
    fits = cases.total + 1 <= _bound(cases, alpha * (cases.n + 1))
    return choose(cases, fits & (cases.ends >= k0))


def pac_monotone(cases: SortedCases, alpha: float, delta: float, k0: int) -> Choice | None:
    """The minP boundary."""
    most = binomial_boundary(cases.n, alpha, delta, k0).most_errors
    return choose(cases, cases.total <= most[cases.ends])


def pac_any(cases: SortedCases, alpha: float, delta: float, k0: int) -> Choice | None:
    """Tests at the level delta / M on a schedule of M values of k; accepts u < u_(k+1).

    Given u_(k+1) and all above it, the k cases below are a plain sample of the law of what would
    be accepted: each test is exact for any score, and the union bound covers the M of them.
    Passing level from test to test (Holm, fixed sequences) would not be covered: which hypotheses
    are true depends on the lower cuts, and given those the count is no longer binomial.
    """
    limits = schedule(cases.n, k0)
    cuts = np.where(limits < cases.n, cases.u[np.minimum(limits, cases.n - 1)], np.inf)
    below = np.searchsorted(cases.u, cuts, side="left")  # accept u < cut
    losses = _losses_below(cases, below)
    for at in reversed(range(limits.size)):
        k, loss = int(below[at]), float(losses[at])
        if k >= k0 and _pvalue(loss, k, alpha, cases.binary) <= delta / limits.size:
            threshold = math.inf if k == cases.n else float(np.nextafter(cuts[at], -np.inf))
            return Choice(threshold, k, cases.n, loss)
    return None


def pac_sequence(
    cases: SortedCases, alpha: float, delta: float, thresholds: Array
) -> Choice | None:
    """Tests each at the level delta, from the surest threshold on, until the first that fails.

    The thresholds were fixed without the calibration cases, so that each hypothesis is fixed and
    the sequence keeps delta for any score: a mistake is first made at the first threshold that is
    too high, and there with probability at most delta.
    """
    below = np.searchsorted(cases.u, thresholds, side="right")
    losses = _losses_below(cases, below)
    best = None
    for threshold, k, loss in zip(
        thresholds.tolist(), below.tolist(), losses.tolist(), strict=True
    ):
        if k == 0 or _pvalue(loss, k, alpha, cases.binary) > delta:
            break
        best = Choice(threshold, k, cases.n, loss)
    return best


@lru_cache(maxsize=64)
def schedule(n: int, k0: int) -> Integers:
    """Numbers of accepted cases to test, in geometric steps from k0 to n; not to be written on."""
    limits = np.unique(np.geomspace(k0, n, SCHEDULE).round().astype(np.int64))
    limits.flags.writeable = False
    return limits


def fdr(
    wrong: Array, n: int, pool: Array, alpha: float, k0: int = 1
) -> tuple[Choice | None, Choice | None]:
    """Benjamini and Hochberg on conformal p-values of the unlabelled cases.

    Parameters
    ----------
    wrong : array
        Sorted scores of the wrong calibration cases.
    n : int
        All calibration cases.
    pool : array
        Sorted unlabelled scores.

    Returns
    -------
    choice, without_floor
        What is accepted; and what would be if one accepted case were enough.
    """
    ends = np.append(np.flatnonzero(pool[1:] != pool[:-1]) + 1, pool.size)
    u = pool[ends - 1]
    seen = np.searchsorted(wrong, u, side="right")
    passing = np.flatnonzero(1 + seen <= at_most(alpha * (n + 1) * ends / pool.size))
    if not passing.size:
        return None, None
    at = int(passing[-1])
    choice = Choice(float(u[at]), int(ends[at]), int(pool.size), float(seen[at]))
    return (choice if choice.accepted >= k0 else None), choice


def _losses_below(cases: SortedCases, below: Integers) -> Array:
    """Losses of the first cases, where `below` always ends a group of equal scores."""
    groups = np.searchsorted(cases.ends, below)  # below[i] == ends[groups[i]], or is 0
    return np.where(below > 0, cases.total[groups], 0.0)


def _binary(loss: Array) -> bool:
    return bool(((loss == 0) | (loss == 1)).all())


def _bound(cases: SortedCases, limit: ArrayLike) -> Array:
    """The limit as whole numbers where the losses are 0 or 1, else with room for rounding."""
    if cases.binary:
        return at_most(limit).astype(np.float64)
    return np.asarray(limit, dtype=np.float64) * (1 + 1e-12)


def _pvalue(loss: float, k: int, alpha: float, binary: bool) -> float:
    """P-value of "the mean loss is above alpha": exact for 0/1, else Hoeffding-Bentkus."""
    from scipy.special import bdtr, rel_entr

    if binary:
        return float(bdtr(loss, k, alpha))
    mean = min(loss / k, alpha)
    divergence = rel_entr(mean, alpha) + rel_entr(1 - mean, 1 - alpha)
    bentkus = math.e * float(bdtr(float(math.ceil(loss - 1e-9)), k, alpha))
    return min(1.0, math.exp(-k * float(divergence)), bentkus)
