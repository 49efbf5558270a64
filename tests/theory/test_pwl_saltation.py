"""T2: the field is continuous, so crossings leave no trace in derivatives.

(a) The saltation matrix I + (F+ - F-) n^T / (n^T F-) is the identity.
(b) The derivative of a later state with respect to a crossing time is zero.
(c) Switching too late by eps changes later states by eps^2 / 2 (dz_i/dt) W[:, i] + O(eps^3).
Exact claims: the false-alarm rate is 0 within the stated rounding slack. The slope of (c) is fitted
on eps = 1e-1 ... 1e-3, where cubic terms move it by less than 0.15 for the fields used.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.solve.piecewise import AffineMode, Guard, PWLHybridSystem, flow, flow_jacobian
from tests.solve.random_fields import exact_map, random_field

pytestmark = pytest.mark.theory


def crossings(n_seeds):
    """(field, unit, state, code before, code after) at the first crossing of many runs."""
    for seed in range(n_seeds):
        field, z0 = random_field(seed, n_units=5, n_relu=3, gain=1.5)
        events = flow(field, z0, [0.0, 4.0]).events
        if len(events):
            z = events.states[0]
            yield field, int(events.units[0]), z, events.codes_before[0], events.codes_after[0]


def test_saltation_is_the_identity():
    count = 0
    for field, unit, z, before, after in crossings(600):
        left = field.matrix(before) @ z + field.h
        entered = field.matrix(after) @ z + field.h
        normal = np.eye(5)[unit]
        saltation = np.eye(5) + np.outer(entered - left, normal) / left[unit]
        assert_allclose(saltation, np.eye(5), rtol=0, atol=1e-15 / abs(left[unit]))
        count += 1
    assert count > 300


def test_the_general_jump_calculus_agrees():
    # Two regions written as a system with guards: the saltation of that system changes nothing.
    for field, unit, z, before, after in list(crossings(100))[:25]:
        modes = [AffineMode(field.matrix(code), field.h) for code in (before, after)]
        rising = 1 if after[unit - 2] else -1
        normal = np.eye(5)[unit]
        guard = Guard(mode=0, target=1, normal=normal, level=0.0, direction=rising)
        system = PWLHybridSystem(modes, [guard])
        start = (exact_map(field, before, -0.05) @ np.append(z, 1.0))[:-1]
        if -rising * start[unit] <= 0:
            continue
        run = system.jacobian(start, 0.06, mode=0)
        without = system.jacobian(start, 0.06, mode=0, saltation=False)
        assert len(run.jumps) == 1
        assert_allclose(run.jacobian, without.jacobian, rtol=0, atol=1e-12)


def late_state(field, z, before, after, eps, duration=0.5):
    """State `duration` after the crossing when the region is changed eps too late."""
    late = exact_map(field, before, eps) @ np.append(z, 1.0)
    return (exact_map(field, after, duration - eps) @ late)[:-1]


def test_the_derivative_with_respect_to_the_crossing_time_vanishes():
    count = 0
    for field, _, z, before, after in crossings(200):
        step = 1e-5
        slope = late_state(field, z, before, after, step) - late_state(
            field, z, before, after, -step
        )
        assert np.abs(slope / (2 * step)).max() < 1e-8
        count += 1
    assert count > 100


def test_late_switching_costs_the_square_of_the_delay():
    delays, count = np.array([1e-1, 1e-2, 1e-3]), 0
    for field, unit, z, before, after in crossings(200):
        velocity = (field.matrix(before) @ z + field.h)[unit]
        if abs(velocity) < 0.3:
            continue
        exact = late_state(field, z, before, after, 0.0)
        errors = [late_state(field, z, before, after, eps) - exact for eps in delays]
        sizes = np.linalg.norm(errors, axis=1)
        slope = np.polyfit(np.log(delays), np.log(sizes), 1)[0]
        assert abs(slope - 2.0) < 0.15
        sign = 1.0 if before[unit - 2] else -1.0
        first = sign * 0.5 * delays[-1] ** 2 * velocity * field.W[:, unit]
        carried = exact_map(field, after, 0.5)[:-1, :-1] @ first
        assert_allclose(errors[-1], carried, rtol=0, atol=0.02 * np.linalg.norm(carried))
        count += 1
    assert count > 50


def test_liouville():
    # T3: the determinant of the product of exponentials is exp(sum of traces times durations).
    for seed in range(200):
        field, z0 = random_field(seed, n_units=4, n_relu=3)
        result = flow_jacobian(field, z0, 2.0)
        assert abs(result.log_det - np.linalg.slogdet(result.jacobian)[1]) <= 1e-8
