"""Long-run measures: exact values on small cases, invariances, and the known extremes."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from foretell.core.errors import DataError, ParameterError
from foretell.data.trajectories import Trajectories
from foretell.dynamics.longrun import (
    dominant_frequency,
    event_times,
    interval_histogram_distance,
    noise_floor,
    power_spectrum_hellinger,
    prediction_error,
    state_space_divergence,
    state_space_divergence_gmm,
    valid_prediction_time,
)


def lorenz(n_runs, n_samples, seed, step=0.01):
    """Recordings on the Lorenz attractor, shape (n_runs, n_samples, 3)."""

    def velocity(v):
        x, y, z = v
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    v = np.random.default_rng(seed).normal(size=(3, n_runs))
    v[2] += 25.0
    states = np.empty((n_samples + 1000, 3, n_runs))
    for i in range(len(states)):
        k1 = velocity(v)
        k2 = velocity(v + step / 2 * k1)
        k3 = velocity(v + step / 2 * k2)
        k4 = velocity(v + step * k3)
        v = v + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        states[i] = v
    return states[1000:].transpose(2, 0, 1)


@pytest.fixture(scope="module")
def cloud():
    return lorenz(100, 2000, seed=0).reshape(2, 100_000, 3)


def dense_divergence(true, generated, bins, alpha):
    """The group's convention with a full histogram, written from its description."""
    low, high = true.min(0), true.max(0)
    probabilities = []
    for values in (true, generated):
        histogram = np.zeros((bins,) * true.shape[1])
        for row in values:
            cell = [int(v) for v in bins * (row - low) / (high - low)]
            if all(0 < i < bins for i in cell):
                histogram[tuple(cell)] += 1
        if histogram.sum() == 0:
            return math.nan
        probabilities.append((histogram + alpha) / (histogram.sum() + alpha * histogram.size))
    p, q = probabilities
    return float((p * np.log(p / q)).sum())


