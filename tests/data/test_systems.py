from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from foretell.core.errors import NumericalError, ParameterError
from foretell.data import Trajectories, systems

PERIOD = 20.200101354512  # of the neuron in three linear pieces, at its default parameters


def reference(field, tr, span):
    """States at the stamps of the first `span` time units, by an adaptive solver."""
    times = tr.times[0][tr.times[0] <= span]
    solution = solve_ivp(
        field, (0, span), tr.values[0][0], "DOP853", times, rtol=1e-12, atol=1e-12, max_step=0.05
    )
    return solution.y.T, tr.values[0][: times.size]


@pytest.mark.parametrize(
    ("run", "field", "span", "tolerance"),
    [
        (
            systems.lorenz63(300, random_state=0),
            lambda t, x: [
                10 * (x[1] - x[0]),
                x[0] * (28 - x[2]) - x[1],
                x[0] * x[1] - 8 / 3 * x[2],
            ],
            2.0,
            1e-9,
        ),
        (
            systems.lorenz96(60, random_state=0),
            lambda t, x: (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8,
            2.0,
            1e-9,
        ),
        (
            systems.rossler(100, random_state=0),
            lambda t, x: [-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)],
            6.0,
            1e-9,
        ),
        (
            systems.chua(100, random_state=0),
            lambda t, x: [
                15.6 * (x[1] - x[0] + 5 / 7 * x[0] + 1.5 / 7 * (abs(x[0] + 1) - abs(x[0] - 1))),
                x[0] - x[1] + x[2],
                -28 * x[1],
            ],
            4.0,
            1e-7,
        ),
    ],
    ids=["lorenz63", "lorenz96", "rossler", "chua"],
)
def test_orbits_agree_with_an_adaptive_solver(run, field, span, tolerance):
    expected, actual = reference(field, run, span)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def test_same_seed_same_orbit():
    one, two = (systems.lorenz63(50, random_state=3).fingerprint() for _ in range(2))
    assert one == two != systems.lorenz63(50, random_state=4).fingerprint()


def test_a_given_start_is_the_first_row():
    tr = systems.lorenz63(5, initial=[1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tr.values[0][0], [1, 2, 3])


@pytest.mark.parametrize("attraction", [0.0, 1.0])
def test_the_piecewise_linear_neuron_closes_after_its_period(attraction):
    field = systems.pl_fitzhugh_nagumo_field(attraction=attraction)
    start = [0.0, 0.0, -0.125, -0.625]
    tr = systems.piecewise_linear(field, 30, step=PERIOD, initial=start)
    last = tr.values[0][-1]
    np.testing.assert_allclose(tr.values[0][-2], last, rtol=0, atol=1e-11)
    np.testing.assert_allclose(last[2:], last[0] - np.array([0.125, 0.625]), atol=1e-10)


def test_the_lifted_field_is_the_planar_one():
    field = systems.pl_fitzhugh_nagumo_field()
    rng = np.random.default_rng(0)
    for v, w in rng.uniform(-2, 2, (50, 2)):
        z = np.array([v, w, v - 0.125, v - 0.625])
        phi = np.append(z[:2], np.maximum(z[2:], 0))
        slope = field["A"] * z + field["W"] @ phi + field["h"]
        relu = np.maximum([v - 0.125, v - 0.625], 0)
        dv = -v + 2 * relu[0] - 2 * relu[1] - w + 0.5
        np.testing.assert_allclose(slope, [dv, 0.2 * (v - 0.5 * w), dv, dv], atol=1e-14)


def test_piecewise_linear_starts_on_a_boundary():
    field = systems.FieldArrays(A=np.zeros(1), W=-np.eye(1), h=np.ones(1), n_relu=1)
    tr = systems.piecewise_linear(field, 20, step=0.1, initial=[0.0], names=["x"])
    np.testing.assert_allclose(tr.values[0].ravel(), 1 - np.exp(-tr.times[0]), atol=1e-14)


def test_neuron_fires_every_80_samples():
    tr = systems.lif_neuron()
    spikes = np.flatnonzero(np.diff(tr.values[0].ravel()) < 0) + 1
    np.testing.assert_array_equal(np.diff(spikes), 80)
    assert (spikes[0], tr.n_samples, tr.time_unit) == (80, 1000, "s")
    assert tr.values[0].max() < 1


def test_thinning_keeps_the_asked_fraction_and_both_ends():
    full = systems.lif_neuron()
    tr = systems.lif_neuron(keep=0.1, random_state=1)
    assert tr.n_samples == 100
    assert (tr.times[0][0], tr.times[0][-1]) == (full.times[0][0], full.times[0][-1])
    assert np.isin(tr.times[0], full.times[0]).all()
    assert tr.fingerprint() == systems.thin(full, 0.1, random_state=1).fingerprint()
    assert tr.fingerprint() != systems.thin(full, 0.1, random_state=2).fingerprint()
    assert systems.thin(full, 1.0).fingerprint() == full.fingerprint()
    assert systems.thin(full, 1e-6).n_samples == 2


def test_thinning_keeps_controls_beside_their_rows():
    x = np.arange(40.0)
    tr = systems.thin(Trajectories.from_arrays([x, x[:2]], controls=[x, x[:2]]), 0.5, 0)
    np.testing.assert_array_equal(tr.controls[0], tr.values[0])
    assert [t.size for t in tr.times] == [20, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: systems.lorenz63(1),
        lambda: systems.lorenz63(10, step=0.0),
        lambda: systems.lorenz63(10, transient=-1.0),
        lambda: systems.lorenz63(10, initial=[1.0, 2.0]),
        lambda: systems.lorenz63(10, initial=[1.0, 2.0, np.nan]),
        lambda: systems.lorenz96(10, n_variables=3),
        lambda: systems.lif_neuron(1),
        lambda: systems.lif_neuron(step=1.0),
        lambda: systems.thin(systems.lif_neuron(100), 0.0),
        lambda: systems.thin(systems.lif_neuron(100), 1.5),
        lambda: systems.piecewise_linear(
            systems.chua_field(), 10, step=0.1, initial=[0.0, 0.0, 0.0]
        ),
    ],
)
def test_impossible_arguments(call):
    with pytest.raises(ParameterError):
        call()


def test_an_orbit_that_escapes_is_reported():
    with pytest.raises(NumericalError, match="escaped to infinity at row"):
        systems.rossler(2000, initial=[50.0, 50.0, 50.0], step=1.0)
