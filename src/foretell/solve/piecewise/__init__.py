"""Continuous piecewise-linear vector fields: exact flow, training kernels, analysis."""

from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.sensitivity import FlowJacobian, Segment, flow_jacobian, segments

__all__ = [
    "Events",
    "Flow",
    "FlowJacobian",
    "PiecewiseLinearField",
    "Segment",
    "flow",
    "flow_jacobian",
    "segments",
]
