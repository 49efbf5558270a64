"""The controller against dynamic programming, a program solved elsewhere, and its promises."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.linalg import solve_discrete_are

from foretell.core import ParameterError
from foretell.solve.mpc import LinearMPC

SEEDS = st.integers(0, 2**31)
A = np.array([[1.0, 0.1], [-0.1, 0.98]])
B = np.array([[0.0], [0.1]])


def model(seed: int, Z: int = 3, K: int = 2, N: int = 2):
    rng = np.random.default_rng(seed)
    return 0.4 * rng.normal(size=(Z, Z)), rng.normal(size=(Z, K)), rng.normal(size=(N, Z))


@settings(max_examples=15)
@given(SEEDS)
def test_without_bounds_it_is_dynamic_programming(seed) -> None:
    A, B, C = model(seed)
    z = np.random.default_rng(seed).normal(size=3)
    Q, R, H = np.diag([1.0, 2.0]), np.diag([0.3, 0.1]), 6
    P = C.T @ Q @ C
    gains = []
    for _ in range(H):
        gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        gains.append(gain)
        P = C.T @ Q @ C + A.T @ P @ (A - B @ gain)
    found = LinearMPC(A, B, C, horizon=H, Q=Q, R=R).plan(z).inputs
    for k in range(H):
        expected = -gains[H - 1 - k] @ z
        assert np.allclose(found[k], expected, atol=1e-8)
        z = A @ z + B @ expected


def test_a_long_horizon_is_the_regulator() -> None:
    P = solve_discrete_are(A, B, np.eye(2), 0.1 * np.eye(1))
    gain = np.linalg.solve(0.1 + B.T @ P @ B, B.T @ P @ A)
    found = LinearMPC(A, B, horizon=150, R=0.1).plan([1.0, -0.5]).inputs[0]
    assert np.allclose(found, -gain @ [1.0, -0.5], atol=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(6))
def test_the_same_plan_as_the_whole_program_in_clarabel(seed: int) -> None:
    """States, inputs and slacks as variables of one sparse program, built independently."""
    clarabel = pytest.importorskip("clarabel", reason="clarabel is not installed")
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    A, B, C = model(seed)
    H, Z, K, N, soft = 5, 3, 2, 2, 200.0
    z0, before, d = 2 * rng.normal(size=Z), rng.uniform(-0.5, 0.5, K), 0.1 * rng.normal(size=K)
    r, S = rng.normal(size=(H, N)), 0.2
    mpc = LinearMPC(
        A, B, C, horizon=H, Q=[1.0, 2.0], R=0.1, S=S, u_min=-1.0, u_max=[0.5, 1.0], du_max=0.4,
        y_min=[-0.6, -np.inf], y_max=[0.6, 0.9], soft_penalty=soft,
    )  # fmt: skip
    plan = mpc.plan(z0, reference=r, u_before=before, disturbance=d)
    n = H * (K + Z + N)
    u = [np.eye(n)[k * K : (k + 1) * K] for k in range(H)]
    z = [np.eye(n)[H * K + k * Z : H * K + (k + 1) * Z] for k in range(H)]
    s = [np.eye(n)[H * (K + Z) + k * N : H * (K + Z) + (k + 1) * N] for k in range(H)]
    P, q = 1e-12 * np.eye(n), np.zeros(n)
    equal, right, rows, upper = [], [], [], []
    for k in range(H):
        y, Q = C @ z[k], np.diag([1.0, 2.0])
        P += 2 * y.T @ Q @ y + 0.2 * u[k].T @ u[k] + soft * s[k].T @ s[k]
        q += -2 * y.T @ Q @ r[k] + soft * s[k].sum(axis=0)
        change = u[k] - u[k - 1] if k else u[k]
        P += 2 * S * change.T @ change
        q += -2 * S * change.T @ before if k == 0 else 0
        equal.append(z[k] - B @ u[k] - (A @ z[k - 1] if k else 0))
        right.append(B @ d + (A @ z0 if k == 0 else 0))
        first = before if k == 0 else np.zeros(K)
        rows += [u[k], -u[k], change, -change, y - s[k], -y[:1] - s[k][:1], -s[k]]
        upper += [[0.5, 1.0], [1.0, 1.0], 0.4 + first, 0.4 - first, [0.6, 0.9], [0.6], [0, 0]]
    matrix = sparse.csc_matrix(np.vstack([*equal, *rows]))
    b = np.concatenate([*right, *map(np.asarray, upper)]).astype(float)
    cones = [clarabel.ZeroConeT(H * Z), clarabel.NonnegativeConeT(len(b) - H * Z)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    x = clarabel.DefaultSolver(sparse.csc_matrix(P), q, matrix, b, cones, options).solve().x
    assert np.abs(plan.inputs.ravel() - np.array(x)[: H * K]).max() < 1e-6


@settings(max_examples=15)
@given(SEEDS)
def test_the_hard_bounds_hold_and_the_outputs_are_those_of_the_model(seed) -> None:
    A, B, C = model(seed)
    rng = np.random.default_rng(seed)
    z, before = 3 * rng.normal(size=3), rng.uniform(-1, 1, 2)
    mpc = LinearMPC(A, B, C, horizon=8, u_min=-1.0, u_max=0.7, du_max=0.3, y_max=0.2)
    plan = mpc.plan(z, reference=1.0, u_before=before)
    steps = np.diff(np.vstack([np.clip(before, -1.3, 1.0), plan.inputs]), axis=0)
    assert np.abs(steps).max() <= 0.3 + 1e-9
    assert plan.inputs.min() >= -1.0
    assert plan.inputs.max() <= 0.7
    for k, u in enumerate(plan.inputs):
        z = A @ z + B @ u
        assert np.allclose(plan.outputs[k], C @ z, atol=1e-8)


def test_output_bounds_hold_where_they_can_and_are_reported_where_not() -> None:
    mpc = LinearMPC(A, B, [[1.0, 0.0]], horizon=20, Q=1.0, R=0.01, y_max=0.5, u_min=-1, u_max=1)
    kept = mpc.plan([0.0, 0.0], reference=2.0)
    assert kept.violation == 0.0
    assert np.isclose(kept.outputs.max(), 0.5, atol=1e-6)
    exceeded = mpc.plan([1.0, 0.0], reference=0.0)
    assert exceeded.violation > 0.3
    assert "violation" in repr(exceeded)


def test_a_warm_start_gives_the_cold_answer() -> None:
    def new() -> LinearMPC:
        return LinearMPC(A, B, horizon=15, R=0.01, u_min=-0.3, u_max=0.3, du_max=0.1)

    warm, z, u = new(), np.array([2.0, 0.0]), np.zeros(1)
    for _ in range(15):
        plan = warm.plan(z, u_before=u)
        assert np.allclose(plan.inputs, new().plan(z, u_before=u).inputs, atol=1e-8)
        u, z = plan.inputs[0], A @ z + B @ plan.inputs[0]
    warm.forget()
    assert warm.plan(z, u_before=u).inputs.shape == (15, 1)


def test_a_known_disturbance_is_cancelled() -> None:
    mpc = LinearMPC(A, B, horizon=40, Q=1.0, R=1e-9)
    plan = mpc.plan([0.0, 0.0], disturbance=0.4)
    assert np.allclose(plan.inputs, -0.4, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 1}, "horizon=1"),
        ({"u_min": 1.0, "u_max": -1.0}, "u_min=1 is above u_max=-1"),
        ({"y_min": [0.0, 1.0], "y_max": [1.0, 0.0]}, "entry 1"),
        ({"R": 0.0}, "positive definite"),
        ({"Q": [-1.0, 1.0]}, "Q="),
        ({"du_max": 0.0}, "du_max"),
        ({"B": np.zeros((3, 1))}, "shapes"),
        ({"A": np.full((2, 2), np.nan)}, "finite"),
        ({"soft_penalty": 0.0}, "soft_penalty"),
        ({"u_max": [1.0, 2.0]}, "u_max has shape"),
    ],
)
def test_bad_controllers(changes, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        LinearMPC(**{"A": A, "B": B, "horizon": 5, **changes})


def test_bad_questions() -> None:
    mpc = LinearMPC(A, B, horizon=5, du_max=0.1)
    with pytest.raises(ParameterError, match="u_before"):
        mpc.plan([0.0, 0.0])
    with pytest.raises(ParameterError, match="z has shape"):
        mpc.plan([0.0], u_before=[0.0])
