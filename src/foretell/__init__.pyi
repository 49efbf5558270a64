from .converse import ConvexLanguageDetector, ConvexReLUClassifier
from .core import ForetellError, citation
from .data import Trajectories
from .dynamics import (
    ALRNN,
    CPLRNN,
    AnalogueTransition,
    EDMDc,
    GaussianTransition,
    HybridLatentODE,
    KoopmanQP,
    ReLUNeuralODE,
    StochasticLifting,
    load,
)
from .recall import CosineDecoder, OSCMemory, SignSketch
from .train.coordinator import Coordinator
from .train.graph import Planner, Workflow
from .train.rl import GRPOTrainer, PPOTrainer
from .trust import (
    CascadeRouter,
    ExcitationModel,
    ExposureRegulator,
    SelectiveEstimator,
    SelectiveThreshold,
)

__version__: str
__all__ = [
    "ALRNN",
    "CPLRNN",
    "AnalogueTransition",
    "CascadeRouter",
    "ConvexLanguageDetector",
    "ConvexReLUClassifier",
    "Coordinator",
    "CosineDecoder",
    "EDMDc",
    "ExcitationModel",
    "ExposureRegulator",
    "ForetellError",
    "GRPOTrainer",
    "GaussianTransition",
    "HybridLatentODE",
    "KoopmanQP",
    "OSCMemory",
    "PPOTrainer",
    "Planner",
    "ReLUNeuralODE",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "SignSketch",
    "StochasticLifting",
    "Trajectories",
    "Workflow",
    "citation",
    "load",
]
