"""Probability of error as an increasing function of a score, from labelled cases.

Isotonic regression pools cases into blocks of equal rate; the curve goes in straight lines through
the centres of the blocks and rises a little everywhere, so that it keeps the order of the scores
and makes no ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

Array = NDArray[np.float64]

SLOPE = 1e-6  # rise from the first to the last knot within blocks


@dataclass(frozen=True, slots=True, eq=False)
class ErrorCurve:
    """An increasing, piecewise-linear estimate of the probability of error.

    Parameters
    ----------
    score, rate : arrays of shape (knots,)

    Examples
    --------
    >>> curve = ErrorCurve.fit([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1])
    >>> curve([0.0, 0.25, 0.9]).round(3)
    array([0. , 0.5, 1. ])
    """

    score: Array = field(repr=False)
    rate: Array = field(repr=False)

    @classmethod
    def fit(cls, scores: ArrayLike, errors: ArrayLike) -> ErrorCurve:
        """The curve of n labelled cases (lower score = surer)."""
        u, e = np.asarray(scores, dtype=np.float64), np.asarray(errors, dtype=np.float64)
        values, inverse, counts = np.unique(u, return_inverse=True, return_counts=True)
        means = np.bincount(inverse, weights=e) / counts
        fitted = isotonic_regression(means, weights=counts)
        starts = fitted.blocks[:-1]
        weight = np.add.reduceat(counts, starts)
        centre = np.add.reduceat(values * counts, starts) / weight
        score = np.unique(np.concatenate([values[:1], centre, values[-1:]]))
        rate = np.interp(score, centre, fitted.x[starts])
        return cls(score, rate)

    def __call__(self, scores: ArrayLike) -> Array:
        """Estimated probability of error, slightly tilted so that it is strictly increasing."""
        u = np.asarray(scores, dtype=np.float64)
        span = max(float(self.score[-1] - self.score[0]), 1e-300)
        tilt = 0.5 + np.arctan((u - self.score[0]) / span * 4 - 2) / np.pi
        return np.asarray(np.interp(u, self.score, self.rate) + SLOPE * tilt)