class TestStateSpaceDivergence:
    def test_a_small_case_by_hand(self):
        # Two cells over [0, 2] and one outside; counts 3, 1, 0 against 1, 2, 1.
        true = np.array([0.0, 0.5, 0.9, 2.0])
        generated = np.array([0.2, 1.5, 1.9, 7.0])
        p, q = np.array([3.1, 1.1, 0.1]) / 4.3, np.array([1.1, 2.1, 1.1]) / 4.3
        expected = (p * np.log(p / q)).sum()
        found = state_space_divergence(true, generated, bins=2, alpha=0.1)
        assert found == pytest.approx(expected, rel=1e-13)

    @pytest.mark.parametrize("n_variables", [1, 2, 3])
    @pytest.mark.parametrize("bins", [2, 7])
    def test_reference_mode_is_the_dense_histogram(self, n_variables, bins):
        rng = np.random.default_rng(n_variables)
        true = rng.normal(size=(500, n_variables))
        generated = 0.7 * rng.normal(size=(400, n_variables)) - 0.3
        expected = dense_divergence(true, generated, bins, 1e-5)
        found = state_space_divergence(true, generated, bins=bins, reference=True)
        assert found == pytest.approx(expected, rel=1e-12)

    @given(
        arrays(np.float64, (12, 2), elements=st.integers(-4, 4)),
        arrays(np.float64, (9, 2), elements=st.integers(-6, 6)),
        st.integers(1, 6),
    )
    def test_reference_mode_on_cell_edges(self, true, generated, bins):
        if (np.ptp(true, axis=0) == 0).any():
            return
        expected = dense_divergence(true, generated, bins, 1e-3)
        found = state_space_divergence(true, generated, bins=bins, alpha=1e-3, reference=True)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)

    def test_reference_mode_drops_what_the_corrected_mode_counts(self):
        true = np.linspace(0.0, 1.0, 1001)
        inside_first_bin, outside = np.full(100, 0.01), np.full(100, 5.0)
        half = np.concatenate([true, outside, outside, outside])
        assert math.isnan(state_space_divergence(true, inside_first_bin, reference=True))
        assert state_space_divergence(true, half, reference=True) == pytest.approx(0.0, abs=1e-12)
        share = 1001 / 1301
        assert state_space_divergence(true, half) == pytest.approx(-math.log(share), abs=1e-4)

    def test_of_data_with_itself_is_zero(self, cloud):
        assert state_space_divergence(cloud[0], cloud[0]) == pytest.approx(0.0, abs=1e-12)
        assert state_space_divergence(cloud[0], cloud[0], reference=True) == pytest.approx(
            0.0, abs=1e-12
        )

    def test_two_runs_of_one_system_stay_near_the_floor(self, cloud):
        assert state_space_divergence(cloud[0], cloud[1]) < 0.25

    @pytest.mark.parametrize("reference", [False, True])
    def test_a_run_that_sits_at_a_point_gets_fifteen_to_sixteen(self, cloud, reference):
        point = np.tile(cloud[0].mean(axis=0), (100_000, 1))
        assert 15 < state_space_divergence(cloud[0], point, reference=reference) < 16.5

    def test_an_escaped_run_is_as_bad_as_a_point_and_not_silent(self, cloud):
        escaped = np.full((100_000, 3), 1e300)
        escaped[50_000:] = np.nan
        assert 15 < state_space_divergence(cloud[0], escaped) < 17
        assert math.isnan(state_space_divergence(cloud[0], escaped, reference=True))

    @given(st.integers(0, 1000))
    def test_order_shift_scale_and_grouping_do_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        true, generated = rng.normal(size=(60, 2)), rng.normal(size=(50, 2))
        expected = state_space_divergence(true, generated, bins=4)
        shuffled = rng.permutation(generated)
        assert state_space_divergence(true, shuffled, bins=4) == expected
        assert state_space_divergence(
            [true[:20], true[20:]], [shuffled[:7], shuffled[7:]], bins=4
        ) == pytest.approx(expected, rel=1e-12)
        assert state_space_divergence(7 * true + 3, 7 * generated + 3, bins=4) == pytest.approx(
            expected, rel=1e-12
        )
        assert expected >= 0

    def test_five_variables_need_no_dense_grid(self):
        rng = np.random.default_rng(0)
        true, generated = rng.normal(size=(2, 20_000, 5))
        n_cells, alpha = 30.0**5 + 1, 1e-5
        found = state_space_divergence(true, generated)
        assert 0 < found < math.log((20_000 + alpha * n_cells) / alpha)

    def test_incomplete_true_rows_are_left_out(self):
        rng = np.random.default_rng(0)
        true, generated = rng.normal(size=(2, 300, 2))
        broken = np.insert(true, 5, [np.nan, 9.0], axis=0)
        assert state_space_divergence(broken, generated) == state_space_divergence(true, generated)

    def test_a_constant_true_variable_is_one_cell(self):
        t = np.linspace(0, 1, 50)
        flat = np.column_stack([t, np.zeros(50)])
        assert state_space_divergence(flat, flat, bins=3) == pytest.approx(0.0, abs=1e-12)
        assert state_space_divergence(flat, flat + np.array([0, 1e-3]), bins=3) > 5

    def test_trajectories_are_accepted(self, cloud):
        true = Trajectories.from_arrays([cloud[0, :500], cloud[0, 500:800]])
        arrays_value = state_space_divergence(cloud[0, :800], cloud[1, :900])
        assert state_space_divergence(true, cloud[1, :900]) == arrays_value

    def test_bad_input_is_named(self):
        with pytest.raises(DataError, match="true has 2 variables and generated has 3"):
            state_space_divergence(np.zeros((5, 2)), np.zeros((5, 3)))
        with pytest.raises(DataError, match="0 complete rows"):
            state_space_divergence(np.full((5, 2), np.nan), np.zeros((5, 2)))
        with pytest.raises(ParameterError, match="bins=0"):
            state_space_divergence(np.zeros((5, 2)), np.zeros((5, 2)), bins=0)
        with pytest.raises(DataError, match=r"recording 1 has shape \(5, 3\)"):
            state_space_divergence([np.zeros((5, 2)), np.zeros((5, 3))], np.zeros((5, 2)))


