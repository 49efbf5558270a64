"""Derivatives of the exact flow: state, and parameters.

The field is continuous, so a crossing adds no saltation (its saltation matrix is the identity) and
the derivative of a later state with respect to a crossing time vanishes. Over the visited regions
s_1 .. s_n with durations T_1 .. T_n

    d z(T) / d z(0) = expm(W_{s_n} T_n) ... expm(W_{s_1} T_1),   log det = sum_j tr(W_{s_j}) T_j,

and the parameter gradient is a sum of Frechet derivatives of the augmented exponentials with all
durations held fixed.

Source: Braendle et al., arXiv 2602.15649, section on training; that the crossing-time term vanishes
follows from continuity. Differs from the paper in: no implicit-function term, no gradient dropped.

Legend: M units, P rectified, K output times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm_frechet

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.certified import Events, Flow, flow
from foretell.solve.piecewise.certified_kernel import exponential
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


def region_exponential(matrix: Array, duration: float) -> Array:
    """expm(matrix * duration), shape (M, M); some 20 times faster than scipy's for M of about 20.

    Parameters
    ----------
    matrix : array of shape (M, M)
        Finite; for instance `field.matrix(code)`.
    duration : float
        Not negative.

    Examples
    --------
    >>> region_exponential(np.array([[0.0, 1.0], [0.0, 0.0]]), 2.0)
    array([[1., 2.],
           [0., 1.]])
    """
    transposed: Array = exponential(np.ascontiguousarray(matrix.T), float(duration))
    return transposed.T


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
            f"The run escapes (norm above {max_norm:g}) at t={run.escaped_at:.6g}, before the "
            f"duration {duration:g} is over. Shorten it, or raise max_norm."
        )
    jacobian, log_det = np.eye(field.n_units), 0.0
    stays = segments(run)
    for stay in stays:
        matrix = field.matrix(stay.code)
        jacobian = region_exponential(matrix, stay.duration) @ jacobian
        log_det += float(np.trace(matrix)) * stay.duration
    return FlowJacobian(run.states[-1], jacobian, run.events, log_det, stays)


@dataclass(frozen=True, eq=False)
class ParameterGradient:
    """Gradient of sum_k <cotangents[k], z(times[k])>.

    Attributes
    ----------
    A, h, z0 : array (M,)
    W : array (M, M)
    C : array (M, n_inputs) or None
        Derivatives with respect to the parameters of the field and the start.
    """

    A: Array
    W: Array
    h: Array
    z0: Array
    C: Array | None

    def __repr__(self) -> str:
        return f"ParameterGradient({self.A.size} units, |dW|={np.linalg.norm(self.W):.3g})"


def flow_parameter_gradient(
    field: PiecewiseLinearField,
    z0: ArrayLike,
    times: ArrayLike,
    cotangents: ArrayLike,
    *,
    controls: ArrayLike | None = None,
    max_norm: float = 1e6,
) -> ParameterGradient:
    """Exact gradient of a linear function of the states at given times (slow, for reference).

    Parameters
    ----------
    field : PiecewiseLinearField
        The vector field.
    z0 : array of shape (M,)
        State at times[0].
    times : array of shape (K,)
        Strictly increasing.
    cotangents : array of shape (K, M)
        Derivative of the loss with respect to each state; row 0 belongs to z0 itself.
    controls : array of shape (K, n_inputs) or (n_inputs,), optional
        As in `flow`.
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
    >>> field = PiecewiseLinearField(A=[-1.0], W=[[0.0]], h=[0.0], n_relu=1)
    >>> flow_parameter_gradient(field, [1.0], [0.0, 1.0], [[0.0], [1.0]]).A
    array([0.36787944])
    """
    run = flow(field, z0, times, controls=controls, max_norm=max_norm)
    if run.escaped_at is not None:
        raise NumericalError(
            f"The run escapes (norm above {max_norm:g}) at t={run.escaped_at:.6g}: it has no "
            "gradient. End `times` earlier, or raise max_norm."
        )
    weights_KM = np.array(cotangents, dtype=np.float64)
    if weights_KM.shape != run.states.shape:
        raise ParameterError(
            f"cotangents has shape {weights_KM.shape}; needed is {run.states.shape}, one row "
            "per time."
        )
    M, K = field.n_units, run.times.size
    inputs = None
    if controls is not None:
        inputs = np.broadcast_to(np.asarray(controls, dtype=np.float64), (K, field.n_inputs))
    dW_full, dh, dA = np.zeros((M, M)), np.zeros(M), np.zeros(M)
    dC = None if field.C is None else np.zeros_like(field.C)
    adjoint = weights_KM[-1].copy()
    for k, stay in _pieces_backwards(run):
        u = None if inputs is None else inputs[k]
        generator = np.zeros((M + 1, M + 1))
        generator[:M, :M] = field.matrix(stay.code)
        generator[:M, M] = field.drive(u)
        outer = np.outer(np.append(adjoint, 0.0), np.append(stay.state, 1.0))
        transposed = generator.T * stay.duration
        exponential, direction = expm_frechet(transposed, outer)
        direction *= stay.duration
        on = np.ones(M)
        on[M - field.n_relu :] = stay.code
        dA += np.diag(direction)[:M]
        dW_full += direction[:M, :M] * on
        dh += direction[:M, M]
        if dC is not None and u is not None:
            dC += np.outer(direction[:M, M], u)
        adjoint = exponential[:M, :M] @ adjoint
        if stay.start == run.times[k]:
            adjoint = adjoint + weights_KM[k]
    return ParameterGradient(dA, dW_full, dh, adjoint, dC)


def _pieces_backwards(run: Flow) -> Iterator[tuple[int, Segment]]:
    """Stays cut at the output times as well, last one first, each with the interval it lies in."""
    for k in range(run.times.size - 2, -1, -1):
        left, right = run.times[k], run.times[k + 1]
        inside = np.flatnonzero((run.events.times > left) & (run.events.times < right))
        cuts = inside[np.unique(run.events.times[inside], return_index=True)[1]]
        end = right
        for e in cuts[::-1]:
            at = run.events.times[e]
            yield k, Segment(float(at), end - at, run.events.codes_after[e], run.events.states[e])
            end = at
        code = run.codes[k] if cuts.size == 0 else run.events.codes_before[cuts[0]]
        yield k, Segment(float(left), end - left, code, run.states[k])
