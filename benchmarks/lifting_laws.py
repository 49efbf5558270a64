"""One step and the long run in one dimension: where lifting fails, and what is better there.

Toy laws: x uniform on [-1, 1]; "two peaks" y = 0.8 x +- 0.3 + 0.05 e, the upper peak with
probability 0.5 + 0.3 x; "changing width" y = 0.8 x + (0.05 + 0.125 (x + 1)) e. 500 pairs; judged at
13 states with 2000 draws. Double well: 100 paths of 20 steps; 1000 runs of 100 steps from -1.
Peers: Gaussian network, engression (ours, and the authors' package where it is installed), flow
matching in 20 evaluations, analogues, all with the same layers.
"""

import importlib.util
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from _common import run_jobs, write_result
from _lifting import double_well, relative_wasserstein

from foretell.core import ForetellWarning
from foretell.dynamics.lifting import (
    AnalogueTransition,
    EngressionTransition,
    FlowMatchingTransition,
    GaussianTransition,
    StochasticLifting,
)

SEEDS = range(int(os.environ.get("SEEDS", "3")))
QUICK = "--quick" in sys.argv  # one step only, and the law with two peaks only
PAIRS, POINTS, DRAWS = 500, np.linspace(-0.9, 0.9, 13), 2000
LEADS = (5, 20, 50, 100)
NET = {"width": 128, "depth": 3, "lr": 2e-3, "max_steps": 1200}
PLAIN = {"residual": False, "calibrate": False}
METHODS: dict[str, Any] = {
    "lifting, calibrated, d=64": (StochasticLifting, {**NET, "label_dim": 64, "centre": None}),
    "lifting, as published, d=64": (StochasticLifting, {**NET, **PLAIN, "label_dim": 64}),
    "lifting, as published, d=4": (StochasticLifting, {**NET, **PLAIN, "label_dim": 4}),
    "Gaussian": (GaussianTransition, NET),
    "engression": (EngressionTransition, {**NET, "noise_dim": 16}),
    "flow matching, 20": (FlowMatchingTransition, NET),
    "analogues, 20": (AnalogueTransition, {"k": 20}),
}
PACKAGE = "engression 1.1 (its authors' package)"


def toy(law: str, x: Any, rng: Any) -> Any:
    e = rng.standard_normal(x.shape)
    if law == "two peaks":
        up = rng.random(x.shape) < 0.5 + 0.3 * x
        return 0.8 * x + np.where(up, 0.3, -0.3) + 0.05 * e
    return 0.8 * x + (0.05 + 0.125 * (x + 1)) * e


def package_draws(x: Any, y: Any, seed: int) -> Any:
    import torch
    from engression import engression

    torch.manual_seed(seed)
    model = engression(
        torch.from_numpy(x).float(), torch.from_numpy(y).float(), num_layer=3, hidden_dim=128,
        noise_dim=16, lr=1e-3, num_epochs=1000, batch_size=len(x), verbose=False,
    )  # fmt: skip
    found = model.sample(torch.from_numpy(POINTS[:, None]).float(), sample_size=DRAWS)
    return found.numpy()[:, 0]


def one_step(method: str, law: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 7])
    x = rng.uniform(-1, 1, (PAIRS, 1))
    y = toy(law, x, rng)
    truth = toy(law, np.repeat(POINTS[:, None], 20_000, 1), rng)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == PACKAGE:
            draws, extra = package_draws(x, y, seed), {}
        else:
            kind, settings = METHODS[method]
            own = {} if kind is AnalogueTransition else {"random_state": seed}
            model = kind(**settings, **own).fit_transitions(x, y, np.arange(PAIRS))
            draws = model.sample_next(POINTS[:, None], DRAWS, seed)[..., 0]
            extra = {
                "error_ratio": getattr(model, "train_mse_ratio_", None),
                "flat": list(getattr(model, "flat_residuals_", ())),
            }
    far = [relative_wasserstein(d, t) for d, t in zip(draws, truth, strict=True)]
    middle = 0.8 * POINTS[:, None]
    gap = float((np.abs(draws - middle) < 0.15).mean())
    return {
        "distance": float(np.mean(far)),
        "gap": gap,
        "true_gap": float((np.abs(truth - middle) < 0.15).mean()),
        "spread": float(np.mean(draws.std(axis=1) / truth.std(axis=1))),
        "seconds": time.process_time() - begin,
        **extra,
    }


