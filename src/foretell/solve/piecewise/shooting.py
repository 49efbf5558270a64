"""Newton's method for periodic orbits of the exact flow, with one or many shooting nodes.

Unknowns are nodes z_0 .. z_{m-1} at equal fractions of the period, and the period T:

    phi_{T/m}(z_j) - z_{j+1 mod m} = 0,     F(z_0) . dz_0 = 0 (no step along the orbit).

One node is enough while perturbations grow little over a period; more nodes keep every
propagator moderate, and so let strongly unstable cycles be found like stable ones. Steps are
least-squares steps, halved until the defect decreases. The rank of the defect's Jacobian tells
an isolated cycle from a member of a continuum, which Newton alone would hide.

Legend: M units, m nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from foretell.core.errors import NumericalError
from foretell.solve.piecewise.certified import flow
from foretell.solve.piecewise.field import Array, PiecewiseLinearField
from foretell.solve.piecewise.sensitivity import FlowJacobian, flow_jacobian

MOST_STEPS = 30
MOST_NODES = 64
MOST_GROWTH = 1e3  # of a perturbation between two nodes
RANK_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Shot:
    """A periodic orbit at its shooting nodes.

    ``residual`` is the largest defect in state units; ``rank`` is that of [Phi - I, F].
    """

    nodes_mM: Array
    period: float
    arcs: tuple[FlowJacobian, ...]
    residual: float
    rank: int
    n_steps: int

    @property
    def growth(self) -> float:
        """The largest growth of a perturbation between two nodes."""
        return max(float(np.linalg.norm(arc.jacobian, 2)) for arc in self.arcs)


def shoot(
    field: PiecewiseLinearField, state_M: Array, period: float, *, tol: float = 1e-11
) -> Shot | None:
    """Refine a guessed cycle of a field without input; None when Newton does not converge.

    Starts with one node. Adds nodes along the guessed orbit, followed forwards or else
    backwards, when that fails or when perturbations grow by more than 1e3 over a period.
    """
    single = _newton(field, state_M[None, :], period, tol)
    if single is not None and single.growth <= MOST_GROWTH:
        return single
    guess, period = (state_M, period) if single is None else (single.nodes_mM[0], single.period)
    best = single
    for m in _node_counts(field, guess, period):
        for backwards in (False, True):
            nodes = _orbit_nodes(field, guess, period, m, backwards)
            multiple = None if nodes is None else _newton(field, nodes, period, tol)
            if multiple is not None:
                best = multiple
                break
        if best is None or best.growth <= MOST_GROWTH:
            break
    return best


def shoot_from_nodes(
    field: PiecewiseLinearField, nodes_mM: Array, period: float, *, tol: float = 1e-11
) -> Shot | None:
    """Refine a cycle from guesses at all its nodes; None when Newton does not converge."""
    return _newton(field, nodes_mM, period, tol)


def _orbit_nodes(
    field: PiecewiseLinearField, state_M: Array, period: float, m: int, backwards: bool
) -> Array | None:
    """States at the fractions 0, 1/m .. (m-1)/m of the period; None when the run escapes.

    Backwards in time the run from the guess converges to a repelling cycle and not away from it.
    """
    along = field
    if backwards:
        along = PiecewiseLinearField(-field.A, -field.W, -field.h, field.n_relu)
    run = flow(along, state_M, np.arange(m) * (period / m), max_norm=_far(state_M))
    if run.escaped_at is not None:
        return None
    return np.roll(run.states[::-1], 1, axis=0) if backwards else run.states


def _node_counts(field: PiecewiseLinearField, state_M: Array, period: float) -> list[int]:
    """How many nodes to try, from the growth of perturbations along the guess."""
    try:
        jacobian = flow_jacobian(field, state_M, period, max_norm=_far(state_M)).jacobian
        orders = np.log10(max(float(np.linalg.norm(jacobian, 2)), 10.0))
    except NumericalError:
        orders = 12.0
    first = int(np.clip(np.ceil(orders / 1.5), 4, MOST_NODES // 4))
    return [first, 2 * first, min(4 * first, MOST_NODES)]


def _newton(field: PiecewiseLinearField, nodes_mM: Array, period: float, tol: float) -> Shot | None:
    nodes, T = nodes_mM.copy(), float(period)
    M = field.n_units
    state = _defects(field, nodes, T)
    if state is None:
        return None
    arcs, defect = state
    for step in range(MOST_STEPS):
        size = max(float(np.abs(nodes).max()), np.finfo(float).tiny)
        jacobian = _jacobian(field, nodes, arcs)
        if float(np.abs(defect).max()) <= tol * size:
            last = _improved(field, nodes, T, jacobian, defect, halvings=1)
            if last is not None:
                nodes, T, arcs, defect = last
                jacobian = _jacobian(field, nodes, arcs)
            residual = float(np.abs(defect).max())
            return Shot(nodes, T, tuple(arcs), residual, _rank(jacobian, M), step)
        moved = _improved(field, nodes, T, jacobian, defect, halvings=8)
        if moved is None:
            return None
        nodes, T, arcs, defect = moved
    return None


def _improved(
    field: PiecewiseLinearField,
    nodes: Array,
    T: float,
    jacobian: Array,
    defect: Array,
    *,
    halvings: int,
) -> tuple[Array, float, list[FlowJacobian], Array] | None:
    """The longest of some ever shorter steps that decreases the defect."""
    for halving in range(halvings):
        trial = _step(field, nodes, T, jacobian, defect, 0.5**halving)
        state = None if trial is None else _defects(field, *trial)
        if trial is not None and state is not None:
            if np.linalg.norm(state[1]) < np.linalg.norm(defect):
                return (*trial, *state)
    return None


def _step(
    field: PiecewiseLinearField, nodes: Array, T: float, jacobian: Array, defect: Array, part: float
) -> tuple[Array, float] | None:
    """A least-squares step; None when it asks for an impossible period."""
    m, M = nodes.shape
    velocity = field(nodes[0])
    speed = float(np.linalg.norm(velocity))
    if speed == 0.0:
        return None
    phase = np.zeros(m * M + 1)
    phase[:M] = velocity / speed
    system = np.vstack([jacobian, phase])
    system[:, -1] /= speed
    delta = lstsq(system, -np.append(defect.ravel(), 0.0), cond=1e-11, lapack_driver="gelsy")[0]
    change = float(delta[-1]) / speed
    reach = min(1.0, 0.3 * T / max(abs(change), 1e-300)) * part
    return nodes + reach * delta[:-1].reshape(m, M), T + reach * change


def _defects(
    field: PiecewiseLinearField, nodes: Array, T: float
) -> tuple[list[FlowJacobian], Array] | None:
    if not (np.isfinite(nodes).all() and T > 0):
        return None
    try:
        arcs = [flow_jacobian(field, z, T / len(nodes), max_norm=_far(nodes)) for z in nodes]
    except NumericalError:
        return None
    ends = np.array([arc.state for arc in arcs])
    return arcs, ends - np.roll(nodes, -1, axis=0)


def _jacobian(field: PiecewiseLinearField, nodes: Array, arcs: list[FlowJacobian]) -> Array:
    """Derivative of all defects with respect to (z_0 .. z_{m-1}, T), shape (mM, mM + 1)."""
    m, M = nodes.shape
    jacobian = np.zeros((m * M, m * M + 1))
    for j, arc in enumerate(arcs):
        rows, following = slice(j * M, (j + 1) * M), (j + 1) % m
        jacobian[rows, j * M : (j + 1) * M] += arc.jacobian
        jacobian[rows, following * M : (following + 1) * M] -= np.eye(M)
        jacobian[rows, -1] = field(arc.state) / m
    return jacobian


def _rank(jacobian: Array, M: int) -> int:
    """Rank of [Phi - I, F]: full rank less the rank deficit of the whole system."""
    scaled = jacobian.copy()
    scaled[:, -1] /= max(float(np.linalg.norm(scaled[:, -1])), np.finfo(float).tiny)
    s = np.linalg.svd(scaled, compute_uv=False)
    return M - int(np.sum(s <= RANK_TOLERANCE * s[0]))


def _far(states: Array) -> float:
    """A norm beyond which an orbit from these states is not followed any more."""
    return 1e4 * max(float(np.linalg.norm(np.atleast_2d(states), axis=1).max()), 1e-3)