class TestMixtureDivergence:
    def test_two_far_gaussians_have_the_closed_form(self):
        # Samples scatter by 1 and their Gaussians by 10: both mixtures are near one Gaussian of
        # variance 101, and two of those, d apart, diverge by d^2 / (2 * 101).
        rng = np.random.default_rng(0)
        true = rng.normal(size=(4000, 6))
        shift = np.array([3.0, 0, 0, 0, 0, 0])
        found = state_space_divergence_gmm(true, true + shift, variance=100.0, n_draws=5000)
        assert found == pytest.approx(9 / (2 * 101), rel=0.1)

    def test_used_above_five_variables(self):
        rng = np.random.default_rng(1)
        true, generated = rng.normal(size=(2, 500, 7))
        expected = state_space_divergence_gmm(true, generated)
        assert state_space_divergence(true, generated) == expected
        assert expected == state_space_divergence_gmm(true, generated)

    def test_shift_and_scale_do_not_matter(self):
        rng = np.random.default_rng(2)
        true, generated = rng.normal(size=(2, 500, 6))
        factor = np.array([1e-3, 1, 10, 1e4, 2, 5])
        expected = state_space_divergence_gmm(true, generated)
        found = state_space_divergence_gmm(true * factor + 7, generated * factor + 7)
        assert found == pytest.approx(expected, rel=1e-6)

    def test_extremes(self):
        rng = np.random.default_rng(3)
        true, other = rng.normal(size=(2, 3000, 6))
        assert state_space_divergence_gmm(true, true) == pytest.approx(0.0, abs=0.05)
        half = other.copy()
        half[::2] = np.nan
        gap = state_space_divergence_gmm(true, half) - state_space_divergence_gmm(true, other)
        assert gap == pytest.approx(math.log(2), abs=0.05)
        assert math.isinf(state_space_divergence_gmm(true, np.full((9, 6), np.nan)))
        assert state_space_divergence_gmm(true, np.full((9, 6), 1e3)) > 1e5


class TestPowerSpectrum:
    def test_agrees_with_the_definition(self):
        from scipy.ndimage import gaussian_filter1d

        rng = np.random.default_rng(0)
        true, generated = np.cumsum(rng.normal(size=(2, 3000, 2)), axis=1)
        parts = []
        for j in range(2):
            f, g = (
                gaussian_filter1d(np.abs(np.fft.rfft((x - x.mean()) / x.std())) ** 2, 20)
                for x in (true[:, j], generated[:, j])
            )
            parts.append(math.sqrt(1 - np.sqrt(f / f.sum() * g / g.sum()).sum()))
        found = power_spectrum_hellinger(true, generated)
        assert found == pytest.approx(np.mean(parts), rel=1e-10)

    @given(st.integers(0, 10_000), st.sampled_from([0.0, 3.0, 20.0]))
    def test_between_zero_and_one_symmetric_and_scale_free(self, seed, smoothing):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 200, 2))
        a = np.cumsum(a, axis=0)
        d = power_spectrum_hellinger(a, b, smoothing=smoothing)
        assert 0 < d <= 1
        assert power_spectrum_hellinger(b, a, smoothing=smoothing) == pytest.approx(d, rel=1e-12)
        moved = power_spectrum_hellinger(5 * a - 3, 0.1 * b + 9, smoothing=smoothing)
        assert moved == pytest.approx(d, rel=1e-9)
        assert power_spectrum_hellinger(a, a, smoothing=smoothing) == pytest.approx(0, abs=1e-7)

    def test_disjoint_lines_are_one_apart(self):
        t = np.arange(1000)
        a, b = np.sin(2 * np.pi * 0.01 * t), np.sin(2 * np.pi * 0.2 * t)
        assert power_spectrum_hellinger(a, b, smoothing=0) == pytest.approx(1.0, abs=1e-6)

    @pytest.mark.parametrize("end", ["flat", "rests", "overflows", "infinite"])
    def test_a_collapsed_run_gets_one(self, end):
        t = np.arange(2000) * 0.05
        true = np.column_stack([np.sin(t), np.cos(t)])
        run = true.copy()
        if end == "flat":
            run[:] = [0.3, 0.4]
        elif end == "rests":
            run *= np.exp(-0.5 * t)[:, None]
        else:
            run[1500:] = np.nan if end == "overflows" else np.inf
        assert power_spectrum_hellinger(true, run) == 1.0

    def test_one_flat_variable_counts_as_one(self):
        t = np.arange(2000) * 0.05
        true = np.column_stack([np.sin(t), np.cos(t)])
        half = np.column_stack([np.sin(t), np.zeros(2000)])
        assert power_spectrum_hellinger(true, half) == pytest.approx(0.5, abs=1e-6)
        assert power_spectrum_hellinger(half, half) == pytest.approx(0.0, abs=1e-6)

    def test_several_recordings_and_unequal_lengths(self, cloud):
        short, long = cloud[0, :10_000], cloud[1, :40_000]
        single = power_spectrum_hellinger(short, long[:10_000])
        averaged = power_spectrum_hellinger(short, long)
        listed = power_spectrum_hellinger([short], [long[:20_000], long[20_000:]])
        assert listed == pytest.approx(averaged, rel=0.02)
        assert 0 < averaged < single + 0.05
        assert averaged < 0.2

    def test_irregular_stamps_are_brought_to_one_grid(self):
        rng = np.random.default_rng(0)
        t = np.sort(rng.uniform(0, 200, 8000))
        even = np.arange(0, 200, np.median(np.diff(t)))

        def signal(s):
            return np.sin(2 * s) + 0.5 * np.sin(5.1 * s)

        true = Trajectories.from_arrays(signal(t), t)
        same = Trajectories.from_arrays(signal(even + 3.0), even)
        other = Trajectories.from_arrays(signal(1.5 * even), even)
        assert power_spectrum_hellinger(true, same, smoothing=2) < 0.1
        assert power_spectrum_hellinger(true, other, smoothing=2) > 0.7

    def test_missing_true_cells_are_interpolated(self, cloud):
        true = cloud[0, :4000].copy()
        true[100:103, 1] = np.nan
        assert power_spectrum_hellinger(true, cloud[0, :4000]) < 0.01

    def test_too_short_is_named(self):
        with pytest.raises(DataError, match="A spectrum of 3 samples"):
            power_spectrum_hellinger(np.arange(3.0), np.arange(3.0))
        with pytest.raises(DataError, match="smaller segment"):
            power_spectrum_hellinger(np.arange(9.0), np.arange(9.0), segment=10)


