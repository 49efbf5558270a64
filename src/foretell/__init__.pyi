from .core import ForetellError, citation
from .data import Trajectories
from .dynamics import ALRNN, CPLRNN, EDMDc, KoopmanQP, ReLUNeuralODE, load
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
    "CascadeRouter",
    "CosineDecoder",
    "EDMDc",
    "ExcitationModel",
    "ExposureRegulator",
    "ForetellError",
    "KoopmanQP",
    "OSCMemory",
    "ReLUNeuralODE",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "SignSketch",
    "Trajectories",
    "citation",
    "load",
]
