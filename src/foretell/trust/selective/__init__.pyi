from .cascade import CascadeRouter, Routes
from .curves import (
    RiskCoverage,
    certificate_table,
    plot_risk_coverage,
    plot_routes,
    risk_coverage_curve,
)
from .estimator import SelectiveEstimator
from .floor import choose_min_retention, choose_thresholds
from .identity import ScoreIdentity, ScoreProfile, ScoreShift, ScoreTally
from .performance import Performance, as_errors
from .threshold import SelectiveThreshold

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
