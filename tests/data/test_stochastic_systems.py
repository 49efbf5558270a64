"""The stochastic generators have the laws that are known for them.

False-alarm rate: each bound is more than four standard errors of its estimate away, which were
found from 20 repetitions; the seeds are fixed.
"""

import numpy as np
import pytest

from foretell.core import ParameterError
from foretell.data.stochastic_systems import double_well, langevin, noisy_oscillator, noisy_spiral


def test_the_spiral_has_its_stationary_variance_and_rotation() -> None:
    data = noisy_spiral(400, n_recordings=200, random_state=0)
    x = np.stack(data.values)
    assert x.var(axis=(0, 1)) == pytest.approx([0.25, 0.25], rel=0.06)
    turned = np.mean(x[:, :-1, 0] * x[:, 1:, 1] - x[:, :-1, 1] * x[:, 1:, 0])
    assert turned == pytest.approx(-2 * 0.25 * np.exp(-0.05) * np.sin(0.2), rel=0.1)


def test_the_well_on_the_quieter_side_is_visited_longer() -> None:
    x = np.concatenate(double_well(2000, n_recordings=50, random_state=1).values)
    assert np.mean(x < 0) > 0.7
    assert np.mean(np.abs(x) < 0.3) < 0.2


def test_without_noise_the_oscillator_reaches_its_cycle() -> None:
    data = noisy_oscillator(600, n_recordings=3, noise=0.0, random_state=0)
    for run in data.values:
        assert np.abs(run[300:, 0]).max() == pytest.approx(2.0, abs=0.05)


def test_the_same_seed_gives_the_same_recording_and_bad_sizes_are_refused() -> None:
    one, two = (noisy_spiral(50, random_state=3).values[0] for _ in range(2))
    assert np.array_equal(one, two)
    with pytest.raises(ParameterError, match="n_samples"):
        langevin(np.zeros_like, np.ones_like, np.zeros((1, 1)), 1, step=0.1, names=["x"])
