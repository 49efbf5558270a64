from .boundary import Boundary, binomial_boundary, crossing_probability
from .bounds import (
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
from .decision import Certificate, Decision
from .diversify import (
    DPP,
    MMR,
    CategoryCap,
    Diversifier,
    SlateCosts,
    SteckCalibration,
)
from .event_log import EventLog
from .excitation import ExcitationModel
from .exposure import ExposureRegulator
from .feedback_loop import ClosedLoopSimulator, EchoRanker, Ranker
from .loop_run import LoopRun
from .mark_scores import Gate, MarkScore
from .risk_cells import RiskBound, SaturationCells
from .saturation import SaturationState
from .selective import (
    CascadeRouter,
    Performance,
    RiskCoverage,
    Routes,
    ScoreIdentity,
    ScoreProfile,
    ScoreShift,
    ScoreTally,
    SelectiveEstimator,
    SelectiveThreshold,
    as_errors,
    certificate_table,
    choose_min_retention,
    choose_thresholds,
    plot_risk_coverage,
    plot_routes,
    risk_coverage_curve,
)
from .simulated_users import SimulatedUsers, UserState
from .slate_results import Feedback, Move, Slate

__all__ = [
    "DPP",
    "MMR",
    "Boundary",
    "CascadeRouter",
    "CategoryCap",
    "Certificate",
    "ClosedLoopSimulator",
    "Decision",
    "Diversifier",
    "EchoRanker",
    "EventLog",
    "ExcitationModel",
    "ExposureRegulator",
    "Feedback",
    "Gate",
    "LoopRun",
    "MarkScore",
    "Move",
    "Performance",
    "Ranker",
    "RiskBound",
    "RiskCoverage",
    "Routes",
    "SaturationCells",
    "SaturationState",
    "ScoreIdentity",
    "ScoreProfile",
    "ScoreShift",
    "ScoreTally",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "SimulatedUsers",
    "Slate",
    "SlateCosts",
    "SteckCalibration",
    "UserState",
    "as_errors",
    "binomial_boundary",
    "binomial_interval",
    "binomial_lower",
    "binomial_upper",
    "certificate_table",
    "choose_min_retention",
    "choose_thresholds",
    "conformal_selection_pvalues",
    "crossing_probability",
    "empirical_bernstein_upper",
    "plot_risk_coverage",
    "plot_routes",
    "pool_inflation",
    "predictable_spread",
    "risk_coverage_curve",
    "selection_inflation",
    "smallest_n",
]
