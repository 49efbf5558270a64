"""Simulated time to train under recorded failures: GPUs of Titan that were lost, 2014 to 2019.

The records (Ostrouchov et al., SC 2020; github.com/olcf/TitanGPULife) are read from the folder that
is given, and only numbers fitted to them are kept. Each loss is an event in its cabinet; times are
scaled to one failure in 300 s. The trace is replayed with and without its cabinets, beside clocks
of a constant rate and Weibull clocks of shape 0.78. 600 groups, three to a cabinet.

    python benchmarks/spare_trace.py FOLDER/data
"""

import csv
import datetime
import os
import sys
from pathlib import Path

import numpy as np
from _common import left_out, run_jobs, write_result
from scipy import optimize
from spare_time import MICRO, disjoint, interval

from foretell.train.plan import (
    FailureModel,
    MaskingPolicy,
    StackPlacement,
    TimeToTrainSimulator,
    TrainingCosts,
)

N, CABINETS, STEPS, SEEDS = 600, 200, 3000, 8
HOSTS = {"disjoint replication": 3, "whole stacks": 9, "micro-stacks": 7,
         "micro-stacks, cabinets kept apart": 7}  # fmt: skip
CLOCKS = ("constant rate", "Weibull, shape 0.78", "trace", "trace in its cabinets",
          "trace of 2018 in its cabinets")  # fmt: skip


def losses(folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Days of all losses since 1970, ascending, and the cabinet of each."""
    days, where = [], []
    with Path(folder, "gc_summary_loc.csv").open() as lines:
        for row in csv.DictReader(lines):
            if row["dead"] == "TRUE":
                when = datetime.datetime.fromisoformat(row["last"] + "+00:00")
                days.append(when.timestamp() / 86400)
                where.append(8 * int(row["col"]) + int(row["row"]))
    order = np.argsort(days, kind="stable")
    return np.array(days)[order], np.array(where)[order]


def weibull_shape(gaps: np.ndarray) -> float:
    """Maximum likelihood of the shape; events of one moment are left out."""
    x = gaps[gaps > 0] / gaps[gaps > 0].mean()

    def slope(k: float) -> float:
        w = x**k
        return float((w * np.log(x)).sum() / w.sum() - 1 / k - np.log(x).mean())

    return float(optimize.brentq(slope, 0.05, 20.0))


def failure_model(clock: str, folder: str) -> FailureModel:
    if clock == "constant rate":
        return FailureModel.exponential(300.0)
    if clock.startswith("Weibull"):
        return FailureModel.weibull(0.78, 300.0)
    days, where = losses(folder)
    if "2018" in clock:
        begin = datetime.datetime(2018, 1, 1, tzinfo=datetime.UTC).timestamp() / 86400
        inside = (days >= begin) & (days < begin + 365)
        days, where = days[inside], where[inside]
    times = (days - days[0]) * 300.0 * (days.size - 1) / (days[-1] - days[0])
    return FailureModel.trace(times, where if "cabinets" in clock else None)


def replay(policy: str, clock: str) -> dict:
    """Time to train, share of it, and failures for each restart."""
    r, cabinets = HOSTS[policy], np.arange(N) * CABINETS // N
    if policy == "disjoint replication":
        chosen = MaskingPolicy(disjoint(N, r), 1, "replicate")
    else:
        apart = cabinets if "apart" in policy else None
        placement = StackPlacement(N, r, failure_domains=apart)
        chosen = MaskingPolicy(placement, 1 if policy == "whole stacks" else MICRO)
    costs = TrainingCosts(64.0, 6.0, 60.0, 3600.0)
    model = failure_model(clock, os.environ["TITAN"])
    run = TimeToTrainSimulator(chosen, model, costs).run(STEPS, SEEDS, first_seed=0, give_up=50.0)
    return {k: [float(v) for v in getattr(run, k)]
            for k in ("time_ratio", "availability", "restarts")}  # fmt: skip


def fitted(folder: str) -> list:
    """What the records look like, by year."""
    days, where = losses(folder)
    rows = []
    for year in (*range(2014, 2020), None):
        begin, end = (
            datetime.datetime(y, 1, 1, tzinfo=datetime.UTC).timestamp() / 86400
            for y in ((year, year + 1) if year else (2014, 2020))
        )
        inside = (days >= begin) & (days < end)
        gaps = np.diff(days[inside])
        if gaps.size < 20:
            continue
        near = near_pairs(days[inside], where[inside])
        rows.append([str(year or "all"), int(inside.sum()), round(float(gaps.mean() * 24), 1),
                     round(weibull_shape(gaps), 2), round(float(gaps.std() / gaps.mean()), 2),
                     round(near, 1)])  # fmt: skip
    return rows


def near_pairs(days: np.ndarray, where: np.ndarray) -> float:
    """Pairs within a day in one cabinet, over what chance would give."""
    share = float((np.bincount(where) / where.size) @ (np.bincount(where) / where.size))
    same = both = 0
    for k in range(days.size):
        stop = int(np.searchsorted(days, days[k] + 1.0, side="right"))
        both += stop - k - 1
        same += int((where[k + 1 : stop] == where[k]).sum())
    return same / both / share if both else float("nan")


def main(folder: str) -> None:
    os.environ["TITAN"] = folder
    jobs = [{"policy": p, "clock": c} for p in HOSTS for c in CLOCKS]
    found = run_jobs("spare_trace_spread", replay, jobs, workers=1)
    rows = []
    for policy in HOSTS:
        each = {j["clock"]: f for j, f in zip(jobs, found, strict=True) if j["policy"] == policy}
        rows.append([f"{policy}, {HOSTS[policy]} hosts",
                     *(interval(each[c]["time_ratio"]) for c in CLOCKS)])  # fmt: skip
    write_result(
        "spare_trace",
        {"groups": N, "cabinets": CABINETS, "steps": STEPS, "seeds": SEEDS, "mtbf_s": 300},
        {
            "spare-trace": {
                "columns": ["simulated: time / failure-free", *CLOCKS],
                "rows": rows,
                "note": f"SIMULATED, {STEPS:,} steps, mean over {SEEDS} seeds with 95 % interval; "
                "600 groups, one failure in 300 s, 64 s a shard, saves of 60 s, restarts of "
                "3600 s. The trace: GPUs of Titan that were lost, three groups to a cabinet.",
            },
            "spare-trace-fits": {
                "columns": ["year", "GPUs lost", "hours between losses", "Weibull shape of these",
                            "coefficient of variation", "pairs in a day and cabinet / chance"],
                "rows": fitted(folder),
                "note": "Fitted to the records of Ostrouchov et al., SC 2020.",
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 2:
        left_out("name the folder data of github.com/olcf/TitanGPULife")
    main(sys.argv[1])
