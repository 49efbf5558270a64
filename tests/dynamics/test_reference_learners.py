"""ALRNN with its ways to treat irregular stamps, and ReLUNeuralODE with its substeps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE, interpolate

SMALL = {
    "latent_dim": 4, "n_relu": 2, "sequence_length": 20, "forcing_interval": 5,
    "max_updates": 5, "random_state": 0,
}  # fmt: skip


def wave(n=300, seed=0, step=0.2):
    t = np.cumsum(np.random.default_rng(seed).uniform(0.5 * step, 1.5 * step, n))
    return np.column_stack([2 + 3 * np.sin(t), 10 * np.cos(t)]), t


def curve(t):
    return np.column_stack([2 + 3 * np.sin(t), 10 * np.cos(t)])


# Interpolation -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "error"), [("linear", 0.15), ("cubic", 2e-3), ("gp", 0.02)])
def test_interpolation_comes_close_to_the_curve(kind, error):
    values, times = wave(400)
    data = Trajectories.from_arrays(values, times, names=["a", "b"], units=["m", ""])
    made = interpolate(data, 0.1, kind)
    t = made.times[0]
    assert_allclose(np.diff(t), 0.1)
    assert t[0] == times[0]
    assert times[-1] - 0.1 < t[-1] <= times[-1] + 1e-9
    assert (np.abs(made.values[0] - curve(t)) < error * np.array([3, 10])).all()
    assert (made.names, made.units) == (("a", "b"), ("m", ""))


def test_interpolation_of_several_recordings_with_gaps_and_controls():
    values, times = wave(100)
    mask = np.random.default_rng(0).random(values.shape) > 0.1
    mask[~mask.any(axis=1)] = True
    mask[[0, -1]] = True
    data = Trajectories.from_arrays(
        [np.where(mask, values, np.nan), values[:50]], [times, times[:50]],
        mask=[mask, mask[:50] | True],
        controls=[np.arange(100.0)[:, None], -np.arange(50.0)[:, None]], labels=["up", "down"],
    )  # fmt: skip
    made = interpolate(data, 0.2)
    assert made.labels == ("up", "down")
    assert made.complete
    for n, sign in enumerate([1, -1]):
        t, u = made.times[n], made.controls[n][:, 0]
        row = np.searchsorted(data.times[n], t + 1e-9, side="right") - 1
        assert_array_equal(u, sign * row)  # the control that was acting
        assert (np.abs(made.values[n] - curve(t)) < [0.5, 1.5]).all()


def test_the_interval_as_an_input_is_chosen_by_one_free_run():
    model = ALRNN(**{**SMALL, "max_updates": 40}, irregular="interval").fit(*wave())
    assert np.isfinite(model.validation_score_)
    assert model.layout_.n_controls == 1


def test_interpolation_refuses_what_it_cannot_do():
    values, times = wave(50)
    data = Trajectories.from_arrays(values, times)
    with pytest.raises(ParameterError, match="kind='spline'"):
        interpolate(data, 0.1, "spline")
    for step in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ParameterError, match="step"):
            interpolate(data, step)
    with pytest.raises(DataError, match="span one bin"):
        interpolate(data, 1e3)
    with pytest.raises(DataError, match="interval"):
        interpolate(Trajectories.from_arrays(values, np.append(times[:-1], 1e12)), 0.1)
    mask = np.ones_like(values, dtype=bool)
    mask[::2, 0] = mask[1::2, 1] = False
    never = Trajectories.from_arrays(np.where(mask, values, np.nan), times, mask=mask)
    with pytest.raises(DataError, match="0 complete rows"):
        interpolate(never, 0.1)


# ALRNN ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("irregular", ["linear", "cubic", "gp", "interval"])
def test_every_way_to_treat_irregular_stamps(irregular, tmp_path):
    values, times = wave(200)
    model = ALRNN(irregular=irregular, **SMALL).fit(values, times)
    run = model.simulate(values[0], times[:30])
    assert_array_equal(run.times[0], times[:30])
    assert np.isfinite(model.score(values, times))
    again = ALRNN.load(model.save(tmp_path / "model")).simulate(values[0], times[:30])
    assert_array_equal(again.values[0], run.values[0])
    n_bins = round((times[-1] - times[0]) / model.time_scale_)
    (states,) = model.transform(values, times)
    assert len(states) == (200 if irregular == "interval" else pytest.approx(n_bins, abs=1))


def test_unknown_way():
    with pytest.raises(ParameterError, match="irregular='nearest'"):
        ALRNN(irregular="nearest", **SMALL).fit(*wave())


def test_a_bin_is_the_time_scale():
    # A map taught to halve the first variable in each bin, whatever the stamps.
    times = 0.5 * np.arange(200.0)
    for scale in ("auto", 1.5):
        model = ALRNN(time_scale=scale, **SMALL).fit(curve(times), times)
        model.theta_[:] = 0.0
        model.theta_[: model.layout_.n_units] = 0.5
        model.adopt(model.layout_, model.theta_)
        bin_ = model.time_scale_
        assert bin_ == (0.5 if scale == "auto" else 1.5)
        mean, size = model.scaler_.mean, model.scaler_.scale
        stamps = bin_ * np.array([0.0, 1.0, 1.5, 4.0])
        run = model.simulate(mean + size, stamps).values[0]
        expected = mean + size * np.array([1, 0.5, 0.375, 0.0625])[:, None]
        assert_allclose(run, expected, rtol=1e-12)
        other = 0.25 + np.arange(0.0, 60.0, 0.7)  # recordings with another interval
        (states,) = model.transform(curve(other), other)
        assert len(states) == int((other[-1] - other[0]) / bin_ + 1e-9) + 1


def test_controls_of_a_map_act_in_their_bin():
    values, times = wave(200)
    u = np.sin(0.1 * np.arange(200.0))[:, None]
    data = Trajectories.from_arrays(values, times, controls=u)
    for irregular in ("linear", "interval"):
        model = ALRNN(irregular=irregular, **SMALL).fit(data)
        still = model.simulate(values[0], times[:10], controls=0 * u[:10]).values[0]
        late = np.append(np.zeros(5), np.ones(5))[:, None]
        moved = model.simulate(values[0], times[:10], controls=late).values[0]
        assert_allclose(moved[:5], still[:5])
        assert not np.allclose(moved[7:], still[7:])


# ReLUNeuralODE -------------------------------------------------------------------------------


def test_substeps_converge_to_the_exact_flow():
    values, times = wave()
    exact = CPLRNN(engine="certified", **SMALL).fit(values, times)
    stamps = np.arange(0.0, 12.0, 0.3)
    expected = exact.simulate([2.0, 5.0], stamps).values[0]
    errors = []
    for substeps in (1, 4, 16):
        model = ReLUNeuralODE(substeps=substeps, **SMALL).fit(values, times)
        model.adopt(exact.layout_, exact.theta_)
        run = model.simulate([2.0, 5.0], stamps).values[0]
        errors.append(np.abs(run - expected).max())
    assert errors[1] < errors[0] / 30
    assert errors[2] < errors[1] / 10


def test_the_stamps_asked_for_have_little_influence():
    values, times = wave()
    u = np.sin(0.1 * np.arange(300.0))[:, None]
    data = Trajectories.from_arrays(values, times, controls=u)
    model = ReLUNeuralODE(substeps=4, **SMALL).fit(data)
    held = np.ones((3, 1))
    coarse = model.simulate([2.0, 5.0], [0.0, 4.0, 20.0], controls=held).values[0]
    fine = model.simulate([2.0, 5.0], np.linspace(0, 20, 201), controls=np.ones((201, 1)))
    assert_allclose(coarse, fine.values[0][[0, 40, 200]], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("substeps", [0, 1.5, "two"])
def test_impossible_substeps(substeps):
    with pytest.raises(ParameterError, match="substeps"):
        ReLUNeuralODE(substeps=substeps, **SMALL).fit(*wave())


def test_intervals_as_inputs_do_not_make_a_recording_driven() -> None:
    t = np.cumsum(np.random.default_rng(0).uniform(0.1, 0.3, 200))
    values = np.column_stack([np.sin(t), np.cos(t)])
    model = ALRNN(irregular="interval")
    scaled, _ = Trajectories.from_arrays(values, t).standardise()
    sequences = model._sequences(scaled, 0.2)
    assert sequences.n_controls == 1
    assert not sequences.driven
    with_input, _ = Trajectories.from_arrays(values, t, controls=np.sin(t)[:, None]).standardise()
    assert model._sequences(with_input, 0.2).driven


def test_the_length_that_counts_is_the_one_after_interpolation() -> None:
    t = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 40))
    values = np.column_stack([np.sin(t), np.cos(t)])
    settings = {"latent_dim": 4, "n_relu": 1, "max_updates": 2, "random_state": 0}
    model = ALRNN(**settings, sequence_length=60, time_scale=0.2).fit(values, t)
    assert np.isfinite(model.theta_).all()
    with pytest.raises(DataError, match="sequence_length=60"):
        CPLRNN(**settings, sequence_length=60).fit(values, t)
