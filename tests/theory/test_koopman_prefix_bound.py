"""Bounded prefix sums of residuals bound the h-step error (Abel summation); exact, no alarms.

With P_j the sum of the first j + 1 residuals, the h-step error is
P_(h-1) + sum_(j<=h-2) A^(h-2-j) (A - I) P_j, so that max |P_j| <= delta and |A^i| <= K imply
error <= delta (1 + K (h - 1) |A - I|).
"""

import numpy as np
import pytest

pytestmark = pytest.mark.theory


@pytest.mark.parametrize("seed", range(10))
def test_the_identity_and_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, H, dt = 4, 20, 0.05
    A = np.eye(Z) + dt * (rng.normal(size=(Z, Z)) - 1.5 * np.eye(Z))
    e = rng.normal(size=(H, Z)) - rng.normal(size=Z)
    P = np.cumsum(e, axis=0)
    delta = np.linalg.norm(P, axis=1).max()
    K = max(np.linalg.norm(np.linalg.matrix_power(A, i), 2) for i in range(H))
    growth = np.linalg.norm(A - np.eye(Z), 2)
    for h in range(1, H + 1):
        direct = sum(np.linalg.matrix_power(A, h - 1 - j) @ e[j] for j in range(h))
        abel = P[h - 1] + sum(
            np.linalg.matrix_power(A, h - 2 - j) @ (A - np.eye(Z)) @ P[j] for j in range(h - 1)
        )
        assert np.abs(direct - abel).max() < 1e-10 * max(1.0, np.abs(direct).max())
        assert np.linalg.norm(direct) <= delta * (1 + K * (h - 1) * growth) + 1e-9


def test_the_bound_grows_with_time_and_not_with_the_number_of_steps() -> None:
    """Twice as fine a step, the same span and the same prefix sums: the same bound."""
    rate, span = np.array([[-0.5, 1.0], [-1.0, -0.5]]), 1.0
    bounds = []
    for h in (20, 40, 80):
        A = np.eye(2) + span / h * rate
        K = max(np.linalg.norm(np.linalg.matrix_power(A, i), 2) for i in range(h))
        bounds.append(1 + K * (h - 1) * np.linalg.norm(A - np.eye(2), 2))
    assert np.ptp(bounds) < 0.1 * bounds[0]
