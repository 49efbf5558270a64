"""How many failures a placement endures: the law of K, the failure that is one too many.

K counts failures since all groups were alive, the fatal one included; K - 1 are masked. Which law
holds depends on the placement:

    block, contiguous      exact
    up to 20 groups        exact, by counting
    golomb, offsets, ...   second order in the overlaps of hosts (`overlap_survival`)
    elastic                K = N
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError
from foretell.core.random import as_generator
from foretell.train.plan._endurance_laws import (
    block_survival,
    contiguous_survival,
    fatal_indices,
    overlap_survival,
    small_survival,
)
from foretell.train.plan.checks import whole
from foretell.train.plan.placement import StackPlacement

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_COUNTED = 16
_BATCH = 2_000_000


class EnduranceModel:
    """The law of K, the failure that takes the last host of some shard.

    Failures hit alive groups at random. For failures that come in racks, or from a trace, use
    ``TimeToTrainSimulator`` or ``simulate`` with a failure model.

    Parameters
    ----------
    placement : StackPlacement

    Attributes
    ----------
    exact : bool
        Whether the law is exact for this placement, or an approximation.

    Source: the mean of SPARe (arXiv 2603.00357) is ``published_mean``; the other laws are derived
    on the page of the method.

    Examples
    --------
    >>> model = EnduranceModel(StackPlacement(600, 8))
    >>> round(model.mean(), 1), round(model.std(), 1), model.quantile(0.05), model.exact
    (256.2, 37.2, 189, False)
    >>> model.survival([100, 250])
    array([0.9997..., 0.598...])
    """

    def __init__(self, placement: StackPlacement) -> None:
        self.placement = placement
        n, r, scheme = placement.n_groups, placement.redundancy, placement.scheme
        self.exact = True
        if scheme == "elastic" or r == n:
            self._survival = np.r_[np.ones(n), 0.0]
        elif r == 1:
            self._survival = np.r_[1.0, np.zeros(n)]
        elif scheme == "block":
            self._survival = block_survival(n, r)
        elif placement.offsets == tuple(range(r)):
            self._survival = contiguous_survival(n, r)
        elif n <= _COUNTED:
            self._survival = small_survival(placement.hosts_of)
        else:
            self._survival, self.exact = overlap_survival(n, r, placement.overlap_counts()), False
        self._survival = np.minimum.accumulate(np.clip(self._survival, 0.0, 1.0))

    def survival(self, k: ArrayLike) -> Array:
        """P(K > k): the probability that k failures are masked; same shape as ``k``."""
        index = np.asarray(k)
        if (
            index.dtype.kind not in "iu"
            or (index < 0).any()
            or (index >= self._survival.size).any()
        ):
            raise ParameterError(
                f"k={k!r} must be whole numbers of failures from 0 to {self.placement.n_groups}."
            )
        found: Array = self._survival[index]
        return found

    def mean(self) -> float:
        """E[K]."""
        return float(self._survival.sum())

    def std(self) -> float:
        """Standard deviation of K."""
        k = np.arange(self._survival.size)
        square = float(((2 * k + 1) * self._survival).sum())
        return math.sqrt(max(0.0, square - self.mean() ** 2))

    def quantile(self, p: float) -> int:
        """The smallest k with P(K <= k) >= p."""
        if not 0 <= p <= 1:
            raise ParameterError(f"p={p!r}; needed is a probability from 0 to 1.")
        return int(np.argmax(1.0 - self._survival >= p - 1e-15))

    def simulate(
        self, n_trials: int = 4000, random_state: int | np.random.Generator | None = 0
    ) -> Index:
        """K of simulated runs, for every placement alike.

        Examples
        --------
        >>> model = EnduranceModel(StackPlacement(60, 4, "block"))
        >>> K = model.simulate(4000, 0)
        >>> bool(abs(K.mean() - model.mean()) < 4 * K.std() / 4000**0.5)
        True
        """
        trials = whole("n_trials", n_trials)
        rng, n = as_generator(random_state), self.placement.n_groups
        parts = []
        batch = max(1, _BATCH // n)
        for start in range(0, trials, batch):
            order = np.tile(np.arange(n), (min(batch, trials - start), 1))
            rng.permuted(order, axis=1, out=order)
            parts.append(fatal_indices(self.placement.hosts_of, order))
        return np.concatenate(parts)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "second order"
        return f"EnduranceModel({self.mean():.1f} +/- {self.std():.1f} failures, {kind})"


def published_mean(n: int, r: float) -> float:
    """E[K] of the paper, Gamma(1 + 1/r) N^(1 - 1/r); 0.5 to 5 % low for rulers.

    Examples
    --------
    >>> round(published_mean(600, 8), 1)
    254.0
    """
    return math.gamma(1 + 1 / r) * math.pow(n, 1 - 1 / r)


def corrected_mean(n: int, r: float) -> float:
    """E[K] for rulers in closed form, r/2 + (N - (r - 1)/2) Gamma(1 + 1/r) N^(-1/r).

    Examples
    --------
    >>> round(corrected_mean(600, 8), 1)
    256.5
    """
    return r / 2 + (n - (r - 1) / 2) * math.pow(n, -1 / r) * math.gamma(1 + 1 / r)


def disjoint_mean(n: int, r: float) -> float:
    """E[K] for disjoint blocks in closed form, r^(1/r) times the published one.

    Examples
    --------
    >>> round(disjoint_mean(600, 8), 1)
    329.4
    """
    return float(r ** (1 / r)) * published_mean(n, r)
