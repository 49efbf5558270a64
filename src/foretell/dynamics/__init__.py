"""Learners of dynamics: the continuous-time piecewise-linear RNN and its reference learners."""

from foretell.dynamics.alrnn import ALRNN, interpolate
from foretell.dynamics.cplrnn import CPLRNN
from foretell.dynamics.loading import load
from foretell.dynamics.model import Cycles, Exponents, FixedPoints, Model, VectorField
from foretell.dynamics.neural_ode import ReLUNeuralODE
from foretell.dynamics.training_state import History

__all__ = [
    "ALRNN",
    "CPLRNN",
    "Cycles",
    "Exponents",
    "FixedPoints",
    "History",
    "Model",
    "ReLUNeuralODE",
    "VectorField",
    "interpolate",
    "load",
]
