"""Phase and amplitude response of a cycle to small kicks.

The infinitesimal phase response Z is the periodic solution of dZ/dt = -W_s^T Z with
Z . F = 2 pi / T. The amplitude (isostable) response I to Floquet exponent kappa is the periodic
solution of dI/dt = (kappa - W_s^T) I with I(0) . v = 1, v the unit Floquet vector. Both are
continuous across boundaries, because the field is. They are solved for at the shooting nodes of
the cycle in one cyclic linear system, so that neither direction of time has to be stable, and
carried backwards from node to node by region exponentials.

Source: Braendle et al., arXiv 2602.15649, appendix on response curves.

Legend: M units, n phases, m shooting nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.field import Array, PiecewiseLinearField
from foretell.solve.piecewise.limit_cycle import LimitCycle, even_times
from foretell.solve.piecewise.sensitivity import FlowJacobian, flow_jacobian

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class PhaseResponse:
    """Response of the phase to a small kick, along the cycle.

    Attributes
    ----------
    phases : array of shape (n,)
        In radians; phase 0 is ``cycle.state``.
    curve : array of shape (n, M)
        Radians of phase advance per unit of kick in each state coordinate.
    states : array of shape (n, M)
        Points of the cycle at these phases.
    defect : float
        Largest relative departure of Z . F from 2 pi / period at the phases.
    """

    phases: Array
    curve: Array
    states: Array
    defect: float

    def __repr__(self) -> str:
        return (
            f"PhaseResponse({self.phases.size} phases, largest response "
            f"{np.abs(self.curve).max():.4g} rad per unit, defect {self.defect:.1e})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files."""
        return {
            "phases": self.phases.tolist(),
            "curve": self.curve.tolist(),
            "states": self.states.tolist(),
            "defect": self.defect,
        }


@dataclass(frozen=True, eq=False)
class AmplitudeResponse:
    """Response of one amplitude (isostable) coordinate to a small kick, along the cycle.

    Attributes
    ----------
    phases : array of shape (n,)
        In radians; phase 0 is ``cycle.state``.
    curve : array of shape (n, M)
        Change of the amplitude per unit of kick; complex when the exponent is.
    exponent : complex
        Floquet exponent kappa, in 1 / time unit.
    direction : array of shape (M,)
        Unit Floquet vector v at phase 0, along which the amplitude is measured.
    """

    phases: Array
    curve: Complex
    exponent: complex
    direction: Complex

    def __repr__(self) -> str:
        return (
            f"AmplitudeResponse({self.phases.size} phases, exponent {self.exponent:.4g}, "
            f"largest response {np.abs(self.curve).max():.4g})"
        )


def phase_response(field: PiecewiseLinearField, cycle: LimitCycle, n: int = 200) -> PhaseResponse:
    """Infinitesimal phase response curve of a limit cycle.

    Parameters
    ----------
    field : PiecewiseLinearField
        The field whose cycle it is (its input is taken from the cycle).
    cycle : LimitCycle
    n : int
        Number of phases, equally spaced from 0.

    Returns
    -------
    PhaseResponse

    Raises
    ------
    ParameterError
        For n < 1, or a cycle of another field.
    NumericalError
        When the cycle is not isolated, so that no phase is defined near it.

    Notes
    -----
    The kick acts on one state coordinate alone. In a lifted field, whose rectified units copy
    another unit, a kick of the original variable moves its copies too: add their columns.

    Examples
    --------
    >>> from foretell.solve.piecewise.cycles import limit_cycles
    >>> A, drive = [-1.0, -0.1, -1.0, -1.0], [0.5, 0.0, 0.375, -0.125]
    >>> W = [[0, -1, 2, -2], [0.2, 0, 0, 0], [0, -1, 2, -2], [0, -1, 2, -2]]
    >>> field = PiecewiseLinearField(A, W, drive, 2)
    >>> cycle, = limit_cycles(field, [[0.5, 0.1, 0.375, -0.125]], backward=False)
    >>> phase_response(field, cycle, 50).curve.shape
    (50, 4)
    """
    arcs = _arcs(field, cycle, n)
    if not cycle.rank_ok:
        raise NumericalError(
            f"The cycle is not isolated (rank {cycle.rank} of {field.n_units}), so a kick does "
            "not decay to a shift of phase. Look at cycle.warnings."
        )
    omega = 2 * np.pi / cycle.period
    nodes = _periodic_covector(arcs, 1.0 + 0j).real
    nodes = nodes * (omega / float(nodes[0] @ cycle.field(cycle.state)))
    times = even_times(cycle.period, n)
    curve = _between(cycle, arcs, nodes.astype(np.complex128), times, 0j).real.copy()
    states = cycle.orbit(n)[1]
    speeds = np.einsum("nm,nm->n", curve, cycle.field(states))
    defect = float(np.abs(speeds / omega - 1.0).max())
    return PhaseResponse(omega * times, curve, states, defect)


