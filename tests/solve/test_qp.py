"""Quadratic programs against a slow enumeration and against osqp and clarabel; derivatives."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import NumericalError, ParameterError
from foretell.solve.qp import PreparedQP, solve_qp
from foretell.solve.qp_elastic import solve_elastic

SEEDS = st.integers(0, 2**31)


def program(seed: int, n: int, m: int):
    """A feasible program of n variables and m rows, about half of them in the way."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(n, n))
    A = rng.normal(size=(m, n))
    b = A @ rng.normal(size=n) * 0.3 + rng.uniform(0, 1, m)
    return R @ R.T / n + 0.1 * np.eye(n), 5 * rng.normal(size=n), A, b


def enumerated(P, q, A, b):
    """The best of the minima on every subset of rows, by the textbook."""
    n, best, value = len(P), None, np.inf
    for size in range(min(n, len(A)) + 1):
        for rows in map(list, combinations(range(len(A)), size)):
            K = np.block([[P, A[rows].T], [A[rows], np.zeros((size, size))]])
            x = np.linalg.solve(K, np.concatenate([-q, b[rows]]))[:n]
            cost = 0.5 * x @ P @ x + q @ x
            if (A @ x <= b + 1e-9).all() and cost < value:
                best, value = x, cost
    return best


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 3), st.integers(0, 6))
def test_the_minimum_is_the_best_of_all_subsets(seed, n, m) -> None:
    P, q, A, b = program(seed, n, m)
    assert np.allclose(solve_qp(P, q, A, b).x, enumerated(P, q, A, b), atol=1e-9)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 25), st.integers(1, 80))
def test_the_conditions_of_optimality_hold(seed, n, m) -> None:
    P, q, A, b = program(seed, n, m)
    found = solve_qp(P, q, A, b)
    assert np.abs(P @ found.x + q + A.T @ found.multipliers).max() < 1e-8
    assert (A @ found.x - b).max() < 1e-9
    assert found.multipliers.min() >= 0
    assert np.abs(found.multipliers * (A @ found.x - b)).max() < 1e-8


@settings(max_examples=25)
@given(SEEDS, st.integers(2, 12), st.integers(1, 40))
def test_any_start_leads_to_the_same_point(seed, n, m) -> None:
    P, q, A, b = program(seed, n, m)
    rng = np.random.default_rng(seed)
    qp = PreparedQP(P, A)
    cold = qp.solve(q, b)
    warm = qp.solve(q, b, start=rng.permutation(m)[: rng.integers(m + 1)].tolist())
    assert np.allclose(cold.x, warm.x, atol=1e-9)
    assert qp.solve(q, b, start=cold.active).iterations == 0


def test_rows_that_contradict_each_other_are_reported() -> None:
    with pytest.raises(NumericalError, match="contradict"):
        solve_qp(np.eye(1), [0.0], [[1.0], [-1.0]], [-1.0, -1.0])


def test_repeated_rows_do_no_harm() -> None:
    A = np.repeat([[1.0, 1.0]], 4, axis=0)
    found = solve_qp(np.eye(2), [-3.0, -3.0], A, np.ones(4))
    assert np.allclose(found.x, 0.5)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(5))
def test_the_same_point_as_clarabel(seed: int) -> None:
    clarabel = pytest.importorskip("clarabel", reason="clarabel is not installed")
    sparse = pytest.importorskip("scipy.sparse")
    P, q, A, b = program(seed, 20, 60)
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(b))]
    P_csc, A_csc = sparse.csc_matrix(P), sparse.csc_matrix(A)
    theirs = clarabel.DefaultSolver(P_csc, q, A_csc, b, cones, options).solve()
    assert np.abs(solve_qp(P, q, A, b).x - np.array(theirs.x)).max() < 1e-8


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_the_same_point_as_osqp(seed: int) -> None:
    osqp = pytest.importorskip("osqp", reason="osqp is not installed")
    sparse = pytest.importorskip("scipy.sparse")
    P, q, A, b = program(seed, 10, 30)
    solver = osqp.OSQP()
    solver.setup(
        sparse.csc_matrix(P), q, sparse.csc_matrix(A), np.full(30, -np.inf), b,
        eps_abs=1e-11, eps_rel=1e-11, max_iter=100_000, polishing=True, verbose=False,
    )  # fmt: skip
    assert np.abs(solve_qp(P, q, A, b).x - solver.solve(raise_error=True).x).max() < 1e-7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)), np.zeros(2), np.ones((1, 2)), [1.0]), "square"),
        (([[1.0, 2.0], [0.0, 1.0]], np.zeros(2), np.ones((1, 2)), [1.0]), "symmetric"),
        ((np.diag([1.0, 0.0]), np.zeros(2), np.ones((1, 2)), [1.0]), "positive definite"),
        ((np.eye(2), np.zeros(3), np.ones((1, 2)), [1.0]), r"q has shape \(3,\)"),
        ((np.eye(2), np.zeros(2), np.ones((1, 3)), [1.0]), r"A has shape \(1, 3\)"),
        ((np.eye(2), np.zeros(2), np.ones((1, 2)), [np.nan]), "b has shape"),
    ],
)
def test_bad_programs(arguments, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        solve_qp(*arguments)


# Elastic bounds ------------------------------------------------------------------------------


def elastic(seed: int, copies: int = 2, g: int = 3, m: int = 20):
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(4 * g, g))
    n = copies * g
    return (
        R.T @ R / (4 * g) + 0.01 * np.eye(g), rng.normal(size=n), rng.normal(size=(m, n)),
        rng.normal(size=m), rng.uniform(0.1, 1.0, m), float(rng.choice([0.5, 5.0, 500.0])),
    )  # fmt: skip