class TestDominantFrequency:
    @pytest.mark.parametrize("frequency", [0.31, 1.237, 7.9])
    def test_equal_intervals(self, frequency):
        t = np.arange(0, 60, 0.01)
        x = 3.0 + 0.2 * t + np.sin(2 * np.pi * frequency * t + 1.0)
        assert dominant_frequency(x, 0.01) == pytest.approx(frequency, rel=1e-3)

    @pytest.mark.parametrize("frequency", [0.31, 1.237, 4.1])
    def test_irregular_stamps(self, frequency):
        rng = np.random.default_rng(1)
        t = np.sort(rng.uniform(0, 60, 600))
        x = np.sin(2 * np.pi * frequency * t) + 0.3 * rng.normal(size=t.size)
        assert dominant_frequency(x, times=t) == pytest.approx(frequency, rel=2e-3)

    def test_every_tenth_sample_of_a_periodic_spike_train(self):
        rng = np.random.default_rng(2)
        t = np.sort(rng.choice(1000, 100, replace=False)).astype(float)
        x = (t % 80) / 80
        assert dominant_frequency(x, times=t) == pytest.approx(1 / 80, rel=0.01)

    def test_several_recordings_and_variables_add_up(self):
        t = np.arange(0, 30, 0.02)
        both = np.column_stack([np.sin(2 * np.pi * t), 100 * np.sin(2 * np.pi * 3 * t)])
        assert dominant_frequency([both, both], 0.02, variable=0) == pytest.approx(1, rel=1e-3)
        assert dominant_frequency([both, both], 0.02, variable=1) == pytest.approx(3, rel=1e-3)
        three = np.column_stack([both, np.cos(2 * np.pi * t)])
        assert dominant_frequency(three, 0.02) == pytest.approx(1, rel=1e-3)

    def test_harmonics_find_the_beat_under_a_stronger_overtone(self):
        t = np.arange(0, 60, 0.02)
        pulse = np.sin(2 * np.pi * 1.1 * t) + 1.3 * np.sin(2 * np.pi * 2.2 * t + 1.0)
        assert dominant_frequency(pulse, 0.02) == pytest.approx(2.2, rel=1e-3)
        assert dominant_frequency(pulse, 0.02, harmonics=3) == pytest.approx(1.1, rel=1e-3)
        tone = np.sin(2 * np.pi * 1.1 * t)
        assert dominant_frequency(tone, 0.02, harmonics=3) == pytest.approx(1.1, rel=1e-3)

    def test_segments_steady_an_unsteady_rhythm(self):
        rng = np.random.default_rng(5)
        errors = {1: [], 16: []}
        for _ in range(8):
            rate = 1.0 + 0.05 * rng.normal(size=8000).cumsum() / np.sqrt(np.arange(1, 8001))
            x = np.sin(2 * np.pi * 0.02 * np.cumsum(rate - rate.mean() + 1.0))
            for n, kept in errors.items():
                kept.append(abs(dominant_frequency(x, 0.02, segments=n) - 1.0))
        assert np.mean(errors[16]) < np.mean(errors[1])

    def test_missing_cells_and_trajectories(self):
        t = np.arange(0, 30, 0.02)
        x = np.sin(2 * np.pi * 1.5 * t)
        x[200:260] = np.nan
        data = Trajectories.from_arrays(x, t, mask=np.isfinite(x))
        assert dominant_frequency(data) == pytest.approx(1.5, rel=2e-3)

    def test_standing_still_is_zero(self):
        assert dominant_frequency(np.full(100, 0.1), 0.1) == 0.0
        assert dominant_frequency(np.linspace(0, 1, 100), 0.1) == pytest.approx(0.0)

    def test_fourier_sum_is_exact_to_six_digits(self):
        from foretell.dynamics.longrun.rhythm import _fourier_sum

        rng = np.random.default_rng(3)
        t, v = np.sort(rng.uniform(5, 45, 300)), rng.normal(size=300)
        df, n = 0.25 / 40, 700
        exact = np.exp(-2j * np.pi * df * np.outer(np.arange(n), t - t[0])) @ v
        assert np.abs(_fourier_sum(v, t, df, n) - exact).max() < 1e-5 * np.abs(v).sum()

    def test_bad_input_is_named(self):
        with pytest.raises(DataError, match="last no time"):
            dominant_frequency([1.0])
        with pytest.raises(ParameterError, match="harmonics=0"):
            dominant_frequency(np.zeros(5), harmonics=0)
        with pytest.raises(DataError, match="one stamp per row"):
            dominant_frequency(np.zeros(5), times=np.arange(4.0))
        with pytest.raises(ParameterError, match="dt=-1"):
            dominant_frequency(np.zeros(5), -1)


