"""The ReLU programme: solver against solver, certificates, weights, paths, refusals."""

import numpy as np
import pytest

from foretell.core import ParameterError
from foretell.solve.admm import largest_useful_beta, solve, solve_path
from foretell.solve.relu_programme import LogisticLoss, Programme, SquaredLoss, draw_gates


def problem(seed=0, n=24, d=4, P=6, K=2):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, d)) / np.sqrt(d), np.ones(n)])
    Y = np.abs(X @ rng.normal(size=(d + 1, K))) + 0.1 * rng.normal(size=(n, K))
    return X, Y, draw_gates(X, P, rng)


def slow_objective(X, Y, gates, v, beta):
    """The programme written out in loops."""
    total = 0.0
    for k in range(Y.shape[1]):
        fitted = np.zeros(len(X))
        for p in range(gates.shape[1]):
            fitted += gates[:, p] * (X @ (v[:, k, 0, p] - v[:, k, 1, p]))
            total += beta * sum(np.linalg.norm(v[:, k, j, p]) for j in (0, 1))
        total += 0.5 * np.sum((fitted - Y[:, k]) ** 2)
    return total


def test_gates_are_distinct_and_active_somewhere():
    X = np.random.default_rng(0).normal(size=(5, 2))
    gates = draw_gates(X, 50, np.random.default_rng(1))
    assert gates.any(axis=0).all()
    assert len(np.unique(gates, axis=1).T) == gates.shape[1] <= 10  # 2 n patterns in the plane
    again = draw_gates(X, 50, np.random.default_rng(1))
    assert np.array_equal(gates, again)


def test_the_linear_system_is_solved_exactly():
    X, _, gates = problem(n=12, d=3, P=4, K=1)
    programme = Programme(X, gates)
    rng = np.random.default_rng(1)
    q, t = rng.normal(size=(programme.n_axes, 1, 2, 4)), rng.normal(size=(12, 1, 2, 4))
    u, images, outputs = programme.minimise_quadratic(q, t, 0.7)
    left = u + programme.back(images) + programme.back(programme.spread(outputs)) / 0.7
    assert np.allclose(left, q + programme.back(t), atol=1e-12)
    assert np.allclose(images, programme.images(u), atol=1e-12)
    assert np.allclose(outputs, programme.outputs(images), atol=1e-12)


def test_the_value_is_that_of_the_programme_and_of_the_network():
    X, Y, gates = problem()
    found = solve(Programme(X, gates), SquaredLoss(Y), 0.3, max_iter=5000, tol=1e-5)
    assert found.converged
    assert found.objective == pytest.approx(slow_objective(X, Y, gates, found.v, 0.3), rel=1e-10)
    assert found.violation == pytest.approx(
        max(0.0, -(np.einsum("nd,dkjp->nkjp", X, found.v) * (2 * gates - 1)[:, None, None]).min())
    )
    hidden = np.maximum(np.einsum("nd,dkjp->nkjp", X, found.v), 0.0).sum(axis=3)
    network = 0.5 * np.sum((hidden[:, :, 0] - hidden[:, :, 1] - Y) ** 2)
    network += 0.3 * np.linalg.norm(found.v, axis=0).sum()
    assert network == pytest.approx(found.objective, rel=1e-3)
    assert abs(found.gap) <= 1e-5 * found.objective
    assert [entry[0] for entry in found.history][-1] == found.n_iter
    assert "gap" in repr(found)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_conjugate_gradients_give_the_same_point(loss):
    X, Y, gates = problem()
    one_hot = np.eye(2)[np.argmax(Y, axis=1)]
    losses = {"squared": SquaredLoss(Y), "logistic": LogisticLoss(one_hot, np.ones(24))}
    direct, pcg = (
        solve(Programme(X, gates, solver=solver), losses[loss], 0.2, max_iter=300)
        for solver in ("direct", "pcg")
    )
    assert np.allclose(direct.v, pcg.v, atol=1e-7)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_weight_is_a_number_of_copies(loss):
    X, Y, gates = problem()
    w = np.random.default_rng(3).integers(1, 4, size=24)
    Y = Y if loss == "squared" else np.eye(2)[np.argmax(Y, axis=1)]
    copies = np.repeat(np.arange(24), w)

    def fit(rows, weights):
        programme = Programme(X[rows], gates[rows], weights=weights)
        root = np.sqrt(weights)[:, None]
        squared = loss == "squared"
        made = SquaredLoss(root * Y[rows]) if squared else LogisticLoss(Y[rows], weights)
        return solve(programme, made, 0.4, max_iter=120)

    weighted, repeated = fit(np.arange(24), w.astype(float)), fit(copies, np.ones(copies.size))
    assert np.allclose(weighted.v, repeated.v, atol=1e-10)
    assert weighted.violation == pytest.approx(repeated.violation, abs=1e-10)


def test_from_the_largest_useful_beta_on_all_weights_are_zero():
    X, Y, gates = problem()
    programme, loss = Programme(X, gates), SquaredLoss(Y)
    top = largest_useful_beta(programme, loss)
    assert not solve(programme, loss, 1.001 * top, max_iter=1000).v.any()
    assert solve(programme, loss, 0.2 * top, max_iter=1000).v.any()


def test_a_path_is_warm_and_ends_where_a_cold_start_does():
    X, Y, gates = problem(n=40)
    programme, loss = Programme(X, gates), SquaredLoss(Y)
    betas = largest_useful_beta(programme, loss) * np.geomspace(0.5, 0.05, 12)
    path = solve_path(programme, loss, betas, max_iter=4000)
    cold = [solve(programme, loss, beta, max_iter=4000) for beta in betas]
    assert all(found.converged for found in path)
    for warm, fresh in zip(path, cold, strict=True):
        assert warm.objective == pytest.approx(fresh.objective, rel=3e-4)
    assert sum(f.n_iter for f in path[1:]) < sum(f.n_iter for f in cold[1:])
    objectives = [found.objective for found in path]
    assert objectives == sorted(objectives, reverse=True)


def test_a_penalty_that_is_given_stays():
    X, Y, gates = problem()
    found = solve(Programme(X, gates), SquaredLoss(Y), 0.3, rho=2.0, max_iter=100)
    assert found.state.rho == 2.0
    seen = []
    solve(
        Programme(X, gates), SquaredLoss(Y), 0.3, rho=2.0, max_iter=35,
        on_check=lambda *entry: seen.append(entry[0]),
    )  # fmt: skip
    assert seen == [10, 20, 30, 35]


@pytest.mark.parametrize("beta", [0.0, -1.0, np.nan, np.inf])
def test_a_price_must_be_positive(beta):
    X, Y, gates = problem()
    with pytest.raises(ParameterError, match="beta"):
        solve(Programme(X, gates), SquaredLoss(Y), beta)


def test_one_row_and_one_column():
    for shape in ((1, 3), (5, 1)):
        X = np.random.default_rng(0).normal(size=shape)
        programme = Programme(X, draw_gates(X, 4, np.random.default_rng(0)))
        found = solve(programme, SquaredLoss(np.ones((shape[0], 1))), 0.01, max_iter=2000)
        assert np.isfinite(found.objective)
