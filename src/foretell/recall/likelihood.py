"""The bits as a probit regression: P(b_j = +1 | t_j) = Phi(kappa t_j), kappa = rho / sqrt(1-rho^2).

    y_j = b_j t_j    C   candidates    m   bits    G   grid points

Source: Bayesian and maximum-likelihood probit with one coefficient and no intercept; the reduction
of sign bits to it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError, as_generator

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CosinePrior:
    """What cosines are like before the bits are seen.

    Attributes
    ----------
    mean, std : float
        Of the cosine between a query and a document picked at random.
    tail : float
        Weight of a uniform part on (-1, 1), for the documents that are no background.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 64))
    >>> prior = CosinePrior.from_pairs(X, random_state=0)
    >>> abs(prior.mean) < 0.02, round(prior.std, 2)
    (True, 0.13)
    """

    mean: float = 0.0
    std: float = 0.1
    tail: float = 0.05

    def __post_init__(self) -> None:
        if not (abs(self.mean) < 1 and self.std > 0 and 0 <= self.tail < 1):
            raise ParameterError(
                f"{self} is no prior: it needs -1 < mean < 1, std > 0 and 0 <= tail < 1. "
                "Measure one: CosinePrior.from_pairs(X)"
            )

    @classmethod
    def from_pairs(
        cls,
        X: ArrayLike,
        *,
        n_pairs: int = 10_000,
        tail: float = 0.05,
        random_state: int | np.random.Generator | None = None,
    ) -> CosinePrior:
        """Measure mean and standard deviation on random pairs of rows of X (n, d)."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] < 2:
            raise ParameterError("A prior needs at least two vectors: X of shape (n, d), n >= 2.")
        generator = as_generator(random_state)
        first = generator.integers(rows.shape[0], size=n_pairs)
        second = (first + generator.integers(1, rows.shape[0], size=n_pairs)) % rows.shape[0]
        a, b = rows[first], rows[second]
        cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        return cls(float(cosines.mean()), max(float(cosines.std()), 1e-6), tail)

    def log_density(self, rho: Array) -> Array:
        """Logarithm of the density at cosines of any shape."""
        z = (rho - self.mean) / self.std
        bulk = np.exp(-0.5 * z**2) / (self.std * np.sqrt(2 * np.pi))
        return np.asarray(np.log((1 - self.tail) * bulk + self.tail / 2 + 1e-300))


@dataclass(frozen=True, repr=False)
class Posterior:
    """What is known about each candidate's cosine.

    Attributes
    ----------
    grid : array (G,)
        Cosines.
    probability : array (C, G)
        Of each cosine, summing to one.
    mean, std : array (C,)
    """

    grid: Array
    probability: Array
    mean: Array
    std: Array

    def __repr__(self) -> str:
        return f"Posterior({self.mean.size} candidates on {self.grid.size} cosines)"

    def interval(self, level: float = 0.95) -> Array:
        """Central interval (C, 2) that holds the cosine with this probability."""
        if not 0 < level < 1:
            raise ParameterError(f"level={level} is no probability. Write level=0.95.")
        total = np.cumsum(self.probability, axis=1)
        ends = [(1 - level) / 2, (1 + level) / 2]
        places = [np.minimum((total < end).sum(axis=1), self.grid.size - 1) for end in ends]
        return np.stack([self.grid[place] for place in places], axis=1)


def maximum_likelihood(y: Array) -> Array:
    """Most likely cosines (C,) of signed projections y (C, m), by safeguarded Newton steps.

    When all y agree in sign the likelihood has no maximum, and the result is the cosine +-0.9997.

    Examples
    --------
    >>> import numpy as np
    >>> maximum_likelihood(np.array([[1.0, -1.0], [1.0, 2.0]])).round(3).tolist()
    [0.0, 1.0]
    """
    from foretell.recall._probit_kernel import newton

    rows = np.ascontiguousarray(y, dtype=np.float64)
    kappa = np.empty(rows.shape[0])
    newton(rows, kappa)
    return np.asarray(kappa / np.sqrt(1 + kappa**2))


def grid_posterior(votes: Array, constant: Array, grid: Array, prior: CosinePrior) -> Posterior:
    """Posterior from log-likelihoods that are votes (C, G) plus a constant (G,)."""
    log_p = votes + constant + prior.log_density(grid) + np.log(np.gradient(grid))
    log_p -= log_p.max(axis=1, keepdims=True)
    p = np.exp(log_p)
    p /= p.sum(axis=1, keepdims=True)
    mean = p @ grid
    std = np.sqrt(np.maximum(p @ grid**2 - mean**2, 0.0))
    return Posterior(grid, p, mean, std)


def likelihood_weights(kappa: float, t: Array) -> tuple[Array, float]:
    """Weights w_j and constant c with sum_j log Phi(kappa b_j t_j) = c + sum_j b_j w_j."""
    from scipy.special import log_ndtr

    plus, minus = log_ndtr(kappa * t), log_ndtr(-kappa * t)
    return (plus - minus) / 2, float((plus + minus).sum() / 2)
