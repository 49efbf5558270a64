"""Learners of dynamics: the continuous-time piecewise-linear RNN and its reference learners.

The learners that need torch are loaded when they are asked for.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from foretell.dynamics.alrnn import ALRNN, interpolate
from foretell.dynamics.cplrnn import CPLRNN
from foretell.dynamics.history import History
from foretell.dynamics.loading import load
from foretell.dynamics.model import (
    Controllable,
    Cycles,
    Exponents,
    FixedPoints,
    Jumping,
    Model,
    Stochastic,
    VectorField,
)
from foretell.dynamics.neural_ode import ReLUNeuralODE

__all__ = [
    "ALRNN",
    "CPLRNN",
    "Controllable",
    "Cycles",
    "Exponents",
    "FixedPoints",
    "History",
    "Jumping",
    "Model",
    "ReLUNeuralODE",
    "Stochastic",
    "VectorField",
    "interpolate",
    "load",
]

if _TYPE_CHECKING:
    from foretell.dynamics.hybrid.learner import HybridLatentODE as HybridLatentODE
    from foretell.dynamics.koopman.edmd import EDMDc as EDMDc
    from foretell.dynamics.koopman.koopman_qp import KoopmanQP as KoopmanQP
    from foretell.dynamics.lifting.analogue import AnalogueTransition as AnalogueTransition
    from foretell.dynamics.lifting.gaussian import GaussianTransition as GaussianTransition
    from foretell.dynamics.lifting.stochastic import StochasticLifting as StochasticLifting

_WITH_TORCH = {
    "EDMDc": "koopman",
    "KoopmanQP": "koopman",
    "AnalogueTransition": "lifting",
    "GaussianTransition": "lifting",
    "HybridLatentODE": "hybrid",
    "StochasticLifting": "lifting",
}


def __getattr__(name: str) -> _Any:
    if name in _WITH_TORCH:
        from importlib import import_module as _import_module

        return getattr(_import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
