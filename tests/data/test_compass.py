"""The compass gait: energy between landings and at them, the steady gait and its stability."""

import numpy as np
import pytest

from foretell.core import NumericalError, ParameterError
from foretell.data.compass import (
    _swing,
    after_landing,
    compass_gait,
    energy,
    heel_strike,
    landing,
    next_gait,
    steady_gait,
)

THREE = np.deg2rad(3.0)


def test_energy_is_kept_while_a_leg_swings():
    data = compass_gait(1, 130, random_state=0)
    for values, t, jumps in zip(
        data.trajectories.values, data.trajectories.times, data.jump_times, strict=True
    ):
        assert len(jumps) >= 3
        total = np.sum(energy(values), axis=0)
        stretch = np.searchsorted(jumps, t)
        for k in range(len(jumps)):
            assert np.ptp(total[stretch == k]) < 1e-7


def test_a_landing_takes_energy_and_swaps_the_legs():
    rng = np.random.default_rng(0)
    for _ in range(50):
        half = rng.uniform(0.1, 0.4)
        z = np.array([-half - THREE, half - THREE, *rng.uniform(-2, 0, 2)])
        after = heel_strike(z)
        assert np.array_equal(after[:2], z[[1, 0]])
        assert energy(after)[0] <= energy(z)[0] + 1e-12


def test_the_steady_gait_repeats_and_gains_what_a_landing_takes():
    gait = steady_gait(THREE)
    assert next_gait(gait, THREE) == pytest.approx(gait, abs=1e-8)
    z = after_landing(gait, THREE)
    wait = landing(z, THREE)
    assert 0.6 < wait < 0.9
    end = _swing(z, np.array([wait]))[0]
    gained = 20.0 * 9.81 * 2 * np.sin(gait[0]) * np.sin(THREE)  # 20 kg go down by one step
    assert energy(end)[0] - energy(heel_strike(end))[0] == pytest.approx(gained, rel=1e-7)


def test_it_is_stable_at_three_degrees_and_alternates_at_four_and_three_quarters():
    def multipliers(slope):
        gait, h = steady_gait(slope), 1e-5
        columns = [
            (next_gait(gait + h * e, slope) - next_gait(gait - h * e, slope)) / (2 * h)
            for e in np.eye(3)
        ]
        return np.linalg.eigvals(np.array(columns).T)

    assert np.abs(multipliers(THREE)).max() < 0.9
    assert multipliers(np.deg2rad(4.75)).real.min() < -1.0


def test_what_does_not_walk_is_refused():
    with pytest.raises(ParameterError, match="slope"):
        compass_gait(1, 50, slope=0.3)
    with pytest.raises(NumericalError, match="falls"):
        landing(np.array([0.2, -0.3, 1.5, 0.0]), THREE)
