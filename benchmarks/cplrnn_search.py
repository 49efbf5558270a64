"""Learning rate and noise of every learner in the tables, found in one way for all.

Three rates at the middle amount of training noise, then three amounts of noise at the best rate, on
seeds and data that no table uses: another Lorenz recording, another choice of the neuron's samples,
a later part of the heart recording. 10,000 updates for Lorenz, 5,000 else; scored by the measure of
the table on later or complete data; the smallest median over two seeds is taken.
"""

import sys
from collections.abc import Sequence
from typing import Any

import cplrnn_lif
import cplrnn_lorenz
import cplrnn_ppg
import numpy as np
from _common import run_jobs, write_result

SEEDS = (100, 101)
RATES, NOISES = (5e-3, 1e-2, 2e-2), (0.0, 0.02, 0.05)
LIF_RATES = (2e-3, 5e-3, 1e-2)


def lorenz(learner: str, lr: float, noise: float, seed: int) -> dict[str, Any]:
    return cplrnn_lorenz.train_and_judge(
        learner, 10_000, seed, lr=lr, noise=noise, recording=2, analyse=False
    )


def neuron(learner: str, lr: float, noise: float, seed: int) -> dict[str, Any]:
    return cplrnn_lif.train_and_judge(learner, "irregular", 5_000, seed, lr=lr, noise=noise, kept=1)


def pulse(learner: str, lr: float, noise: float, seed: int) -> dict[str, Any]:
    return cplrnn_ppg.train_and_judge(learner, 0.2, seed, lr=lr, noise=noise, begin=320.0)


LIF_LEARNERS = ("CPLRNN", *(f"ALRNN {way}" for way in cplrnn_lif.WAYS))
SEARCHES: dict[str, tuple[Any, tuple[str, ...], tuple[float, ...], str]] = {
    "lorenz": (lorenz, tuple(cplrnn_lorenz.LEARNERS), RATES, "divergence"),
    "neuron": (neuron, LIF_LEARNERS, LIF_RATES, "divergence"),
    "pulse": (pulse, cplrnn_ppg.LEARNERS, LIF_RATES, "spectrum"),
}


def main(names: list[str]) -> None:
    found = {name: search(name, workers=1 if names else 2) for name in names or SEARCHES}
    if names:
        return
    write_result(
        "cplrnn_search",
        {"seeds": list(SEEDS), "noises": list(NOISES), "rates": list(RATES),
         "updates": {"lorenz": 10_000, "neuron": 5_000, "pulse": 5_000},
         "rates for neuron and pulse": list(LIF_RATES)},
        {
            "cplrnn-search": {
                "columns": ["data", "learner", "scores by rate", "rate taken",
                            f"scores by noise {', '.join(map(str, NOISES))}", "noise taken"],
                "rows": [row for rows in found.values() for row in rows],
                "note": "Medians of two seeds that are in no other table, on other data. D_stsp "
                f"for Lorenz (rates {_listed(RATES, 'g')}) and the neuron, D_H for the pulse "
                f"(rates {_listed(LIF_RATES, 'g')}).",
            }
        },
    )  # fmt: skip


def search(name: str, workers: int) -> list[list[str]]:
    """One row for each learner: its scores and what was taken."""
    function, learners, rates, measure = SEARCHES[name]

    def medians(pairs: dict[str, list[tuple[float, float]]]) -> dict[Any, float]:
        jobs = [
            {"learner": learner, "lr": lr, "noise": sd, "seed": seed}
            for seed in SEEDS for learner in pairs for lr, sd in pairs[learner]
        ]  # fmt: skip
        results = run_jobs(f"cplrnn_search_{name}", function, jobs, workers=workers)
        scores: dict[Any, list[float]] = {}
        for job, result in zip(jobs, results, strict=True):
            key = job["learner"], job["lr"], job["noise"]
            scores.setdefault(key, []).append(float(result[measure]))
        return {k: float(np.median(np.nan_to_num(v, nan=99.0))) for k, v in scores.items()}

    middle = NOISES[1]
    by_rate = medians({n: [(r, middle) for r in rates] for n in learners})
    rate = {n: min(rates, key=lambda r: by_rate[n, r, middle]) for n in learners}
    by_noise = medians({n: [(rate[n], sd) for sd in NOISES] for n in learners})
    rows = []
    for n in learners:
        first = [by_rate[n, r, middle] for r in rates]
        second = [by_noise[n, rate[n], sd] for sd in NOISES]
        noise = NOISES[int(np.argmin(second))]
        rows.append([name, n, _listed(first), f"{rate[n]:g}", _listed(second), f"{noise:g}"])
        print(rows[-1], flush=True)
    return rows


def _listed(values: Sequence[float], how: str = ".2f") -> str:
    return ", ".join(format(v, how) for v in values)


if __name__ == "__main__":
    main(sys.argv[1:])