def amplitude_response(
    field: PiecewiseLinearField, cycle: LimitCycle, n: int = 200, *, index: int = 1
) -> AmplitudeResponse:
    """Infinitesimal response of an amplitude (isostable) coordinate of a limit cycle.

    Parameters
    ----------
    field : PiecewiseLinearField
    cycle : LimitCycle
    n : int
        Number of phases, equally spaced from 0.
    index : int
        Which of ``cycle.exponents``; 1 is the slowest to decay.

    Returns
    -------
    AmplitudeResponse

    Raises
    ------
    ParameterError
        For n < 1, a cycle of another field, or an index that is trivial or does not exist.
    NumericalError
        When the exponent is not simple, so that its direction is not defined.
    """
    arcs = _arcs(field, cycle, n)
    if not 1 <= index < field.n_units:
        raise ParameterError(f"index={index}; needed is 1 to {field.n_units - 1}.")
    kappa = complex(cycle.exponents[index])
    others = np.delete(cycle.exponents, index) - kappa
    if np.abs(others).min() <= 1e-9 * max(1.0 / cycle.period, abs(kappa)):
        raise NumericalError(
            f"The Floquet exponent {kappa:.4g} is not simple, so its direction is not defined."
        )
    factor = complex(np.exp(kappa * cycle.period / len(arcs)))
    direction = _periodic_vector(arcs, factor)
    nodes = _periodic_covector(arcs, factor)
    nodes = nodes / (nodes[0] @ direction)
    times = even_times(cycle.period, n)
    curve = _between(cycle, arcs, nodes, times, kappa)
    return AmplitudeResponse(2 * np.pi / cycle.period * times, curve, kappa, direction)


def _arcs(field: PiecewiseLinearField, cycle: LimitCycle, n: int) -> list[FlowJacobian]:
    if n < 1:
        raise ParameterError(f"n={n} phases; needed is at least 1.")
    if not (np.array_equal(field.A, cycle.field.A) and np.array_equal(field.W, cycle.field.W)):
        raise ParameterError("The cycle belongs to another field (A or W differ).")
    step = cycle.period / len(cycle.nodes)
    return [flow_jacobian(cycle.field, z, step, max_norm=np.inf) for z in cycle.nodes]


def _periodic_covector(arcs: list[FlowJacobian], factor: complex) -> Complex:
    """Nodes X_j (m, M) with X_j factor = Phi_j^T X_{j+1}, of unit norm at node 0."""
    m, M = len(arcs), arcs[0].state.size
    system = np.zeros((m * M, m * M), dtype=np.complex128)
    for j, arc in enumerate(arcs):
        rows, following = slice(j * M, (j + 1) * M), (j + 1) % m
        system[rows, rows] += factor * np.eye(M)
        system[rows, following * M : (following + 1) * M] -= arc.jacobian.T
    return _null_vector(system, m)


def _periodic_vector(arcs: list[FlowJacobian], factor: complex) -> Complex:
    """The vector v at node 0 with Phi v = factor^m v, of unit norm, its largest entry positive."""
    m, M = len(arcs), arcs[0].state.size
    system = np.zeros((m * M, m * M), dtype=np.complex128)
    for j, arc in enumerate(arcs):
        rows, following = slice(j * M, (j + 1) * M), (j + 1) % m
        system[rows, following * M : (following + 1) * M] += factor * np.eye(M)
        system[rows, rows] -= arc.jacobian
    vector: Complex = _null_vector(system, m)[0]
    largest = vector[int(np.argmax(np.abs(vector)))]
    turned: Complex = vector * (abs(largest) / largest)
    return turned


def _null_vector(system: Complex, m: int) -> Complex:
    scale = np.abs(system).max(axis=1)
    _, _, Vh = np.linalg.svd(system / np.where(scale > 0, scale, 1.0)[:, None])
    nodes: Complex = Vh[-1].conj().reshape(m, -1)
    lead = nodes[0][int(np.argmax(np.abs(nodes[0])))]
    if lead == 0:
        raise NumericalError("The adjoint solution vanishes at the first node of the cycle.")
    scaled: Complex = nodes / (np.linalg.norm(nodes[0]) * lead / abs(lead))
    return scaled


def _between(
    cycle: LimitCycle, arcs: list[FlowJacobian], nodes: Complex, times: Array, kappa: complex
) -> Complex:
    """The periodic solution at any times of one period, backwards from each following node."""
    step = cycle.period / len(arcs)
    index = np.minimum((times / step + 1e-12).astype(int), len(arcs) - 1)
    curve = np.empty((times.size, nodes.shape[1]), dtype=np.complex128)
    for j in np.unique(index):
        here = [k for k in np.flatnonzero(index == j)][::-1]
        value, stays = nodes[(j + 1) % len(arcs)], arcs[j].segments
        for stay in reversed(stays):
            transposed = cycle.field.matrix(stay.code).T - kappa * np.eye(nodes.shape[1])
            end = stay.start + stay.duration
            while here and times[here[0]] - j * step >= stay.start - 1e-14 * step:
                k = here.pop(0)
                curve[k] = expm(transposed * (end - (times[k] - j * step))) @ value
            value = expm(transposed * stay.duration) @ value
        for k in here:
            curve[k] = value
    return curve
