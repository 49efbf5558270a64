"""Speed of the programs: the elastic program against qpth, a step of control against OSQP.

Elastic: 110 variables (10 lifted states, 11 features), 288 two-sided bounds, solution and gradient,
as in one step of training; qpth solves the same program with slacks in double precision. Control: 4
states, horizon 20, inputs in a box, closed loop of 40 steps from 5 starts; OSQP on the condensed
program, warm started, tolerance 1e-5. One thread, process CPU time. qpth: `pip install qpth`, or a
folder with it in PYTHONPATH.
"""

import time
from typing import Any

import numpy as np
import osqp
import scipy.sparse as sparse
import torch
from _common import shown, write_result
from qpth.qp import QPFunction

from foretell.solve.mpc import LinearMPC
from foretell.solve.qp_elastic import solve_elastic

A = np.array([[1, 0.05, 0, 0], [0, 0.99, -0.04, 0], [0, 0, 1, 0.05], [0, -0.01, 0.4, 0.99]])
B = np.array([[0.0], [0.05], [0.0], [-0.07]])
H = 20


def program(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    Z, Q, m = 10, 11, 288
    R = rng.standard_normal((200, Q))
    G = R.T @ R / 200 + 1e-3 * np.eye(Q)
    return (
        G, rng.standard_normal(Z * Q), rng.standard_normal((m, Z * Q)), rng.standard_normal(m),
        np.full(m, 0.5), 30.0,
    )  # fmt: skip


def ours(seed: int) -> tuple[Any, Any, float]:
    G, q, M, c, delta, mu = program(seed)
    began = time.process_time()
    found = solve_elastic(G, q, M, c, delta, mu=mu)
    gradient = found.gradient(q).q
    return found.w, gradient, time.process_time() - began


def theirs(seed: int) -> tuple[Any, Any, float]:
    G, q, M, c, delta, mu = program(seed)
    n, m = len(q), len(c)
    P = np.zeros((n + m, n + m))
    P[:n, :n], P[n:, n:] = np.kron(np.eye(n // len(G)), G), mu / m * np.eye(m)
    rows = np.block([[M, -np.eye(m)], [-M, -np.eye(m)], [np.zeros((m, n)), -np.eye(m)]])
    right = np.concatenate([delta - c, delta + c, np.zeros(m)])
    P_t, rows_t, right_t = (torch.from_numpy(x) for x in (P, rows, right))
    p = torch.from_numpy(np.concatenate([-q, np.zeros(m)])).requires_grad_()
    none = torch.zeros(0, dtype=torch.float64)
    began = time.process_time()
    solve = QPFunction(verbose=-1, eps=1e-13, maxIter=40)
    w = solve(P_t, p, rows_t, right_t, none, none).reshape(-1)[:n]
    (w @ torch.from_numpy(q)).backward()
    seconds = time.process_time() - began
    return w.detach().numpy(), -p.grad.numpy().reshape(-1)[:n], seconds


def control() -> tuple[list[float], list[float], float]:
    mpc = LinearMPC(A, B, horizon=H, Q=[1.0, 0.1, 1.0, 0.1], R=0.01, u_min=-1.0, u_max=1.0)
    P, off, mine, peer = mpc._qp.P, 0.0, [], []
    solver = osqp.OSQP()
    solver.setup(
        sparse.csc_matrix(P), np.zeros(H), sparse.eye(H, format="csc"), -np.ones(H), np.ones(H),
        eps_abs=1e-5, eps_rel=1e-5, max_iter=4000, verbose=False,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(5):
        z = 0.1 * rng.standard_normal(4)
        mpc.forget()
        for _ in range(40):
            began = time.process_time()
            u = mpc.plan(z).inputs[:, 0]
            mine.append(time.process_time() - began)
            began = time.process_time()
            solver.update(q=2.0 * mpc._GamQ @ (mpc._F @ z))
            x = solver.solve(raise_error=False).x
            peer.append(time.process_time() - began)
            off = max(off, float(np.abs(x - u).max()))
            z = A @ z + B[:, 0] * u[0]
    return mine, peer, off


def main() -> None:
    solve_elastic(*program(99)[:5], mu=30.0)
    rows = [(ours(s), theirs(s)) for s in range(3)]
    ratio = np.array([b[2] / a[2] for a, b in rows])
    far = max(np.abs(a[0] - b[0]).max() for a, b in rows)
    slope = max(np.abs(a[1] - b[1]).max() for a, b in rows)
    mine, peer, off = control()
    write_result(
        "qpko_qp",
        {"programs": 3, "steps of control": len(mine)},
        {
            "qpko-qp": {
                "columns": ["solver", "CPU-ms, solution and gradient", "qpth / ours",
                            "largest difference of w", "of the gradient"],
                "rows": [
                    ["active set (ours)", 1e3 * float(np.median([a[2] for a, _ in rows])), "1",
                     None, None],
                    ["qpth 0.0.18", 1e3 * float(np.median([b[2] for _, b in rows])),
                     shown((float(np.median(ratio)), float(ratio.min()), float(ratio.max()))),
                     far, slope],
                ],
                "note": "110 variables, 288 two-sided bounds; median [least, largest] of 3.",
            },
            "qpko-mpc-step": {
                "columns": ["solver", "median, CPU-ms", "99 % of the steps", "slowest"],
                "rows": [
                    [name, *(1e3 * float(np.quantile(t[1:], q)) for q in (0.5, 0.99, 1.0))]
                    for name, t in (("LinearMPC (ours)", mine), ("OSQP, warm started", peer))
                ],
                "note": "Horizon 20, 4 states, box on the input; largest difference of the inputs "
                f"{off:.1e}.",
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
