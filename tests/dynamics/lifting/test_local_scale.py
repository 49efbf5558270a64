"""How wide residuals are at a state, fitted from one residual at each."""

import numpy as np
import pytest

from foretell.dynamics.lifting.local_scale import fit_local_scale, local_scale


def test_the_width_of_two_variables_that_depends_on_both_is_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    width = np.exp(0.4 * x[:, :1] - 0.3 * x[:, 1:]) * [1.0, 2.0]
    fitted = fit_local_scale(x, width * rng.normal(size=x.shape), 2)
    inside = np.abs(x).max(axis=1) < 2
    ratio = local_scale(x, fitted)[inside] / width[inside]
    assert np.abs(np.log(ratio)).max() < 0.35  # twelve coefficients from 4000 squares
    assert abs(np.log(ratio).mean()) < 0.05


def test_cells_of_one_channel_share_their_coefficients():
    rng = np.random.default_rng(1)
    field = rng.normal(size=(500, 16))
    width = 0.5 + 0.3 * np.tanh(field)
    fitted = fit_local_scale(field, width * rng.normal(size=field.shape), 1)
    assert fitted.shape == (1, 3)
    inside = np.abs(field) < 2
    assert np.abs(np.log(local_scale(field, fitted) / width)[inside]).mean() < 0.1


def test_a_width_that_depends_on_an_input_is_found_for_variables_and_for_cells():
    rng = np.random.default_rng(3)
    u = rng.normal(size=(3000, 1))
    for n, n_channels in ((2, 2), (12, 1)):
        x = rng.normal(size=(3000, n))
        residuals = np.exp(0.5 * u) * rng.normal(size=x.shape)
        fitted = fit_local_scale(x, residuals, n_channels, u)
        inside = np.abs(u[:, 0]) < 2
        ratio = local_scale(x, fitted, u)[inside] / np.exp(0.5 * u[inside])
        assert np.abs(np.log(ratio)).mean() < 0.1
        alone = fit_local_scale(x, residuals, n_channels)  # as kept by earlier versions
        assert np.array_equal(local_scale(x, alone, u), local_scale(x, alone))


@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e100])
def test_residuals_of_any_size_give_a_finite_width(scale):
    x = np.random.default_rng(2).normal(size=(200, 3))
    assert np.isfinite(local_scale(10 * x, fit_local_scale(x, scale * x, 3))).all()


def test_one_coefficient_is_one_width_everywhere():
    assert local_scale(np.ones((5, 4)), np.log([[4.0], [9.0]])).tolist() == pytest.approx(
        [2.0, 2.0, 3.0, 3.0]
    )
