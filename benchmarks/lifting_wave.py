"""A wave in a random medium, 32 x 32 cells: when it reaches the edge, and how much of it there is.

u_tt = c(x)^2 (u_xx + u_yy) on a periodic square of side 2 pi, from a pulse at rest; c is a smooth
Gaussian field, brought to [0, 1], and the only chance there is. Learned from 96 recordings of 32
frames with three frames of history; then as many fresh runs from the first frame on, against 96
other recordings. Ours with a label for each step, and with one that stays along a run, since the
medium does; flow matching in 20 evaluations has the same network and the updates that take as long.
"""

import os
import time
import warnings
from typing import Any

import numpy as np
from _common import CACHE, run_jobs, write_result
from _lifting import seconds_per_step

from foretell.core import ForetellWarning
from foretell.dynamics.lifting import FlowMatchingTransition, StochasticLifting
from foretell.dynamics.longrun import wasserstein

SEEDS = range(int(os.environ.get("SEEDS", "1")))
CELLS, FRAMES, RECORDINGS = 32, 32, 96
DT, END = 4e-3, 8.0
THRESHOLD = 0.05  # of the field at the edge, at which the wave has arrived
NET = {"backbone": "unet", "width": 8, "history": 3, "lr": 2e-3, "batch_size": 16}
OURS = {**NET, "label_dim": 64, "max_steps": 700, "mean_steps": 300}
METHODS: dict[str, Any] = {
    "lifting, a label a step": (StochasticLifting, OURS),
    "lifting, a label a run": (StochasticLifting, {**OURS, "label_scope": "trajectory"}),
    "lifting, as published": (
        StochasticLifting, {**OURS, "residual": False, "calibrate": False, "increments": False}
    ),
    "flow matching, 20": (FlowMatchingTransition, NET),
}  # fmt: skip


