"""Continuous piecewise-linear vector fields: exact flow, training kernels, analysis."""

from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.cycles import limit_cycles
from foretell.solve.piecewise.equilibria import equilibria
from foretell.solve.piecewise.equilibrium_set import (
    Equilibrium,
    EquilibriumContinuum,
    EquilibriumSet,
    Side,
)
from foretell.solve.piecewise.exponents import LyapunovSpectrum, lyapunov_spectrum
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.hybrid import PWLHybridSystem
from foretell.solve.piecewise.hybrid_records import (
    AffineMode,
    Guard,
    HybridJacobian,
    HybridRun,
    Jumps,
)
from foretell.solve.piecewise.hybrid_systems import bouncing_ball, chua, lif, mckean, relay
from foretell.solve.piecewise.limit_cycle import LimitCycle
from foretell.solve.piecewise.phase import (
    AmplitudeResponse,
    PhaseResponse,
    amplitude_response,
    phase_response,
)
from foretell.solve.piecewise.sensitivity import (
    FlowJacobian,
    ParameterGradient,
    Segment,
    flow_jacobian,
    flow_parameter_gradient,
    region_exponential,
    segments,
)

__all__ = [
    "AffineMode",
    "AmplitudeResponse",
    "Equilibrium",
    "EquilibriumContinuum",
    "EquilibriumSet",
    "Events",
    "Flow",
    "FlowJacobian",
    "Guard",
    "HybridJacobian",
    "HybridRun",
    "Jumps",
    "LimitCycle",
    "LyapunovSpectrum",
    "PWLHybridSystem",
    "ParameterGradient",
    "PhaseResponse",
    "PiecewiseLinearField",
    "Segment",
    "Side",
    "amplitude_response",
    "bouncing_ball",
    "chua",
    "equilibria",
    "flow",
    "flow_jacobian",
    "flow_parameter_gradient",
    "lif",
    "limit_cycles",
    "lyapunov_spectrum",
    "mckean",
    "phase_response",
    "region_exponential",
    "relay",
    "segments",
]
