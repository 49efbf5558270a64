"""Guesses of periodic orbits: near-returns of long runs.

A run is continued over windows of doubling length until it crosses one boundary often enough in
one direction. The crossings are points of a Poincare section; pairs that nearly coincide, k
crossings apart, are guesses of cycles with k crossings. Runs that stay in one region can only
cycle around a linear centre, whose period is known from the eigenvalues.

Legend: M units, n section points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretell.solve.piecewise.certified import Flow, flow
from foretell.solve.piecewise.field import Array, PiecewiseLinearField

SECTION_POINTS = 120  # crossings of one boundary in one direction that end the search
FEWEST_POINTS = 8  # ... and from which on a settled cycle is looked for
LONGEST = 1e5, 200.0, 3e6  # longest run: 1 / fastest rate, 1 / slowest rate, and a cap
NEAR = 0.15  # a near-return closes up to this fraction of the orbit's size
CLOSED = 1e-6  # ... and when every pair does so up to this fraction, the run has settled
SAMPLES = 400


@dataclass(frozen=True, eq=False)
class Guess:
    """A state and a period that nearly close.

    ``mark`` is a boundary crossing on the way, by which a settled run can be compared with
    cycles that are known already.
    """

    state: Array
    period: float
    gap: float
    mark: Array | None = None


def rate(field: PiecewiseLinearField) -> float:
    """A bound on the rates of the field, in 1 / time unit."""
    return max(float(np.abs(field.A).max() + np.linalg.norm(field.W, 2)), 1e-300)


def near_returns(field: PiecewiseLinearField, start_M: Array, *, most: int = 6) -> list[Guess]:
    """Guesses of cycles from one start: its own first return, then those of its long run."""
    first, later = first_return(field, start_M), list[Guess]()
    unit_time = 1.0 / rate(field)
    window, left, state = 50.0 * unit_time, _longest(field, start_M), start_M
    scale = max(float(np.linalg.norm(start_M)), float(np.linalg.norm(field.h)) * unit_time, 1e-3)
    while left > 0.0:
        run = flow(field, state, np.linspace(0.0, window, SAMPLES), max_norm=1e5 * scale)
        if run.escaped_at is not None:
            return first
        left, state = left - window, run.states[-1]
        if len(run.events) == 0:
            later = _linear_centre(field, run)
            if later or _at_rest(field, state, scale):
                break
        else:
            n_points = _section(run)[0].size
            if n_points >= FEWEST_POINTS:
                later, settled = _recurrences(field, run, most)
                if settled or n_points >= SECTION_POINTS:
                    break
        window *= 2.0
    return [*first, *later]


def first_return(field: PiecewiseLinearField, start_M: Array) -> list[Guess]:
    """The first time the run comes back near its start, if it does."""
    window = 20.0 / rate(field)
    for _ in range(10):
        run = flow(field, start_M, np.linspace(0.0, window, SAMPLES), max_norm=_leash(start_M))
        states = run.states[np.isfinite(run.states).all(axis=1)]
        distance = np.linalg.norm(states - start_M, axis=1)
        falls, rises = distance[1:-1] < distance[:-2], distance[1:-1] <= distance[2:]
        lows = [int(k) for k in np.flatnonzero(falls & rises) + 1]
        dips = [k for k in lows if distance[k] < NEAR * distance[: k + 1].max()]
        if dips:
            k = dips[0]
            return [Guess(start_M, float(run.times[k]), float(distance[k]))]
        if run.escaped_at is not None:
            return []
        window *= 2.0
    return []


def _recurrences(field: PiecewiseLinearField, run: Flow, most: int) -> tuple[list[Guess], bool]:
    """The closest pair of section points for every number of crossings in between.

    The second value says whether the run has settled on a cycle, the last of the guesses.
    """
    times, states = _section(run)
    half = times.size // 4
    times, states = times[half:], states[half:]
    size = float(np.linalg.norm(run.states[SAMPLES // 4 :].std(axis=0)))
    guesses: list[Guess] = []
    for lag in range(1, times.size // 2):
        gaps = np.linalg.norm(states[lag:] - states[:-lag], axis=1)
        k = int(np.argmin(gaps))
        if gaps[k] > NEAR * size:
            continue
        middle, period = _off_boundary(field, run, times[k], times[k + lag])
        guesses.append(Guess(middle, period, float(gaps[k]), mark=states[k]))
        if gaps.max() < CLOSED * size:
            return guesses, True
        if len(guesses) == most:
            break
    return guesses, False


def _section(run: Flow) -> tuple[Array, Array]:
    """Crossings of the boundary that is crossed most often, upwards or downwards."""
    events = run.events
    first = run.states.shape[1] - run.codes.shape[1]
    rising = events.codes_after[np.arange(len(events)), events.units - first]
    keys = 2 * events.units + rising
    values, counts = np.unique(keys, return_counts=True)
    chosen = keys == values[int(np.argmax(counts))]
    return events.times[chosen], events.states[chosen]


def _off_boundary(
    field: PiecewiseLinearField, run: Flow, begin: float, end: float
) -> tuple[Array, float]:
    """The state in the middle of the longest stay between two times, and their distance."""
    times = np.unique(np.clip(run.events.times, begin, end))
    times = np.union1d(times, [begin, end])
    longest = int(np.argmax(np.diff(times)))
    state = run.events.states[int(np.argmin(np.abs(run.events.times - times[longest])))]
    ahead = 0.5 * float(times[longest + 1] - times[longest])
    if ahead == 0.0:
        return state, end - begin
    return flow(field, state, [0.0, ahead]).states[-1], end - begin


def _longest(field: PiecewiseLinearField, start_M: Array) -> float:
    """How long to search: many of the slowest time constants, within reason."""
    by_fastest, by_slowest, cap = LONGEST
    fastest = rate(field)
    moduli = np.abs(np.linalg.eigvals(field.matrix(field.code(start_M))))
    slowest = float(np.min(moduli[moduli > 1e-6 * fastest], initial=fastest))
    return min(max(by_fastest / fastest, by_slowest / slowest), cap / fastest)


def _linear_centre(field: PiecewiseLinearField, run: Flow) -> list[Guess]:
    """The period of a neutral pair of the region in which the run stays."""
    values = np.linalg.eigvals(field.matrix(run.codes[-1]))
    top = float(np.abs(values).max())
    neutral = values[(np.abs(values.real) <= 1e-9 * top) & (values.imag > 1e-9 * top)]
    if not neutral.size:
        return []
    return [Guess(run.states[-1], float(2 * np.pi / neutral.imag.min()), 0.0)]


def _at_rest(field: PiecewiseLinearField, state_M: Array, scale: float) -> bool:
    return bool(np.linalg.norm(field(state_M)) <= 1e-10 * rate(field) * scale)


def _leash(state_M: Array) -> float:
    return 1e4 * max(float(np.linalg.norm(state_M)), 1e-3)
