"""Systems that nothing was tuned on: one fixed setting, regular samples and 30 % of them removed.

Chua, Hindmarsh-Rose, Rossler, Halvorsen, Thomas and one more three-dimensional system of the
package dysts, drawn by a hash. Run once per release: a setting that does badly here stays as it is.
"""

import hashlib
import time
import warnings
from typing import Any

import numpy as np
from _common import CACHE, median_interval, run_jobs, shown, write_result
from scipy.integrate import solve_ivp

from foretell.data import Trajectories, systems
from foretell.dynamics import ALRNN, CPLRNN
from foretell.dynamics.longrun import noise_floor, power_spectrum_hellinger, state_space_divergence

NAMED = ("Chua", "HindmarshRose", "Rossler", "Halvorsen", "Thomas")
N, PER_PERIOD, KEPT = 30_000, 60, 0.7
SETTINGS: dict[str, Any] = {
    "latent_dim": 25, "n_relu": 8, "forcing_interval": 16, "sequence_length": 200, "lr": 5e-3,
    "max_updates": 30_000, "random_state": 0,
}  # fmt: skip


def drawn() -> str:
    """The sixth system: the one whose name has the smallest hash."""
    from dysts import flows
    from dysts.systems import get_attractor_list

    names = [n for n in get_attractor_list() if n not in (*NAMED, "Lorenz")]
    known = [n for n in names if len(np.atleast_1d(getattr(flows, n)().ic)) == 3]
    return min(known, key=lambda n: hashlib.sha256(f"foretell {n}".encode()).hexdigest())


def recording(system: str) -> np.ndarray:
    """2 N samples, 60 in a dominant period, after 100 periods."""
    path = CACHE / "cplrnn_heldout" / f"recording-{system}.npy"
    if path.exists():
        return np.load(path)
    from dysts import flows

    flow = getattr(flows, system)()
    step = flow.period / PER_PERIOD
    n = 2 * N + 100 * PER_PERIOD
    solved = solve_ivp(
        lambda t, x: np.asarray(flow.rhs(np.asarray(x), t), dtype=float), (0, n * step),
        np.asarray(flow.ic, dtype=float), t_eval=step * np.arange(n), rtol=1e-8, atol=1e-10,
        method="DOP853",
    )  # fmt: skip
    values = np.ascontiguousarray(solved.y.T[-2 * N :])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)
    return values


def train_and_judge(system: str, learner: str, kept: float) -> dict[str, Any]:
    values = recording(system)
    whole = Trajectories.from_arrays(values[:N], np.arange(float(N)))
    test = values[N:]
    train = whole if kept == 1 else systems.thin(whole, kept, 0)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = {"time_scale": 1.0} if learner == "ALRNN" else {}
        model = {"CPLRNN": CPLRNN, "ALRNN": ALRNN}[learner](**SETTINGS, **own).fit(train)
        run = model.predict(test[:1], np.arange(N + 1000.0))[0][1000:]
    floor = noise_floor(test, values[:N])
    return {
        "seconds": time.process_time() - start,
        "divergence": state_space_divergence(test, run),
        "spectrum": power_spectrum_hellinger(test, run),
        "floor": floor.state_space_divergence,
        "spectrum_floor": floor.power_spectrum_hellinger,
    }


def main() -> None:
    everything = (*NAMED, drawn())
    jobs = [{"system": system, "learner": learner, "kept": kept}
            for learner in ("CPLRNN", "ALRNN") for system in everything
            for kept in (1.0, KEPT)]  # fmt: skip
    results = run_jobs("cplrnn_heldout", train_and_judge, jobs)
    by = {tuple(j.values()): r for j, r in zip(jobs, results, strict=True)}
    rows, medians = [], []
    for learner in ("CPLRNN", "ALRNN"):
        for system in everything:
            full, thin = by[system, learner, 1.0], by[system, learner, KEPT]
            rows.append([
                system, learner, *(f"{r['divergence']:.3g}" for r in (full, thin)),
                *(f"{r['spectrum']:.3f}" for r in (full, thin)),
                f"{full['floor']:.3g}, {full['spectrum_floor']:.3f}",
                round(full["seconds"] + thin["seconds"]),
            ])  # fmt: skip
        for measure, name in (("divergence", "D_stsp"), ("spectrum", "D_H")):
            pair = [np.array([by[s, learner, k][measure] for s in everything]) for k in (1.0, KEPT)]
            ratio = float(np.median(pair[1]) / np.median(pair[0]))
            medians.append([learner, name, *(shown(median_interval(v)) for v in pair), ratio])
    write_result(
        "cplrnn_heldout",
        {**SETTINGS, "samples": N, "per period": PER_PERIOD, "kept": KEPT},
        {
            "cplrnn-heldout": {
                "columns": ["system", "learner", "D_stsp", "thinned", "D_H", "thinned",
                            "between true stretches", "CPU-s"],
                "rows": rows,
                "note": "One seed each, M=25, P=8, 30,000 updates; thinned: 30 % of the samples "
                "removed at random. The AL-RNN has the missing ones filled in linearly.",
            },
            "cplrnn-heldout-ratio": {
                "columns": ["learner", "measure", "median", "median, thinned",
                            "ratio of medians"],
                "rows": medians,
                "note": "Over the six systems.",
            },
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
