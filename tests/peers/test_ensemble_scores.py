"""Scores of ensembles agree with scoringrules and POT where the definitions coincide."""

import numpy as np
import pytest

from foretell.dynamics.longrun import energy_score, sliced_wasserstein, wasserstein

pytestmark = pytest.mark.peer


def test_energy_score_is_the_fair_one_of_scoringrules() -> None:
    rules = pytest.importorskip("scoringrules", reason="scoringrules is not installed")
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(20, 15, 4)), rng.normal(size=(20, 4))
    theirs = rules.es_ensemble(y, F, estimator="fair")
    assert np.allclose(energy_score(F, y), theirs, atol=1e-6)


def test_wasserstein_is_that_of_pot() -> None:
    ot = pytest.importorskip("ot", reason="POT is not installed")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40), rng.normal(size=55) ** 2
    assert wasserstein(x, y, power=2.0) == pytest.approx(
        ot.wasserstein_1d(x, y, p=2) ** 0.5, rel=1e-9
    )
    a, b = rng.normal(size=(50, 3)), rng.normal(size=(60, 3)) + 0.5
    theirs = ot.sliced_wasserstein_distance(a, b, n_projections=4000, seed=1)
    assert sliced_wasserstein(a, b, n_projections=4000) == pytest.approx(theirs, rel=0.03)
