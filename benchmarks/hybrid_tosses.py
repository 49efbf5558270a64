"""Real impacts: 570 tosses of an acrylic cube, split by toss.

Ours: HybridLatentODE. Peer: a neural ODE in the state space with as many parameters, the same
windows, curriculum, optimiser and selection. Columns: height, quaternion, velocity and angular
velocity (the plane of the floor is left out: the cube does not care where it lands), so the flow
has ten dimensions. Errors of a run from the first sample over the whole toss, in half cube widths
and degrees. The data are those of ContactNets (Pfrommer, Halm, Posa 2020), BSD-3.
"""

import os
import time
import warnings
from typing import Any

import numpy as np
from _common import WORKERS, data, run_jobs, write_result
from scipy.stats import wilcoxon

from foretell.core import ForetellWarning
from foretell.data import Trajectories
from foretell.dynamics.hybrid import HybridLatentODE, keeping
from foretell.dynamics.hybrid.columns import read_columns
from foretell.dynamics.hybrid.preparation import prepare

NAMES = ("z", "qw", "qx", "qy", "qz", "vx", "vy", "vz", "wx", "wy", "wz")
QUATERNION = ("qw", "qx", "qy", "qz")
SEEDS = range(int(os.environ.get("SEEDS", "3")))
SETTINGS = {
    "horizons": (4, 8, 16, 32), "updates_per_horizon": 2000, "batch_size": 32,
    "quaternion_columns": (QUATERNION,),
}  # fmt: skip
LONGEST = 100  # samples of a test run


def recordings() -> tuple[Trajectories, Trajectories, Trajectories]:
    with np.load(data("cube_tosses/tosses.npz")) as file:
        tosses = np.split(file["states"], np.cumsum(file["lengths"])[:-1])
    values = [np.asarray(t, dtype=float)[:, [2, *range(3, 13)]] for t in tosses]
    for v in values:
        v[:, 1:5] /= np.linalg.norm(v[:, 1:5], axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(values))

    def part(numbers: Any) -> Trajectories:
        return Trajectories.from_arrays(
            [values[n] for n in numbers], [np.arange(len(values[n])) / 148.0 for n in numbers],
            names=NAMES, time_unit="s",
        )  # fmt: skip

    return part(order[:400]), part(order[400:470]), part(order[470:570])


def angle(p: Any, q: Any) -> Any:
    """Angle in degrees between rotations given by unit quaternions (..., 4)."""
    return np.degrees(2 * np.arccos(np.clip(np.abs((p * q).sum(axis=-1)), 0.0, 1.0)))


def fit_and_judge(name: str, seed: int, heads: int | str = "auto") -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    train, validation, test = recordings()
    both = Trajectories.from_arrays(
        [*train.values, *validation.values], [*train.times, *validation.times], names=NAMES
    )
    model = HybridLatentODE(
        **SETTINGS, decoder_heads=heads, random_state=seed, validation=70 / 470
    )  # fmt: skip
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        if name == "neural ODE":
            run, size = _neural_ode(model, both)
        else:
            from _hybrid_peers import n_parameters

            model.fit(both)
            run, size = model.predict, n_parameters(model.arrays_)
    seconds = time.process_time() - start
    height, rotation, penetration = [], [], []
    for values, times in zip(test.values, test.times, strict=True):
        true = values[:LONGEST]
        found = run(true[:1], times[:LONGEST])[0]
        found = np.where(np.isfinite(found), found, 1e3)
        q = found[1:, 1:5] / np.maximum(np.linalg.norm(found[1:, 1:5], axis=1, keepdims=True), 1e-9)
        height.append(float(np.minimum(np.abs(found[1:, 0] - true[1:, 0]), 100).mean()))
        rotation.append(float(angle(q, true[1:, 1:5]).mean()))
        penetration.append(float((found[1:, 0] < 0.95).mean()))
    result = {
        "parameters": size, "seconds": seconds, "height": height, "rotation": rotation,
        "height_mean": float(np.mean(height)), "rotation_mean": float(np.mean(rotation)),
        "penetration": float(np.mean(penetration)),
    }  # fmt: skip
    if name == "ours":
        result |= {"heads": model.n_heads_, "jumps": model.jumps_.share}
    return result


