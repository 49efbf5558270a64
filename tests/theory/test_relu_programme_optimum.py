"""The ADMM of the ReLU programme reaches the optimum of an interior-point solver, certified.

20 random programmes against CLARABEL: objective within 1e-4, violation below 1e-3, and the dual
value never above the optimum by more than rounding. Certain: false-alarm rate 0.
"""

import numpy as np
import pytest
from scipy import sparse

from foretell.solve.admm import largest_useful_beta, solve
from foretell.solve.relu_programme import LogisticLoss, Programme, SquaredLoss, draw_gates

pytestmark = pytest.mark.theory


def programme_of(seed):
    rng = np.random.default_rng(seed)
    n, d, P = int(rng.integers(15, 50)), int(rng.integers(2, 12)), int(rng.integers(3, 10))
    X = np.column_stack([rng.normal(size=(n, d)) / np.sqrt(d), np.ones(n)])
    f = X @ rng.normal(size=d + 1)
    y = np.abs(f) + 0.2 * rng.normal(size=n) if seed % 2 else (f > 0).astype(float)
    return X, y[:, None], draw_gates(X, P, rng), float(rng.choice([0.2, 0.05, 0.01]))


def clarabel_optimum(X, gates, y, beta):
    """Variables: groups, their norms, and the residual."""
    clarabel = pytest.importorskip("clarabel", reason="clarabel is not installed")
    (n, d), G = X.shape, 2 * gates.shape[1]
    signs, D = np.repeat([1.0, -1.0], G // 2), np.tile(gates, 2).astype(float)
    N = G * d
    F = np.hstack([signs[g] * D[:, [g]] * X for g in range(G)])
    cone = sparse.block_diag([-(2 * D[:, [g]] - 1) * X for g in range(G)])
    rows = [
        sparse.hstack([sparse.csc_matrix(F), sparse.csc_matrix((n, G)), -sparse.eye(n)]),
        sparse.hstack([cone, sparse.csc_matrix((n * G, G + n))]),
    ]
    right, cones = [y, np.zeros(n * G)], [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(n * G)]
    for g in range(G):
        norm = sparse.lil_matrix((d + 1, N + G + n))
        norm[0, N + g] = -1.0
        norm[1:, g * d : (g + 1) * d] = -np.eye(d)
        rows.append(norm)
        right.append(np.zeros(d + 1))
        cones.append(clarabel.SecondOrderConeT(d + 1))
    P = sparse.block_diag([sparse.csc_matrix((N + G, N + G)), sparse.eye(n)])
    q = np.concatenate([np.zeros(N), np.full(G, beta), np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sparse.vstack(rows).tocsc()
    return clarabel.DefaultSolver(P.tocsc(), q, A, np.concatenate(right), cones, settings).solve()


@pytest.mark.parametrize("seed", range(20))
def test_the_objective_is_that_of_clarabel(seed):
    X, y, gates, share = programme_of(seed)
    programme, loss = Programme(X, gates), SquaredLoss(y)
    beta = share * largest_useful_beta(programme, loss)
    best = clarabel_optimum(X, gates, y[:, 0], beta).obj_val
    found = solve(programme, loss, beta, max_iter=20_000, tol=1e-5)
    assert found.objective == pytest.approx(best, rel=1e-4)
    assert found.violation < 1e-3
    for _, _, dual, _ in found.history:
        assert dual <= best * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_logistic_optimum_is_bracketed(seed):
    """Two ways reach the same objective, and no dual value on the way is above it.

    Shares of beta below 0.05 are left out: there the majoriser of the logistic loss is slow.
    """
    X, y, gates, share = programme_of(seed)
    share = max(share, 0.05)
    labels = np.column_stack([1 - y, y]) if seed % 2 == 0 else np.eye(3)[np.arange(len(y)) % 3]
    programme, loss = Programme(X, gates), LogisticLoss(labels, np.ones(len(X)))
    beta = share * largest_useful_beta(programme, loss)
    found = solve(programme, loss, beta, max_iter=5000, tol=1e-4)
    assert found.converged
    other = solve(programme, loss, beta, max_iter=5000, tol=1e-4, rho=1.0)
    assert other.objective == pytest.approx(found.objective, rel=3e-4)
    assert max(entry[2] for entry in found.history) <= other.objective * (1 + 1e-4)
