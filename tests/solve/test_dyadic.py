"""The fused dyadic engine against its slow twin, slopes, the certified engine and its edges."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from foretell.core import NumericalError, ParameterError
from foretell.solve.piecewise import PiecewiseLinearField, flow, flow_parameter_gradient
from foretell.solve.piecewise.dyadic import DyadicFlow
from tests.solve.dyadic_problems import NAMES, gradients, problem

CASES = {
    "sparse forcing": {},
    "regular intervals": {"irregular": False},
    "inputs": {"K": 2},
    "missing targets": {"K": 1, "missing": 0.3},
    "gentle forcing of incomplete data": {"interval": 1, "alpha": 0.2, "missing": 0.4},
    "never forced": {"interval": 1000},
    "forced at each sample": {"interval": 1},
    "observed units rectified": {"N": 5, "P": 4, "missing": 0.2},
    "observed units rectified, gently forced": {"N": 6, "P": 7, "interval": 1, "alpha": 0.4},
    "linear": {"P": 0, "K": 1},
    "all rectified": {"P": 7},
    "no hidden units": {"M": 3, "N": 3, "P": 2},
    "one unit": {"M": 1, "N": 1, "P": 1},
    "sizes that fit the registers": {"M": 8, "P": 5},
    "one more than fits": {"M": 9, "P": 5, "N": 2},
    "no halving": {"n_levels": 0},
    "fine": {"n_levels": 7, "B": 1},
    "one interval": {"T": 1, "B": 3},
    "long gaps": {"B": 1, "T": 3, "gain": 0.9},
}


def case(name, seed=0):
    p = problem(seed, **CASES[name])
    return p.but(dt=13.3 * p.dt) if name == "long gaps" else p


def assert_same(fast, slow, tol=1e-12):
    assert not fast.escaped
    assert fast.n_maps == slow.n_maps
    assert fast.loss == pytest.approx(slow.loss, rel=tol)
    scale = np.abs(gradients(slow)).max()
    for name in NAMES:
        found, expected = (getattr(result, f"d{name}") for result in (fast, slow))
        assert found.shape == expected.shape
        assert_allclose(found, expected, rtol=0, atol=tol * scale, err_msg=f"d{name}")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_slow_reference(name, seed):
    p = case(name, seed)
    assert_same(p.fast(), p.slow())


@pytest.mark.parametrize("name", CASES)
def test_free_run_agrees_with_the_slow_reference(name):
    p = case(name)
    states, reached = p.fast_run()
    expected = p.slow_run()
    assert_allclose(states, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert_array_equal(reached, p.dt.shape[1] + 1)


@given(
    seed=st.integers(0, 10**6),
    M=st.integers(1, 9),
    rectified=st.floats(0, 1),
    observed=st.floats(0, 1),
    K=st.integers(0, 2),
    missing=st.sampled_from([0.0, 0.3]),
    interval=st.integers(1, 5),
    alpha=st.sampled_from([1.0, 0.3]),
    n_levels=st.integers(0, 6),
)
def test_agrees_on_any_shape(seed, M, rectified, observed, K, missing, interval, alpha, n_levels):
    P, N = round(rectified * M), 1 + round(observed * (M - 1))
    p = problem(
        seed, M=M, N=N, P=P, K=K, B=1, T=5, missing=missing, interval=interval, alpha=alpha,
        n_levels=n_levels, gain=1.0,
    )  # fmt: skip
    assert_same(p.fast(), p.slow(), tol=1e-11)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("no halving", "long gaps")])
def test_gradient_is_the_slope_of_the_loss(name):
    # The loss jumps by O(u^2) where a code read on the time grid changes, so the step is small.
    p = case(name, seed=3)
    found = p.fast()
    rng = np.random.default_rng(0)
    for key, value in zip(NAMES, p.parameters(), strict=True):
        if value.size == 0:
            continue
        direction = rng.normal(size=value.shape)
        step = 1e-6
        ahead, back = (p.but(**{key: value + s * direction}).fast().loss for s in (step, -step))
        slope = float((getattr(found, f"d{key}") * direction).sum())
        scale = np.abs(getattr(found, f"d{key}")).max()
        assert abs((ahead - back) / (2 * step) - slope) <= 1e-6 * max(scale, abs(slope)), key


def test_gradient_converges_to_the_certified_one():
    p = problem(5, M=6, N=2, P=3, K=1, B=1, T=6, interval=1000, n_levels=13)
    field = PiecewiseLinearField(p.A, p.W, p.h, p.n_relu, p.C)
    times = np.append(0.0, np.cumsum(p.dt[0]))
    controls = np.vstack([p.u[0], p.u[0, -1:]])
    run = flow(field, p.starts()[0], times, controls=controls)
    assert len(run.events) >= 3
    residual = run.states[:, :2] - p.x[0]
    cotangents = np.zeros_like(run.states)
    cotangents[1:, :2] = 2 * residual[1:] / residual[1:].size
    exact = flow_parameter_gradient(field, p.starts()[0], times, cotangents, controls=controls)
    found = p.fast()
    assert found.loss == pytest.approx(np.mean(residual[1:] ** 2), rel=1e-6)
    for name in ("A", "W", "h", "C"):
        expected = getattr(exact, name)
        assert_allclose(getattr(found, f"d{name}"), expected, atol=1e-3 * np.abs(expected).max())


# Work arrays ---------------------------------------------------------------------------------


def restless(B):
    """Strong inputs drive 16 rectified units through many regions."""
    p = problem(2, M=16, N=2, P=16, K=4, B=B, T=40, gain=1.0, n_levels=3, interval=3)
    return p.but(u=3.0 * p.u)


def test_many_regions_and_a_long_tape_make_the_work_arrays_grow():
    p = restless(B=6)
    engine = p.engine()
    regions, tape = engine._codes.size, engine._n_tape
    first = p.fast(engine)
    assert first.n_regions > 2 * regions
    assert first.n_maps > 2 * 6 * 41 > tape
    again = p.fast(engine)  # nothing grows any more
    assert (first.loss, first.n_regions) == (again.loss, again.n_regions)
    assert_array_equal(gradients(first), gradients(again))
    assert_same(first, p.slow())
    states, _ = p.fast_run()
    assert_array_equal(states, p.fast_run(engine)[0])


def integrators():
    """30 of 60 units rise from -1 through zero, each at a time of its own."""
    h = np.zeros(60)
    h[30:] = 1.0 / np.random.default_rng(0).uniform(1, 200, 30)
    engine = DyadicFlow(n_units=60, n_relu=60, n_levels=0)

    def run(dt):
        z0 = np.full((len(dt), 60), -1.0)
        return engine.free_run(np.zeros(60), np.zeros((60, 60)), h, None, z0, None, dt)

    return engine, run, h


def test_a_free_run_without_room_for_all_regions_forgets_old_ones(monkeypatch):
    p = restless(B=3)
    expected, _ = p.fast_run()
    engine = p.engine()
    monkeypatch.setattr("foretell.solve.piecewise.dyadic.MOST_BYTES", 0)
    states, reached = p.fast_run(engine)
    assert engine._codes.size == 64
    assert_array_equal(states, expected)
    assert_array_equal(reached, 41)
    with pytest.raises(NumericalError, match="batch_size"):
        p.fast(engine)


def test_one_interval_with_more_regions_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr("foretell.solve.piecewise.dyadic.MOST_BYTES", 0)
    engine, run, h = integrators()
    engine._allocate(8)
    states, _ = run(np.ones((2, 250)))
    assert_allclose(states[:, -1], [-1.0 + 250 * h] * 2, atol=1e-12)
    with pytest.raises(NumericalError, match="n_relu"):
        run(np.full((2, 1), 250.0))


def test_codes_that_differ_in_high_bits_do_not_collide():
    engine, run, _ = integrators()
    run(np.ones((1, 250)))
    slots = np.flatnonzero(engine._table >= 0)
    assert slots.size > 20
    longest = max(map(len, "".join("01"[int(v >= 0)] for v in engine._table).split("0")))
    assert longest < 8


# Edges ---------------------------------------------------------------------------------------


def test_an_escape_ends_the_evaluation():
    p = problem(0, K=1).but(A=np.full(7, 3.0))
    found = p.fast(z_max=100.0)
    assert found.escaped
    assert found.loss == np.inf
    assert not gradients(found).any()
    states, reached = p.fast_run(z_max=100.0)
    for run, n in zip(states, reached, strict=True):
        assert 1 <= n < run.shape[0]
        assert (np.abs(run[:n]) < 100).all()
        assert np.isnan(run[n:]).all()


def test_a_run_that_overflows_counts_as_escaped():
    p = problem(0).but(A=np.full(7, 1e3))
    assert p.fast().escaped
    assert (p.fast_run()[1] == 1).all()


@pytest.mark.parametrize("what", ["A", "W", "h", "C", "L", "u", "x"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_escape(what, bad):
    p = problem(1, K=1)
    value = getattr(p, what).copy()
    value.flat[0] = bad
    found = p.but(**{what: value}).fast()
    assert found.escaped
    assert not gradients(found).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 1e12])
def test_impossible_intervals_are_refused(bad):
    p = problem(1)
    p.dt[0, 2] = bad
    with pytest.raises(ParameterError, match="dt"):
        p.fast()


def test_arguments_are_checked():
    with pytest.raises(ParameterError, match="n_relu=5"):
        DyadicFlow(n_units=4, n_relu=5)
    with pytest.raises(ParameterError, match="n_levels=21"):
        DyadicFlow(n_units=4, n_relu=2, n_levels=21)
    with pytest.raises(ParameterError, match="inputs"):
        problem(0, K=1).but(u=None).fast()
    with pytest.raises(ParameterError, match=r"\(6, 3\)"):
        problem(0).but(x=np.zeros((2, 10, 1)), W=np.zeros((6, 3))).fast()


def test_no_target_at_all_gives_zero():
    p = problem(1)
    p.x[:, 1:] = np.nan
    found = p.fast()
    assert found.loss == 0.0
    assert not gradients(found).any()


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_unit_that_starts_at_zero(zero):
    # dz1/dt = 1 from 0 on; z0 integrates max(z1, 0).
    A, h = np.zeros(2), np.array([0.0, 1.0])
    W = np.array([[0.0, 1.0], [0.0, 0.0]])
    engine = DyadicFlow(n_units=2, n_relu=1, n_levels=10)
    states, _ = engine.free_run(A, W, h, None, [[0.0, zero]], None, np.ones((1, 2)))
    assert_allclose(states[0], [[0, 0], [0.5, 1], [2, 2]], atol=1e-6)
    states, _ = engine.free_run(A, W, -h, None, [[0.0, zero]], None, np.ones((1, 2)))
    assert_array_equal(states[0], [[0, 0], [0, -1], [0, -2]])


def test_two_units_that_cross_together():
    A, h = np.zeros(3), np.array([0.0, 1.0, -1.0])
    W = np.zeros((3, 3))
    W[0, 1:] = 1.0
    engine = DyadicFlow(n_units=3, n_relu=2, n_levels=8)
    states, _ = engine.free_run(A, W, h, None, [[0.0, -0.7, 0.7]], None, np.full((1, 14), 0.1))
    t = 0.1 * np.arange(15)
    exact = np.where(t < 0.7, 0.7 * t - t**2 / 2, 0.245 + (t - 0.7) ** 2 / 2)
    assert_allclose(states[0, :, 0], exact, atol=4 * 2.0**-16)


def test_a_unit_that_is_always_zero_stays_out_of_it():
    p = problem(4, M=6, N=2, P=3)
    for array in (p.A, p.h):
        array[-1] = 0.0
    p.W[-1], p.L[-1] = 0.0, 0.0
    short = p.but(A=p.A[:-1], W=p.W[:-1, :-1], h=p.h[:-1], C=p.C[:-1], L=p.L[:-1], n_relu=2)
    found, expected = p.fast(), short.fast()
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    assert_allclose(found.dW[:-1, :-1], expected.dW, atol=1e-12)
    assert not found.dW[:, -1].any()


def test_rounded_stamps_need_no_rest():
    p = problem(4, irregular=False)
    jitter = np.random.default_rng(0).uniform(-1e-12, 1e-12, p.dt.shape)
    assert p.but(dt=p.dt + jitter).fast().n_maps == p.fast().n_maps


def test_semigroup():
    p = problem(6, K=0, irregular=False, T=8)
    states, _ = p.fast_run()
    half, _ = p.but(dt=np.full((2, 16), 0.5), x=p.x).but(u=np.zeros((2, 16, 0))).fast_run()
    assert_allclose(half[:, ::2], states, atol=5e-2)
    fine = p.but(n_levels=12)
    states, _ = fine.fast_run()
    half, _ = fine.but(dt=np.full((2, 16), 0.5), u=np.zeros((2, 16, 0))).fast_run()
    assert_allclose(half[:, ::2], states, atol=1e-5)
