"""Does ``--learner auto`` take the best learner? Twelve known systems of four kinds.

For each system the candidates are compared as ``foretell fit --effort 2`` does it, on one training
recording. The truth is a far longer test set from other starts: every candidate, those that the
look at the recording left out as well, is scored there by the same measure. Counted is whether the
score of the learner taken is within 10 % of the best one. Scores below what two recordings of the
system itself differ by, as long as the test set, tell nothing apart and count as that; counted is
also without it, where only scores below 0.01 count as equal.
"""

import time
import warnings
from typing import Any

import numpy as np
from _common import run_jobs, write_result

from foretell.app.choosing import CANDIDATES, FRACTION, compare
from foretell.app.fitting import build
from foretell.app.planning import make_plan
from foretell.core import ForetellError
from foretell.data import (
    Trajectories,
    delay_embed,
    hybrid_systems,
    stochastic_systems as noisy,
    systems,
)
from foretell.data.controlled_systems import dc_motor, duffing, van_der_pol
from foretell.dynamics import choose
from foretell.dynamics.held_out_runs import make_judge

ROWS, TEST_ROWS = 3000, 6000
RESOLUTION = 0.01  # of a score on so many rows; smaller ones count as equal to it


def _jumping(system: Any, seed: int, rows: int) -> Trajectories:
    return system(rows // 100, random_state=seed).trajectories


def _driven(plant: Any, seed: int, rows: int) -> Trajectories:
    return plant.recordings(rows // 150, 149, random_state=seed)


# kind, recording(seed, rows)
SYSTEMS: dict[str, tuple[str, Any]] = {
    "Lorenz": ("chaotic", lambda s, n: systems.lorenz63(n, step=0.02, random_state=s)),
    "Rossler": ("chaotic", lambda s, n: systems.rossler(n, random_state=s)),
    "Chua": ("chaotic", lambda s, n: systems.chua(n, random_state=s)),
    "bouncing ball": (
        "hybrid",
        lambda s, n: _jumping(hybrid_systems.ball, s, n),
    ),
    "torus": ("hybrid", lambda s, n: _jumping(hybrid_systems.torus, s, n)),
    "two neurons": (
        "hybrid",
        lambda s, n: _jumping(hybrid_systems.lif_pair, s, n),
    ),
    "double well": ("stochastic", lambda s, n: noisy.double_well(n, random_state=s)),
    "spiral": ("stochastic", lambda s, n: noisy.noisy_spiral(n, random_state=s)),
    "oscillator": ("stochastic", lambda s, n: noisy.noisy_oscillator(n, random_state=s)),
    "Duffing": ("driven", lambda s, n: _driven(duffing(), s, n)),
    "DC motor": ("driven", lambda s, n: _driven(dc_motor(), s, n)),
    "van der Pol": ("driven", lambda s, n: _driven(van_der_pol(), s, n)),
}


def try_system(system: str) -> dict[str, Any]:
    _, record = SYSTEMS[system]
    train, test = record(0, ROWS), record(1, TEST_ROWS)
    plan = make_plan(train, effort=2)
    if plan.embedding_dimension > 1:
        train, test = (
            delay_embed(part, dimension=plan.embedding_dimension, lag=plan.lag)
            for part in (train, test)
        )

    def new(name: str, first: Trajectories) -> Any:
        return build(make_plan(first, learner=name, effort=2))

    models: dict[str, Any] = {}

    def kept(name: str, first: Trajectories) -> Any:
        models[name] = new(name, first)
        return models[name]

    begin = time.process_time()
    found = compare(train, kept)
    assert not isinstance(found, str), found
    seconds = time.process_time() - begin
    first, _ = choose.hold_out(train, FRACTION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for candidate in CANDIDATES:
            if candidate.name not in models:
                try:
                    models[candidate.name] = new(candidate.name, first).fit(first)
                except ForetellError as error:
                    print(f"{system}: {candidate.name} cannot be fitted: {error}")
        tried = choose.compare(models, test, first)
    scores = {t.name: t.score for t in tried}
    best = min(scores, key=lambda name: scores[name])
    return {
        "taken": found.learner,
        "best": best,
        "seconds": seconds,
        "scores": scores,
        "held_out": {t.name: t.score for t in found.tried},
        "left_out": dict(found.left_out),
    }


def floor_of(system: str) -> dict[str, Any]:
    """What other recordings of the system score on the test set; 0 where a run has to follow."""
    kind, record = SYSTEMS[system]
    if kind == "driven":
        return {"floor": 0.0}
    train, *recordings = (record(seed, ROWS if seed == 0 else TEST_ROWS) for seed in range(8))
    plan = make_plan(train, effort=2)
    if plan.embedding_dimension > 1:
        train, *recordings = (
            delay_embed(part, dimension=plan.embedding_dimension, lag=plan.lag)
            for part in (train, *recordings)
        )
    own, *others = (make_judge(part, train) for part in recordings)
    squares = [own.other_recording(judge) for judge in others]
    return {"floor": float(np.sqrt(np.mean(np.abs(squares))))}


def main() -> None:
    jobs = [{"system": system} for system in SYSTEMS]
    results = run_jobs("choose_delays", try_system, jobs)
    floors = [r["floor"] for r in run_jobs("choose_floor", floor_of, jobs)]
    names = [candidate.name for candidate in CANDIDATES]
    rows = []
    for job, result, floor in zip(jobs, results, floors, strict=True):
        scores = result["scores"]
        taken, best = scores[result["taken"]], scores[result["best"]]
        raw, ratio = (max(taken, f) / max(best, f) for f in (RESOLUTION, max(floor, RESOLUTION)))
        rows.append([
            job["system"], SYSTEMS[job["system"]][0], result["taken"], result["best"],
            raw, ratio, f"{floor:.3f}", round(result["seconds"]),
            *(f"{scores[n]:.3f}" if n in scores else "-" for n in names),
        ])  # fmt: skip
    bare, close = (sum(row[n] <= 1.1 for row in rows) for n in (4, 5))
    write_result(
        "choose",
        {"rows": ROWS, "test rows": TEST_ROWS, "effort": 2},
        {
            "choose": {
                "columns": ["system", "kind", "taken", "best on the test set", "score / best",
                            "above the floor", "floor", "CPU-s", *names],
                "rows": rows,
                "note": "Scores on the test set, lower is better: distance between pairs of states "
                "of free runs and of the system; with inputs the root mean square error in "
                "standard deviations. Floor: what two recordings of the system differ by. Score / "
                f"best with scores under {RESOLUTION} counted as that, and with those under the "
                f"floor. Within 10 % of the best: {bare} and {close} of {len(rows)}.",
            }
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