def waves(n: int, rng: Any) -> Any:
    """Recordings (n, FRAMES, 1, CELLS, CELLS)."""
    k = np.fft.fftfreq(CELLS, 1 / CELLS)
    square = k[:, None] ** 2 + k**2
    smooth = np.fft.ifft2(np.exp(-square / 8.0) * np.fft.fft2(rng.normal(size=(n, CELLS, CELLS))))
    c = smooth.real
    low, high = c.min(axis=(1, 2), keepdims=True), c.max(axis=(1, 2), keepdims=True)
    speed = ((c - low) / (high - low)) ** 2
    x = 2 * np.pi * np.arange(CELLS) / CELLS - np.pi
    u = np.broadcast_to(np.exp(-30.0 * (x[:, None] ** 2 + x**2)), (n, CELLS, CELLS)).copy()
    half, every = square[:, : CELLS // 2 + 1], round(END / DT / (FRAMES - 1))
    before, frames = u.copy(), [u]
    for step in range(1, every * (FRAMES - 1) + 1):
        bend = np.fft.irfft2(-half * np.fft.rfft2(u), s=(CELLS, CELLS))
        factor = 0.5 if step == 1 else 1.0  # from rest
        u, before = 2 * u - before + factor * DT**2 * speed * bend, u
        if step % every == 0:
            frames.append(u)
    return np.stack(frames, axis=1)[:, :, None]


def recordings(seed: int) -> tuple[Any, Any]:
    path = CACHE / "lifting_data" / f"waves-{seed}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, waves(2 * RECORDINGS, np.random.default_rng([seed, 9])))
    both = np.load(path)
    return both[:RECORDINGS], both[RECORDINGS:]


def arrival(runs: Any) -> Any:
    """First time at which the wave is at the edge, of 1 for the last frame; 1 where it never is."""
    edge = np.abs(np.concatenate([runs[..., 0, :], runs[..., :, 0]], axis=-1)).max(axis=-1)
    there = edge.reshape(len(runs), -1) > THRESHOLD
    return np.where(there.any(axis=1), there.argmax(axis=1), FRAMES - 1) / (FRAMES - 1)


def mass(runs: Any) -> Any:
    return np.abs(runs).mean(axis=(2, 3, 4))


def two(x: Any, y: Any) -> float:
    """Distance of two samples of one size, the mean square of the differences in order."""
    return float(np.sqrt(((np.sort(x) - np.sort(y)) ** 2).mean()))


def coherence(runs: Any) -> float:
    """Correlation over runs of the mass in the middle and at the end."""
    m = mass(runs)
    return float(np.corrcoef(m[:, FRAMES // 2], m[:, -1])[0, 1])


def pace() -> dict[str, Any]:
    """CPU time of an update, alternating; the least of two."""
    paths, _ = recordings(0)
    found: dict[str, list[float]] = {}
    for _ in range(2):
        for name in ("lifting, a label a step", "flow matching, 20"):
            kind, settings = METHODS[name]
            model = kind(**{**settings, "random_state": 0})
            found.setdefault(name, []).append(seconds_per_step(model, paths, 10))
    return {name: min(values) for name, values in found.items()}


def judge(method: str, seed: int, max_steps: int) -> dict[str, Any]:
    paths, later = recordings(seed)
    if method == "other recordings":
        runs, model, seconds, run_seconds = paths, None, 0.0, 0.0
    else:
        kind, settings = METHODS[method]
        model = kind(**{**settings, "max_steps": max_steps, "random_state": seed})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ForetellWarning)
            begin = time.process_time()
            model.fit(paths)
            seconds = time.process_time() - begin
            begin = time.process_time()
            runs = model.rollout(later[0, 0], FRAMES - 1, RECORDINGS, seed)[0]
            run_seconds = time.process_time() - begin
    m, true = mass(runs), mass(later)
    return {
        "arrival": two(arrival(runs), arrival(later)),
        "mass": float(np.mean([two(m[:, t], true[:, t]) for t in range(1, FRAMES)])),
        "cell": float(np.mean([
            wasserstein(runs[:, t, 0, 8, 8], later[:, t, 0, 8, 8]) for t in range(1, FRAMES)
        ])),
        "coherence": coherence(runs), "true_coherence": coherence(later),
        "error_ratio": getattr(model, "train_mse_ratio_", None),
        "evaluations": getattr(model, "evaluations_per_step", None),
        "seconds": seconds, "run_seconds": run_seconds,
    }  # fmt: skip


def plan() -> tuple[dict[str, Any], dict[str, int], list[dict[str, Any]]]:
    """Times of updates, updates of each method, jobs."""
    (paces,) = run_jobs("lifting_wave_pace", pace, [{}], workers=1)
    steps = dict.fromkeys(METHODS, OURS["max_steps"])
    ours = OURS["max_steps"] + OURS["mean_steps"]
    name = "flow matching, 20"
    steps[name] = round(ours * paces["lifting, a label a step"] / paces[name])
    steps["lifting, as published"] = ours
    steps["other recordings"] = 0
    jobs = [{"method": m, "seed": s, "max_steps": n} for s in SEEDS for m, n in steps.items()]
    return paces, steps, jobs


def main() -> None:
    paces, steps, jobs = plan()
    results = run_jobs("lifting_wave", judge, jobs, workers=1)
    rows = []
    for m in steps:
        own = [r for j, r in zip(jobs, results, strict=True) if j["method"] == m]
        mean = {
            k: float(np.mean([r[k] for r in own]))
            for k in ("arrival", "mass", "cell", "coherence", "seconds", "run_seconds")
        }
        rows.append([
            m, own[0]["evaluations"], steps[m] or None, f"{mean['arrival']:.4f}",
            f"{1e3 * mean['mass']:.3f}", f"{1e3 * mean['cell']:.2f}", f"{mean['coherence']:.2f}",
            round(mean["seconds"]), round(mean["run_seconds"], 1),
        ])  # fmt: skip
    true = float(np.mean([r["true_coherence"] for r in results]))
    write_result(
        "lifting_wave",
        {"seeds": len(SEEDS), "recordings": RECORDINGS, "net": NET, "ours": OURS,
         "seconds per update": paces},
        {
            "lifting-wave": {
                "columns": ["sampler", "evaluations a step", "updates", "arrival, W2",
                            "mass, W2 x 1000", "one cell, W1 x 1000",
                            "correlation of mass, middle and end", "CPU-s to fit", "CPU-s to run"],
                "rows": rows,
                "note": f"{len(SEEDS)} seed(s), {RECORDINGS} runs of {FRAMES - 1} steps. The "
                f"correlation is {true:.2f} in the recordings that are judged by.",
            },
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
