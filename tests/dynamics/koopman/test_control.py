"""Delays, bilinear inputs and controllers, on regressions that take no time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foretell.core import DataError, ForetellWarning, NumericalError, ParameterError
from foretell.data import Trajectories
from foretell.data.controlled_systems import cascaded_tanks, dc_motor, duffing
from foretell.dynamics.koopman import EDMDc, KoopmanLQR, KoopmanMPC, closed_loop
from foretell.dynamics.koopman.control import regulator
from foretell.dynamics.koopman.linear import Moments, clipped
from foretell.dynamics.koopman.windows import with_delays


@pytest.fixture(scope="module")
def model() -> EDMDc:
    return EDMDc(n_centres=20, random_state=0).fit(duffing().recordings(40, 60, random_state=0))


def test_delays_look_back_and_never_ahead() -> None:
    x, u = np.arange(6.0)[:, None], 10 * np.arange(6.0)[:, None]
    s, v = with_delays(x, u, 2)
    assert s[0].tolist() == [2.0, 1.0, 0.0, 10.0, 0.0]
    assert v[0].tolist() == [20.0]
    assert len(s) == 4


def test_a_hidden_state_is_found_by_delays() -> None:
    data = duffing().recordings(30, 80, random_state=0)
    seen = Trajectories.from_arrays(
        [x[:, :1] for x in data.values], list(data.times), controls=list(data.controls)
    )
    blind = EDMDc(degree=3, n_centres=0).fit(seen)
    model = EDMDc(degree=3, n_centres=0, n_delays=2).fit(seen)
    assert model.score(seen) > 0.5 * blind.score(seen)
    x, u, t = seen.values[0], seen.controls[0], seen.times[0]
    run = model.predict(x[:3], t[2:12], controls=u[2:12], past_controls=u[:2])[0]
    assert np.abs(run - x[2:12]).max() < 0.1
    with pytest.raises(ParameterError, match="last 3 rows"):
        model.predict(x[0], t[:5], controls=u[:5])
    with pytest.raises(ParameterError, match="past_controls"):
        model.predict(x[:3], t[:5], controls=u[:5])


def test_a_bilinear_input_suits_a_bilinear_plant() -> None:
    data = dc_motor().recordings(30, 60, random_state=0)
    test = dc_motor().recordings(10, 60, random_state=1)
    linear = EDMDc(degree=3, n_centres=0).fit(data)
    bilinear = EDMDc(degree=3, n_centres=0, input="bilinear").fit(data)
    assert bilinear.score(test) > 0.5 * linear.score(test)
    mpc = KoopmanMPC(bilinear, horizon=10, Q=[0.0, 1.0], R=1e-3, u_min=-1.0, u_max=1.0)
    run = closed_loop(dc_motor(), mpc, [0.0, 0.5], 150, reference=[0.0, -0.5])
    assert abs(run.states[-1, 1] + 0.5) < 0.1
    with pytest.raises(ParameterError, match="bilinear"):
        KoopmanLQR(bilinear)


def test_controllers_bring_the_plant_to_rest(model) -> None:
    mpc = KoopmanMPC(model, horizon=20, Q=[1.0, 0.1], R=0.01, u_min=-1.0, u_max=1.0, du_max=0.5)
    run = closed_loop(duffing(), mpc, [1.3, 0.5], 120)
    assert np.abs(run.states[-1]).max() < 0.05
    assert np.abs(run.inputs).max() <= 1.0 + 1e-9
    assert np.abs(np.diff(run.inputs[:, 0])).max() <= 0.5 + 1e-9
    lqr = KoopmanLQR(model, Q=[1.0, 0.1], R=0.05, discount=0.98)
    assert np.abs(closed_loop(duffing(), lqr, [0.3, 0.0], 200).states[-1]).max() < 0.1


def test_a_bound_on_a_variable_is_kept(model) -> None:
    mpc = KoopmanMPC(
        model, horizon=25, Q=[1.0, 0.0], R=0.01, u_min=-1.0, u_max=1.0, x_max=[np.inf, 0.3]
    )
    run = closed_loop(duffing(), mpc, [-1.2, 0.0], 120)
    assert run.states[:, 1].max() < 0.35
    free = KoopmanMPC(model, horizon=25, Q=[1.0, 0.0], R=0.01, u_min=-1.0, u_max=1.0)
    assert closed_loop(duffing(), free, [-1.2, 0.0], 120).states[:, 1].max() > 0.5


def test_an_unknown_push_is_cancelled() -> None:
    plant = cascaded_tanks()
    model = EDMDc(degree=2, n_centres=0, horizon=20).fit(
        plant.recordings(10, 150, hold=20, random_state=0)
    )
    leaking = replace(plant, derivative=lambda x, u: plant.derivative(x, u) - [[0.02, 0.0]])
    off = []
    for estimate in (False, True):
        mpc = KoopmanMPC(
            model, horizon=20, Q=[0.0, 1.0], R=1e-4, u_min=0.5, u_max=4.5, offset_free=estimate
        )
        run = closed_loop(leaking, mpc, [4.0, 4.0], 150, reference=[0.0, 4.0])
        off.append(abs(run.states[-1, 1] - 4.0))
    assert off[1] < 0.5 * off[0]


def test_an_ensemble_scatters_like_the_forecasts(model) -> None:
    """Its spread after 15 steps is that of forecast errors, within a factor of two."""
    test = duffing().recordings(60, 16, random_state=3)
    error = model.horizon_errors(test, horizon=15).rmse[-1]
    runs = model.ensemble(test.values[0][0], test.controls[0][:15], n_samples=400, random_state=0)
    ratio = runs[:, -1].std(axis=0) / error
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()


def test_what_cannot_be_steered_is_said() -> None:
    with pytest.raises(NumericalError, match=r"eigenvalue 1\.1"):
        regulator([[1.1, 0.0], [0.0, 0.5]], [[0.0], [1.0]], np.eye(2), [[1.0]])
    growing, u = np.empty((60, 2)), np.random.default_rng(1).normal(size=(60, 1))
    growing[0] = 1.0
    for k in range(59):
        growing[k + 1] = 1.1 * growing[k, 0], 0.5 * growing[k, 1] + u[k, 0]
    plain = EDMDc(degree=1, n_centres=0, horizon=5, ridge=1e-14)
    model = plain.fit(Trajectories.from_arrays([growing, -growing], controls=[u, -u]))
    with pytest.raises(NumericalError, match=r"eigenvalue 1\.1"):
        KoopmanLQR(model)
    alone = EDMDc(degree=1, n_centres=0, horizon=5).fit(
        np.random.default_rng(0).normal(size=(60, 2))
    )
    with pytest.raises(ParameterError, match="without inputs"):
        KoopmanMPC(alone)


def test_bad_controllers(model) -> None:
    with pytest.raises(ParameterError, match="above"):
        KoopmanMPC(model, u_min=1.0, u_max=-1.0)
    with pytest.raises(ParameterError, match="horizon=1"):
        KoopmanMPC(model, horizon=1)
    with pytest.raises(ParameterError, match="not finite"):
        KoopmanMPC(model).control([np.nan, 0.0])


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        (np.zeros((4, 1)), r"(?s)4.*5|5.*4"),  # one row too few
        (np.zeros((5, 2)), r"2"),  # one column too many
        (np.full((5, 1), np.nan), "finite|nan"),
        (np.zeros((3, 5, 1)), r"\(2, 5, 1\)"),  # three runs of inputs for two starts
        (None, "give controls"),
    ],
)
def test_inputs_of_another_shape_are_refused(model, controls: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        model.predict(np.zeros((2, 2)), model.step_ * np.arange(5), controls=controls)


def test_recordings_and_inputs_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"(?s)59.*60|60.*59"):
        EDMDc().fit(Trajectories.from_arrays(np.zeros((60, 2)), controls=np.zeros((59, 1))))


def test_integers_are_the_same_numbers() -> None:
    values = np.random.default_rng(0).integers(-50, 50, size=(200, 2))
    with pytest.warns(ForetellWarning, match="whole numbers"):
        one = EDMDc(degree=2, n_centres=0).fit(values)
    two = EDMDc(degree=2, n_centres=0).fit(values.astype(float))
    np.testing.assert_array_equal(one.W_, two.W_)


def test_dependent_observables_without_a_ridge_are_refused() -> None:
    phi = np.repeat(np.random.default_rng(0).normal(size=(20, 1)), 2, axis=1)
    with pytest.raises(NumericalError, match="ridge=1e-6"):
        Moments.of(phi, phi).least_squares(0.0)


def test_sums_of_parts_are_the_sum_of_all() -> None:
    rng = np.random.default_rng(0)
    phi, z = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    both = Moments.of(phi[:10], z[:10]) + Moments.of(phi[10:], z[10:])
    whole = Moments.of(phi, z)
    assert np.allclose(both.least_squares(1e-6), whole.least_squares(1e-6))


def test_clipping_moves_only_what_is_outside() -> None:
    rng = np.random.default_rng(1)
    W = np.hstack([1.2 * rng.normal(size=(5, 5)), rng.normal(size=(5, 1))])
    before = np.sort(np.abs(np.linalg.eigvals(W[:, :5])))
    after = np.sort(np.abs(np.linalg.eigvals(clipped(W)[:, :5])))
    assert np.allclose(after, np.minimum(before, 1.0), atol=1e-8)
