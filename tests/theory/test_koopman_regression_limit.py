"""Without an active bound the program is the regression; with no lifting, DMDc. No alarms."""

import numpy as np
import pytest

from foretell.data.controlled_systems import duffing
from foretell.dynamics.koopman import EDMDc
from foretell.solve.qp_elastic import solve_elastic

pytestmark = pytest.mark.theory


@pytest.mark.parametrize("seed", range(5))
def test_wide_bounds_leave_the_regression_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phi, target = rng.normal(size=(50, 4)), rng.normal(size=(50, 3))
    G, S = phi.T @ phi / 50, target.T @ phi / 50
    M, c = rng.normal(size=(30, 12)), rng.normal(size=30)
    w = solve_elastic(G, S.ravel(), M, c, np.full(30, 1e6), mu=10.0).w
    expected = np.linalg.lstsq(phi, target, rcond=None)[0].T
    assert np.abs(w.reshape(3, 4) - expected).max() < 1e-8


def test_a_model_without_lifting_is_dynamic_mode_decomposition_with_control() -> None:
    data = duffing().recordings(10, 40, noise=0.05, random_state=0)
    model = EDMDc(degree=1, n_centres=0, ridge=0.0).fit(data)
    scaled = model.scaler_.transform(data)
    x = np.concatenate([np.hstack([v[:-1], u[:-1]]) for v, u in zip(
        scaled.values, scaled.controls, strict=True)])  # fmt: skip
    y = np.concatenate([v[1:] for v in scaled.values])
    expected = np.linalg.lstsq(x, y, rcond=None)[0].T
    assert np.abs(model.W_ - expected).max() < 1e-8
