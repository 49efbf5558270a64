"""Limit cycles of a piecewise-linear field: stable, unstable and saddle ones, with their checks.

A cycle is found by Newton's method on a state and a period with the exact flow; the sequence of
regions comes from the flow itself and is never guessed. First guesses are near-returns of long
runs, forwards in time and backwards, where repelling cycles attract. Each cycle carries the
evidence that it is one: residual, trivial multiplier, Liouville's formula, rank, transversality.

Source: Braendle et al., arXiv 2602.15649, section on limit cycles. Differs from the paper in: no
region sequence as input, shooting with the flow instead of flight times as unknowns.

Legend: M units, P rectified, S starts, m shooting nodes, R stays in regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError
from foretell.solve.piecewise.certified import Events
from foretell.solve.piecewise.equilibria import AUTO_EXHAUSTIVE, equilibria
from foretell.solve.piecewise.field import Array, PiecewiseLinearField
from foretell.solve.piecewise.floquet import log_multipliers, propagators
from foretell.solve.piecewise.limit_cycle import LimitCycle, even_times, states_along
from foretell.solve.piecewise.returns import Guess, near_returns
from foretell.solve.piecewise.sensitivity import Segment
from foretell.solve.piecewise.shooting import Shot, shoot, shoot_from_nodes

Complex = NDArray[np.complex128]

NEUTRAL = 1e-6  # |log |mu|| below which a multiplier counts as neutral


def limit_cycles(
    field: PiecewiseLinearField,
    starts: ArrayLike | None = None,
    *,
    periods: ArrayLike | None = None,
    control: ArrayLike | None = None,
    n_starts: int = 12,
    backward: bool = True,
    max_cycles: int = 20,
    tol: float = 1e-11,
    random_state: int | np.random.Generator | None = None,
) -> tuple[LimitCycle, ...]:
    """Find limit cycles of a piecewise-linear field.

    The search is heuristic: cycles found are certain (see their checks), others may exist.

    Parameters
    ----------
    field : PiecewiseLinearField
    starts : array of shape (S, M) or (M,), optional
        States to start from; None starts near unstable equilibria and at random.
    periods : array of shape (S,), optional
        A guess of the period for each start: Newton then starts there at once.
    control : array of shape (K,), optional
        Constant input.
    n_starts : int
        How many starts to draw when none are given.
    backward : bool
        Also run backwards in time, where repelling cycles attract.
    max_cycles : int
        The search ends after this many different cycles.
    tol : float
        Largest residual, relative to the size of the state.
    random_state : int or Generator, optional
        For the starts; None uses 0, so that the result can be repeated.

    Returns
    -------
    tuple of LimitCycle
        Stable ones first, then by period. A member of a continuum of cycles (around a linear
        centre, say) is kept, with ``rank_ok`` False and a warning.

    Raises
    ------
    ParameterError
        For starts or periods of a wrong shape, or periods that are not positive.

    Examples
    --------
    A unit circle of period 2 pi around a linear centre is one of a continuum:

    >>> import numpy as np
    >>> field = PiecewiseLinearField(np.zeros(2), [[0.0, -1.0], [1.0, 0.0]], np.zeros(2), 0)
    >>> cycle, = limit_cycles(field, [[1.0, 0.0]])
    >>> round(cycle.period, 9), cycle.rank_ok
    (6.283185307, False)
    """
    frozen = PiecewiseLinearField(field.A, field.W, field.drive(control), field.n_relu)
    starts_SM, periods_S = _checked(frozen, starts, periods, n_starts, random_state)
    found: list[LimitCycle] = []
    for shot in _shots(frozen, starts_SM, periods_S, backward, tol, found):
        cycle = _examined(frozen, shot, tol)
        if cycle is not None and not any(_same(cycle, other) for other in found):
            found.append(cycle)
        if len(found) >= max_cycles:
            break
    return tuple(sorted(found, key=lambda cycle: (not cycle.stable, cycle.period)))


def _shots(
    field: PiecewiseLinearField,
    starts_SM: Array,
    periods_S: Array | None,
    backward: bool,
    tol: float,
    known: list[LimitCycle],
) -> Iterator[Shot]:
    """Converged orbits from all starts; guesses that lie on a known cycle are passed over."""
    if periods_S is not None:
        for start, period in zip(starts_SM, periods_S, strict=True):
            shot = shoot(field, start, float(period), tol=tol)
            if shot is not None:
                yield shot
    reverse = PiecewiseLinearField(-field.A, -field.W, -field.h, field.n_relu)
    for start in starts_SM:
        for guess in near_returns(field, start):
            shot = None if _on(guess, known) else shoot(field, guess.state, guess.period, tol=tol)
            if shot is not None:
                yield shot
        for guess in near_returns(reverse, start) if backward else ():
            shot = None if _on(guess, known) else shoot(reverse, guess.state, guess.period, tol=tol)
            turned = None if shot is None else _turned(field, reverse, shot, tol)
            if turned is not None:
                yield turned


def _on(guess: Guess, known: list[LimitCycle]) -> bool:
    """Whether the guess was taken from a run that had settled on a known cycle."""
    for cycle in known:
        if guess.mark is not None and cycle.n_crossings:
            gaps = np.abs(cycle.events.states - guess.mark).max(axis=1)
            if gaps.min() <= 1e-6 * np.abs(cycle.nodes).max():
                return True
    return False


def _turned(
    field: PiecewiseLinearField, reverse: PiecewiseLinearField, shot: Shot, tol: float
) -> Shot | None:
    """A cycle of the reversed field as a cycle of the field, with nodes in forward order."""
    m = max(len(shot.nodes_mM), 1)
    while m <= 64:
        times = even_times(shot.period, m)
        backwards = states_along(reverse, shot.nodes_mM, shot.period, times)
        nodes = np.roll(backwards[::-1], 1, axis=0)
        forward = shoot_from_nodes(field, nodes, shot.period, tol=tol)
        if forward is not None and forward.growth <= 1e3:
            return forward
        m *= 2
    return forward


def _examined(field: PiecewiseLinearField, shot: Shot, tol: float) -> LimitCycle | None:
    """The checked cycle with its minimal period; None when the orbit is an equilibrium."""
    samples = states_along(field, shot.nodes_mM, shot.period, even_times(shot.period, 240))
    size = float(np.abs(samples).max())
    extent = float(np.ptp(samples, axis=0).max())
    if extent <= 1e-7 * size:
        return None
    shorter = _minimal(field, shot, extent, tol)
    if shorter is not None:
        return _examined(field, shorter, tol)
    return _cycle(field, shot, size, tol)


def _minimal(field: PiecewiseLinearField, shot: Shot, extent: float, tol: float) -> Shot | None:
    """The orbit at period T / k for the largest k at which it closes, if any k > 1 does."""
    n = sum(len(arc.events) for arc in shot.arcs)
    for k in [k for k in range(n or 8, 1, -1) if n % k == 0]:
        end = states_along(field, shot.nodes_mM, shot.period, np.array([shot.period / k]))[0]
        if np.abs(end - shot.nodes_mM[0]).max() <= 1e-5 * extent:
            m = max(1, len(shot.nodes_mM) // k)
            times = even_times(shot.period / k, m)
            nodes = states_along(field, shot.nodes_mM, shot.period, times)
            shorter = shoot_from_nodes(field, nodes, shot.period / k, tol=tol)
            if shorter is not None:
                return shorter
    return None


def _cycle(field: PiecewiseLinearField, shot: Shot, size: float, tol: float) -> LimitCycle:
    events, stays = _joined(shot)
    logs = log_multipliers(propagators(field, stays))
    trivial = int(np.argmin(np.abs(np.expm1(np.minimum(logs.real, 50.0) + 1j * logs.imag))))
    logs = np.concatenate([logs[trivial : trivial + 1], np.delete(logs, trivial)])
    trivial_error = float(abs(np.expm1(logs[0])))
    log_det = sum(arc.log_det for arc in shot.arcs)
    liouville_error = float(abs(np.expm1(np.clip(logs.real.sum() - log_det, -50.0, 50.0))))
    speeds = np.abs(field(events.states)[np.arange(len(events)), events.units])
    transversality = float(speeds.min(initial=np.inf))
    fastest = float(np.abs(field(events.states)).max(initial=0.0))
    others = logs.real[1:]
    if (np.abs(others) <= NEUTRAL).any():
        kind: Literal["stable", "unstable", "saddle", "neutral"] = "neutral"
    elif (others < 0).all():
        kind = "stable"
    else:
        kind = "unstable" if (others > 0).all() else "saddle"
    M = field.n_units
    complaints = {
        f"residual {shot.residual:.1e} is not small": shot.residual > tol * max(size, 1e-300),
        f"trivial multiplier is off by {trivial_error:.1e}": trivial_error > 1e-4,
        f"Liouville's formula is off by {liouville_error:.1e}": liouville_error > 1e-8,
        f"not isolated: [Phi - I, F] has rank {shot.rank} of {M}, a continuum of cycles or a "
        "bifurcation": shot.rank < M,
        "a multiplier other than the trivial one has modulus 1": kind == "neutral",
        f"a boundary is crossed at a grazing speed of {transversality:.1e}": transversality
        < 1e-6 * fastest,
    }
    warnings = tuple(text for text, applies in complaints.items() if applies)
    return LimitCycle(
        state=shot.nodes_mM[0].copy(),
        period=shot.period,
        events=events,
        codes=np.array([stay.code for stay in stays], dtype=bool),
        multipliers=_multipliers(logs),
        exponents=logs / shot.period,
        residual=shot.residual,
        trivial_error=trivial_error,
        liouville_error=liouville_error,
        transversality=transversality,
        n_crossings=len(events),
        rank=shot.rank,
        stable=kind == "stable",
        kind=kind,
        quality="check" if warnings else "good",
        warnings=warnings,
        nodes=shot.nodes_mM,
        field=field,
    )


def _multipliers(logs: Complex) -> Complex:
    """exp(logs), with imaginary parts of exactly 0 for real multipliers of either sign."""
    turn = np.exp(1j * logs.imag)
    turn = np.where(np.abs(turn.imag) < 1e-12, np.sign(turn.real) + 0j, turn)
    multipliers: Complex = np.exp(np.minimum(logs.real, 700.0)) * turn
    return multipliers


def _joined(shot: Shot) -> tuple[Events, list[Segment]]:
    """Events and stays of one whole period, node boundaries removed."""
    step = shot.period / len(shot.arcs)
    offsets = [j * step for j in range(len(shot.arcs)) for _ in shot.arcs[j].events.times]
    parts = [arc.events for arc in shot.arcs]
    events = Events(
        np.concatenate([part.times for part in parts]) + np.array(offsets),
        np.concatenate([part.units for part in parts]),
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.codes_before for part in parts]),
        np.concatenate([part.codes_after for part in parts]),
    )
    stays: list[Segment] = []
    for j, arc in enumerate(shot.arcs):
        for stay in arc.segments:
            if stays and (stays[-1].code == stay.code).all():
                last = stays.pop()
                stay = Segment(last.start, last.duration + stay.duration, last.code, last.state)
            else:
                stay = Segment(stay.start + j * step, stay.duration, stay.code, stay.state)
            stays.append(stay)
    return events, stays


def _same(a: LimitCycle, b: LimitCycle) -> bool:
    """One orbit, whatever its phase, or two members of one continuum."""
    if a.n_crossings != b.n_crossings:
        return False
    if not (a.rank_ok or b.rank_ok):
        return {code.tobytes() for code in a.codes} == {code.tobytes() for code in b.codes}
    if abs(a.period - b.period) > 1e-7 * a.period:
        return False
    if a.n_crossings == 0:
        return True
    size = max(float(np.abs(a.nodes).max()), float(np.abs(a.events.states).max()))
    gaps = np.abs(a.events.states[0] - b.events.states).max(axis=1)
    return bool(gaps.min() <= 1e-7 * size)


def _checked(
    field: PiecewiseLinearField,
    starts: ArrayLike | None,
    periods: ArrayLike | None,
    n_starts: int,
    random_state: int | np.random.Generator | None,
) -> tuple[Array, Array | None]:
    M = field.n_units
    if starts is None:
        if periods is not None:
            raise ParameterError("periods were given without starts; needed is starts=(S, M).")
        return _default_starts(field, n_starts, np.random.default_rng(random_state or 0)), None
    starts_SM = np.atleast_2d(np.array(starts, dtype=np.float64))
    if starts_SM.ndim != 2 or starts_SM.shape[1] != M:
        raise ParameterError(f"starts has shape {starts_SM.shape}; needed is (S, {M}).")
    if not np.isfinite(starts_SM).all():
        row = int(np.argmin(np.isfinite(starts_SM).all(axis=1)))
        raise ParameterError(f"starts has a value that is not finite in row {row}.")
    if periods is None:
        return starts_SM, None
    periods_S = np.atleast_1d(np.array(periods, dtype=np.float64))
    if periods_S.shape != (len(starts_SM),) or not (periods_S > 0).all():
        raise ParameterError(
            f"periods={periods_S.tolist()}; needed is one positive period for each of the "
            f"{len(starts_SM)} starts."
        )
    return starts_SM, periods_S


def _default_starts(field: PiecewiseLinearField, n: int, rng: np.random.Generator) -> Array:
    """Half of the starts close to unstable equilibria, the others at their scale at random."""
    method: Literal["exhaustive", "scyfi"]
    method = "exhaustive" if field.n_relu <= AUTO_EXHAUSTIVE else "scyfi"
    points = [p.state for p in equilibria(field, method=method) if not p.stable]
    scale = max([1.0, *(float(np.abs(p).max()) for p in points)])
    starts = scale * rng.normal(size=(n, field.n_units))
    for k in range(n // 2 if points else 0):
        nudge = 0.02 * scale * rng.normal(size=field.n_units)
        starts[k] = points[k % len(points)] + nudge
    return starts
