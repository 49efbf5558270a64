"""EDMDc of PyKoopman beside ours, on the recordings of qpko_accuracy.py.

PyKoopman 1.2.1 cannot be installed beside current NumPy and SciPy, so it computes its forecasts in
an environment of its own, which is made on first use; errors are computed here, for all alike.
Both choose their dictionary by the error over 15 steps on a fifth of the recordings. Run
qpko_accuracy.py first: the last column is from its results for the same seeds.

qpko_pykoopman.py [SEEDS]
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import qpko_accuracy as accuracy
from _common import HERE, environment, ratio_interval, run_jobs, shown, write_result

from foretell.data import Trajectories
from foretell.dynamics.koopman import EDMDc

BESIDE = (
    "numpy==1.26.0 scipy==1.11.2 scikit-learn==1.1.3 setuptools==80.9.0 optht derivative~=0.6.0 "
    "prettytable<=3.9.0 pydmd==0.4.1 matplotlib torch lightning~=2.0.9"
)

# The same five as in _pykoopman.py.
OURS: dict[str, dict[str, int]] = {
    "states": {"degree": 1, "n_centres": 0},
    "degree 2": {"degree": 2, "n_centres": 0},
    "degree 3": {"degree": 3, "n_centres": 0},
    "50 splines": {"degree": 1, "n_centres": 50},
    "degree 3, 50 splines": {"degree": 3, "n_centres": 50},
}
REGIMES = ("noisy, 10 runs", "clean")


def nrmse(runs: Any, true: Any) -> Any:
    """Error (H,) of runs (B, H, N), in standard deviations."""
    off = np.clip(np.nan_to_num(runs - true, nan=1e100, posinf=1e100, neginf=1e100), -1e100, 1e100)
    return np.sqrt((off**2).mean(axis=(0, 2)))


def measure(plant: str, regime: str, seeds: list[int]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in seeds:
            train, test = recordings(plant, regime, seed)
            scaled, scaler = train.standardise()
            other = scaler.transform(test)
            np.savez(
                folder / f"{seed}-given.npz", x=np.array(scaled.values),
                u=np.array(scaled.controls), x0=np.array(other.values)[:, 0],
                inputs=np.array(other.controls)[:, :-1],
            )  # fmt: skip
        python = environment("pykoopman", BESIDE, "pykoopman==1.2.1")
        peer = [str(python), "-W", "ignore", str(HERE / "_pykoopman.py"), name]
        subprocess.run(peer, check=True, timeout=600)
        found = [one_seed(plant, regime, s, dict(np.load(folder / f"{s}-runs.npz"))) for s in seeds]
    return {"found": found}


def recordings(plant: str, regime: str, seed: int) -> tuple[Trajectories, Trajectories]:
    """Training and test set of qpko_accuracy.py."""
    make, now = accuracy.PLANTS[plant][0], accuracy.REGIMES[regime]
    train = make().recordings(now["runs"], 61, noise=now["noise"], random_state=1000 + seed)
    return train, make().recordings(100, 101, random_state=5000 + seed)


def one_seed(plant: str, regime: str, seed: int, peer: dict[str, Any]) -> dict[str, Any]:
    train, test = recordings(plant, regime, seed)
    scaler = train.standardise()[1]
    n = max(1, len(train) // 5)
    first, rest = train.select(range(n)), train.select(range(n, len(train)))

    def ours(name: str) -> EDMDc:
        return EDMDc(**OURS[name], random_state=seed)

    scores = {name: ours(name).fit(rest).horizon_errors(first).mean() for name in OURS}
    best = min(scores, key=scores.__getitem__)
    errors = nrmse(peer["runs"], np.array(scaler.transform(test).values)[:, 1:])
    own = ours(best).fit(train).horizon_errors(test, horizon=100)
    return {
        "peer": [float(errors[:h].mean()) for h in accuracy.HORIZONS],
        "ours": [own.mean(h) for h in accuracy.HORIZONS],
        "peer chose": str(peer["chosen"]),
        "ours chose": best,
        "seconds": float(peer["seconds"]),
    }


def main() -> None:
    seeds = list(accuracy.SEEDS)
    jobs = [{"plant": p, "regime": r, "seeds": seeds} for r in REGIMES for p in accuracy.PLANTS]
    results = run_jobs("qpko_pykoopman", measure, jobs)
    by = {(j["plant"], j["regime"]): r["found"] for j, r in zip(jobs, results, strict=True)}
    kept = json.loads((HERE / "results" / "qpko_accuracy.json").read_text())["tables"]
    trained = {(row[0], row[1]): row[2:5] for row in kept["qpko-accuracy"]["rows"]}
    rows = []
    for regime in REGIMES:
        for plant in accuracy.PLANTS:
            place = f"{regime}: {plant}"
            found = by[plant, regime]
            peer, ours = (np.array([r[k] for r in found]) for k in ("peer", "ours"))
            chose = [r["peer chose"] for r in found]
            rows.append([
                place, max(set(chose), key=chose.count),
                *(float(f"{np.median(v[:, h]):.3g}") for h in (0, 2) for v in (peer, ours)),
                shown(ratio_interval(ours[:, 0], peer[:, 0])),
                trained[place, "none, bilinear" if regime == "clean" else "gauss_newton"][0],
            ])  # fmt: skip
    write_result(
        "qpko_pykoopman",
        {"seeds": len(seeds), "PyKoopman": "1.2.1",
         "its environment": "NumPy 1.26.0, SciPy 1.11.2, scikit-learn 1.1.3, setuptools 80.9.0"},
        {
            "qpko-pykoopman": {
                "columns": ["regime: plant", "dictionary it mostly takes", "PyKoopman, 15",
                            "EDMDc, 15", "PyKoopman, 100", "EDMDc, 100", "EDMDc / PyKoopman, 15",
                            "trained, 15"],
                "rows": rows,
                "note": f"Median of {len(seeds)} seeds; mean error over the first 15 or 100 steps "
                "in standard deviations; ratio with a 95 % bootstrap interval of the median. "
                "Trained: KoopmanQP, bilinear on clean data, gauss_newton on noisy ones, from the "
                "other table. PyKoopman computed its forecasts in an environment of its own.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
