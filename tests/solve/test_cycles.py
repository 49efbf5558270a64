"""Limit cycles: published numbers, unstable and saddle cycles, continua, response curves."""

from __future__ import annotations

import json

import numpy as np
import pytest

from foretell.core.errors import NumericalError, ParameterError
from foretell.data.systems import chua_field, pl_fitzhugh_nagumo_field
from foretell.solve.piecewise import cycles
from foretell.solve.piecewise.certified import flow
from foretell.solve.piecewise.cycles import limit_cycles
from foretell.solve.piecewise.field import PiecewiseLinearField
from foretell.solve.piecewise.phase import amplitude_response, phase_response

PERIOD = 20.200101354512
START = [0.5, 0.1, 0.375, -0.125]


def neuron() -> PiecewiseLinearField:
    return PiecewiseLinearField(**pl_fitzhugh_nagumo_field())


def reversed_in_time(field: PiecewiseLinearField) -> PiecewiseLinearField:
    return PiecewiseLinearField(-field.A, -field.W, -field.h, field.n_relu)


@pytest.fixture(scope="module")
def cycle():
    (found,) = limit_cycles(neuron(), START, backward=False)
    return found


def test_the_known_cycle_is_found_to_rounding(cycle):
    assert cycle.period == pytest.approx(PERIOD, abs=1e-9)
    assert cycle.residual <= 1e-11
    assert cycle.trivial_error <= 1e-6
    assert cycle.liouville_error <= 1e-8
    assert cycle.n_crossings == 4
    assert cycle.rank_ok
    assert cycle.stable
    assert cycle.quality == "good"
    assert cycle.warnings == ()
    assert cycle.transversality > 0.01


def test_a_trivial_multiplier_that_is_off_is_said(monkeypatch):
    exact = cycles.log_multipliers
    monkeypatch.setattr(cycles, "log_multipliers", lambda maps: exact(maps) + 2e-4)
    (found,) = limit_cycles(neuron(), START, backward=False)
    assert found.quality == "check"
    assert "trivial multiplier is off by 2.0e-04" in found.warnings


def test_newton_converges_from_a_perturbed_start_and_period(cycle):
    rng = np.random.default_rng(1)
    start = cycle.state + 0.02 * rng.normal(size=4)
    (found,) = limit_cycles(neuron(), [start], periods=[20.8], backward=False)
    assert found.period == pytest.approx(PERIOD, abs=1e-9)
    assert found.residual <= 1e-11


def test_orbit_closes_and_crosses_where_the_events_say(cycle):
    times, states = cycle.orbit(64)
    assert times[1] == pytest.approx(cycle.period / 64)
    assert states[0] == pytest.approx(cycle.state)
    end = flow(neuron(), states[-1], [0.0, cycle.period / 64]).states[-1]
    assert end == pytest.approx(cycle.state, abs=1e-11)
    for unit, state in zip(cycle.events.units, cycle.events.states, strict=True):
        assert abs(state[unit]) < 1e-12
    assert (np.diff(cycle.events.times) > 0).all()


def test_relaxation_oscillations_of_extreme_stiffness_keep_all_exponents():
    field = PiecewiseLinearField(**pl_fitzhugh_nagumo_field(epsilon=0.001))
    (found,) = limit_cycles(field, START, backward=False)
    assert found.period > 2000.0
    assert found.multipliers[1] == 0.0  # underflows: exp(-2770)
    assert found.exponents[1].real == pytest.approx(-0.98943, abs=1e-4)
    assert found.exponents[2:].real == pytest.approx([-1.0, -1.0], abs=1e-9)
    assert found.quality == "good"


def test_orbit_needs_a_sample(cycle):
    with pytest.raises(ParameterError, match="n=0"):
        cycle.orbit(0)


def test_a_start_at_rest_gives_no_cycle():
    field = PiecewiseLinearField([-1.0, -1.0], np.zeros((2, 2)), [-1.0, -1.0], 1)
    assert limit_cycles(field, [[-1.0, -1.0]]) == ()
    assert limit_cycles(PiecewiseLinearField([-1.0], [[0.0]], [0.0], 1), [[0.0]]) == ()


