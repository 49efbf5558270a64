"""Forecasts of lifted linear models: an embedded program against joint and alternating training.

Five plants, three regimes, one test set without noise of 100 runs that start from measured states.
The joint model begins at the regression of its first encoder and has the learning rate that was
best for it on another seed (1e-2 of 2e-3, 5e-3, 1e-2) and twice the steps; the others keep 2e-3.
"auto" is the candidate with the smaller error on the recordings held back from training.
Shifted: the models, not fitted again, on a plant with 15 % more mass or damping, inputs held 17
samples in place of 5, and starts from a box 1.3 times as wide.
"""

import sys
import time
from typing import Any

import numpy as np
from _common import run_jobs, write_result

from foretell.data.controlled_systems import (
    cart_pole,
    dc_motor,
    duffing,
    pendulum,
    van_der_pol,
)
from foretell.dynamics.koopman import AlternatingKoopman, EDMDc, JointKoopman, KoopmanQP

PLANTS = {
    "van der Pol": (van_der_pol, {"damping": 1.15}),
    "pendulum": (pendulum, {"mass": 1.15}),
    "Duffing": (duffing, {"damping": 0.575}),
    "cart-pole": (cart_pole, {"pole": 0.345}),
    "DC motor": (dc_motor, {"inertia": 0.00441 * 1.15}),
}
REGIMES: dict[str, dict[str, Any]] = {
    "noisy, 10 runs": {"runs": 10, "noise": 0.1, "ne": 8, "mu": 1.0},
    "clean": {"runs": 60, "noise": 0.0, "ne": 8, "mu": 1.0},
    "2 observables": {"runs": 60, "noise": 0.0, "ne": 2, "mu": 30.0},
}
STEPS, JOINT_STEPS, HORIZONS = 100, 200, (15, 50, 100)
SEEDS = range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
for name in sys.argv[2:]:  # leave a regime out
    del REGIMES[name]


def measure(plant: str, regime: str, seed: int) -> dict[str, Any]:
    make, change = PLANTS[plant]
    now = REGIMES[regime]
    train = make().recordings(now["runs"], 61, noise=now["noise"], random_state=1000 + seed)
    test = make().recordings(100, 101, random_state=5000 + seed)
    shifted = make(**change).recordings(100, 101, hold=17, spread=1.3, random_state=9000 + seed)
    common = {"n_observables": now["ne"], "max_steps": STEPS, "random_state": seed}
    models: dict[str, Any] = {
        "joint": JointKoopman(**{**common, "max_steps": JOINT_STEPS}, lr=1e-2),
        "none": KoopmanQP(**common, constraint="none"),
        "gauss_newton": KoopmanQP(**common, constraint="gauss_newton", slack_penalty=now["mu"]),
        "EDMDc": EDMDc(degree=3, n_centres=50, random_state=seed),
    }
    if regime == "clean":
        models["alternating"] = AlternatingKoopman(**common)
    found: dict[str, Any] = {}
    for name, model in models.items():
        began = time.process_time()
        model.fit(train)
        seconds = time.process_time() - began
        errors = model.horizon_errors(test, horizon=100)
        moved = model.horizon_errors(shifted, horizon=100)
        found[name] = {
            "nrmse": [errors.mean(h) for h in HORIZONS],
            "shifted": [moved.mean(h) for h in HORIZONS],
            "diverged": errors.diverged,
            "radius": model.spectral_radius_,
            "seconds": seconds,
        }
        if name != "EDMDc":
            run = model.history_
            found[name] |= {"steps": run.steps, "looks": [-s for s in run.scores]}
            found[name]["validation"] = next(iter(model.compared_.values()))
    best = min(("none", "gauss_newton"), key=lambda n: found[n]["validation"])
    found["auto"] = {**found[best], "chosen": best}
    return found


def geometric(ratios: Any, seed: int = 0) -> tuple[float, float, float]:
    """Geometric mean of paired ratios with a bootstrap interval."""
    logs = np.log(np.asarray(ratios))
    draws = np.random.default_rng(seed).integers(len(logs), size=(4000, len(logs)))
    low, high = np.quantile(logs[draws].mean(axis=1), [0.025, 0.975])
    return tuple(float(np.exp(v)) for v in (logs.mean(), low, high))


