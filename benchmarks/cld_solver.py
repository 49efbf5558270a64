"""The solver of the convex ReLU programme beside CLARABEL and beside `jaxcld`.

Small random programmes: objective, violation and time beside an interior-point solver. The size of
a language head (300 rows, 384 columns, 32 gates, 5 classes): time until the network is as good as
that of `jaxcld` after 6 and 60 iterations. Both get the same rows, gates and beta; `jaxcld` gets
its best penalty of those tried, and is timed without compilation. Judged is the objective of
the ReLU network, which needs no feasible point.
"""

import sys
import time
from pathlib import Path
from typing import Any

from _common import median_interval, package, ratio_interval, shown, write_result

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from foretell.solve.admm import largest_useful_beta, solve
from foretell.solve.relu_programme import Programme, SquaredLoss, draw_gates
from tests.theory.test_relu_programme_optimum import clarabel_optimum, programme_of

SEEDS = 2
ROWS, COLUMNS, GATES, CLASSES = 300, 384, 32, 5


def small() -> dict[str, Any]:
    off, outside, ours, theirs = [], [], [], []
    for seed in range(20):
        X, y, gates, share = programme_of(seed)
        programme, loss = Programme(X, gates), SquaredLoss(y)
        beta = share * largest_useful_beta(programme, loss)
        start = time.process_time()
        best = clarabel_optimum(X, gates, y[:, 0], beta).obj_val
        middle = time.process_time()
        found = solve(Programme(X, gates), loss, beta, max_iter=20_000, tol=1e-5)
        ours.append(time.process_time() - middle)
        theirs.append(middle - start)
        off.append(abs(found.objective - best) / best)
        outside.append(found.violation)
    return {
        "columns": ["", "over 20 programmes"],
        "rows": [
            ["largest relative difference of the objective", f"{max(off):.1e}"],
            ["largest violation of a cone", f"{max(outside):.1e}"],
            ["CPU-s of CLARABEL / ours", shown(ratio_interval(theirs, ours))],
        ],
        "note": "15 to 50 rows, 2 to 12 columns, 3 to 10 gates; CLARABEL with the time to set up "
        "its matrices. tol = 1e-5.",
    }


def head(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Overlapping classes in correlated columns, as embeddings are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=ROWS)
    factors = rng.normal(size=(CLASSES, 24))[labels] + 1.5 * rng.normal(size=(ROWS, 24))
    X = factors @ rng.normal(size=(24, COLUMNS)) + 2.0 * rng.normal(size=(ROWS, COLUMNS))
    X = (X - X.mean(0)) / X.std(0) / np.sqrt(COLUMNS)
    gates = draw_gates(X, GATES, rng)
    return X, labels, np.eye(CLASSES)[labels], gates


def network_objective(X: np.ndarray, Y: np.ndarray, v: np.ndarray, beta: float) -> float:
    """v of shape (d, K, 2, P)."""
    hidden = np.maximum(np.einsum("nd,dkjp->nkjp", X, v, optimize=True), 0.0).sum(axis=3)
    misfit = hidden[:, :, 0] - hidden[:, :, 1] - Y
    return float(0.5 * np.sum(misfit**2) + beta * np.linalg.norm(v, axis=0).sum())


def jaxcld(
    X: np.ndarray, labels: np.ndarray, gates: np.ndarray, beta: float, rho: float, iterations: int
) -> tuple[np.ndarray, float]:
    """Their v as ours is laid out, and process CPU seconds."""
    import jax
    import jax.numpy as jnp
    from jaxcld.models.cvx_relu_mlp import CVX_ReLU_MLP
    from jaxcld.optimizers.admm import admm

    rows, D = jnp.asarray(X, dtype=jnp.float32), jnp.asarray(gates, dtype=jnp.float32)
    model = CVX_ReLU_MLP(
        rows, jnp.asarray(labels), CLASSES, gates.shape[1], beta, rho, jax.random.PRNGKey(0),
        d_diags=D, e_diags=2 * D - 1,
    )  # fmt: skip
    settings = {
        "rank": 20, "beta": beta, "gamma_ratio": 1.0, "admm_iters": iterations, "pcg_iters": 32,
        "check_opt": False,
    }  # fmt: skip
    start = time.process_time()
    v, _ = admm(model, settings)
    jax.block_until_ready(v)
    return np.asarray(v, dtype=np.float64).transpose(2, 0, 1, 3), time.process_time() - start


def until(X: np.ndarray, Y: np.ndarray, gates: np.ndarray, beta: float, goal: float) -> float:
    """CPU seconds of a whole solution that is as good as the goal."""
    for iterations in (4, 7, 10, 15, 20, 30, 40, 60, 80, 120, 200, 400):
        start = time.process_time()
        found = solve(Programme(X, gates), SquaredLoss(Y), beta, max_iter=iterations, tol=1e-9)
        seconds = time.process_time() - start
        if network_objective(X, Y, found.v, beta) <= goal:
            return seconds
    return float("inf")


