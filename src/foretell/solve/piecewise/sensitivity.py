"""Derivatives of the exact flow: state, and parameters.

The field is continuous, so a crossing adds no saltation and the derivative of a later state with respect
to a crossing time vanishes. Over the visited regions s_1 .. s_n with durations T_1 .. T_n

    d z(T) / d z(0) = expm(W_{s_n} T_n) ... expm(W_{s_1} T_1),   log det = sum_j tr(W_{s_j}) T_j,

and the parameter gradient is a sum of Frechet derivatives of the augmented exponentials with all
durations held fixed.

Source: Braendle et al., arXiv 2602.15649, section on training; the vanishing of the crossing-time term is
a consequence of continuity. Differs from the paper in: no implicit-function term, no discarded gradients.

Legend: M units, P rectified, K output times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm, expm_frechet

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.field import PiecewiseLinearField

Array = NDArray[np.float64]
Codes = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Segment:
    """A stay in one region.

    Attributes
    ----------
    start, duration : float
        When it begins and how long it lasts.
    code : bool array (P,)
        The region.
    state : array (M,)
        State at the beginning.
    """

    start: float
    duration: float
    code: Codes
    state: Array

    def __repr__(self) -> str:
        bits = "".join("1" if bit else "0" for bit in self.code)
        return f"Segment({bits} from {self.start:.6g} for {self.duration:.6g})"


@dataclass(frozen=True, eq=False)
class FlowJacobian:
    """The end of a run and its derivative with respect to the start.

    Attributes
    ----------
    state : array (M,)
        z(duration).
    jacobian : array (M, M)
        d z(duration) / d z(0).
    events : Events
        The crossings on the way.
    log_det : float
        Logarithm of the determinant by Liouville's formula, which stays accurate where the
        determinant of `jacobian` has underflowed.
    segments : tuple of Segment
        The stays whose exponentials are multiplied, in order of time.
    """

    state: Array
    jacobian: Array
    events: Events
    log_det: float
    segments: tuple[Segment, ...]

    def __repr__(self) -> str:
        return (
            f"FlowJacobian({self.jacobian.shape[0]} units, {len(self.events)} crossings, "
            f"log_det={self.log_det:.6g})"
        )


def segments(run: Flow) -> tuple[Segment, ...]:
    """Cut a run into its stays in single regions.

    Parameters
    ----------
    run : Flow
        Result of `flow`. Output times do not cut; only crossings do.

    Examples
    --------
    >>> field = PiecewiseLinearField(A=[0.0], W=[[0.0]], h=[1.0], n_relu=1)
    >>> segments(flow(field, [-1.0], [0.0, 3.0]))
    (Segment(0 from 0 for 1), Segment(1 from 1 for 2))
    """
    end = run.times[-1] if run.escaped_at is None else run.escaped_at
    events = run.events
    times, rows = np.unique(events.times, return_index=True)
    starts = np.concatenate((run.times[:1], times))
    durations = np.diff(np.append(starts, end))
    codes = np.concatenate((run.codes[:1], events.codes_after[rows]))
    if times.size:
        codes[0] = events.codes_before[0]
    states = np.concatenate((run.states[:1], events.states[rows]))
    return tuple(
        Segment(float(t), float(d), code, state)
        for t, d, code, state in zip(starts, durations, codes, states, strict=True)
    )


def flow_jacobian(
    field: PiecewiseLinearField,
    z0: ArrayLike,
    duration: float,
    *,
    control: ArrayLike | None = None,
    max_norm: float = 1e6,
) -> FlowJacobian:
    """Derivative of the flow over `duration` with respect to the start, exactly.

    Parameters
    ----------
    field : PiecewiseLinearField
        The vector field.
    z0 : array of shape (M,)
        The start. Exactly on a boundary the derivative is the one along the flow.
    duration : float
        Time to flow, not negative.
    control : array of shape (n_inputs,), optional
        Input, held throughout.
    max_norm : float
        Largest norm of the state.

    Raises
    ------
    ParameterError
        For arguments that do not fit the field.
    NumericalError
        When the run passes `max_norm`.

    Examples
    --------
    >>> field = PiecewiseLinearField(A=[-1.0], W=[[3.0]], h=[0.0], n_relu=1)
    >>> flow_jacobian(field, [1.0], 0.5).jacobian
    array([[2.71828183]])
    """
    if not (np.isfinite(duration) and duration >= 0):
        raise ParameterError(f"duration={duration} must be finite and not negative.")
    times = [0.0, float(duration)] if duration > 0 else [0.0]
    run = flow(field, z0, times, controls=control, max_norm=max_norm)
    if run.escaped_at is not None:
        raise NumericalError(
            f"The run escapes (norm above {max_norm:g}) at t={run.escaped_at:.6g}, before the duration "
            f"{duration:g} is over. Shorten it, or raise max_norm."
        )
    jacobian, log_det = np.eye(field.n_units), 0.0
    stays = segments(run)
    for stay in stays:
        matrix = field.matrix(stay.code)
        jacobian = expm(matrix * stay.duration) @ jacobian
        log_det += float(np.trace(matrix)) * stay.duration
    return FlowJacobian(run.states[-1], jacobian, run.events, log_det, stays)
