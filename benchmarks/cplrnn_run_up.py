"""Where a forecast with inputs starts: at one row, or after a run-up along the rows before it.

Measured tanks and a measured buck converter, learned on one recording with the settings of
``foretell fit --effort 2``, forecast along the recorded inputs from every eighth row of another
recording. Needs the data of cplrnn_driven.
"""

import warnings
from typing import Any

import numpy as np
from _common import WORKERS, median_interval, ratio_interval, run_jobs, shown, write_result
from cplrnn_driven import recordings

from foretell.app.fitting import build
from foretell.app.planning import make_plan
from foretell.core import ForetellWarning

SEEDS, STEPS, LONGEST, EVERY = 5, 40, 400, 8
SYSTEMS = ("cascaded tanks", "buck converter")


def errors(system: str, seed: int) -> dict[str, Any]:
    """Root mean square over starts, steps and variables, in standard deviations."""
    train, test = recordings(system)
    model: Any = build(make_plan(train, learner="cplrnn", effort=2, random_state=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        model.fit(train)
    x, t, u = test.values[0], test.times[0], test.controls[0]
    scale = train.values[0].std(axis=0)
    found: dict[str, list[float]] = {"one row": [], "run-up": [], "last value": []}
    for k in range(100, len(x) - STEPS - 1, EVERY):
        rows = slice(k, k + STEPS + 1)
        past = test.take_rows([slice(max(0, k + 1 - LONGEST), k + 1)])
        runs = {
            "one row": model.predict(x[k], t[rows], controls=u[rows])[0],
            "run-up": model.predict(past, t[rows], controls=u[rows])[0],
            "last value": np.repeat(x[k][None], STEPS + 1, axis=0),
        }
        for name, run in runs.items():
            found[name].append(float((((run - x[rows])[1:] / scale) ** 2).mean()))
    return {name: float(np.sqrt(np.mean(values))) for name, values in found.items()}


def main() -> None:
    jobs = [{"system": system, "seed": seed} for system in SYSTEMS for seed in range(SEEDS)]
    results = run_jobs("cplrnn_run_up", errors, jobs, workers=WORKERS)
    rows = []
    for system in SYSTEMS:
        mine = [r for j, r in zip(jobs, results, strict=True) if j["system"] == system]
        of = {name: [r[name] for r in mine] for name in mine[0]}
        rows.append([
            system, *(shown(median_interval(of[n])) for n in ("one row", "run-up")),
            shown(ratio_interval(of["run-up"], of["one row"])), f"{of['last value'][0]:.3g}",
        ])  # fmt: skip
    write_result(
        "cplrnn_run_up",
        {"seeds": SEEDS, "steps": STEPS, "longest run-up": LONGEST, "effort": 2},
        {
            "cplrnn-run-up": {
                "columns": ["recording", "from one row", "after a run-up", "run-up / one row",
                            "keeping the last value"],
                "rows": rows,
                "note": f"Root mean square error over {STEPS} steps along the recorded inputs, in "
                f"standard deviations, on a recording that was not used; median of {SEEDS} seeds.",
            }
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