def test_twice_the_period_is_reduced_to_the_minimal_one(cycle):
    (found,) = limit_cycles(neuron(), cycle.state, periods=[2 * PERIOD], backward=False)
    assert found.period == pytest.approx(PERIOD, abs=1e-9)


def test_every_start_leads_to_one_and_the_same_cycle():
    found = limit_cycles(neuron(), n_starts=4)
    assert len(found) == 1


def test_the_reversed_cycle_is_found_as_an_unstable_one(cycle):
    (found,) = limit_cycles(reversed_in_time(neuron()), START)
    assert found.period == pytest.approx(PERIOD, abs=1e-9)
    assert found.kind == "unstable"
    assert not found.stable
    assert found.residual <= 1e-11
    assert found.trivial_error <= 1e-6
    assert len(found.nodes) > 1
    mirrored = -found.exponents[1:].real
    assert np.sort(mirrored) == pytest.approx(np.sort(cycle.exponents[1:].real), abs=1e-9)


def test_an_unstable_cycle_is_found_from_a_nearby_start_in_forward_time(cycle):
    field = reversed_in_time(neuron())
    start = cycle.state + 1e-4
    (found,) = limit_cycles(field, [start], periods=[20.19], backward=False)
    assert found.kind == "unstable"
    assert found.period == pytest.approx(PERIOD, abs=1e-9)


def test_saddle_cycles_of_the_double_scroll():
    field = PiecewiseLinearField(**chua_field())
    found = limit_cycles(field, [[0.7, 0.0, 0.0, 1.7, -0.3]], backward=False)
    assert len(found) >= 3
    for cycle in found:
        assert cycle.kind == "saddle"
        assert cycle.residual <= 1e-11
        assert cycle.trivial_error <= 1e-6
        assert cycle.liouville_error <= 1e-8
        end = flow(field, cycle.state, [0.0, cycle.period]).states[-1]
        growth = np.abs(cycle.multipliers).max()
        assert np.abs(end - cycle.state).max() < 1e-11 * growth
    periods = [cycle.period for cycle in found]
    assert periods == sorted(periods)


def test_a_linear_centre_is_reported_as_a_continuum():
    field = PiecewiseLinearField(np.zeros(2), [[0.0, -2.0], [2.0, 0.0]], np.zeros(2), 0)
    found = limit_cycles(field, [[1.0, 0.0], [3.0, 0.0]])
    assert len(found) == 1
    assert found[0].period == pytest.approx(np.pi)
    assert not found[0].rank_ok
    assert found[0].kind == "neutral"
    assert found[0].quality == "check"
    assert "continuum" in " ".join(found[0].warnings)
    with pytest.raises(NumericalError, match="not isolated"):
        phase_response(field, found[0], 10)


