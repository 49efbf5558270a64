"""The solution of the elastic program is smooth off the bounds and one-sided on them. No alarms."""

import numpy as np
import pytest

from foretell.solve.qp_elastic import solve_elastic

pytestmark = pytest.mark.theory


def solution(q: float) -> float:
    """argmin w^2/2 - q w + relu(|w| - 1)^2: w = q inside, (q + 2) / 3 above."""
    return float(solve_elastic([[1.0]], [q], [[1.0]], [0.0], [1.0], mu=2.0).w[0])


def test_the_closed_form_in_one_dimension() -> None:
    for q in (-5.0, -1.0, 0.3, 1.0, 4.0):
        expected = q if abs(q) <= 1 else np.sign(q) * (abs(q) + 2) / 3
        assert np.isclose(solution(q), expected, atol=1e-12)


def test_the_derivative_is_one_sided_on_a_bound() -> None:
    left = (solution(1.0) - solution(1.0 - 1e-6)) / 1e-6
    right = (solution(1.0 + 1e-6) - solution(1.0)) / 1e-6
    assert np.isclose(left, 1.0, atol=1e-6)
    assert np.isclose(right, 1 / 3, atol=1e-6)


@pytest.mark.parametrize("q", [0.5, 2.5])
def test_the_derivative_off_the_bound_is_the_limit_of_differences(q: float) -> None:
    found = solve_elastic([[1.0]], [q], [[1.0]], [0.0], [1.0], mu=2.0)
    exact = found.gradient([1.0]).q[0]
    assert np.isclose((solution(q + 1e-6) - solution(q - 1e-6)) / 2e-6, exact, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_the_solution_is_continuous_where_bounds_switch(seed: int) -> None:
    """Along a line through data space: no jump is larger than the slope allows."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(12, 3))
    G, M = R.T @ R / 12, rng.normal(size=(15, 6))
    q0, q1, c, delta = rng.normal(size=6), rng.normal(size=6), rng.normal(size=15), np.full(15, 0.5)
    path = np.array(
        [solve_elastic(G, q0 + t * q1, M, c, delta, mu=20.0).w for t in np.linspace(0, 1, 201)]
    )
    steepest = np.linalg.norm(q1) / np.linalg.eigvalsh(G)[0]
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() <= steepest / 200 * (1 + 1e-9)
