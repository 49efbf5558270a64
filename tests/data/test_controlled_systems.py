"""Plants: their equations against an independent integrator, their recordings, their limits."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from foretell.core import ParameterError
from foretell.data.controlled_systems import (
    cart_pole,
    cascaded_tanks,
    dc_motor,
    duffing,
    pendulum,
    sampled,
    van_der_pol,
)

PLANTS = [van_der_pol(), pendulum(), duffing(), cart_pole(), dc_motor()]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda p: p.name)
def test_a_step_is_that_of_an_adaptive_solver(plant) -> None:
    x, u = plant.starts(4, 0), np.array([[0.7]])
    for start, end in zip(x, plant.advance(x, u), strict=True):
        exact = solve_ivp(
            lambda _, s: plant.derivative(s[None], u)[0], (0, plant.step), start, rtol=1e-10,
            atol=1e-12,
        )  # fmt: skip
        assert np.abs(exact.y[:, -1] - end).max() < 1e-4 * max(1.0, np.abs(end).max())


@pytest.mark.parametrize("plant", [*PLANTS, cascaded_tanks()], ids=lambda p: p.name)
def test_recordings_follow_the_plant(plant) -> None:
    data = plant.recordings(3, 30, hold=5, random_state=1)
    for x, u in zip(data.values, data.controls, strict=True):
        assert np.allclose(plant.advance(x[:-1], u[:-1]), x[1:])
        assert (np.diff(u[:5, 0]) == 0).all()
        assert (u >= plant.u_low).all()
        assert (u <= plant.u_high).all()
    again = plant.recordings(3, 30, hold=5, random_state=1)
    assert again.fingerprint() == data.fingerprint()


def test_energy_of_the_free_pendulum_is_kept() -> None:
    plant = pendulum(damping=0.0)
    x = plant.run([[1.5, 0.0]], np.zeros((1, 200, 1)))[0]
    energy = 0.5 * x[:, 1] ** 2 - 9.81 * np.cos(x[:, 0])
    assert np.ptp(energy) < 1e-2


def test_the_pole_falls_and_the_tanks_stay_in_their_range() -> None:
    fallen = cart_pole().run([[0.0, 0.0, 0.05, 0.0]], np.zeros((1, 100, 1)))[0]
    assert abs(fallen[-1, 2]) > 1.0
    full = cascaded_tanks().run([[9.0, 9.0]], np.full((1, 200, 1), 4.5))[0]
    assert full.max() <= 10.0
    assert full.min() >= 0.0


def test_noise_is_a_share_of_the_spread_and_another_step_is_the_same_plant() -> None:
    clean = duffing().recordings(20, 50, random_state=0)
    noisy = duffing().recordings(20, 50, noise=0.1, random_state=0)
    difference = np.concatenate(noisy.values) - np.concatenate(clean.values)
    assert np.allclose(
        difference.std(axis=0) / np.concatenate(clean.values).std(axis=0), 0.1, rtol=0.1
    )
    fine, coarse = duffing(), sampled(duffing(), 0.1)
    twice = fine.advance(fine.advance([1.0, 0.3], [0.2]), [0.2])
    assert np.allclose(coarse.advance([1.0, 0.3], [0.2]), twice)


@pytest.mark.parametrize("changes", [{"n": 0}, {"n_samples": 1}, {"hold": 0}, {"noise": -1.0}])
def test_bad_numbers(changes) -> None:
    with pytest.raises(ParameterError, match="needed are"):
        pendulum().recordings(**{"n": 1, "n_samples": 5, **changes})
