"""Continuous piecewise-linear vector fields: exact flow, training kernels, analysis."""

from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.sensitivity import (
    FlowJacobian,
    ParameterGradient,
    Segment,
    flow_jacobian,
    flow_parameter_gradient,
    segments,
)

__all__ = [
    "Events",
    "Flow",
    "FlowJacobian",
    "ParameterGradient",
    "PiecewiseLinearField",
    "Segment",
    "flow",
    "flow_jacobian",
    "flow_parameter_gradient",
    "segments",
]
