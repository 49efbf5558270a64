"""Scores of ensembles against plain sums, known laws and bad input."""

import numpy as np
import pytest

from foretell.core import DataError, ParameterError
from foretell.dynamics.longrun import (
    energy_distance,
    energy_score,
    rank_histogram,
    sliced_wasserstein,
    spread_skill,
    wasserstein,
)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_energy_score_is_its_plain_sum(n) -> None:
    rng = np.random.default_rng(n)
    F, y = rng.normal(size=(5, 7, n)), rng.normal(size=(5, n))
    for b, found in enumerate(energy_score(F, y)):
        near = np.mean([np.linalg.norm(f - y[b]) for f in F[b]])
        pairs = [np.linalg.norm(F[b, i] - F[b, j]) for i in range(7) for j in range(7) if i != j]
        assert found == pytest.approx(near - 0.5 * np.mean(pairs), rel=1e-6)


def test_rank_histogram_shows_width_and_place() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(3000, 1))
    right = rank_histogram(rng.normal(size=(3000, 19, 1)), y)
    assert right.counts.sum() == 3000
    assert right.chi_square < 3  # one in a thousand for ten bins is 3.1
    narrow = rank_histogram(0.4 * rng.normal(size=(3000, 19, 1)), y)
    assert narrow.chi_square > 50
    assert narrow.outside > 2
    wide = rank_histogram(3.0 * rng.normal(size=(3000, 19, 1)), y)
    assert wide.outside < 0.3
    ties = rank_histogram(np.zeros((2000, 9, 1)), np.zeros((2000, 1)))
    assert ties.chi_square < 3.2


def test_spread_over_skill_is_one_for_any_number_of_draws() -> None:
    rng = np.random.default_rng(0)
    for S in (2, 5, 50):
        found = spread_skill(rng.normal(size=(20_000, S, 1)), rng.normal(size=(20_000, 1)))
        assert found.ratio == pytest.approx(1.0, abs=0.03)


def test_wasserstein_of_different_sizes_is_scipys() -> None:
    from scipy.stats import wasserstein_distance

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.gamma(2.0, size=47)
    assert wasserstein(x, y) == pytest.approx(wasserstein_distance(x, y), rel=1e-9)
    assert wasserstein(x, x + 2.0, power=2.0) == pytest.approx(2.0)


def test_distances_of_laws() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    assert energy_distance(x, rng.normal(size=(600, 4))) == pytest.approx(0.0, abs=0.02)
    assert energy_distance(x, 1.5 + x) > 1.0
    assert sliced_wasserstein(x, x + 1.0) == pytest.approx(1.0, rel=0.15)


def test_bad_ensembles_are_refused() -> None:
    F, y = np.zeros((4, 3, 2)), np.zeros((4, 2))
    for draws, observed in ((F[:, :1], y), (F, y[:, :1]), (F[0], y), (F * np.nan, y)):
        with pytest.raises(DataError):
            energy_score(draws, observed)
    with pytest.raises(ParameterError, match="n_bins"):
        rank_histogram(F, y, n_bins=9)
    with pytest.raises(DataError):
        wasserstein([], [1.0])
    with pytest.raises(DataError):
        energy_distance(np.zeros((4, 2)), np.zeros((4, 3)))
