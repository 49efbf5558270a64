"""Accept, pass on or withhold by a score, with a guarantee that is named exactly."""

from foretell.trust.selective.cascade import CascadeRouter, Routes
from foretell.trust.selective.curves import (
    RiskCoverage,
    certificate_table,
    plot_risk_coverage,
    plot_routes,
    risk_coverage_curve,
)
from foretell.trust.selective.estimator import SelectiveEstimator
from foretell.trust.selective.floor import choose_min_retention, choose_thresholds
from foretell.trust.selective.identity import ScoreIdentity, ScoreProfile, ScoreShift, ScoreTally
from foretell.trust.selective.performance import Performance, as_errors
from foretell.trust.selective.threshold import SelectiveThreshold

__all__ = [
    "CascadeRouter",
    "Performance",
    "RiskCoverage",
    "Routes",
    "ScoreIdentity",
    "ScoreProfile",
    "ScoreShift",
    "ScoreTally",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "as_errors",
    "certificate_table",
    "choose_min_retention",
    "choose_thresholds",
    "plot_risk_coverage",
    "plot_routes",
    "risk_coverage_curve",
]
