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
from foretell.trust.diversify import (
    DPP,
    MMR,
    CategoryCap,
    Diversifier,
    SlateCosts,
    SteckCalibration,
)
from foretell.trust.event_log import EventLog
from foretell.trust.excitation import ExcitationModel
from foretell.trust.exposure import ExposureRegulator
from foretell.trust.feedback_loop import (
    ClosedLoopSimulator,
    EchoRanker,
    LoopRun,
    Ranker,
    SimulatedUsers,
    UserState,
)
from foretell.trust.mark_scores import Gate, MarkScore
from foretell.trust.risk_cells import RiskBound, SaturationCells
from foretell.trust.saturation import SaturationState
from foretell.trust.selective import (
    Performance,
    ScoreIdentity,
    ScoreProfile,
    ScoreShift,
    ScoreTally,
    SelectiveThreshold,
    as_errors,
)
from foretell.trust.slate_results import Feedback, Move, Slate

__all__ = [
    "DPP",
    "MMR",
    "Boundary",
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
    "SaturationCells",
    "SaturationState",
    "ScoreIdentity",
    "ScoreProfile",
    "ScoreShift",
    "ScoreTally",
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
    "conformal_selection_pvalues",
    "crossing_probability",
    "empirical_bernstein_upper",
    "pool_inflation",
    "predictable_spread",
    "selection_inflation",
    "smallest_n",
]
