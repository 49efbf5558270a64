from .core import ForetellError, citation
from .data import Trajectories
from .dynamics import ALRNN, CPLRNN, ReLUNeuralODE, load
from .recall import OSCMemory
from .trust import CascadeRouter, SelectiveEstimator, SelectiveThreshold

__version__: str
__all__ = [
    "ALRNN",
    "CPLRNN",
    "CascadeRouter",
    "ForetellError",
    "OSCMemory",
    "ReLUNeuralODE",
    "SelectiveEstimator",
    "SelectiveThreshold",
    "Trajectories",
    "citation",
    "load",
]
