"""Systems with an input: runs on the inputs alone, with the settings that ``foretell fit`` picks.

Cascaded tanks with overflow (learned on one recording, judged on another), a measured buck
converter (first 70 % and last 30 %) and a simulated pendulum with a motor. The two measured ones
need a folder with cascaded_tanks/dataBenchmark.csv and buck/buck_id.csv: FORETELL_DATA=FOLDER.
Peers: the ReLU neural ODE and the discrete AL-RNN with the same trainer and settings, and the best
linear model of the same kind (output error, order picked on the end of the training part).
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import data, median_interval, run_jobs, shown, write_result
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.signal import lfilter

from foretell.app.planning import make_plan
from foretell.data import Trajectories
from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE

SEEDS = range(5)
LEARNERS = {"CPLRNN": CPLRNN, "ReLUNeuralODE": ReLUNeuralODE, "ALRNN": ALRNN}
SYSTEMS = ("cascaded tanks", "buck converter", "pendulum")
EFFORT = 2


def recordings(system: str) -> tuple[Trajectories, Trajectories]:
    if system == "cascaded tanks":
        names = ["uEst", "uVal", "yEst", "yVal"]
        u, v, y, w = _columns(data("cascaded_tanks/dataBenchmark.csv"), names)
        times = 4.0 * np.arange(len(u))
        return _driven(times, y, u), _driven(times, w, v)
    if system == "buck converter":
        t, u, y = _columns(data("buck/buck_id.csv"), ["sampling_time", "input", "y"])
        return _driven(t, y, u).split(0.7)
    return _pendulum(1500, seed=0), _pendulum(1000, seed=1)


def _columns(path: Path, names: list[str]) -> list[np.ndarray]:
    table = np.genfromtxt(path, delimiter=",", names=True)
    return [table[name] for name in names]


def _driven(times: np.ndarray, y: np.ndarray, u: np.ndarray) -> Trajectories:
    return Trajectories.from_arrays(
        y[:, None], times, controls=u[:, None], names=["y"], control_names=["u"]
    )


def _pendulum(n: int, seed: int, step: float = 0.15) -> Trajectories:
    """Angle of a damped pendulum under a torque that jumps every 20 samples; 1 % noise."""
    rng = np.random.default_rng(seed)
    torque = np.repeat(rng.uniform(-0.9, 0.9, n // 20 + 1), 20)[:n]
    state, angles = np.zeros(2), np.empty(n)
    for k in range(n):
        angles[k] = state[0]
        state = solve_ivp(
            lambda _, s, u: [s[1], u - np.sin(s[0]) - 0.3 * s[1]], (0, step), state,
            args=(torque[k],), rtol=1e-8, atol=1e-10,
        ).y[:, -1]  # fmt: skip
    noisy = angles + 0.01 * angles.std() * rng.normal(size=n)
    return _driven(step * np.arange(n), noisy, torque)


def train_and_judge(system: str, learner: str, seed: int) -> dict[str, Any]:
    train, test = recordings(system)
    start = time.process_time()
    if learner == "linear":
        run, skip = linear_run(train, test), 75
    else:
        name = {"CPLRNN": "cplrnn", "ReLUNeuralODE": "neural-ode", "ALRNN": "alrnn"}[learner]
        settings = make_plan(train, learner=name, effort=EFFORT, random_state=seed).settings
        skip = settings["warm_up"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LEARNERS[learner](**settings).fit(train)
            run = model.simulate(test.values[0][0], test.times[0], controls=test.controls[0])
            run = run.values[0]
    seconds = time.process_time() - start
    truth = test.values[0]
    whole = len(run) == len(truth)
    error = float(np.sqrt(np.mean((run - truth)[skip:] ** 2))) if whole else float("inf")
    return {"seconds": seconds, "error": error, "relative": error / float(truth.std())}


def linear_run(train: Trajectories, test: Trajectories) -> np.ndarray:
    """Output-error model y = B/F u + c, order 1..4 by the error on the last fifth."""
    u, y = train.controls[0][:, 0], train.values[0][:, 0]
    cut = int(0.8 * len(y))
    fits = [_output_error(u[:cut], y[:cut], order) for order in range(1, 5)]
    errors = [np.sqrt(np.mean((_respond(p, u)[cut:] - y[cut:]) ** 2)) for p in fits]
    best = _output_error(u, y, 1 + int(np.argmin(errors)))
    return _respond(best, test.controls[0][:, 0])[:, None]


def _respond(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    order = (len(p) - 1) // 2
    a, b = np.concatenate([[1.0], p[:order]]), np.concatenate([[0.0], p[order : 2 * order]])
    with np.errstate(all="ignore"):
        return np.nan_to_num(lfilter(b, a, u - p[-2]) + p[-1], nan=1e6, posinf=1e6, neginf=-1e6)


def _output_error(u: np.ndarray, y: np.ndarray, order: int) -> np.ndarray:
    rows = np.stack(
        [-y[order - 1 - k : len(y) - 1 - k] + y.mean() for k in range(order)]
        + [u[order - 1 - k : len(u) - 1 - k] - u.mean() for k in range(order)], axis=1
    )  # fmt: skip
    ab = np.linalg.lstsq(rows, y[order:] - y.mean(), rcond=None)[0]
    first = np.concatenate([ab, [u.mean(), y.mean()]])
    skip = min(75, len(y) // 4)

    def misses(p: np.ndarray) -> np.ndarray:
        return np.clip((_respond(p, u) - y)[skip:], -1e3, 1e3)

    return least_squares(misses, first, x_scale="jac", max_nfev=200).x


def main() -> None:
    names = ("linear", *LEARNERS)
    jobs = [{"system": system, "learner": name, "seed": s} for system in SYSTEMS for name in names
            for s in (SEEDS if name != "linear" else [0])]  # fmt: skip
    results = run_jobs("cplrnn_driven", train_and_judge, jobs)
    rows = []
    for system in SYSTEMS:
        for name in names:
            group = [
                r for j, r in zip(jobs, results, strict=True)
                if (j["system"], j["learner"]) == (system, name)
            ]  # fmt: skip
            errors = [r["error"] for r in group]
            rows.append([
                system, name, shown(median_interval(errors)),
                f"{np.median([r['relative'] for r in group]):.2f}",
                ", ".join(f"{e:.3g}" for e in errors),
                round(float(np.median([r["seconds"] for r in group])), 1),
            ])  # fmt: skip
    write_result(
        "cplrnn_driven",
        {"effort": EFFORT, "seeds": list(SEEDS)},
        {
            "cplrnn-driven": {
                "columns": ["system", "model", "error (units of the data)", "in sd", "seeds",
                            "CPU-s"],
                "rows": rows,
                "note": "Root mean square error of a run on the inputs alone over a recording that "
                f"was not used, after the run-up; settings of effort {EFFORT}. Median [95 % "
                "bootstrap interval] of 5 seeds. Tanks in volts.",
            }
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
