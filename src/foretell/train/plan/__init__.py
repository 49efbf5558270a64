"""Plan a training that outlives failures: placement, reordering, checkpoints, time to train."""

from foretell.train.plan.checkpoint import CheckpointPolicy, young_interval
from foretell.train.plan.controller import Assignment, ReorderController
from foretell.train.plan.endurance import (
    EnduranceModel,
    corrected_mean,
    disjoint_mean,
    published_mean,
)
from foretell.train.plan.failures import FailureModel
from foretell.train.plan.overhead import OverheadModel, SimulatedLoads
from foretell.train.plan.placement import StackPlacement, default_redundancy
from foretell.train.plan.redundancy import (
    Prediction,
    RedundancyPlan,
    optimize_redundancy,
    predict,
)
from foretell.train.plan.rulers import golomb_offsets, largest_redundancy
from foretell.train.plan.simulator import (
    MaskingPolicy,
    SimulatedTraining,
    TimeToTrainSimulator,
    TrainingCosts,
)

__all__ = [
    "Assignment",
    "CheckpointPolicy",
    "EnduranceModel",
    "FailureModel",
    "MaskingPolicy",
    "OverheadModel",
    "Prediction",
    "RedundancyPlan",
    "ReorderController",
    "SimulatedLoads",
    "SimulatedTraining",
    "StackPlacement",
    "TimeToTrainSimulator",
    "TrainingCosts",
    "corrected_mean",
    "default_redundancy",
    "disjoint_mean",
    "golomb_offsets",
    "largest_redundancy",
    "optimize_redundancy",
    "predict",
    "published_mean",
    "young_interval",
]