class ConjugateGradients(Programme):
    """The same iteration with its linear system solved as the paper does: 32 steps, warm start.

    Preconditioned by the part I + G'G, which is exact here and better than a Nystrom sketch of it.
    """

    start: Any = None

    def minimise_quadratic(self, q: Any, t: Any, rho: float) -> Any:
        inverse = self._inverse[:, None, None, None]

        def apply(u: Any) -> Any:
            images = self.images(u)
            return u / inverse + self.back(self.spread(self.outputs(images))) / rho

        right = q + self.back(t)
        u = inverse * right if self.start is None else self.start
        residual = right - apply(u)
        z = inverse * residual
        p, rz = z, np.sum(residual * z)
        for _ in range(32):
            if np.linalg.norm(residual) <= 1e-6 * np.linalg.norm(right):
                break
            Ap = apply(p)
            step = rz / np.sum(p * Ap)
            u, residual = u + step * p, residual - step * Ap
            z = inverse * residual
            rz, before = np.sum(residual * z), rz
            p = z + p * (rz / before)
        self.start = u
        images = self.images(u)
        return u, images, self.outputs(images)


def own_form() -> dict[str, Any]:
    """CPU seconds of 6 iterations in both forms, and of a certified solution."""
    rows = []
    for iterations in (6,):
        ours, theirs, apart = [], [], []
        for seed in range(SEEDS):
            X, _, Y, gates = head(seed)
            beta = 0.03 * largest_useful_beta(Programme(X, gates), SquaredLoss(Y))
            values = []
            for kind, entries in ((Programme, ours), (ConjugateGradients, theirs)):
                start = time.process_time()
                found = solve(kind(X, gates), SquaredLoss(Y), beta, max_iter=iterations, tol=1e-12)
                entries.append(time.process_time() - start)
                values.append(found.objective)
            apart.append(abs(values[0] / values[1] - 1))
        rows.append([
            f"{iterations} iterations", shown(median_interval(ours)),
            shown(median_interval(theirs)), shown(ratio_interval(theirs, ours)),
            f"{max(apart):.0e}",
        ])  # fmt: skip
        print(rows[-1], flush=True)
    for tol in (1e-3, 1e-4):
        ours, gaps = [], []
        for seed in range(SEEDS):
            X, _, Y, gates = head(seed)
            beta = 0.03 * largest_useful_beta(Programme(X, gates), SquaredLoss(Y))
            start = time.process_time()
            found = solve(Programme(X, gates), SquaredLoss(Y), beta, max_iter=3000, tol=tol)
            ours.append(time.process_time() - start)
            gaps.append(found.n_iter)
        rows.append([
            f"certified to {tol:g} ({int(np.median(gaps))} iterations)",
            shown(median_interval(ours)), "", "", "",
        ])  # fmt: skip
        print(rows[-1], flush=True)
    return {
        "columns": [
            "", "factorised, CPU-s", "conjugate gradients, CPU-s", "ratio", "objectives differ by",
        ],
        "rows": rows,
        "note": f"{ROWS} rows, {COLUMNS} columns, {GATES} gates, {CLASSES} classes, {SEEDS} seeds; "
        "set-up included, float64 in NumPy on both sides.",
    }  # fmt: skip


def large() -> tuple[dict[str, Any], dict[str, Any]]:
    rows = []
    penalties = {}
    collected: dict[int, list[tuple[float, ...]]] = {6: [], 60: []}
    for seed in range(SEEDS):
        X, labels, Y, gates = head(seed)
        programme = Programme(X, gates)
        beta = 0.03 * largest_useful_beta(programme, SquaredLoss(Y))
        start = time.process_time()
        found = solve(Programme(X, gates), SquaredLoss(Y), beta, max_iter=3000, tol=1e-4)
        certified = time.process_time() - start
        best = network_objective(X, Y, found.v, beta)
        if not penalties:
            penalties = {
                rho: network_objective(X, Y, jaxcld(X, labels, gates, beta, rho, 6)[0], beta)
                for rho in (1e-4, 0.01, 0.1, 1.0, 10.0)
            }
        rho = min(penalties, key=penalties.__getitem__)
        for iterations, entries in collected.items():
            v, seconds = jaxcld(X, labels, gates, beta, rho, iterations)
            if (seed, iterations) == (0, 6):  # what follows is compiled already
                v, seconds = jaxcld(X, labels, gates, beta, rho, iterations)
            value = network_objective(X, Y, v, beta)
            ours = until(X, Y, gates, beta, value)
            entries.append((value / best - 1, seconds, ours, certified, found.gap / best))
            print(seed, iterations, entries[-1], found, flush=True)
    for iterations, entries in collected.items():
        excess, theirs, ours, *_ = np.array(entries).T
        rows.append([
            f"jaxcld, {iterations} iterations", f"{np.median(excess):.2g}",
            shown(median_interval(theirs)), shown(median_interval(ours)),
            shown(ratio_interval(theirs, ours)),
        ])  # fmt: skip
    entries = np.array(collected[60])
    rows.append([
        "ours, certified to 1e-4", "0", "", shown(median_interval(entries[:, 3])), "",
    ])  # fmt: skip
    table = {
        "columns": [
            "goal", "objective above the best", "jaxcld CPU-s", "ours CPU-s to that objective",
            "jaxcld / ours",
        ],
        "rows": rows,
        "note": f"{ROWS} rows, {COLUMNS} columns, {GATES} gates, {CLASSES} classes, {SEEDS} seeds; "
        "float32 there, float64 here. Without its compilation.",
    }  # fmt: skip
    return table, {str(rho): value for rho, value in penalties.items()}


def main() -> None:
    package("jaxcld", "pip install --no-deps jaxcld")
    tables = {"cld-optimum": small(), "cld-steps": own_form()}
    tables["cld-jaxcld"], penalties = large()
    write_result("cld_solver", {"seeds": SEEDS}, tables, objective_of_jaxcld_by_rho=penalties)


if __name__ == "__main__":
    main()
