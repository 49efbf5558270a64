from .checkpoint import CheckpointPolicy, young_interval
from .controller import Assignment, ReorderController
from .endurance import (
    EnduranceModel,
    corrected_mean,
    disjoint_mean,
    published_mean,
)
from .failures import FailureModel
from .overhead import OverheadModel, SimulatedLoads
from .placement import StackPlacement, default_redundancy
from .redundancy import (
    Prediction,
    RedundancyPlan,
    optimize_redundancy,
    predict,
)
from .rulers import golomb_offsets, largest_redundancy
from .simulator import (
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