def test_a_continuum_across_a_boundary_is_listed_once():
    # x'' = -k(x) x with k = 1 left and 4 right: every orbit has the period pi + pi / 2
    # units: velocity, x, and a rectified copy of x
    A = np.zeros(3)
    W = [[0.0, -1.0, -3.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    lifted = PiecewiseLinearField(A, W, np.zeros(3), 1)
    found = limit_cycles(lifted, [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    assert len(found) == 1
    assert found[0].period == pytest.approx(1.5 * np.pi, rel=0.02)
    assert not found[0].rank_ok


def test_a_field_that_settles_or_escapes_has_no_cycles():
    settles = PiecewiseLinearField([-1.0, -1.0], [[0.0, 2.0], [-2.0, 0.0]], [1.0, 0.0], 1)
    escapes = PiecewiseLinearField([1.0, 1.0], [[0.0, 2.0], [-2.0, 0.0]], [1.0, 0.0], 0)
    assert limit_cycles(settles, [[3.0, -1.0]]) == ()
    assert limit_cycles(escapes, [[3.0, -1.0]]) == ()


def test_control_is_held_in_the_cycle():
    arrays = pl_fitzhugh_nagumo_field()
    drive = np.array(arrays["h"])
    without = PiecewiseLinearField(
        arrays["A"], arrays["W"], np.zeros(4), arrays["n_relu"], C=drive[:, None]
    )
    (found,) = limit_cycles(without, START, control=[1.0], backward=False)
    assert found.period == pytest.approx(PERIOD, abs=1e-9)


@pytest.mark.parametrize(
    ("starts", "kwargs", "fragment"),
    [
        ([[1.0, 2.0]], {}, r"shape \(1, 2\); needed is \(S, 4\)"),
        ([[np.nan, 0, 0, 0]], {}, "not finite in row 0"),
        ([START], {"periods": [-1.0]}, "one positive period"),
        ([START], {"periods": [1.0, 2.0]}, "one positive period"),
        (None, {"periods": [1.0]}, "without starts"),
    ],
)
def test_impossible_arguments(starts, kwargs, fragment):
    with pytest.raises(ParameterError, match=fragment):
        limit_cycles(neuron(), starts, **kwargs)


def test_repr_and_dict_are_for_people_and_files(cycle):
    assert "LimitCycle(stable, period 20.2001" in repr(cycle)
    assert "4 crossings" in repr(cycle)
    assert json.loads(json.dumps(cycle.to_dict()))["kind"] == "stable"


@pytest.mark.parametrize("k", [0, 13, 37])
def test_phase_response_matches_a_finite_kick(cycle, k):
    response = phase_response(neuron(), cycle, 50)
    state, velocity = response.states[k], cycle.field(response.states[k])
    for unit in range(4):
        ends = []
        for sign in (1.0, -1.0):
            kicked = state.copy()
            kicked[unit] += sign * 1e-5
            ends.append(flow(cycle.field, kicked, [0.0, 6 * cycle.period]).states[-1])
        advance = (ends[0] - ends[1]) @ velocity / (velocity @ velocity) / 2e-5
        measured = advance * 2 * np.pi / cycle.period
        assert response.curve[k, unit] == pytest.approx(measured, abs=2e-6)
    assert response.defect < 1e-10


def test_phase_response_is_continuous_across_boundaries(cycle):
    coarse, fine = (phase_response(neuron(), cycle, n).curve for n in (400, 800))
    jumps = [np.abs(np.diff(curve, axis=0)).max() for curve in (coarse, fine)]
    assert jumps[1] < 0.6 * jumps[0]
    assert np.allclose(fine[::2], coarse, atol=1e-10)


def test_phase_response_of_an_unstable_cycle_is_the_mirror_image(cycle):
    (repeller,) = limit_cycles(reversed_in_time(neuron()), START)
    stable, unstable = (
        phase_response(neuron(), cycle, 20),
        phase_response(reversed_in_time(neuron()), repeller, 400),
    )
    assert unstable.defect < 1e-9
    nearest = np.argmin(np.abs(unstable.states[:, None] - stable.states).max(axis=2), axis=0)
    gaps = unstable.states[nearest] - stable.states
    close = np.abs(gaps).max(axis=1) < 2e-3
    assert close.any()
    mirrored = -unstable.curve[nearest][close]
    assert np.allclose(mirrored, stable.curve[close], atol=0.05 * np.abs(stable.curve).max())


def test_amplitude_response_predicts_the_slow_decay():
    field = PiecewiseLinearField(**chua_field())
    saddle = limit_cycles(field, [[0.7, 0.0, 0.0, 1.7, -0.3]], backward=False)[0]
    response = amplitude_response(field, saddle, 8)
    assert response.curve[0] @ response.direction == pytest.approx(1.0)
    # a small kick grows by the multiplier in one period
    step = 1e-6 * np.array([1.0, 0.5, -1.0, 1.0, 1.0])
    before = response.curve[0] @ step
    end = flow(field, saddle.state + step, [0.0, saddle.period]).states[-1]
    after = response.curve[0] @ (end - saddle.state)
    assert after.real / before.real == pytest.approx(saddle.multipliers[1].real, rel=1e-4)


def test_amplitude_response_refuses_multiple_exponents(cycle):
    with pytest.raises(NumericalError, match="not simple"):
        amplitude_response(neuron(), cycle, index=3)
    with pytest.raises(ParameterError, match="index=0"):
        amplitude_response(neuron(), cycle, index=0)


def test_responses_refuse_a_cycle_of_another_field(cycle):
    with pytest.raises(ParameterError, match="another field"):
        phase_response(PiecewiseLinearField(**chua_field()), cycle)
