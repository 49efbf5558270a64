"""The certified flow against closed forms, scipy's integrators and an independent slow flow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise import PiecewiseLinearField, flow, segments
from tests.solve.random_fields import fitzhugh_nagumo, random_field, slow_flow


def dop853(field, z0, times, rtol=1e-12):
    solution = solve_ivp(
        lambda t, z: field(z), (times[0], times[-1]), z0, "DOP853", times, rtol=rtol, atol=1e-13
    )
    return solution.y.T


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_an_adaptive_integrator(seed):
    field, z0 = random_field(seed)
    times = np.linspace(0.0, 5.0, 11)
    run = flow(field, z0, times)
    assert_allclose(run.states, dop853(field, z0, times), rtol=1e-8, atol=1e-8)


def test_agrees_with_scipy_expm_and_brent():
    n_crossings = 0
    for seed in range(25):
        field, z0 = random_field(100 + seed, n_units=5, n_relu=4, gain=1.5)
        run = flow(field, z0, [0.0, 3.0])
        state, crossings = slow_flow(field, z0, 3.0)
        assert_allclose(run.states[-1], state, rtol=1e-11, atol=1e-11)
        assert_allclose(run.events.times, crossings, rtol=0, atol=1e-10)
        n_crossings += len(crossings)
    assert n_crossings > 40


@pytest.mark.peer
def test_long_fitzhugh_nagumo_run():
    field, z0 = fitzhugh_nagumo()
    run = flow(field, z0, [0.0, 200.0])
    assert_allclose(run.states[-1], dop853(field, z0, [0.0, 200.0])[-1], rtol=0, atol=1e-8)
    assert len(run.events) == 40


def test_fitzhugh_nagumo_period():
    field, z0 = fitzhugh_nagumo()
    run = flow(field, z0, [0.0, 1000.0])
    upward = (run.events.units == 2) & run.events.codes_after[:, 0]
    assert_allclose(np.diff(run.events.times[upward])[-5:], 20.200101354512, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_semigroup(seed):
    field, z0 = random_field(seed, n_units=7, n_relu=4)
    for a, b in [(0.3, 1.7), (1.1, 2.4), (1e-9, 2.0)]:
        middle = flow(field, z0, [0.0, a]).states[-1]
        composed = flow(field, middle, [0.0, b]).states[-1]
        assert_allclose(composed, flow(field, z0, [0.0, a + b]).states[-1], rtol=0, atol=1e-10)


def test_semigroup_from_every_crossing():
    field, z0 = fitzhugh_nagumo()
    run = flow(field, z0, [0.0, 60.0])
    for t, state in zip(run.events.times, run.events.states, strict=True):
        onward = flow(field, state, [t, 60.0])
        assert_allclose(onward.states[-1], run.states[-1], rtol=0, atol=1e-10)
        assert_allclose(
            onward.events.times, run.events.times[run.events.times > t], rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("seed", range(6))
def test_output_times_have_no_influence(seed):
    field, z0 = random_field(seed, n_units=7, n_relu=4)
    fine = np.unique(np.append(np.random.default_rng(seed).uniform(0, 6, 500), [0.0, 6.0]))
    run, coarse = flow(field, z0, fine), flow(field, z0, [0.0, 6.0])
    assert_allclose(run.states[-1], coarse.states[-1], rtol=0, atol=1e-9)
    assert_allclose(run.events.times, coarse.events.times, rtol=0, atol=1e-9)
    assert_array_equal(run.events.units, coarse.events.units)


def test_a_later_clock_gives_the_same_run():
    field, z0 = fitzhugh_nagumo()
    times = np.linspace(0.0, 40.0, 41)
    later = flow(field, z0, times + 1024.0)
    assert_allclose(later.states, flow(field, z0, times).states, rtol=0, atol=1e-10)


def test_crossing_time_to_rounding():
    # z = exp(-t) - 1/2 crosses at log 2; then dz/dt = -z - 1/2 + 3 * 0 in both regions.
    field = PiecewiseLinearField(A=[-1.0], W=[[0.0]], h=[-0.5], n_relu=1)
    assert abs(flow(field, [0.5], [0.0, 2.0]).events.times[0] - np.log(2.0)) <= 1e-15


# Singular and defective regions


def test_zero_matrix():
    field = PiecewiseLinearField(A=[0.0, 0.0], W=np.zeros((2, 2)), h=[1.0, -2.0], n_relu=2)
    run = flow(field, [-1.0, 1.0], [0.0, 5.0])
    assert_allclose(run.states[-1], [4.0, -9.0], rtol=1e-15)
    assert_allclose(run.events.times, [0.5, 1.0], rtol=1e-15)
    assert_array_equal(run.events.units, [1, 0])


def test_no_motion_at_all():
    field = PiecewiseLinearField(A=[0.0], W=[[0.0]], h=[0.0], n_relu=1)
    run = flow(field, [-3.0], [0.0, 1e9])
    assert_array_equal(run.states, [[-3.0], [-3.0]])


def test_nilpotent_region_is_a_polynomial():
    W = np.diag([1.0, 1.0, 1.0], k=-1)
    field = PiecewiseLinearField(A=np.zeros(4), W=W, h=[1.0, 0.0, 0.0, 0.0], n_relu=0)
    t = np.linspace(0.0, 30.0, 7)
    exact = np.stack([t, t**2 / 2, t**3 / 6, t**4 / 24], axis=1)
    assert_allclose(flow(field, np.zeros(4), t).states, exact, rtol=1e-13)


def test_jordan_block():
    # Equal rates and one-way coupling: z1 = exp(-t), z2 = (z20 + t) exp(-t).
    field = PiecewiseLinearField(A=[-1.0, -1.0], W=[[0.0, 0.0], [1.0, 0.0]], h=[0.0, 0.0], n_relu=1)
    t = np.linspace(0.0, 8.0, 9)
    run = flow(field, [1.0, -2.0], t)
    assert_allclose(run.states[:, 1], (t - 2.0) * np.exp(-t), rtol=1e-13, atol=1e-15)
    assert_allclose(run.events.times, [2.0], rtol=1e-14)


def test_a_singular_region_entered_and_left():
    # z2 < 0: nothing but drift; z2 > 0: unit 1 grows.
    field = PiecewiseLinearField(A=[0.0, 0.0], W=[[0.0, 2.0], [0.0, 0.0]], h=[0.0, 1.0], n_relu=1)
    t = np.array([0.0, 0.5, 1.0, 3.0])
    exact = np.stack([np.maximum(t - 1.0, 0.0) ** 2, t - 1.0], axis=1)
    assert_allclose(flow(field, [0.0, -1.0], t).states, exact, rtol=1e-14, atol=1e-15)


# Grazing, simultaneous and repeated crossings


def parabola(lowest):
    """Unit 1 follows (t - 1)^2 / 2 + lowest."""
    field = PiecewiseLinearField(A=[0.0, 0.0], W=[[0.0, 0.0], [1.0, 0.0]], h=[1.0, 0.0], n_relu=1)
    return field, np.array([-1.0, 0.5 + lowest])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_exact_touch_is_no_crossing(sign):
    field, z0 = parabola(0.0)
    field = PiecewiseLinearField(A=field.A, W=field.W, h=sign * field.h, n_relu=1)
    run = flow(field, sign * z0, np.linspace(0.0, 2.0, 9))
    assert len(run.events) == 0
    assert_allclose(sign * run.states[:, 1], (run.times - 1.0) ** 2 / 2, atol=1e-15)


def test_a_touch_at_irrational_time_is_no_crossing():
    # z2 = 1 + cos(t) touches zero at pi, 3 pi, ...
    field = PiecewiseLinearField(
        A=[0.0, 0.0, 0.0],
        W=[[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        h=[0.0, 0.0, 0.0],
        n_relu=1,
    )
    run = flow(field, [1.0, 0.0, 2.0], np.linspace(0.0, 60.0, 61))
    assert len(run.events) == 0
    assert_allclose(run.states[:, 2], 1 + np.cos(run.times), atol=1e-13)


@pytest.mark.parametrize("depth", [1e-2, 1e-5, 1e-8, 1e-11])
def test_a_shallow_dip_is_two_crossings(depth):
    field, z0 = parabola(-depth)
    run = flow(field, z0, [0.0, 2.0])
    half = np.sqrt(2 * depth)
    assert_allclose(run.events.times, [1 - half, 1 + half], rtol=0, atol=2e-15 / half)
    assert_array_equal(run.events.codes_after[:, 0], [False, True])


def test_a_dip_below_tolerance_is_a_touch():
    assert len(flow(*parabola(-1e-14), [0.0, 2.0]).events) == 0
    assert len(flow(*parabola(-1e-8), [0.0, 2.0], tol=1e-6).events) == 0


def test_a_flat_crossing_is_one_crossing():
    # z3 = (t - 1)^3 / 6 has zero velocity and curvature where it crosses.
    W = np.diag([1.0, 1.0], k=-1)
    field = PiecewiseLinearField(A=np.zeros(3), W=W, h=[1.0, 0.0, 0.0], n_relu=1)
    run = flow(field, [-1.0, 0.5, -1 / 6], [0.0, 3.0])
    assert_array_equal(run.events.units, [2])
    assert abs(run.events.times[0] - 1.0) < 1e-4
    assert_allclose(run.states[-1], [2.0, 2.0, 8 / 6], rtol=1e-14)


def test_simultaneous_crossings_share_a_time():
    field = PiecewiseLinearField(
        A=[0.0, 0.0, 0.0], W=[[0, 1, 1], [0, 0, 0], [0, 0, 0]], h=[0, 1, -3], n_relu=2
    )
    run = flow(field, [0.0, -1 / 3, 1.0], [0.0, 1.0])
    assert_array_equal(run.events.units, [1, 2])
    assert run.events.times[0] == run.events.times[1]
    assert_array_equal(run.events.codes_before, [[False, True]] * 2)
    assert_array_equal(run.events.codes_after, [[True, False]] * 2)
    assert_array_equal(run.events.states[:, 1:], np.zeros((2, 2)))
    assert len(segments(run)) == 2


def test_identical_units_cross_together():
    base, z0 = fitzhugh_nagumo()
    copies = [0, 1, 2, 2, 3, 3]
    W = base.W[copies][:, copies] * [1, 1, 0.5, 0.5, 0.5, 0.5]
    field = PiecewiseLinearField(base.A[copies], W, base.h[copies], n_relu=4)
    run = flow(field, z0[copies], [0.0, 200.0])
    assert_allclose(run.states[-1], flow(base, z0, [0.0, 200.0]).states[-1][copies], atol=1e-9)
    assert len(run.events) == 80
    assert len(segments(run)) == 41


def test_thousands_of_crossings():
    field = PiecewiseLinearField(A=[0.0, 0.0], W=[[0.0, 1.0], [-1.0, 0.0]], h=[0.0, 0.0], n_relu=0)
    watched = PiecewiseLinearField(
        A=np.zeros(3), W=[[0, 1, 0], [-1, 0, 0], [0, 1, 0]], h=np.zeros(3), n_relu=1
    )
    run = flow(watched, [1.0, 0.0, 1.0], [0.0, 10_000.0])
    assert_allclose(run.events.times, (np.arange(3183) + 0.5) * np.pi, rtol=1e-11)
    assert_allclose(run.states[-1, :2], flow(field, [1, 0], [0, 10_000.0]).states[-1], atol=1e-10)


# Starts on a boundary


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("velocity", [2.0, -2.0, 1e-8, -1e-8])
def test_a_start_at_zero_takes_the_sign_of_the_velocity(zero, velocity):
    field = PiecewiseLinearField(A=[0.0], W=[[1.0]], h=[velocity], n_relu=1)
    run = flow(field, [zero], [0.0, 1.0])
    assert len(run.events) == 0
    assert run.codes[0, 0] == run.codes[1, 0] == (velocity > 0)
    exact = velocity * np.expm1(1.0) if velocity > 0 else velocity
    assert_allclose(run.states[-1], [exact], rtol=1e-14)


@pytest.mark.parametrize("drift", [1.0, -1.0])
def test_a_start_at_zero_without_velocity_takes_the_sign_of_the_curvature(drift):
    field = PiecewiseLinearField(A=[0.0, 0.0], W=[[0, 0], [1, 0.0]], h=[drift, 0], n_relu=1)
    run = flow(field, [0.0, 0.0], [0.0, 2.0])
    assert len(run.events) == 0
    assert_array_equal(run.codes[:, 0], [drift > 0] * 2)
    assert_allclose(run.states[-1], [2 * drift, 2 * drift], rtol=1e-15)


def test_curvature_that_depends_on_another_start_at_zero():
    # Unit 0 leaves zero upwards, and only then does unit 1 have curvature (through relu of unit 0).
    for direction in (1.0, -1.0):
        field = PiecewiseLinearField(
            A=[0.0, 0.0], W=[[0.0, 0.0], [direction, 0.0]], h=[1.0, 0.0], n_relu=2
        )
        run = flow(field, [0.0, 0.0], [0.0, 2.0])
        assert_array_equal(run.codes[0], [True, direction > 0])
        assert len(run.events) == 0
        assert_allclose(run.states[-1], [2.0, 2.0 * direction], rtol=1e-15)


def test_a_unit_that_is_identically_zero_stays_off():
    field = PiecewiseLinearField(
        A=[0.0, -1.0, 0.0], W=[[0, 3, 5], [0, 0, 0], [0, 0, 0]], h=[0, 1, 0], n_relu=2
    )
    run = flow(field, [0.0, 2.0, -0.0], np.linspace(0, 50, 51))
    assert not run.codes[:, 1].any()
    assert len(run.events) == 0
    assert_array_equal(run.states[:, 2], np.zeros(51))


def test_an_equilibrium_on_a_boundary_stays():
    field = PiecewiseLinearField(A=[-1.0, -2.0], W=[[0, 1], [1, 0.0]], h=[0, 0], n_relu=2)
    run = flow(field, [0.0, 0.0], [0.0, 100.0])
    assert_array_equal(run.states, np.zeros((2, 2)))
    assert len(run.events) == 0


def test_an_approach_to_a_boundary_never_crosses_it():
    field = PiecewiseLinearField(A=[-1.0], W=[[0.5]], h=[0.0], n_relu=1)
    run = flow(field, [1.0], [0.0, 500.0, 1400.0])
    assert len(run.events) == 0
    assert_allclose(run.states[:, 0], np.exp(-0.5 * run.times), rtol=1e-11)


def test_a_tiny_separate_unit_keeps_its_relative_accuracy():
    field = PiecewiseLinearField(A=[0.0, 1.0], W=[[0, 0], [0, -2.0]], h=[1e6, 0], n_relu=1)
    run = flow(field, [0.0, 1e-12], [0.0, 0.5])
    assert_allclose(run.states[-1, 1], 1e-12 * np.exp(-0.5), rtol=1e-13)


def test_outputs_and_ends_at_a_crossing():
    field = PiecewiseLinearField(A=[0.0], W=[[0.0]], h=[1.0], n_relu=1)
    run = flow(field, [-1.0], [0.0, 0.5, 1.0])
    assert_array_equal(run.states[:, 0], [-1.0, -0.5, 0.0])
    assert_array_equal(run.events.times, [1.0])
    assert run.codes[-1, 0]
    assert len(flow(field, [-1.0], [0.0, 1.0, 1.5]).events) == 1


def test_a_single_time():
    field, z0 = fitzhugh_nagumo()
    run = flow(field, z0, [3.0])
    assert_array_equal(run.states, z0[None])
    assert len(run.events) == 0


def test_codes_agree_with_signs():
    for seed in range(40):
        field, z0 = random_field(seed, n_units=6, n_relu=5, gain=2.0)
        run = flow(field, z0, np.linspace(0, 4, 400))
        clear = np.abs(run.states[:, 1:]) > 1e-11
        assert_array_equal(run.codes[clear], (run.states[:, 1:] > 0)[clear])


def test_degenerate_fields_of_small_integers():
    # Zero rates, equal rates, starts on boundaries, joint crossings: all of it is frequent here.
    for seed in range(300):
        rng = np.random.default_rng(seed)
        M = int(rng.integers(2, 6))
        field = PiecewiseLinearField(
            A=rng.integers(-1, 1, M),
            W=rng.integers(-1, 2, (M, M)) * (rng.random((M, M)) < 0.5),
            h=rng.integers(-1, 2, M),
            n_relu=M,
        )
        z0 = rng.integers(-1, 2, M).astype(float)
        times = np.linspace(0.0, 3.0, 25)
        run = flow(field, z0, times)
        clear = np.abs(run.states) > 1e-9
        assert_array_equal(run.codes[clear], (run.states > 0)[clear], err_msg=str(seed))
        assert len(run.events) <= 20, seed
        if seed % 5 == 0:
            assert_allclose(run.states, dop853(field, z0, times), rtol=1e-8, atol=1e-8)


# Escape, inputs, stiffness


def test_escape():
    field = PiecewiseLinearField(A=[1.0], W=[[0.0]], h=[0.0], n_relu=1)
    run = flow(field, [1.0], [0.0, 1.0, 5.0, 2000.0], max_norm=100.0)
    assert abs(run.escaped_at - np.log(100.0)) < 1e-12
    assert_array_equal(np.isnan(run.states[:, 0]), [False, False, True, True])
    assert "escaped" in repr(run)


def test_escape_of_a_stiff_run_that_would_overflow():
    field = PiecewiseLinearField(A=[1e4, -1.0], W=[[0, 1], [0, 0.0]], h=[0.0, 0.0], n_relu=1)
    run = flow(field, [1e-3, 1.0], [0.0, 1e6])
    assert run.escaped_at < 1e-2
    assert np.isnan(run.states[-1]).all()


def test_a_start_beyond_max_norm_escapes_at_once():
    field = PiecewiseLinearField(A=[-1.0], W=[[0.0]], h=[0.0], n_relu=1)
    run = flow(field, [1e7], [2.0, 3.0])
    assert run.escaped_at == 2.0
    assert_array_equal(run.states[0], [1e7])


def test_inputs_are_held_between_samples():
    field, z0 = random_field(3, n_units=4, n_relu=3, n_inputs=2)
    times = np.array([0.0, 0.4, 1.5, 1.6, 3.0])
    controls = np.random.default_rng(0).normal(size=(5, 2)) * 2
    run, z = flow(field, z0, times, controls=controls), z0
    for k in range(4):
        same = PiecewiseLinearField(field.A, field.W, field.drive(controls[k]), field.n_relu)
        z = flow(same, z, times[k : k + 2]).states[-1]
        assert_allclose(run.states[k + 1], z, rtol=0, atol=1e-13)


def test_the_last_input_is_not_used_and_may_be_missing():
    field, z0 = random_field(3, n_units=4, n_relu=3, n_inputs=1)
    controls = np.array([[1.0], [-1.0], [np.nan]])
    run = flow(field, z0, [0.0, 1.0, 2.0], controls=controls)
    assert np.isfinite(run.states).all()
    assert run.escaped_at is None


def test_an_input_that_is_held_throughout():
    field, z0 = random_field(5, n_units=4, n_relu=3, n_inputs=2)
    u, times = np.array([1.0, -2.0]), np.linspace(0, 2, 5)
    rows = flow(field, z0, times, controls=np.tile(u, (5, 1)))
    held = flow(field, z0, times, controls=u)
    assert_allclose(rows.states, held.states, rtol=0, atol=1e-14)


def test_a_stiff_run_leaps():
    # 1e10 steps of the fast rate; z2 follows 2 + cos t on the slow manifold and z3 watches it.
    field = PiecewiseLinearField(
        A=[-1e6, 0.0, -1e6],
        W=[[0.0, 1e6, 0.0], [0.0, 0.0, 0.0], [1e6, 0.0, 0.0]],
        h=[0.0, 0.1, -2e6],
        n_relu=1,
    )
    run = flow(field, [0.0, -10.0, -5.0], [0.0, 100.0, 200.0])
    assert_allclose(run.states[:, 1], [-10.0, 0.0, 10.0], atol=1e-8)
    # Delay of two fast filters: z3 = z2 - 2e-7 - 2.
    assert_allclose(run.events.times, [120.0 + 2e-6], rtol=0, atol=1e-7)


@pytest.mark.parametrize("stretch", [1e-150, 1e-9, 1e9, 1e150])
def test_any_unit_of_time(stretch):
    field, z0 = fitzhugh_nagumo()
    fast = PiecewiseLinearField(field.A / stretch, field.W / stretch, field.h / stretch, 2)
    run, same = flow(field, z0, [0.0, 50.0]), flow(fast, z0, [0.0, 50.0 * stretch])
    assert_allclose(same.states[-1], run.states[-1], rtol=0, atol=1e-11)
    assert len(same.events) == len(run.events)


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z0": [1.0, 2.0]}, r"z0 has shape \(2,\)"),
        ({"z0": [0.0, np.nan, 0.0, 0.0]}, r"z0\[1\] is not finite"),
        ({"times": [0.0, 2.0, 1.0]}, r"times\[2\]=1.0 does not come after times\[1\]=2.0"),
        ({"times": [0.0, 1.0, 1.0]}, r"np\.unique"),
        ({"times": [0.0, np.inf]}, r"times\[1\] is not finite"),
        ({"times": []}, r"K >= 1"),
        ({"times": 3.0}, r"K >= 1"),
        ({"controls": [[1.0], [1.0]]}, r"no input matrix C"),
        ({"max_norm": 0.0}, r"positive"),
        ({"tol": -1.0}, r"positive"),
    ],
)
def test_bad_arguments(change, message):
    field, z0 = fitzhugh_nagumo()
    arguments = {"z0": z0, "times": [0.0, 1.0], **change}
    with pytest.raises(ParameterError, match=message):
        flow(field, arguments.pop("z0"), arguments.pop("times"), **arguments)


@pytest.mark.parametrize("controls", [np.ones((3, 2)), np.ones(3), [[np.nan, 1.0], [0.0, 0.0]]])
def test_bad_controls(controls):
    field, z0 = random_field(3, n_units=4, n_relu=3, n_inputs=2)
    with pytest.raises(ParameterError, match="controls has"):
        flow(field, z0, [0.0, 1.0], controls=controls)


def test_time_that_cannot_advance():
    field = PiecewiseLinearField(A=[-1e8], W=[[0.0]], h=[0.0], n_relu=0)
    with pytest.raises(NumericalError, match="Start the clock at zero"):
        flow(field, [1.0], [1e12, 1e12 + 1.0])


def test_arguments_are_left_as_they_are():
    field, z0 = fitzhugh_nagumo()
    start, times = z0.copy(), np.linspace(0, 30, 31)
    flow(field, start, times)
    assert_array_equal(start, z0)
    assert repr(flow(field, z0, times)) == "Flow(31 times, 7 crossings)"