class TestForecasts:
    def test_prediction_error_by_hand(self):
        true = np.zeros((2, 3, 2))
        true[0, 1, 0] = np.nan
        predicted = np.arange(12.0).reshape(2, 3, 2)
        expected = np.mean([3, 4, 5, 8, 9, 10, 11])
        assert prediction_error(true, predicted) == pytest.approx(expected)
        assert prediction_error(true, predicted, steps=1) == pytest.approx(np.mean([3, 8, 9]))

    def test_an_overflowing_prediction_is_infinitely_wrong(self):
        predicted = np.zeros((1, 3, 1))
        predicted[0, 2] = np.nan
        assert math.isinf(prediction_error(np.zeros((1, 3, 1)), predicted))

    def test_ragged_forecasts(self):
        true = [np.zeros((3, 1)), np.zeros((5, 1))]
        predicted = [np.ones((3, 1)), 2 * np.ones((5, 1))]
        assert prediction_error(true, predicted) == pytest.approx((2 + 8) / 6)
        with pytest.raises(DataError, match="one prediction per start"):
            prediction_error(true, predicted[:1])

    def test_valid_prediction_time_by_hand(self):
        true = np.zeros((3, 5, 1))
        predicted = np.zeros((3, 5, 1))
        predicted[0, 2:] = 0.9
        predicted[1, 4:] = np.nan
        found = valid_prediction_time(true, predicted, dt=0.5, scale=[2.0], lyapunov_exponent=0.8)
        np.testing.assert_allclose(found.times, [1.0, 2.0, 2.0])
        np.testing.assert_array_equal(found.reached, [True, True, False])
        assert found.median == 2.0
        assert found.lyapunov_times == pytest.approx(1.6)
        assert repr(found) == (
            "<ValidPredictionTime: median 2 (1.6 Lyapunov times) over 3 starts, limit 0.4>"
        )

    def test_the_error_is_averaged_over_observed_variables(self):
        true = np.array([[[0.0, 0.0], [0.0, np.nan], [0.0, 0.0]]])
        predicted = np.array([[[0.0, 0.0], [0.3, 9.0], [0.5, 0.0]]])
        found = valid_prediction_time(true, predicted, scale=[1.0, 1.0])
        assert found.times == [2.0]
        assert not found.reached[0]
        assert "median >= 2" in repr(found)

    def test_stamps_may_be_irregular(self):
        predicted = np.array([[[0.0], [0.0], [5.0]]])
        found = valid_prediction_time(
            np.zeros((1, 3, 1)), predicted, times=[10.0, 10.5, 13.0], scale=[1.0]
        )
        assert found.times == [3.0]
        data = Trajectories.from_arrays(np.array([0.0, 1.0, 0.0]), [10.0, 10.5, 13.0])
        assert valid_prediction_time(data, predicted[0], scale=[1.0]).times == [0.5]

    def test_a_constant_scale_is_refused(self):
        with pytest.raises(ParameterError, match="above 0 per variable"):
            valid_prediction_time(np.zeros((1, 3, 1)), np.zeros((1, 3, 1)))


