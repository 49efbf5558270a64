"""What a rule did on labelled cases."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError
from foretell.trust.bounds import binomial_interval
from foretell.trust.selective import checks


@dataclass(frozen=True, slots=True)
class Performance:
    """What a rule did on labelled cases.

    Parameters
    ----------
    n, n_accepted : int
    errors : float
        Sum of the errors (or losses) among the accepted.
    risk : float
        Share of wrong ones among the accepted; 0 where none is accepted.
    risk_interval : pair of float
        Exact 95 % interval of that share; (0, 1) where none is accepted.
    retention : float
        Share of cases that are accepted.
    power : float
        Share of cases that are accepted and right.
    """

    n: int
    n_accepted: int
    errors: float
    risk: float
    risk_interval: tuple[float, float]
    retention: float
    power: float

    @classmethod
    def of(cls, accepted: NDArray[np.bool_], errors: ArrayLike) -> Performance:
        """What accepting these cases did, given their errors (or losses)."""
        e = checks.errors_array(errors, accepted.size, fractional=True)
        k, wrong = int(accepted.sum()), float(e[accepted].sum())
        low, high = binomial_interval(math.floor(wrong), k) if k else (0.0, 1.0)
        if wrong % 1:
            high = binomial_interval(math.ceil(wrong), k)[1]
        n = max(accepted.size, 1)
        return cls(
            accepted.size, k, wrong, wrong / max(k, 1), (float(low), float(high)), k / n,
            (k - wrong) / n,
        )  # fmt: skip

    def __repr__(self) -> str:
        low, high = self.risk_interval
        return (
            f"Performance({self.n_accepted} of {self.n} accepted, risk {self.risk:.4g} "
            f"[{low:.4g}, {high:.4g}], power {self.power:.4g})"
        )


def as_errors(answers: ArrayLike, truth: ArrayLike) -> NDArray[np.int64]:
    """1 where the answer differs from the truth, else 0.

    Examples
    --------
    >>> as_errors(["a", "b"], ["a", "c"])
    array([0, 1])
    """
    a, b = np.asarray(answers), np.asarray(truth)
    if a.shape != b.shape:
        raise DataError(f"answers has shape {a.shape} and truth {b.shape}; they must agree.")
    return np.asarray(a != b).astype(np.int64)
