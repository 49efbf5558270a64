"""Closed loops: MPC on learned models against an oracle and against a local regulator.

Pendulum: bring it to rest from 85 to 145 degrees with a torque that cannot lift it. Van der Pol:
follow a sinusoid outside of the linear region. Cart-pole: balance from up to 20 degrees. The oracle
is MPC with the true equations and the same horizon, weights and bounds, solved by shooting at every
step. LQR: the regulator of the true linearisation at the target, clipped to the bounds, for the
sinusoid with the input that the linearisation asks for. Costs are those of the run, not forecasts.
On the cart-pole all that look ahead, the oracle too, weigh the last step by the solution of the
Riccati equation at the target: without it half a second ahead is too short for any of them (the
regulator then had 0.58 times the oracle's cost, and 0.13 to 0.26 times that of learned models).

The cart-pole is learned from two sets of recordings of the same size. "Upright": 180 runs of 21
samples, that end before the pole has fallen. "Fallen": 60 runs of 61, most of whose samples have
the pole down or turning over. There the force turns the pole the other way, so that a model that is
linear in the force learns a quarter of its effect at the top; a bilinear one need not.

Every learned model is trained with five seeds (data, encoder), a fifth of the starts with each.

qpko_control.py [STARTS]
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from _common import run_jobs, shown, write_result
from scipy.linalg import solve_discrete_are

from foretell.data.controlled_systems import Plant, cart_pole, pendulum, van_der_pol
from foretell.dynamics.koopman import EDMDc, JointKoopman, KoopmanMPC, KoopmanQP, closed_loop
from foretell.dynamics.koopman.control import regulator
from foretell.solve.mpc_shooting import shoot

STARTS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
TRAININGS = 5
TASKS: dict[str, tuple[str, ...]] = {
    "pendulum": ("oracle", "LQR", "EDMDc", "joint", "none", "gauss_newton"),
    "van der Pol": ("oracle", "LQR", "EDMDc", "joint", "none", "gauss_newton"),
    "cart-pole, upright": (
        "oracle",
        "LQR",
        "EDMDc",
        "joint",
        "none",
        "gauss_newton",
        "none, bilinear",
    ),
    "cart-pole, fallen": ("EDMDc", "joint", "none", "none, bilinear"),
}


def task(name: str) -> dict[str, Any]:
    if name == "pendulum":
        return {"plant": pendulum(), "Q": [1.0, 0.1], "R": 0.01, "horizon": 20, "steps": 50}
    if name.startswith("cart-pole"):
        plant, Q, R = cart_pole(), [0.1, 0.01, 1.0, 0.01], 0.01
        A, B = linearised(plant)
        final = solve_discrete_are(A, B, np.diag(Q), [[R]])
        return {"plant": plant, "Q": Q, "R": R, "horizon": 25, "steps": 60, "final": final}
    plant = replace(van_der_pol(), u_low=(-5.0,), u_high=(5.0,))
    t = plant.step * np.arange(200)
    aim = np.column_stack([0.8 * np.sin(3 * t), 1.2 * np.cos(3 * t)])
    return {"plant": plant, "Q": [1.0, 0.1], "R": 0.001, "horizon": 15, "steps": 60, "aim": aim}


def linearised(plant: Plant) -> tuple[Any, Any]:
    """A and B at the origin, by differences of the true equations."""
    N, h = len(plant.names), 1e-6
    A = np.column_stack([plant.advance(h * e, [0.0]) for e in np.eye(N)]) / h
    return A, (plant.advance(np.zeros(N), [h]) / h)[:, None]


def starts(name: str) -> Any:
    rng = np.random.default_rng(77)
    if name == "pendulum":
        return np.column_stack([rng.uniform(1.5, 2.5, STARTS) * rng.choice([-1, 1], STARTS),
                                rng.uniform(-1, 1, STARTS)])  # fmt: skip
    if name.startswith("cart-pole"):
        angle = np.deg2rad(rng.uniform(10, 20, STARTS)) * rng.choice([-1, 1], STARTS)
        return np.column_stack([np.zeros((STARTS, 2)), angle, np.zeros(STARTS)])
    return rng.uniform(-1, 1, (STARTS, 2))


class Oracle:
    def __init__(self, now: dict[str, Any]) -> None:
        self.now, self.horizon = now, now["horizon"]
        self.reset()

    def reset(self) -> None:
        self._last = np.zeros((self.horizon, 1))

    def control(self, x: Any, aim: Any = 0.0) -> Any:
        plant: Plant = self.now["plant"]

        def predict(U: Any) -> Any:
            return plant.run(np.repeat(x[None], len(U), axis=0), U)[:, 1:]

        found = shoot(
            predict, [self._last], reference=aim, Q=self.now["Q"], R=self.now["R"],
            final=self.now.get("final"),
            u_min=plant.u_low, u_max=plant.u_high, n_iterations=4, tolerance=1e-3,
        )  # fmt: skip
        self._last = np.vstack([found.inputs[1:], found.inputs[-1:]])
        return found.inputs[0]


class Local:
    """The clipped regulator of the linearisation at the origin."""

    def __init__(self, now: dict[str, Any]) -> None:
        self.horizon = 2
        self.A, self.B = linearised(now["plant"])
        self.gain = regulator(self.A, self.B, np.diag(now["Q"]), [[now["R"]]])

    def control(self, x: Any, aim: Any = None) -> Any:
        if aim is None:
            return -self.gain @ x
        ahead = np.linalg.lstsq(self.B, aim[1] - self.A @ aim[0])[0]
        return ahead - self.gain @ (x - aim[0])


def learned(name: str, controller: str, now: dict[str, Any], seed: int) -> KoopmanMPC:
    """MPC on a model that was trained with this seed."""
    plant, horizon = now["plant"], now["horizon"]
    n, samples = (180, 21) if name.endswith("upright") else (60, 61)
    data = plant.recordings(n, samples, random_state=1 + seed)
    ahead = min(horizon, samples - 6)
    model: Any = EDMDc(degree=3, n_centres=50, horizon=ahead, random_state=seed)
    if controller == "joint":  # as in qpko_accuracy.py: twice the steps, its best learning rate
        model = JointKoopman(horizon=ahead, max_steps=200, lr=3e-2, random_state=seed)
    elif controller != "EDMDc":
        family, *bilinear = controller.split(", ")
        model = KoopmanQP(
            horizon=ahead, constraint=family, input="bilinear" if bilinear else "linear",
            max_steps=100, lr=1e-2, random_state=seed,
        )  # fmt: skip
    return KoopmanMPC(
        model.fit(data), horizon=horizon, Q=now["Q"], R=now["R"], u_min=plant.u_low,
        u_max=plant.u_high, final=now.get("final"),
    )  # fmt: skip


def measure(name: str, controller: str, seed: int) -> dict[str, Any]:
    """Costs from the starts that belong to this training."""
    now = task(name)
    plant = now["plant"]
    made: Any
    if controller == "oracle":
        made = Oracle(now)
    elif controller == "LQR":
        made = Local(now)
    else:
        made = learned(name, controller, now, seed)
    aim = now.get("aim")
    costs, seconds = [], []
    for x0 in starts(name)[seed::TRAININGS]:
        run = closed_loop(
            plant, made, x0, now["steps"], reference=aim, u_min=plant.u_low, u_max=plant.u_high
        )
        target = 0.0 if aim is None else aim[1 : now["steps"] + 1]
        costs.append(run.cost(now["Q"], now["R"], target))
        seconds += run.seconds.tolist()
    return {"costs": costs, "ms": 1e3 * float(np.median(seconds))}


def main() -> None:
    jobs = [
        {"name": t, "controller": c, "seed": seed}
        for seed in range(TRAININGS)
        for t, controllers in TASKS.items()
        for c in controllers
    ]
    results = run_jobs(f"qpko_control_{STARTS}", measure, jobs)
    by: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job, result in zip(jobs, results, strict=True):
        by.setdefault((job["name"], job["controller"]), []).append(result)

    def costs_of(name: str, controller: str) -> Any:
        return np.concatenate([r["costs"] for r in by[name, controller]])

    rows = []
    for t, controllers in TASKS.items():
        known = "cart-pole, upright" if t.startswith("cart-pole") else t
        oracle, local = (costs_of(known, c) for c in ("oracle", "LQR"))
        for c in controllers:
            costs = costs_of(t, c)
            ratio = costs / oracle
            low, high = np.quantile(ratio, [0.05, 0.95])
            rows.append(
                [f"{t}: {c}", float(np.median(costs)), shown((float(np.median(ratio)), low, high)),
                 None if c == "LQR" else f"{int((costs < local).sum())} of {STARTS}",
                 float(np.median([r["ms"] for r in by[t, c]]))]
            )  # fmt: skip
    write_result(
        "qpko_control",
        {"starts": STARTS, "trainings": TRAININGS,
         "training": "60 runs of 61 samples (upright: 180 of 21), 100 steps, joint 200"},
        {
            "qpko-control": {
                "columns": ["task: controller", "cost", "cost / oracle", "below LQR",
                            "CPU-ms a step"],
                "rows": rows,
                "note": f"{STARTS} starts, a fifth of them for each of {TRAININGS} trainings; "
                "median [5 %, 95 %].",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
