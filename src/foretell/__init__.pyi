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
    "CosineDecoder",
    "EDMDc",
    "ExcitationModel",
    "ExposureRegulator",
    "ForetellError",
    "GaussianTransition",
    "HybridLatentODE",
    "KoopmanQP",
    "OSCMemory",
    "ReLUNeuralODE",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "SignSketch",
    "StochasticLifting",
    "Trajectories",
    "citation",
    "load",
]
