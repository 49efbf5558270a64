from __future__ import annotations

import numpy as np
import pytest

from foretell.core.errors import DataError, ParameterError
from foretell.data import Trajectories, choose_lag, delay_embed

RNG = np.random.default_rng(0)


def test_lagged_copies_on_a_regular_grid_are_exact_samples():
    x = RNG.standard_normal((60, 2))
    tr = Trajectories.from_arrays(x, 0.1 * np.arange(60), names=["a", "b"], units=["m", "s"])
    embedded = delay_embed(tr, dimension=3, lag=0.4)
    assert embedded.names == ("a", "b", "a(t-0.4)", "b(t-0.4)", "a(t-0.8)", "b(t-0.8)")
    assert embedded.units == ("m", "s") * 3
    np.testing.assert_allclose(embedded.values[0], np.hstack([x[8:], x[4:-4], x[:-8]]), atol=1e-12)
    np.testing.assert_array_equal(embedded.times[0], tr.times[0][8:])


def test_irregular_rows_keep_their_stamps_and_values():
    t = np.sort(RNG.uniform(0, 20, 800))
    tr = Trajectories.from_arrays(3.0 * t, t)  # a line is interpolated without error
    embedded = delay_embed(tr, dimension=2, lag=0.7)
    kept = t >= t[0] + 0.7
    np.testing.assert_array_equal(embedded.times[0], t[kept])
    np.testing.assert_array_equal(embedded.values[0][:, 0], 3.0 * t[kept])
    np.testing.assert_allclose(embedded.values[0][:, 1], 3.0 * (t[kept] - 0.7), atol=1e-9)


def test_embedding_stays_inside_recordings_and_carries_controls():
    runs = [100.0 * i + np.arange(12.0) for i in range(3)]
    embedded = delay_embed(Trajectories.from_arrays(runs, controls=runs), dimension=4, lag=2.0)
    for i, (values, controls) in enumerate(zip(embedded.values, embedded.controls, strict=True)):
        assert (values // 100 == i).all()
        np.testing.assert_array_equal(values[:, 0], controls[:, 0])
    assert embedded.n_samples == 3 * 6


def test_rows_whose_past_falls_into_a_gap_are_left_out():
    t = np.concatenate([np.arange(20.0), 100 + np.arange(20.0)])
    embedded = delay_embed(Trajectories.from_arrays(t, t), dimension=2, lag=3.0)
    np.testing.assert_array_equal(embedded.times[0], [*range(3, 20), *range(103, 120)])
    assert "3 rows whose past falls into a gap" in embedded.notes[0]


def test_missing_cells_stay_missing_and_are_bridged_in_copies():
    x = np.column_stack([np.arange(30.0), np.arange(30.0)])
    mask = np.ones_like(x, dtype=bool)
    mask[10, 0] = False
    embedded = delay_embed(Trajectories.from_arrays(x, mask=mask), dimension=2, lag=2.0)
    row = list(embedded.times[0]).index(10)
    assert not embedded.mask[0][row, 0]
    assert embedded.mask[0][:, 1:].all()
    assert embedded.values[0][row + 2, 2] == pytest.approx(10)


def test_dimension_one_changes_nothing():
    tr = Trajectories.from_arrays(np.arange(5.0))
    assert delay_embed(tr, dimension=1) is tr


@pytest.mark.parametrize(
    "arguments", [{"dimension": 0}, {"dimension": 2, "lag": -1.0}, {"dimension": 2, "lag": np.nan}]
)
def test_impossible_arguments(arguments):
    with pytest.raises(ParameterError):
        delay_embed(Trajectories.from_arrays(np.arange(9.0)), **arguments)


def test_a_recording_too_short_is_named():
    tr = Trajectories.from_arrays([np.arange(50.0), np.arange(5.0)], labels=["long", "short"])
    with pytest.raises(DataError, match="'short' lasts 4 "):
        delay_embed(tr, dimension=3, lag=3.0)


@pytest.mark.parametrize("drift", [0.0, 3.0])
@pytest.mark.parametrize("irregular", [False, True])
def test_lag_of_an_oscillation_is_about_a_fifth_to_a_quarter_of_a_period(drift, irregular):
    rng = np.random.default_rng(1)
    t = np.sort(rng.uniform(0, 60, 3000)) if irregular else 0.02 * np.arange(3000)
    x = np.sin(2 * np.pi * t / 1.5) + drift * t / 60
    lag = choose_lag(Trajectories.from_arrays(x, t))
    assert 0.17 * 1.5 <= lag <= 0.27 * 1.5


def test_lag_is_a_multiple_of_a_regular_interval_and_uses_all_recordings():
    t = 0.1 * np.arange(400)
    waves = np.stack([np.sin(t + p) for p in (0.0, 1.0)])[..., None]
    lag = choose_lag(Trajectories.from_arrays(waves, t))
    assert lag / 0.1 == pytest.approx(round(lag / 0.1))


def test_no_lag_to_choose():
    with pytest.raises(DataError, match=r"No variable changes.*lag="):
        choose_lag(Trajectories.from_arrays(np.ones(50)))
    two_levels = [np.full(30, 0.0), np.full(30, 1.0)]
    with pytest.raises(DataError, match=r"remembers longer .*remove a drift"):
        choose_lag(Trajectories.from_arrays(two_levels))
