"""The rimless wheel: energy between impacts, the steady speed of its step map, bad parameters."""

import numpy as np
import pytest

from foretell.core import ParameterError
from foretell.data.walkers import rimless_wheel, steady_speed


def test_energy_is_kept_between_impacts_and_lost_at_them():
    data = rimless_wheel(2, 150, random_state=0)
    for values, t, jumps in zip(
        data.trajectories.values, data.trajectories.times, data.jump_times, strict=True
    ):
        energy = values[:, 1] ** 2 / 2 + np.cos(values[:, 0])
        stretch = np.searchsorted(jumps, t)
        assert len(jumps) > 3
        for k in range(len(jumps)):
            inside = energy[stretch == k]
            assert np.ptp(inside) < 1e-9


def test_the_speed_after_impacts_tends_to_the_fixed_point_in_closed_form():
    data = rimless_wheel(2, 500, step=0.05, random_state=0)
    rest = steady_speed()
    for values, t, jumps in zip(
        data.trajectories.values, data.trajectories.times, data.jump_times, strict=True
    ):
        k = int(np.searchsorted(t, jumps[-2], side="right"))  # first sample after a late impact
        after = np.sqrt(values[k, 1] ** 2 - 2 * (np.cos(-0.2) - np.cos(values[k, 0])))
        assert after == pytest.approx(rest, rel=1e-5)


def test_a_wheel_that_would_stop_is_refused():
    with pytest.raises(ParameterError, match="slope"):
        rimless_wheel(1, 50, slope=0.01)
    with pytest.raises(ParameterError, match="half_angle"):
        steady_speed(half_angle=1.0)
