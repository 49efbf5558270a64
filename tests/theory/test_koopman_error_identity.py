"""The h-step error of a lifted linear model is a sum of one-step residuals; exact, no alarms."""

import numpy as np
import pytest

from foretell.dynamics.koopman.linear import rollout

pytestmark = pytest.mark.theory


@pytest.mark.parametrize("seed", range(10))
def test_the_error_is_the_sum_of_propagated_residuals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, K, H = 4, 2, 12
    A, B = 0.5 * rng.normal(size=(Z, Z)), rng.normal(size=(Z, K))
    W = np.hstack([A, B])
    psi, u = rng.normal(size=(H + 1, Z)), rng.normal(size=(H, K))
    e = psi[1:] - psi[:-1] @ A.T - u @ B.T
    z = rollout(W, psi[:1], u[None], False)[0]
    for h in range(1, H + 1):
        total = sum(np.linalg.matrix_power(A, h - 1 - j) @ e[j] for j in range(h))
        assert np.abs(psi[h] - z[h] - total).max() < 1e-10 * max(1.0, np.abs(total).max())


def test_a_run_with_the_residuals_as_noise_is_the_recording() -> None:
    """Which is why runs with residuals drawn from recordings reproduce forecast errors."""
    rng = np.random.default_rng(0)
    W = 0.4 * rng.normal(size=(3, 7))
    psi, u = rng.normal(size=(9, 3)), rng.normal(size=(8, 1))
    from foretell.dynamics.koopman.linear import features

    e = psi[1:] - features(psi[:-1], u, True) @ W.T
    assert np.allclose(rollout(W, psi[:1], u[None], True, e[None])[0], psi)