class TestIntervals:
    def test_event_times_of_a_sine(self):
        t = np.arange(0, 20, 0.001)
        up = event_times(np.sin(t), t, threshold=0.5)
        np.testing.assert_allclose(up, np.arcsin(0.5) + 2 * np.pi * np.arange(4), atol=1e-6)
        down = event_times(np.sin(t), t, threshold=0.5, direction="down")
        expected = np.pi - np.arcsin(0.5) + 2 * np.pi * np.arange(3)
        np.testing.assert_allclose(down, expected, atol=1e-6)

    def test_touching_the_threshold_is_one_event(self):
        np.testing.assert_allclose(event_times([0, 1, 1, 2, 0, 2.0], threshold=1.0), [2.0, 4.5])

    def test_missing_samples_are_skipped(self):
        np.testing.assert_allclose(event_times([0.0, np.nan, 1.0], threshold=0.5), [1.0])

    def test_a_longer_period_shows_as_its_share(self):
        true, slower = np.arange(50) * 80.0, np.arange(40) * 82.4
        assert interval_histogram_distance(true, true) == 0.0
        assert interval_histogram_distance(true, slower) == pytest.approx(0.03)
        assert interval_histogram_distance(true / 7, slower / 7) == pytest.approx(0.03)

    def test_recordings_are_pooled_without_intervals_between_them(self):
        true = [np.array([0.0, 1.0, 2.0]), np.array([100.0, 101.0])]
        assert interval_histogram_distance(true, np.arange(5.0)) == 0.0

    def test_silence(self):
        assert math.isinf(interval_histogram_distance([0.0, 1.0], []))
        with pytest.raises(DataError, match="true has no recording with two events"):
            interval_histogram_distance([1.0], [0.0, 1.0])
        with pytest.raises(DataError, match="generated: event times"):
            interval_histogram_distance([0.0, 1.0], [1.0, 0.0])


class TestNoiseFloor:
    def test_one_recording_is_cut_in_time(self, cloud):
        floor = noise_floor(cloud[0, :20_000], parts=4)
        quarters = cloud[0, :20_000].reshape(4, 5000, 3)
        assert floor.n_comparisons == 3
        assert floor.false_alarm_rate == 0.25
        assert floor.state_space_divergence == max(
            state_space_divergence(quarters[0], q) for q in quarters[1:]
        )
        assert floor.power_spectrum_hellinger == max(
            power_spectrum_hellinger(quarters[0], q) for q in quarters[1:]
        )

    def test_missing_cells_are_no_escape(self, cloud):
        data = cloud[0, :8000].copy()
        data[6000:6005, 0] = np.nan
        floor = noise_floor(Trajectories.from_arrays(data, mask=np.isfinite(data)))
        plain = noise_floor(data)
        assert floor.power_spectrum_hellinger < 0.5
        assert plain.power_spectrum_hellinger == pytest.approx(floor.power_spectrum_hellinger)
        assert plain.state_space_divergence == floor.state_space_divergence

    def test_needs_two_stretches(self):
        with pytest.raises(ParameterError, match="parts=1"):
            noise_floor(np.zeros((5, 1)), parts=1)
