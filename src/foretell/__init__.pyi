from .core import ForetellError, citation
from .data import Trajectories
from .dynamics import ALRNN, CPLRNN, ReLUNeuralODE, load

__version__: str
__all__ = [
    "ALRNN",
    "CPLRNN",
    "ForetellError",
    "ReLUNeuralODE",
    "Trajectories",
    "citation",
    "load",
]
