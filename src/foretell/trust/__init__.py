"""Decide what may be said and shown."""

from foretell.trust.boundary import Boundary, binomial_boundary, crossing_probability
from foretell.trust.bounds import (
    binomial_interval,
    binomial_lower,
    binomial_upper,
    conformal_selection_pvalues,
    empirical_bernstein_upper,
    pool_inflation,
    predictable_spread,
    selection_inflation,
    smallest_n,
)
from foretell.trust.decision import Certificate, Decision
from foretell.trust.selective import (
    Performance,
    ScoreIdentity,
    ScoreProfile,
    ScoreShift,
    ScoreTally,
    SelectiveThreshold,
    as_errors,
)

__all__ = [
    "Boundary",
    "Certificate",
    "Decision",
    "Performance",
    "ScoreIdentity",
    "ScoreProfile",
    "ScoreShift",
    "ScoreTally",
    "SelectiveThreshold",
    "as_errors",
    "binomial_boundary",
    "binomial_interval",
    "binomial_lower",
    "binomial_upper",
    "conformal_selection_pvalues",
    "crossing_probability",
    "empirical_bernstein_upper",
    "pool_inflation",
    "predictable_spread",
    "selection_inflation",
    "smallest_n",
]