def _neural_ode(model: HybridLatentODE, both: Trajectories) -> tuple[Any, int]:
    from _hybrid_peers import neural_ode, width_for

    from foretell.dynamics.hybrid.modules import HybridNetworks

    columns = read_columns(both, (), (QUATERNION,))
    prepared = prepare(both, columns, model, None, None)
    shape = model._shape(columns, 0, 2 * columns.flow_dimension + 1)
    ours = sum(p.numel() for p in HybridNetworks(shape).parameters())
    width = width_for(len(NAMES), 0, ours)
    field = neural_ode(prepared, keeping.settings_of(model), width)

    def run(x0: Any, times: Any) -> Any:
        dt = np.broadcast_to(np.diff(times) / prepared.time_scale, (len(x0), len(times) - 1))
        start = np.array([columns.aligned(x[None])[0] for x in x0])
        z = field.roll_out(prepared.scaler.transform_values(start), dt)
        z = np.clip(np.where(np.isfinite(z), z, 0.0), prepared.low, prepared.high)
        return prepared.scaler.inverse_values(z)

    size = width * (len(NAMES) + 1) + width * (width + 1) + (width + 1) * len(NAMES)
    return run, size


def resting(test: Trajectories) -> tuple[float, float]:
    """Errors of staying where the toss begins, for scale."""
    height = [np.abs(v[1:LONGEST, 0] - v[0, 0]).mean() for v in test.values]
    rotation = [angle(v[1:LONGEST, 1:5], v[0, 1:5]).mean() for v in test.values]
    return float(np.mean(height)), float(np.mean(rotation))


def main() -> None:
    jobs = [{"name": name, "seed": s} for s in SEEDS for name in ("ours", "neural ODE")]
    results = run_jobs("hybrid_tosses_2000", fit_and_judge, jobs, workers=WORKERS)
    by = {(j["name"], j["seed"]): r for j, r in zip(jobs, results, strict=True)}
    rows, ratios = [], []
    for name in ("ours", "neural ODE"):
        some = [by[name, s] for s in SEEDS]
        rows.append([
            name, some[0]["parameters"],
            ", ".join(f"{r['height_mean']:.3f}" for r in some),
            ", ".join(f"{r['rotation_mean']:.1f}" for r in some),
            ", ".join(f"{r['penetration']:.3f}" for r in some),
            round(float(np.median([r["seconds"] for r in some]))),
        ])  # fmt: skip
    still = resting(recordings()[2])
    rows.append(["stay at the start", 0, f"{still[0]:.3f}", f"{still[1]:.1f}", "-", 0])
    for key in ("height", "rotation"):
        mine, theirs = (
            np.mean([by[name, s][key] for s in SEEDS], axis=0) for name in ("ours", "neural ODE")
        )
        less = float(wilcoxon(mine, theirs, alternative="less").pvalue)
        ratios.append([key, f"{mine.mean() / theirs.mean():.3g}", f"{less:.2g}"])
    write_result(
        "hybrid_tosses",
        {**SETTINGS, "seeds": list(SEEDS), "split": [400, 70, 100], "run": LONGEST},
        {
            "hybrid-tosses": {
                "columns": ["learner", "parameters", "height error (half widths), by seed",
                            "rotation error (degrees), by seed",
                            "centre below 0.95 half widths", "CPU-s"],
                "rows": rows,
                "note": "Mean over 100 held-out tosses, each followed for up to 100 samples from "
                "its first one.",
            },
            "hybrid-tosses-ratio": {
                "columns": ["error", "ours / neural ODE", "p (ours not smaller)"], "rows": ratios,
                "note": "Means over seeds; Wilcoxon test paired by toss.",
            },
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip
    print(*rows, *ratios, sep="\n")


if __name__ == "__main__":
    main()