def long_run(method: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 8])
    paths = double_well(rng.standard_normal(100), 20, rng)
    truth, again = (double_well(-np.ones(4000), LEADS[-1], rng)[..., 0] for _ in range(2))
    if method == "true runs":
        runs, seconds = again[:1000], 0.0
    else:
        kind, settings = METHODS[method]
        own = {} if kind is AnalogueTransition else {"random_state": seed}
        model = kind(**settings, **own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForetellWarning)
            begin = time.process_time()
            model.fit(paths)
            seconds = time.process_time() - begin
            runs = model.rollout([-1.0], LEADS[-1], 1000, seed)[0, ..., 0]
    return {
        "distance": [relative_wasserstein(runs[:, k], truth[:, k]) for k in LEADS],
        "seconds": seconds,
    }


def _seeds() -> str:
    return f"mean of {len(SEEDS)} seeds" if len(SEEDS) > 1 else "one seed"


def main() -> None:
    package = importlib.util.find_spec("engression") is not None
    if not package:
        print("engression is not installed; its rows are left out")
    names = [*METHODS, *([PACKAGE] if package else [])]
    laws = ("two peaks",) if QUICK else ("two peaks", "changing width")
    if QUICK:
        names = [n for n in names if n not in ("flow matching, 20", "lifting, as published, d=4")]
    jobs = [{"method": m, "law": w, "seed": s} for s in SEEDS for w in laws for m in names]
    results = run_jobs("lifting_laws", one_step, jobs, workers=1)
    walks = [*METHODS, "true runs"]
    runs_jobs = [] if QUICK else [{"method": m, "seed": s} for s in SEEDS for m in walks]
    runs = run_jobs("lifting_double_well", long_run, runs_jobs, workers=1)

    def mean(method: str, law: str, key: str) -> float:
        return float(np.mean([
            r[key] for j, r in zip(jobs, results, strict=True)
            if (j["method"], j["law"]) == (method, law)
        ]))  # fmt: skip

    rows = [
        [m, *[mean(m, "two peaks", k) for k in ("distance", "gap", "spread")],
         *[mean(m, w, k) for w in laws[1:] for k in ("distance", "spread")],
         mean(m, "two peaks", "seconds")]
        for m in names
    ]  # fmt: skip
    wide = [0.0, 1.0] if len(laws) > 1 else []
    rows.append(["true law", 0.0, mean(names[0], "two peaks", "true_gap"), 1.0, *wide, None])
    walk_rows = []
    for m in walks if runs_jobs else ():
        mine = [r for j, r in zip(runs_jobs, runs, strict=True) if j["method"] == m]
        far = np.mean([r["distance"] for r in mine], axis=0)
        walk_rows.append([m, *map(float, far), float(np.mean([r["seconds"] for r in mine]))])
    tables: dict[str, Any] = {
        "lifting-laws": {
            "columns": ["sampler", "two peaks: W1 / sd", "mass in the gap", "width / true",
                        *(["changing width: W1 / sd", "width / true "] if wide else []), "CPU-s"],
            "rows": rows,
            "note": f"Conditional laws at 13 states, {PAIRS} pairs, {_seeds()}. The gap: within "
            "0.15 of the middle between the peaks.",
        }
    }  # fmt: skip
    if walk_rows:
        tables["lifting-double-well"] = {
            "columns": ["sampler", *[f"W1 / sd after {k}" for k in LEADS], "CPU-s to fit"],
            "rows": walk_rows,
            "note": f"1000 runs against 4000 true ones, 2000 transitions seen, {_seeds()}.",
        }
    write_result(
        "lifting_laws",
        {"seeds": len(SEEDS), "pairs": PAIRS, "net": NET, "package": package},
        tables,
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
        runs=[{"job": j, **r} for j, r in zip(runs_jobs, runs, strict=True)],
    )  # fmt: skip
    print(*rows, *walk_rows, sep="\n")


if __name__ == "__main__":
    main()
