"""How well an ensemble of possible futures describes what happened.

A forecast here is not one number but S draws. Two questions: are they near (`energy_score`), and
are they as wide as they should be (`spread_skill`, `rank_histogram`)? And, where only the laws
count and no pair belongs together: `energy_distance`, `wasserstein`, `sliced_wasserstein`.

Legend: B cases, S draws of each, n variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.core.random import as_generator

Array = NDArray[np.float64]

_BLOCK = 4_000_000  # distances in memory at a time


def energy_score(draws: ArrayLike, observed: ArrayLike) -> Array:
    """Energy score of every case: E|F - y| - E|F - F'| / 2, lower is better.

    It is least in expectation for the true law (a strictly proper score), so it judges place,
    width and shape in one number. The second mean runs over pairs of different draws, which makes
    the estimate unbiased for any S.

    Parameters
    ----------
    draws : array (B, S, n)
        At least two draws of each case.
    observed : array (B, n)
        What happened.

    Returns
    -------
    array (B,)
        In the unit of the variables.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(2000, 1))
    >>> right = energy_score(rng.normal(size=(2000, 50, 1)), y).mean()
    >>> narrow = energy_score(0.3 * rng.normal(size=(2000, 50, 1)), y).mean()
    >>> bool(abs(right - 1 / np.sqrt(np.pi)) < 0.02 < narrow - right)
    True
    """
    F, y = _pair(draws, observed)
    B, S, n = F.shape
    near = np.linalg.norm(F - y[:, None], axis=2).mean(axis=1)
    between = np.empty(B)
    rows = max(1, _BLOCK // (S * S * n))
    for start in range(0, B, rows):
        block = F[start : start + rows]
        squares = (block**2).sum(axis=2)
        gram = block @ block.transpose(0, 2, 1)
        if n <= 8:  # the difference of large numbers would cost digits
            apart = np.linalg.norm(block[:, :, None] - block[:, None], axis=3)
        else:
            apart = np.sqrt(np.maximum(squares[:, :, None] + squares[:, None] - 2 * gram, 0.0))
            apart[:, np.arange(S), np.arange(S)] = 0.0
        between[start : start + rows] = apart.sum(axis=(1, 2)) / (S * (S - 1))
    return np.asarray(near - 0.5 * between)


@dataclass(frozen=True)
class SpreadSkill:
    """The width of an ensemble beside the error of its mean.

    Attributes
    ----------
    spread : float
        Root mean variance of the draws.
    skill : float
        Root mean squared error of the ensemble mean.
    ratio : float
        Spread over skill, corrected for the number of draws: 1 where the truth could be one of
        the draws, below where the ensemble is too sure of itself.
    """

    spread: float
    skill: float
    ratio: float

    def __repr__(self) -> str:
        return f"SpreadSkill(ratio {self.ratio:.3g}: {self.spread:.3g} / {self.skill:.3g})"


def spread_skill(draws: ArrayLike, observed: ArrayLike) -> SpreadSkill:
    """Width of an ensemble against the error of its mean, over all cases and variables.

    Parameters
    ----------
    draws : array (B, S, n)
    observed : array (B, n)
        Bring variables of different units to one scale first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> spread_skill(rng.normal(size=(4000, 10, 2)), rng.normal(size=(4000, 2))).ratio.__round__(1)
    1.0
    """
    F, y = _pair(draws, observed)
    S = F.shape[1]
    spread = float(np.sqrt(F.var(axis=1, ddof=1).mean()))
    skill = float(np.sqrt(((F.mean(axis=1) - y) ** 2).mean()))
    ratio = np.sqrt((S + 1) / S) * spread / skill if skill > 0 else np.inf
    return SpreadSkill(spread, skill, float(ratio))


@dataclass(frozen=True)
class RankHistogram:
    """Where the truth fell among the sorted draws.

    Attributes
    ----------
    counts : array (n_bins,)
        Cases in each bin of ranks, all variables together. Flat is right; a U says that the
        ensemble is too narrow, a hump that it is too wide, a slope that it lies to one side.
    chi_square : float
        Squared deviation from flat over the expected count, divided by its degrees of freedom:
        about 1 for a calibrated ensemble of independent cases.
    """

    counts: NDArray[np.int64]
    chi_square: float

    @property
    def outside(self) -> float:
        """Share of the cases in the two outer bins over the share that belongs there."""
        return float((self.counts[0] + self.counts[-1]) / self.counts.sum() * self.counts.size / 2)

    def __repr__(self) -> str:
        return (
            f"RankHistogram({self.counts.size} bins, {int(self.counts.sum())} ranks, "
            f"chi-square / df {self.chi_square:.3g})"
        )


def rank_histogram(
    draws: ArrayLike,
    observed: ArrayLike,
    *,
    n_bins: int = 10,
    random_state: int | np.random.Generator | None = 0,
) -> RankHistogram:
    """Ranks of what happened among the draws, variable by variable, in equal bins.

    Parameters
    ----------
    draws : array (B, S, n)
    observed : array (B, n)
    n_bins : int
        At most S + 1, the number of ranks there are.
    random_state : int, Generator or None
        Breaks ties, and spreads a rank over the bins that it straddles.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rank_histogram(0.5 * rng.normal(size=(500, 20, 1)), rng.normal(size=(500, 1))).outside > 2
    True
    """
    F, y = _pair(draws, observed)
    S = F.shape[1]
    if not 2 <= n_bins <= S + 1:
        raise ParameterError(
            f"n_bins={n_bins}; with {S} draws there are {S + 1} ranks, so use 2 to {S + 1}."
        )
    rng = as_generator(random_state)
    below = (F < y[:, None]).sum(axis=1)
    ties = (F == y[:, None]).sum(axis=1)
    place = (below + (ties + 1) * rng.random(below.shape)) / (S + 1)
    counts = np.bincount(np.minimum((n_bins * place).astype(np.int64), n_bins - 1).ravel(),
                         minlength=n_bins)  # fmt: skip
    expected = counts.sum() / n_bins
    return RankHistogram(counts, float(((counts - expected) ** 2 / expected).sum() / (n_bins - 1)))


def energy_distance(
    first: ArrayLike,
    second: ArrayLike,
    *,
    max_points: int = 2000,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Squared energy distance of two laws from draws: 2 E|X - Y| - E|X - X'| - E|Y - Y'|.

    Zero only where the laws are equal, and unbiased, so that it may fall a little below zero for
    equal laws. Divide by E|Y - Y'| (or by the spread of the truth) to compare systems.

    Parameters
    ----------
    first, second : arrays (P, n) and (Q, n)
    max_points : int
        Most draws used of each, taken at random.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same = energy_distance(rng.normal(size=(1500, 2)), rng.normal(size=(1500, 2)))
    >>> moved = energy_distance(rng.normal(size=(1500, 2)), rng.normal(size=(1500, 2)) + 1)
    >>> bool(abs(same) < 0.01 < 0.3 < moved)
    True
    """
    rng = as_generator(random_state)
    x, y = (_thinned(points, max_points, rng) for points in _laws(first, second))
    return float(
        2 * _mean_distance(x, y)
        - _mean_distance(x, x) * len(x) / (len(x) - 1)
        - _mean_distance(y, y) * len(y) / (len(y) - 1)
    )


