"""How many latent dimensions: n, 2n, 2n + 1 and 2n + 3, on torus, Klein bottle and ball (n = 2).

The theorem asks for more than 2n. With n a torus or a Klein bottle cannot be embedded at all; with
2n it can, though not every nearby map is an embedding. Data, training and judgement are those of
hybrid_glued.
"""

import os
import time
import warnings
from typing import Any

import numpy as np
from _common import WORKERS, median_interval, run_jobs, shown, write_result
from hybrid_glued import BATCH, LOOPS, UPDATES, data, judge, learner

from foretell.core import ForetellWarning

DIMS = (2, 4, 5, 7)
SYSTEMS = ("torus", "klein", "ball")
SEEDS = int(os.environ.get("SEEDS", "3"))


def train_and_judge(system: str, latent_dim: int, seed: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    train, test = data(system, seed)
    model = learner("ours", seed, latent_dim=latent_dim)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        model.fit(train.trajectories)
    seconds = time.process_time() - start
    scale = np.concatenate(train.trajectories.values).std(axis=0)
    return judge(system, model.predict, train, test, scale) | {
        "seconds": seconds,
        "position_gap": model.seams_.position,
        "rank": int((np.array(model.latent_rank_.singular_values) > 0.1).sum()),
    }


def main() -> None:
    jobs = [
        {"system": system, "latent_dim": m, "seed": seed}
        for seed in range(SEEDS)
        for system in SYSTEMS
        for m in DIMS
    ]
    results = run_jobs("hybrid_dims", train_and_judge, jobs, workers=WORKERS)
    rows = []
    for system in SYSTEMS:
        for m in DIMS:
            found = [
                r
                for j, r in zip(jobs, results, strict=True)
                if (j["system"], j["latent_dim"]) == (system, m)
            ]
            key = "quotient100" if system in LOOPS else "mse100"
            rows.append([
                system, m,
                *(shown(median_interval([r[k] for r in found]))
                  for k in (key, "median100", "position_gap")),
                ", ".join(f"{r[key]:.3g}" for r in found),
                round(float(np.median([r["seconds"] for r in found]))),
            ])  # fmt: skip
    write_result(
        "hybrid_dims",
        {"updates": 4 * UPDATES, "batch": BATCH, "seeds": SEEDS, "n": 2},
        {
            "hybrid-dims": {
                "columns": ["system", "latent dimensions", "quotient error 100 (ball: mse 100)",
                            "median mse 100", "gap at the seams", "by seed", "CPU-s"],
                "rows": rows,
                "note": f"n = 2; median of {SEEDS} seeds with a bootstrap interval.",
            }
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
