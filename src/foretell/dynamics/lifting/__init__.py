"""Draw what comes next: samplers of transitions of stochastic systems, with one interface.

Each learns from recordings or from pairs of states, draws next states and whole ensembles of runs,
and can be saved. `AnalogueTransition` needs no torch; the others load it when they are asked for.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from foretell.dynamics.lifting.analogue import AnalogueTransition
from foretell.dynamics.lifting.compare import Comparison, SamplerScore, compare_samplers
from foretell.dynamics.lifting.labels import linear_spread, stored_labels
from foretell.dynamics.lifting.protocol import TransitionSampler

__all__ = [
    "AnalogueTransition",
    "Comparison",
    "SamplerScore",
    "TransitionSampler",
    "compare_samplers",
    "linear_spread",
    "stored_labels",
]

if _TYPE_CHECKING:
    from foretell.dynamics.lifting.engression import EngressionTransition as EngressionTransition
    from foretell.dynamics.lifting.flow import FlowMatchingTransition as FlowMatchingTransition
    from foretell.dynamics.lifting.gaussian import GaussianTransition as GaussianTransition
    from foretell.dynamics.lifting.stochastic import StochasticLifting as StochasticLifting

_WITH_TORCH = {
    "EngressionTransition": "engression",
    "FlowMatchingTransition": "flow",
    "GaussianTransition": "gaussian",
    "StochasticLifting": "stochastic",
}


def __getattr__(name: str) -> _Any:
    if name in _WITH_TORCH:
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("torch") is None:
            from foretell.core import MissingExtraError

            raise MissingExtraError("torch", "learn", f"use {name}")
        return getattr(import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
