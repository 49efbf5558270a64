"""Systems with resets: exact event times, saltation, accumulation of jumps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise import (
    AffineMode,
    Guard,
    PWLHybridSystem,
    bouncing_ball,
    chua,
    lif,
    mckean,
    relay,
)
from tests.solve.random_fields import central_difference


def slope(system, z0, duration, step):
    return central_difference(
        lambda z: system.simulate(z, [0.0, duration]).states[-1], np.array(z0), step
    )


# Exact event times


def test_bounces_at_the_exact_times():
    e, g, height = 0.8, 9.81, 2.0
    run = bouncing_ball(e, g).simulate([height, 0.0], np.linspace(0.0, 4.5, 46))
    first = np.sqrt(2 * height / g)
    n = np.arange(len(run.jumps))
    assert_allclose(run.jumps.times, first + 2 * first * e * (1 - e**n) / (1 - e), rtol=1e-14)
    assert_allclose(run.jumps.states_after[:, 1], g * first * e ** (n + 1), rtol=1e-12)
    assert (run.states[:, 0] >= -1e-15).all()


def test_neuron_fires_with_its_exact_period():
    run = lif().simulate([0.0], [0.0, 1.0])
    period = 5e-3 * np.log(5.0)
    assert len(run.jumps) == int(1.0 / period)
    assert_allclose(run.jumps.times, period * np.arange(1, len(run.jumps) + 1), rtol=1e-13)
    assert_array_equal(run.jumps.states_after, np.zeros((len(run.jumps), 1)))


def test_a_neuron_below_rheobase_is_silent():
    run = lif(current=0.2).simulate([0.0], [0.0, 0.01, 10.0])  # R I equals the threshold
    assert len(run.jumps) == 0
    assert_allclose(run.states[-1], [1.0])


def test_relay_cycle():
    run = relay(rate=2.0, drive=3.0, hysteresis=0.7).simulate([0.0], [0.0, 20.0])
    half = np.log((3.0 + 1.4) / (3.0 - 1.4)) / 2.0
    assert_allclose(np.diff(run.jumps.times), half, rtol=1e-11)
    assert_allclose(np.abs(run.jumps.states_before), 0.7, rtol=1e-14)


def test_mckean_pulse_then_rest():
    system = mckean()
    assert len(system.simulate([0.2, 0.0], [0.0, 50.0]).jumps) == 0  # below the threshold
    run = system.simulate([0.3, 0.0], [0.0, 200.0])
    assert_array_equal(run.jumps.modes_after, [0])
    assert np.abs(run.states[-1]).max() < 1e-8


@pytest.mark.peer
def test_chua_against_an_adaptive_integrator():
    def field(t, s):
        x, y, z = s
        f = -5 / 7 * x + 0.5 * (-8 / 7 + 5 / 7) * (abs(x + 1) - abs(x - 1))
        return [9.0 * (y - x - f), x - y + z, -100 / 7 * y]

    times, z0 = np.linspace(0.0, 8.0, 9), [0.1, 0.0, 0.0]
    exact = solve_ivp(field, (0, 8), z0, "DOP853", times, rtol=1e-12, atol=1e-13).y.T
    run = chua().simulate(z0, times)
    assert len(run.jumps) > 3
    assert_allclose(run.states, exact, rtol=0, atol=1e-8)


def test_output_times_have_no_influence():
    system, z0 = chua(), [0.1, 0.0, 0.0]
    fine = system.simulate(z0, np.linspace(0.0, 12.0, 700))
    coarse = system.simulate(z0, [0.0, 12.0])
    assert_allclose(fine.states[-1], coarse.states[-1], rtol=0, atol=1e-9)
    assert_allclose(fine.jumps.times, coarse.jumps.times, rtol=0, atol=1e-10)


def test_outputs_at_a_jump_are_those_after_it():
    system = bouncing_ball(0.5, gravity=2.0)
    run = system.simulate([1.0, 0.0], [0.0, 1.0, 2.0])
    assert_allclose(run.states, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]], atol=1e-15)
    assert_allclose(run.jumps.times, [1.0, 2.0], rtol=1e-15)


# Derivatives


def test_bouncing_ball_saltation():
    system, z0 = bouncing_ball(0.8, gravity=1.0), [1.0, 0.3]
    exact = system.jacobian(z0, 5.0)
    # Smooth between coincidences of bounces: wide central differences, extrapolated.
    wide, narrow = slope(system, z0, 5.0, 2e-4), slope(system, z0, 5.0, 1e-4)
    assert len(exact.jumps) >= 2
    assert_allclose(exact.jacobian, (4 * narrow - wide) / 3, rtol=0, atol=1e-9)
    without = system.jacobian(z0, 5.0, saltation=False).jacobian
    assert np.abs(without - exact.jacobian).max() > 1.0


@pytest.mark.parametrize(
    ("system", "z0", "duration"),
    [
        (lif(), [0.2], 0.05),
        (relay(), [0.1], 7.7),
        (chua(), [0.1, 0.0, 0.0], 8.0),
        (mckean(), [0.3, 0.0], 21.0),
    ],
)
def test_jacobians_against_central_differences(system, z0, duration):
    exact = system.jacobian(z0, duration)
    assert len(exact.jumps) > 0
    difference = slope(system, z0, duration, 1e-6)
    assert_allclose(exact.jacobian, difference, rtol=0, atol=1e-6 * np.abs(difference).max())


def test_a_continuous_field_has_the_identity_as_saltation():
    system = chua()
    for guard, level in enumerate([1.0, -1.0, 1.0, -1.0]):
        matrix = system.saltation_matrix(guard, [level, 0.4, -0.3])
        assert_allclose(matrix, np.eye(3), rtol=0, atol=1e-14)


def test_grazing_has_no_derivative():
    with pytest.raises(NumericalError, match="grazed"):
        bouncing_ball().saltation_matrix(0, [0.0, 0.0])


# Touches, starts on guards, several guards at once


def switching(first, second):
    """Two drifts on a line; both guards at 0."""
    return PWLHybridSystem(
        [AffineMode([[0.0]], [first]), AffineMode([[0.0]], [second])],
        [
            Guard(mode=0, target=1, normal=[1.0], level=0.0, direction=1),
            Guard(mode=1, target=0, normal=[1.0], level=0.0, direction=-1),
        ],
    )


def test_a_touch_fires_nothing():
    accelerate = AffineMode([[0.0, 1.0], [0.0, 0.0]], [0.0, 1.0])
    guard = Guard(mode=0, target=0, normal=[1.0, 0.0], level=0.0, direction=-1)
    run = PWLHybridSystem([accelerate], [guard]).simulate([0.5, -1.0], [0.0, 3.0])
    assert len(run.jumps) == 0
    assert_allclose(run.states[-1], [2.0, 2.0], rtol=1e-14)


def test_a_guard_fires_only_in_its_direction():
    accelerate = AffineMode([[0.0, 1.0], [0.0, 0.0]], [0.0, 1.0])
    guard = Guard(mode=0, target=0, normal=[1.0, 0.0], level=0.0, direction=1)
    run = PWLHybridSystem([accelerate], [guard]).simulate([0.5, -2.0], [0.0, 5.0])
    assert_allclose(run.jumps.times, [2.0 + np.sqrt(3.0)], rtol=1e-14)


def test_a_start_on_a_guard():
    through = switching(1.0, 1.0).simulate([0.0], [0.0, 1.0])
    assert_array_equal(through.jumps.times, [0.0])
    away = switching(-1.0, 1.0).simulate([0.0], [0.0, 1.0], mode=0)
    assert len(away.jumps) == 0
    assert_array_equal(away.states[-1], [-1.0])


def test_the_first_of_two_guards_goes_first():
    rise = AffineMode([[0.0]], [1.0])
    guards = [Guard(mode=0, target=k, normal=[1.0], level=1.0, direction=1) for k in (1, 2)]
    run = PWLHybridSystem([rise] * 3, guards).simulate([0.0], [0.0, 2.0])
    assert_array_equal(run.modes, [0, 1])
    assert len(run.jumps) == 1


def test_the_start_decides_the_mode():
    assert chua().simulate([3.0, 0.0, 0.0], [0.0, 0.01]).modes[0] == 1
    assert relay().simulate([2.0], [0.0, 0.01]).modes[0] == 1
    assert relay().simulate([-0.2], [0.0, 0.01], mode=1).modes[0] == 1


# Accumulation, escape, bad input


def test_zeno_is_an_error_with_the_time():
    ball = bouncing_ball(0.5, gravity=2.0)  # bounces accumulate at t = 1 + 2 = 3
    assert len(ball.simulate([1.0, 0.0], [0.0, 2.999]).jumps) == 11
    with pytest.raises(NumericalError, match=r"accumulate .* t=(2\.99999999|3)\d*, guard 0"):
        ball.simulate([1.0, 0.0], [0.0, 4.0])


def test_a_ball_at_rest_and_a_sliding_mode_are_errors():
    with pytest.raises(NumericalError, match="t=0, guard 0"):
        bouncing_ball().simulate([0.0, 0.0], [0.0, 1.0])
    with pytest.raises(NumericalError, match="sliding along the guard"):
        switching(1.0, -1.0).simulate([-1.0], [0.0, 2.0])


def test_too_many_jumps():
    with pytest.raises(NumericalError, match="max_events=10 jumps"):
        lif().simulate([0.0], [0.0, 1.0], max_events=10)


def test_escape():
    run = PWLHybridSystem([AffineMode([[1.0]], [0.0])], []).simulate(
        [1.0], [0.0, 1.0, 20.0], max_norm=100.0
    )
    assert run.escaped_at is not None
    assert np.isnan(run.states[-1]).all()
    assert_array_equal(run.modes, [0, 0, -1])


def test_bad_arguments():
    fall = AffineMode([[0.0, 1.0], [0.0, 0.0]], [0.0, -1.0])
    good = {"mode": 0, "target": 0, "normal": [1.0, 0.0], "level": 0.0, "direction": -1}
    for change, message in [
        ({"normal": [1.0]}, r"guards\[0\] has normal"),
        ({"target": 3}, r"guards\[0\] leads from mode 0 to 3"),
        ({"normal": [0.0, 0.0]}, "zero normal"),
        ({"level": np.nan}, "not finite"),
        ({"direction": 0}, "needed is 1"),
    ]:
        with pytest.raises(ParameterError, match=message):
            PWLHybridSystem([fall], [Guard(**{**good, **change})])
    with pytest.raises(ParameterError, match=r"modes\[1\] has a matrix of shape"):
        PWLHybridSystem([fall, AffineMode([[1.0]], [0.0])], [])
    with pytest.raises(ParameterError, match="modes is empty"):
        PWLHybridSystem([], [])
    ball = bouncing_ball()
    with pytest.raises(ParameterError, match="2 finite numbers"):
        ball.simulate([1.0], [0.0, 1.0])
    with pytest.raises(ParameterError, match="increase strictly"):
        ball.simulate([1.0, 0.0], [1.0, 0.0])
    with pytest.raises(ParameterError, match="mode=2"):
        ball.simulate([1.0, 0.0], [0.0, 1.0], mode=2)
    with pytest.raises(ParameterError, match="finite and positive"):
        ball.jacobian([1.0, 0.0], 0.0)
    for make in (
        lambda: bouncing_ball(restitution=1.2),
        lambda: lif(reset=1.0),
        lambda: relay(drive=0.1),
        lambda: mckean(rate=0.0),
    ):
        with pytest.raises(ParameterError, match=r"needed|must be"):
            make()


def test_repr():
    ball = bouncing_ball(0.5, gravity=2.0)
    assert repr(ball) == "PWLHybridSystem(2 variables, 1 modes, 1 guards)"
    assert repr(ball.simulate([1.0, 0.0], [0.0, 2.2])) == "HybridRun(2 times, 2 jumps)"