def objective(w, G, q, M, c, delta, mu) -> float:
    P = np.kron(np.eye(len(q) // len(G)), G)
    over = np.maximum(np.abs(M @ w + c) - delta, 0.0)
    return float(0.5 * w @ P @ w - q @ w + mu / (2 * len(c)) * over @ over)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 4), st.integers(1, 5), st.integers(1, 40))
def test_the_elastic_solution_has_no_slope(seed, copies, g, m) -> None:
    G, q, M, c, delta, mu = elastic(seed, copies, g, m)
    found = solve_elastic(G, q, M, c, delta, mu=mu)
    P = np.kron(np.eye(copies), G)
    r = M @ found.w + c
    over = np.sign(r) * np.maximum(np.abs(r) - delta, 0.0)
    assert np.abs(P @ found.w - q + mu / m * M.T @ over).max() < 1e-8
    assert np.allclose(found.slack, np.abs(over))
    assert (found.active == (np.abs(r) > delta)).all()


@settings(max_examples=10)
@given(SEEDS)
def test_the_elastic_solution_is_that_of_the_program_with_slack(seed) -> None:
    """The same minimum as a quadratic program in (w, s), solved by the dual active set."""
    G, q, M, c, delta, mu = elastic(seed)
    n, m = len(q), len(c)
    P = np.zeros((n + m, n + m))
    P[:n, :n] = np.kron(np.eye(n // len(G)), G)
    P[n:, n:] = mu / m * np.eye(m)
    A = np.block([[M, -np.eye(m)], [-M, -np.eye(m)]])
    b = np.concatenate([delta - c, delta + c])
    x = solve_qp(P, np.concatenate([-q, np.zeros(m)]), A, b).x
    assert np.allclose(solve_elastic(G, q, M, c, delta, mu=mu).w, x[:n], atol=1e-8)


@settings(max_examples=15)
@given(SEEDS)
def test_the_gradient_is_that_of_finite_differences(seed) -> None:
    G, q, M, c, delta, mu = elastic(seed)
    found = solve_elastic(G, q, M, c, delta, mu=mu)
    if np.abs(np.abs(M @ found.w + c) - delta).min() < 1e-4:
        return  # on the edge of a bound there is no derivative
    dw = np.random.default_rng(seed).normal(size=q.size)
    gradient = found.gradient(dw)
    arguments = {"G": G, "q": q, "M": M, "c": c, "delta": delta}
    for name, value in arguments.items():
        direction = np.random.default_rng(seed + 1).normal(size=value.shape)
        if name == "G":
            direction = 0.5 * (direction + direction.T)
        ends = [
            dw @ solve_elastic(**{**arguments, name: value + s * direction}, mu=mu).w
            for s in (1e-6, -1e-6)
        ]
        expected = (ends[0] - ends[1]) / 2e-6
        assert np.isclose(
            (getattr(gradient, name) * direction).sum(), expected, rtol=1e-4, atol=1e-6
        )


def test_more_bounds_than_variables_and_fewer_agree() -> None:
    """The system in the space of the variables and the one in the space of the bounds."""
    G, q, M, c, delta, _ = elastic(3, m=4)
    few = solve_elastic(G, q, M, c, delta, mu=4.0).w
    many = solve_elastic(G, q, np.tile(M, (5, 1)), np.tile(c, 5), np.tile(delta, 5), mu=4.0).w
    assert np.allclose(few, many, atol=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mu": 0.0}, "mu=0.0"),
        ({"delta": [-1.0]}, r"delta\[0\]"),
        ({"M": [[1.0, 2.0, 3.0]]}, "M has shape"),
        ({"G": np.eye(3)}, "divide"),
        ({"q": [np.inf, 0.0]}, "q has shape"),
    ],
)
def test_bad_elastic_programs(changes, message: str) -> None:
    good = {"G": np.eye(1), "q": [1.0, 1.0], "M": [[1.0, 0.0]], "c": [0.0], "delta": [0.1]}
    with pytest.raises(ParameterError, match=message):
        solve_elastic(**{**good, **changes})