def shown(values: tuple[float, float, float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*values)


def seconds_to(result: dict[str, Any], aim: float) -> float:
    """CPU-seconds until a look was as good as ``aim``; infinite if none was."""
    for step, value in zip(result["steps"], result["looks"], strict=True):
        if value <= aim:
            return float(result["seconds"] * step / result["steps"][-1])
    return float("inf")


def main() -> None:
    jobs = [{"plant": p, "regime": r, "seed": s} for s in SEEDS for r in REGIMES for p in PLANTS]
    results = run_jobs(f"qpko_accuracy_{STEPS}", measure, jobs)
    by = {(j["plant"], j["regime"], j["seed"]): r for j, r in zip(jobs, results, strict=True)}

    def values(plant: str, regime: str, name: str, key: str = "nrmse", h: int = 0) -> list[float]:
        picked = [by[plant, regime, s][name][key] for s in SEEDS]
        return [v[h] if isinstance(v, list) else v for v in picked]

    rows, ratio_rows, wide = [], [], []
    for regime in REGIMES:
        names = ["EDMDc", "joint", *(["alternating"] if regime == "clean" else [])]
        for plant in PLANTS:
            for name in (*names, "none", "gauss_newton", "auto"):
                medians = [np.median(values(plant, regime, name, h=h)) for h in range(3)]
                moved = [np.median(values(plant, regime, name, "shifted", h)) for h in (0, 2)]
                rows.append(
                    [f"{regime}: {plant}", name, *(float(f"{m:.3g}") for m in (*medians, *moved)),
                     float(np.mean(values(plant, regime, name, "diverged")))]
                )  # fmt: skip

            def ratio(a: str, b: str, h: int, plant: str = plant, regime: str = regime) -> str:
                return shown(geometric(np.array(values(plant, regime, a, h=h))
                                       / np.array(values(plant, regime, b, h=h))))  # fmt: skip

            ratio_rows.append(
                [f"{regime}: {plant}", ratio("none", "joint", 0), ratio("auto", "joint", 0),
                 ratio("gauss_newton", "none", 0), ratio("gauss_newton", "none", 2),
                 ratio("auto", "none", 0), ratio("auto", "none", 2)]
            )  # fmt: skip
        for plant in PLANTS:
            parts = [by[plant, regime, s] for s in SEEDS]
            spent = [p["joint"]["seconds"] for p in parts]
            needed = [seconds_to(p["none"], p["joint"]["validation"]) for p in parts]
            wide.append(
                [f"{regime}: {plant}", float(np.median(spent)), float(np.median(needed)),
                 float(np.median(np.array(needed) / np.array(spent))),
                 float(np.median([p["none"]["seconds"] for p in parts])),
                 float(np.median([p["gauss_newton"]["seconds"] for p in parts]))]
            )  # fmt: skip
    n = len(SEEDS)
    write_result(
        "qpko_accuracy",
        {"seeds": n, "steps": STEPS, "steps of joint": JOINT_STEPS,
         "test": "100 runs of 101 samples, without noise"},
        {
            "qpko-accuracy": {
                "columns": ["regime: plant", "model", "nRMSE 15", "nRMSE 50", "nRMSE 100",
                            "shifted 15", "shifted 100", "diverged"],
                "rows": rows,
                "note": f"Median of {n} seeds, {STEPS} steps, joint {JOINT_STEPS}; mean error over "
                "the first 15, 50, 100 steps in standard deviations.",
            },
            "qpko-ratios": {
                "columns": ["regime: plant", "none / joint, 15", "auto / joint, 15",
                            "gauss_newton / none, 15", "gauss_newton / none, 100",
                            "auto / none, 15", "auto / none, 100"],
                "rows": ratio_rows,
                "note": f"Geometric mean of paired ratios, {n} seeds, bootstrap interval over "
                "seeds (with three of them, the range of the means that three can give).",
            },
            "qpko-seconds": {
                "columns": ["regime: plant", "joint, CPU-s", "none as good after, CPU-s", "ratio",
                            "none, all steps", "gauss_newton, all steps"],
                "rows": wide,
                "note": "inf: at no look. As good: on the recordings held back from training, "
                f"at the looks every {STEPS // 10} steps. All steps: {STEPS}, joint {JOINT_STEPS}.",
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
