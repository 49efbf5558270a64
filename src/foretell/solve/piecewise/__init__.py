"""Continuous piecewise-linear vector fields: exact flow, training kernels, analysis."""

from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.hybrid import (
    AffineMode,
    Guard,
    HybridJacobian,
    HybridRun,
    Jumps,
    PWLHybridSystem,
)
from foretell.solve.piecewise.hybrid_systems import bouncing_ball, chua, lif, mckean, relay
from foretell.solve.piecewise.sensitivity import (
    FlowJacobian,
    ParameterGradient,
    Segment,
    flow_jacobian,
    flow_parameter_gradient,
    segments,
)

__all__ = [
    "AffineMode",
    "Events",
    "Flow",
    "FlowJacobian",
    "Guard",
    "HybridJacobian",
    "HybridRun",
    "Jumps",
    "PWLHybridSystem",
    "ParameterGradient",
    "PiecewiseLinearField",
    "Segment",
    "bouncing_ball",
    "chua",
    "flow",
    "flow_jacobian",
    "flow_parameter_gradient",
    "lif",
    "mckean",
    "relay",
    "segments",
]
