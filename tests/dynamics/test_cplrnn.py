"""CPLRNN: known systems are found again, and every answer is in the units of the recordings."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foretell.core import (
    CITATIONS,
    ArtifactError,
    DataError,
    ForetellWarning,
    NumericalError,
    ParameterError,
)
from foretell.data import Trajectories
from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE, cplrnn
from foretell.dynamics.layout import Layout
from foretell.solve.piecewise import PiecewiseLinearField, flow
from tests.solve.random_fields import fitzhugh_nagumo

PERIOD = 20.200101354512  # of the three-piece FitzHugh-Nagumo system


def wave(n=300, *, period=7.0, seed=0):
    t = np.cumsum(np.random.default_rng(seed).uniform(0.05, 0.35, n))
    turn = 2 * np.pi * t / period
    return np.column_stack([2 + 3 * np.sin(turn), 10 * np.cos(turn)]), t


def small(**changes):
    given = {
        "latent_dim": 4, "n_relu": 2, "sequence_length": 20, "forcing_interval": 5,
        "max_updates": 1, "random_state": 0,
    }  # fmt: skip
    return CPLRNN(**{**given, **changes})


def teach(model, field, L=None):
    """Give a fitted model a field that is written in data units and data time."""
    scale, mean = model._affine()
    tau, N = model.time_scale_, model.layout_.n_observed
    C, u = field.C, model.scaler_
    drive = field.h + field.W @ mean + field.A * mean
    if C is not None:
        drive = drive + C @ u.control_mean
        C = C * u.control_scale / scale[:, None] * tau
    W = field.W * scale / scale[:, None] * tau
    K = 0 if C is None else C.shape[1]
    layout = Layout(field.n_units, N, K)
    L = np.zeros((field.n_units - N, N)) if L is None else L
    parts = (field.A * tau, W, drive * tau / scale, np.zeros(0) if C is None else C, L)
    model.adopt(layout, np.concatenate([np.ravel(v) for v in parts]))
    return model


def spiking(**changes):
    """A model that knows FitzHugh-Nagumo; its rectified units follow v - a/2 and v - (1+a)/2."""
    field, _ = fitzhugh_nagumo()
    A, W, h = field.A.copy(), field.W.copy(), field.h.copy()
    A[2:] = -3.0  # pull u_i to v - threshold_i, which it would only remember otherwise
    W[2:] = W[0]
    W[2:, 0] += 3.0
    h[2:] = h[0] - 3.0 * np.array([0.125, 0.625])
    values, times = wave()
    model = small(**changes).fit(0.3 + 0.05 * values, 3.0 * times)
    return teach(model, PiecewiseLinearField(A, W, h, 2))


# Known systems -------------------------------------------------------------------------------


def test_finds_a_linear_oscillator():
    values, times = wave(600)
    model = CPLRNN(
        latent_dim=2, n_relu=0, sequence_length=50, max_updates=800, noise=0.0, lr=2e-2,
        final_lr=1e-4, random_state=0,
    ).fit(values, times)  # fmt: skip
    (centre,) = model.equilibria()
    assert_allclose(2 * np.pi / np.abs(centre.eigenvalues.imag), 7.0, rtol=0.01)
    assert_allclose(centre.eigenvalues.real, 0.0, atol=0.01)
    assert_allclose(centre.state, [2.0, 0.0], atol=0.1)
    run = model.simulate(values[0], [0.0, 7.0]).values[0]
    assert_allclose(run[1], run[0], atol=0.1)


def test_finds_two_stable_states_and_the_one_between():
    def velocity(x):
        return -x + 2 * np.maximum(x + 1, 0) - 2 * np.maximum(x - 1, 0) - 2

    x = np.linspace(-3.5, 3.5, 24)
    rows = []
    for _ in range(60):
        rows.append(x.copy())
        for _ in range(10):
            x = x + 0.01 * velocity(x)
    recordings = list(np.array(rows).T[:, :, None])
    model = CPLRNN(
        latent_dim=4, n_relu=3, sequence_length=40, max_updates=1500, forcing_interval=5,
        noise=0.02, validation=0.0, lr=1e-2, final_lr=1e-4, random_state=0,
    ).fit(Trajectories.from_arrays(recordings, [0.1 * np.arange(60.0)] * 24))  # fmt: skip
    found = sorted((float(e.state[0]), e.stable) for e in model.equilibria())
    assert [stable for _, stable in found] == [True, False, True]
    assert_allclose([x for x, _ in found], [-2.0, 0.0, 2.0], atol=0.2)
    for start, end in ((-0.8, found[0][0]), (0.8, found[2][0])):
        run = model.simulate([start], [0.0, 10.0, 40.0]).values[0]
        assert run[-1, 0] == pytest.approx(end, abs=1e-3)


# Units of data and time ------------------------------------------------------------------------


def test_a_cycle_in_data_units_is_what_simulate_does():
    model = spiking(engine="certified")
    (cycle,) = (c for c in model.limit_cycles() if c.stable)
    assert cycle.period == pytest.approx(PERIOD, rel=1e-7)
    times, states = cycle.orbit(50)
    again = flow(model.data_field_, states[0], times).states
    assert_allclose(again, states, atol=1e-7)
    stamps = np.arange(0.0, 400.0, 0.02)
    v = model.simulate([0.4, 0.2], stamps).values[0][:, 0]
    above = np.flatnonzero((v[:-1] < 0.3) & (v[1:] >= 0.3))
    rise = stamps[above] + 0.02 * (0.3 - v[above]) / (v[above + 1] - v[above])
    assert np.diff(rise)[-1] == pytest.approx(cycle.period, abs=1e-3)
    assert v[stamps > 200].max() == pytest.approx(states[:, 0].max(), abs=0.02)
    assert v[stamps > 200].min() == pytest.approx(states[:, 0].min(), abs=0.02)


def test_starts_and_periods_of_a_search_are_in_data_units():
    model = spiking()
    _, states = next(c for c in model.limit_cycles() if c.stable).orbit(10)
    found = model.limit_cycles(starts=states[3], periods=[PERIOD * 1.02])
    assert found[0].period == pytest.approx(PERIOD, rel=1e-7)


def test_equilibria_and_exponents_in_data_units():
    model = spiking()
    field = model.data_field_
    (point,) = model.equilibria()
    assert_allclose(field(point.state), 0.0, atol=1e-12)
    assert_allclose(model.vector_field(point.state), 0.0, atol=1e-12)
    expected = np.linalg.eigvals(field.matrix(field.code(point.state)))
    assert_allclose(np.sort_complex(point.eigenvalues), np.sort_complex(expected), atol=1e-9)
    spectrum = model.lyapunov_spectrum(duration=40 * PERIOD, transient=20 * PERIOD, x0=[0.4, 0.2])
    assert spectrum.exponents[0] == pytest.approx(0.0, abs=3e-3)
    assert spectrum.duration == pytest.approx(40 * PERIOD)
    cycle = next(c for c in model.limit_cycles() if c.stable)
    assert_allclose(spectrum.exponents[1:3], np.sort(cycle.exponents.real)[::-1][1:3], rtol=0.1)


@pytest.mark.parametrize("unit", ["time", "data"])
def test_the_units_of_the_recordings_carry_through(unit):
    values, times = wave()
    factor = 1024.0  # a power of two, so that standardised data are equal to the bit
    one = small(max_updates=60).fit(values, times)
    other = small(max_updates=60)
    if unit == "time":
        other.fit(values, factor * times)
        rate, size, shift = factor, np.ones(2), np.zeros(2)
    else:
        size, shift = np.array([factor, 1 / factor]), np.array([4096.0, 0.0])
        other.fit(size * values + shift, times)
        rate = 1.0
    assert_allclose(other.theta_, one.theta_, rtol=1e-7, atol=1e-9)
    full, moved = np.append(size, [1, 1]), np.append(shift, [0, 0])
    for mine, theirs in zip(one.equilibria(), other.equilibria(), strict=True):
        assert_allclose(theirs.state, full * mine.state + moved, rtol=1e-5, atol=1e-5)
        assert_allclose(theirs.eigenvalues * rate, mine.eigenvalues, rtol=1e-5, atol=1e-7)
    z = np.array([1.0, 2.0, 0.3, -0.2])
    assert_allclose(
        other.vector_field(full * z + moved) * rate, full * one.vector_field(z), rtol=1e-5
    )
    stamps = np.array([0.0, 0.2, 0.7, 3.0])
    mine = one.simulate(values[0], stamps).values[0]
    theirs = other.simulate(size * values[0] + shift, rate * stamps).values[0]
    assert_allclose(theirs, size * mine + shift, rtol=1e-6, atol=1e-6)


def driven(n=200, K=2):
    values, times = wave(n)
    u = np.random.default_rng(3).normal(5.0, 2.0, size=(n, K))
    return Trajectories.from_arrays(values, times, controls=u)


def test_the_data_field_is_the_derivative_of_simulate():
    model = small(max_updates=50, engine="certified").fit(driven())
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, u = rng.normal([2.0, 0.0], [2.0, 6.0]), rng.normal(5.0, 2.0, 2)
        step = 1e-5
        run = model.simulate(x, [0.0, step], controls=[u, u]).values[0]
        z = np.concatenate([x, model.L_ @ model.scaler_.transform_values(x)])
        expected = model.data_field_(z, u)
        assert_allclose((run[1] - run[0]) / step, expected[:2], rtol=1e-3, atol=1e-4)
        assert_allclose(model.vector_field(z, u), expected, rtol=1e-10, atol=1e-12)


def test_a_control_shifts_the_equilibria_as_in_data_units():
    model = small(max_updates=50).fit(driven())
    u = np.array([4.0, 7.0])
    for point in model.equilibria(control=u):
        assert_allclose(model.data_field_(point.state, u), 0.0, atol=1e-9)
    for point in model.equilibria():
        assert_allclose(model.vector_field(point.state), 0.0, atol=1e-9)
    with pytest.raises(ParameterError, match="control"):
        model.equilibria(control=[1.0])
    with pytest.raises(ParameterError, match="without controls"):
        small().fit(*wave()).equilibria(control=[1.0])


def test_rectified_observed_units_have_no_data_field():
    model = small(n_relu=3, max_updates=20).fit(*wave())
    for ask in (lambda: model.data_field_, model.limit_cycles):
        with pytest.raises(ParameterError, match=r"n_relu=2 or less"):
            ask()
    for point in model.equilibria():
        assert_allclose(model.vector_field(point.state), 0.0, atol=1e-9)
    assert np.isfinite(model.lyapunov_spectrum(duration=50.0, transient=10.0).exponents).all()


# Running ---------------------------------------------------------------------------------------


def test_the_engines_agree():
    model = spiking()
    stamps = np.cumsum(np.append(0.0, np.random.default_rng(0).uniform(0.1, 2.0, 60)))
    x0 = [[0.4, 0.2], [0.0, 0.0]]
    dyadic = model.simulate(x0, stamps)
    certified = model.set_params(engine="certified").simulate(x0, stamps)
    fine = model.set_params(engine="dyadic", n_levels=10).simulate(x0, stamps)
    for d, c, f in zip(dyadic.values, certified.values, fine.values, strict=True):
        assert np.abs(d - c).max() < 1e-3
        assert np.abs(f - c).max() < 1e-5


@pytest.mark.parametrize("engine", ["dyadic", "certified"])
def test_an_escaping_run_warns_and_ends(engine):
    model = small(engine=engine).fit(*wave())
    field = model.data_field_
    teach(model, PiecewiseLinearField(np.full(4, 1.0), 0 * field.W, np.zeros(4), 2))
    stamps = np.arange(0.0, 40.0, 0.5)
    with pytest.warns(ForetellWarning, match="left the range"):
        runs = model.simulate([[4.0, 1.0], [1.0, 1.0]], stamps)
    for t, v in zip(runs.times, runs.values, strict=True):
        assert 2 <= len(t) < len(stamps)
        assert_allclose(v[:, 1], np.exp(t), rtol=1e-6)
    table = model.predict([[4.0, 1.0]], stamps)
    assert table.shape == (1, len(stamps), 2)
    assert_array_equal(np.isnan(table[0, :, 0]), np.arange(len(stamps)) >= len(runs.times[0]))
    with pytest.raises(NumericalError, match="second of the times"):
        model.simulate([4.0, 1.0], [0.0, 40.0])
    assert np.isnan(model.predict([4.0, 1.0], [0.0, 40.0])[0, 1]).all()
    assert model.score(*wave()) == -np.inf


def test_stamps_far_from_zero():
    model = small(max_updates=20).fit(*wave())
    stamps = np.arange(0.0, 5.0, 0.25)
    one = model.simulate([2.0, 1.0], stamps).values[0]
    assert_allclose(model.simulate([2.0, 1.0], 1e9 + stamps).values[0], one, rtol=1e-6)


def test_transform_follows_the_data():
    values, times = wave(90)
    mask = np.random.default_rng(1).random(values.shape) > 0.2
    mask[:, 0] |= ~mask.any(axis=1)
    mask[0] = [True, False]
    mask[1] = True
    data = Trajectories.from_arrays(
        [np.where(mask, values, np.nan), values], [times, times], mask=[mask, mask | True]
    )
    model = small(max_updates=20).fit(data)
    states = model.transform(data)
    assert [z.shape for z in states] == [(90, 4), (90, 4)]
    assert np.isnan(states[0][0]).all()  # no complete row yet
    assert np.isfinite(states[0][1:]).all()
    scaled = model.scaler_.transform_values(values)
    assert_allclose(states[1][::5, :2], scaled[::5], atol=1e-12)
    assert_allclose(states[1][0, 2:], model.L_ @ scaled[0])
    forced = states[0][1::5, :2]
    assert_allclose(forced[mask[1::5]], scaled[1::5][mask[1::5]], atol=1e-12)
    with pytest.raises(DataError, match="variables"):
        model.transform(values[:, :1])


def test_masks_whose_rows_are_never_complete_at_the_end():
    values, times = wave(400)
    mask = np.ones_like(values, dtype=bool)
    mask[300::2, 0] = mask[301::2, 1] = False
    data = Trajectories.from_arrays(np.where(mask, values, np.nan), times, mask=mask)
    model = small(max_updates=5).fit(data)
    assert np.isfinite(model.validation_score_)
    tail = data.take_rows([slice(300, 400)])
    with pytest.raises(DataError, match="no row of the recordings is complete"):
        model.score(tail)


def test_no_complete_row_to_start_from():
    values, times = wave(100)
    mask = np.ones_like(values, dtype=bool)
    mask[::2, 0] = mask[1::2, 1] = False
    with pytest.raises(DataError, match="begins with a complete row"):
        small().fit(Trajectories.from_arrays(np.where(mask, values, np.nan), times, mask=mask))


def test_gaps():
    values, times = wave()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(values, np.where(times > times[100], times + 5.0, times))
    with pytest.warns(ForetellWarning, match="longest gap"):
        small().fit(values, np.where(times > times[100], times + 30.0, times))


def test_very_many_regions_are_said(monkeypatch):
    values, times = wave()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(values, times)
    monkeypatch.setattr(cplrnn, "MANY_REGIONS", 1)
    with pytest.warns(ForetellWarning, match=r"through [2-9]\d* regions .*Try n_relu=1"):
        small().fit(values, times)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "rk4"}, "certified"),
        ({"n_levels": 18}, "n_levels=18"),
        ({"n_levels": 2.5}, "n_levels=2.5"),
        ({"lr": "fast"}, "lr='fast'"),
        ({"noise": None}, "noise=None"),
        ({"random_state": np.random.default_rng(0)}, "random_state"),
        ({"latent_dim": 70, "n_relu": 63}, "n_relu=63"),
    ],
)
def test_impossible_arguments(changes, message):
    with pytest.raises(ParameterError, match=message):
        small(**changes).fit(*wave())


def test_numpy_numbers_are_numbers(tmp_path):
    model = small(latent_dim=np.int64(4), lr=np.float32(0.01), time_scale=np.float32(0.25))
    path = model.fit(*wave()).save(tmp_path / "model")
    assert CPLRNN.load(path).time_scale_ == 0.25


def test_a_folder_that_does_not_fit_the_class_is_refused(tmp_path):
    path = small().fit(*wave()).save(tmp_path / "model")
    text = (path / "model.json").read_text()
    for old, new in (('"latent_dim"', '"latent_dimension"'), ('"scaler"', '"scalar"')):
        (path / "model.json").write_text(text.replace(old, new))
        with pytest.raises(ArtifactError, match="CPLRNN"):
            CPLRNN.load(path)


@pytest.mark.parametrize("learner", [CPLRNN, ALRNN, ReLUNeuralODE])
def test_citations_are_in_the_table(learner):
    assert learner.citations
    assert set(learner.citations) <= set(CITATIONS)