def wasserstein(first: ArrayLike, second: ArrayLike, *, power: float = 1.0) -> float:
    """Wasserstein distance of two laws on the line, from draws of any two numbers.

    Parameters
    ----------
    first, second : arrays (P,) and (Q,)
    power : float
        1 for W1, 2 for W2.

    Examples
    --------
    >>> wasserstein([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    1.0
    """
    x, y = np.sort(np.ravel(np.asarray(first, float))), np.sort(np.ravel(np.asarray(second, float)))
    if not x.size or not y.size:
        raise DataError("a law without a draw was given; at least one draw of each is needed.")
    edges = np.union1d(np.arange(x.size + 1) / x.size, np.arange(y.size + 1) / y.size)
    middle = 0.5 * (edges[1:] + edges[:-1])
    gap = np.abs(x[(middle * x.size).astype(int)] - y[(middle * y.size).astype(int)])
    return float((np.diff(edges) @ gap**power) ** (1 / power))


def sliced_wasserstein(
    first: ArrayLike,
    second: ArrayLike,
    *,
    n_projections: int = 128,
    power: float = 2.0,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Wasserstein distance along random directions, averaged: for laws of many variables.

    Parameters
    ----------
    first, second : arrays (P, n) and (Q, n)
    n_projections : int
        Directions, uniform on the sphere.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> sliced_wasserstein(x, x)
    0.0
    """
    x, y = _laws(first, second)
    directions = as_generator(random_state).normal(size=(x.shape[1], n_projections))
    directions /= np.linalg.norm(directions, axis=0)
    total = sum(
        wasserstein(a, b, power=power) ** power
        for a, b in zip((x @ directions).T, (y @ directions).T, strict=True)
    )
    return float((total / n_projections) ** (1 / power))


def _pair(draws: ArrayLike, observed: ArrayLike) -> tuple[Array, Array]:
    F, y = np.asarray(draws, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    if F.ndim != 3 or y.ndim != 2 or (F.shape[0], F.shape[2]) != y.shape or F.shape[1] < 2:
        raise DataError(
            f"draws have shape {F.shape} and what was observed {y.shape}; needed are (cases, "
            "draws, variables) with at least two draws, and (cases, variables)."
        )
    if not (np.isfinite(F).all() and np.isfinite(y).all()):
        raise DataError("draws and observations must be finite; leave out the cases that are not.")
    return F, y


def _laws(first: ArrayLike, second: ArrayLike) -> tuple[Array, Array]:
    x, y = (np.asarray(p, dtype=np.float64) for p in (first, second))
    x, y = (p[:, None] if p.ndim == 1 else p for p in (x, y))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise DataError(
            f"the laws have draws of shapes {x.shape} and {y.shape}; needed are (draws, variables) "
            "with the same variables and at least two draws of each."
        )
    return x, y


def _thinned(values: Array, most: int, rng: np.random.Generator) -> Array:
    if len(values) <= most:
        return values
    return np.asarray(values[np.sort(rng.choice(len(values), most, replace=False))])


def _mean_distance(x: Array, y: Array) -> float:
    from scipy.spatial.distance import cdist

    return float(cdist(x, y).mean())
