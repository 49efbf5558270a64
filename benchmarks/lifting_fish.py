"""Polarisation of a school of fish (recorded): one step ahead, and the law after 100 steps.

The recording comes with the package pydaddy (GPL-3) and is read from it where that is installed, or
from benchmarks/.cache/lifting_data/ectropus.csv; it is not part of this repository. Every second
sample (0.24 s); 4000 transitions from the first three quarters, judged on the last fifth. Held-out
variation, looked at once: every eighth sample. Learning rates are the best of 1e-3 and 3e-3 on
other seeds for ours and for the Gaussian.
"""

import importlib.util
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import CACHE, left_out, run_jobs, write_result

from foretell.core import ForetellWarning
from foretell.dynamics.lifting import (
    AnalogueTransition,
    EngressionTransition,
    FlowMatchingTransition,
    GaussianTransition,
    StochasticLifting,
)
from foretell.dynamics.longrun import energy_score, rank_histogram, spread_skill, wasserstein

SEEDS = range(int(os.environ.get("SEEDS", "5")))
LEAD, BLOCK, MOST = 100, 200, 4000
NET = {"max_steps": 1500, "lr": 1e-3, "batch_size": 64}
OURS = {"max_steps": 2500, "lr": 3e-3, "batch_size": 64, "label_dim": 64}
METHODS: dict[str, Any] = {
    "lifting, in pairs": (StochasticLifting, OURS),
    "lifting": (StochasticLifting, {**OURS, "centre": None}),
    "lifting, one width": (StochasticLifting, {**OURS, "local_scale": False}),
    "lifting, as published": (StochasticLifting, {**OURS, "residual": False, "calibrate": False}),
    "Gaussian": (GaussianTransition, {**NET, "lr": 3e-3}),
    "engression": (EngressionTransition, {**NET, "noise_dim": 16}),
    "flow matching, 20": (FlowMatchingTransition, NET),
    "analogues, 30": (AnalogueTransition, {"k": 30}),
}  # fmt: skip
ONCE = ("lifting, one width", "lifting, as published", "flow matching, 20")  # one seed
HELD_OUT = ("lifting, in pairs", "lifting", "Gaussian", "engression", "analogues, 30")


def recording() -> Path | None:
    own = CACHE / "lifting_data" / "ectropus.csv"
    if own.exists():
        return own
    found = importlib.util.find_spec("pydaddy")
    places = found.submodule_search_locations if found is not None else None
    for place in places or ():
        path = Path(place) / "data" / "fish_data" / "ectropus.csv"
        if path.exists():
            return path
    return None


def parts(every: int) -> tuple[Any, Any]:
    path = recording()
    assert path is not None
    m = np.loadtxt(path, delimiter=",")
    m = m[np.isfinite(m).all(axis=1)][::every]
    train = m[: int(0.75 * len(m))]
    return train[: MOST + 1], m[int(0.8 * len(m)) :]


def in_disc(states: Any) -> Any:
    """Polarisation is at most 1 long."""
    return states / np.maximum(1.0, np.linalg.norm(states, axis=1))[:, None]


def judge(method: str, seed: int, every: int) -> dict[str, Any]:
    train, test = parts(every)
    kind, settings = METHODS[method]
    own = {} if kind is AnalogueTransition else {"random_state": seed}
    model = kind(**settings, **own)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ForetellWarning)
        begin = time.process_time()
        model.fit(train)
        seconds = time.process_time() - begin
    now, then = test[:-1], test[1:]
    draws = model.sample_next(now, 32, seed)
    lead = LEAD * 2 // every
    starts = test[: -lead - 1 : BLOCK * 2 // every]
    runs = model.rollout(starts, lead, 100, seed, project=in_disc)[:, :, -1]
    lengths = np.linalg.norm(runs.reshape(-1, 2), axis=1)
    return {
        "scores": energy_score(draws, then).round(6).tolist(),
        "ratio": spread_skill(draws, then).ratio,
        "chi_square": rank_histogram(draws, then).chi_square,
        "long_run": wasserstein(lengths, np.linalg.norm(test, axis=1)),
        "label_dim": getattr(model, "label_dim_", None),
        "seconds": seconds,
        "warned": [str(w.message) for w in said],
    }


def behind(scores: Any, best: Any, block: int) -> tuple[float, float, float]:
    """Ratio of mean scores with a block bootstrap interval."""
    n = len(scores) // block
    a, b = (np.array(s)[: n * block].reshape(n, block).mean(axis=1) for s in (scores, best))
    rows = np.random.default_rng(0).integers(n, size=(4000, n))
    low, high = np.quantile(a[rows].mean(axis=1) / b[rows].mean(axis=1), [0.025, 0.975])
    return float(a.mean() / b.mean()), float(low), float(high)


def main() -> None:
    if recording() is None:
        left_out("the recording of pydaddy is not here: pip install --no-deps pydaddy")
    tables = {}
    everything = []
    plan = [(2, tuple(METHODS), "lifting-fish"), (8, HELD_OUT, "lifting-fish-held-out")]
    for every, names, table in plan:
        jobs = [
            {"method": m, "seed": s, "every": every}
            for s in (SEEDS if every == 2 else SEEDS[:3])
            for m in names if not (s and m in ONCE)
        ]  # fmt: skip
        results = run_jobs("lifting_fish_local", judge, jobs, workers=1)
        found = {
            m: [r for j, r in zip(jobs, results, strict=True) if j["method"] == m] for m in names
        }
        scores = {m: np.mean([r["scores"] for r in rs], axis=0) for m, rs in found.items()}
        peers = [m for m in names if not m.startswith("lifting")]
        best = min(peers, key=lambda m: scores[m].mean())
        rows = []
        for m, rs in found.items():
            ratio = behind(scores[m], scores[best], BLOCK * 2 // every)
            rows.append([
                m, f"{scores[m].mean():.4f}", "{:.3f} [{:.3f}, {:.3f}]".format(*ratio),
                f"{np.mean([r['long_run'] for r in rs]):.3f}",
                float(np.mean([r["ratio"] for r in rs])),
                float(np.mean([r["chi_square"] for r in rs])),
                ", ".join(sorted({str(r["label_dim"]) for r in rs} - {"None"})) or None,
                round(float(np.mean([r["seconds"] for r in rs])), 1),
            ])  # fmt: skip
        tables[table] = {
            "columns": ["sampler", "energy score, 1 step", "over that of the best peer",
                        f"W1 of the polarisation after {LEAD * 2 // every} steps",
                        "spread / skill", "ranks: chi-square / df", "label_dim", "CPU-s to fit"],
            "rows": rows,
            "note": f"Fish school, every {'second' if every == 2 else 'eighth'} sample, "
            f"{len(found['lifting'])} seeds ({', '.join(ONCE)}: one); ratio with an interval over "
            f"blocks of {BLOCK} samples.",
        }  # fmt: skip
        everything += [{"job": j, **{k: v for k, v in r.items() if k != "scores"}}
                       for j, r in zip(jobs, results, strict=True)]  # fmt: skip
        print(*rows, sep="\n")
    write_result(
        "lifting_fish",
        {"seeds": len(SEEDS), "transitions": MOST, "net": NET, "ours": OURS},
        tables,
        results=everything,
    )


if __name__ == "__main__":
    main()
