"""The dyadic flow errs by O(u^2) in its shortest piece u, where crossings lie a time unit apart.

A crossing is noticed at most u late, and because the field is continuous across the boundary the
state then changes by at most u^2 / 2 |dz_i/dt| |W[:, i]| (T2 c), carried along by the Jacobian of
the flow that remains. Inside a region the pieces carry Taylor errors of O(u^4). Two crossings of
one unit within one time unit may hide inside an accepted piece; then the error is one of the piece,
O(D^3) with D <= 1, at every u. The bound is asked with a factor of 4 for terms of higher order, and
the slope, which fluctuates with where the crossings lie on the grid, to be 2 within 0.2 in the
median over the fields. The fields are fixed: the false-alarm rate is 0.
"""

import numpy as np
import pytest

from foretell.solve.piecewise import PiecewiseLinearField, flow, flow_jacobian
from foretell.solve.piecewise.dyadic import DyadicFlow
from tests.solve.random_fields import random_field

pytestmark = pytest.mark.theory

LEVELS = range(2, 11)
TIMES = np.array([0.0, 1.0, 2.0, 3.0])


def case(seed):
    """A field, its run from a start, or None without crossings or with two of a unit in a row."""
    field, z0 = random_field(seed, n_units=5, n_relu=3, gain=1.5)
    run = flow(field, z0, TIMES)
    by_unit = [run.events.times[run.events.units == unit] for unit in (2, 3, 4)]
    apart = all((np.diff(times) > 1.0).all() for times in by_unit)
    usable = apart and len(run.events) > 0 and run.escaped_at is None
    return (field, run) if usable else None


def error(field, run, level):
    engine = DyadicFlow(n_units=5, n_relu=field.n_relu, n_levels=level)
    z0, dt = run.states[:1], np.diff(run.times)[None]
    states, _ = engine.free_run(field.A, field.W, field.h, None, z0, None, dt)
    return np.abs(states[0] - run.states).max()


def bound(field, run):
    """The coefficient of u^2 to first order."""
    total, events = 0.0, run.events
    for t, unit, z in zip(events.times, events.units, events.states, strict=True):
        rest = flow_jacobian(field, z, TIMES[-1] - t)
        carried = max(1.0, np.linalg.norm(rest.jacobian, 2))
        total += 0.5 * abs(field(z)[unit]) * np.linalg.norm(field.W[:, unit]) * carried
    return total


def test_state_error_falls_with_the_square_of_the_shortest_piece():
    u = 2.0 ** -np.array(LEVELS)
    slopes = []
    for seed in range(120):
        found = case(seed)
        if found is None:
            continue
        field, run = found
        errors = np.array([error(field, run, level) for level in LEVELS])
        assert (errors[2:] <= 4 * bound(field, run) * u[2:] ** 2 + 1e-3 * u[2:] ** 3).all(), seed
        slopes.append(np.polyfit(np.log(u), np.log(errors), 1)[0])
    assert len(slopes) >= 60
    assert abs(np.median(slopes) - 2) < 0.2


def test_a_dip_within_one_piece_goes_unnoticed_unless_intervals_are_short():
    # Unit 2 follows (t - 1/2)^2 - 1/25; unit 0 integrates its positive part.
    W = np.zeros((3, 3))
    W[0, 2], W[2, 1] = 1.0, 1.0
    A, h, z0 = np.zeros(3), np.array([0.0, 2.0, 0.0]), np.array([[0.0, -1.0, 0.21]])
    exact = flow(PiecewiseLinearField(A, W, h, 1), z0[0], [0.0, 1.0]).states[-1, 0]
    missed = 4 / 3 * 0.2**3

    def end(level, n):
        engine = DyadicFlow(n_units=3, n_relu=1, n_levels=level)
        return engine.free_run(A, W, h, None, z0, None, np.full((1, n), 1 / n))[0][0, -1, 0]

    for level in (2, 6, 12):
        assert abs(exact - end(level, 1)) == pytest.approx(missed, abs=1e-9)
        assert abs(exact - end(level, 8)) < 4.0**-level


def test_without_crossings_only_the_taylor_error_remains():
    field, z0 = random_field(1, n_units=5, n_relu=0)
    times = np.arange(4.0)
    exact = flow(field, z0, times).states
    u = 2.0 ** -np.array(range(1, 7))
    found = []
    for level in range(1, 7):
        engine = DyadicFlow(n_units=5, n_relu=0, n_levels=level)
        args = (field.A, field.W, field.h, None, z0[None], None, np.ones((1, 3)))
        found.append(np.abs(engine.free_run(*args)[0][0] - exact).max())
    assert abs(np.polyfit(np.log(u), np.log(found), 1)[0] - 4) < 0.2
