"""A day ahead at a weather station: clearness of the sky, temperature and wind, hour by hour.

The station file of Greensboro (723170TYA.CSV) comes with the package pvlib (BSD-3) and is read from
it where that is installed, or from benchmarks/.cache/lifting_data; it is not part of this
repository. State: radiation over that outside the atmosphere (held at night), temperature minus its
mean of month and hour, wind. Inputs: sine and cosine of the hour, and of the month. Days 1 to 20 of
each month are learned from, ensembles start at 0 and 12 o'clock of the days from 22 on.
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
from foretell.data import Trajectories
from foretell.dynamics.lifting import (
    AnalogueTransition,
    EngressionTransition,
    FlowMatchingTransition,
    GaussianTransition,
    StochasticLifting,
)
from foretell.dynamics.longrun import energy_score, rank_histogram, spread_skill

SEEDS = range(int(os.environ.get("SEEDS", "3")))
NAMES = ("clearness", "temperature", "wind")
HOURS, MEMBERS, LEADS = 24, 50, (1, 6, 24)
LEARNED_DAYS, FIRST_JUDGED = 20, 22
FAINT = 50.0  # W/m2 outside the atmosphere, below which clearness is held
NET = {"max_steps": 1500, "lr": 3e-3, "batch_size": 64}
OURS = {**NET, "max_steps": 2500, "label_dim": 64}
METHODS: dict[str, Any] = {
    "lifting, in pairs": (StochasticLifting, OURS),
    "lifting, odd": (StochasticLifting, {**OURS, "centre": "odd"}),
    "Gaussian": (GaussianTransition, NET),
    "engression": (EngressionTransition, {**NET, "noise_dim": 16}),
    "flow matching, 20": (FlowMatchingTransition, NET),
    "analogues, 30": (AnalogueTransition, {"k": 30}),
}


def station() -> Path | None:
    own = CACHE / "lifting_data" / "723170TYA.CSV"
    if own.exists():
        return own
    found = importlib.util.find_spec("pvlib")
    places = found.submodule_search_locations if found is not None else None
    for place in places or ():
        path = Path(place) / "data" / "723170TYA.CSV"
        if path.exists():
            return path
    return None


def months() -> list[tuple[Any, Any]]:
    """For each month states (hours, 3) and inputs (hours, 4), from its first hour on."""
    path = station()
    assert path is not None
    lines = path.read_text(encoding="latin-1").splitlines()
    head = lines[1].split(",")
    at = [head.index(c) for c in ("ETR (W/m^2)", "GHI (W/m^2)", "Dry-bulb (C)", "Wspd (m/s)")]
    rows = [line.split(",") for line in lines[2:]]
    month = np.array([int(r[0][:2]) for r in rows])
    outside, ground, warm, wind = np.array([[float(r[k]) for k in at] for r in rows]).T
    found = []
    for m in range(1, 13):
        own = np.flatnonzero(month == m)
        hour = np.arange(len(own)) % HOURS
        day = outside[own] > FAINT
        last = np.maximum.accumulate(np.where(day, np.arange(len(own)), int(day.argmax())))
        clear = (ground[own] / np.maximum(outside[own], FAINT))[last]
        learned = slice(0, LEARNED_DAYS * HOURS)
        usual = np.array([warm[own][learned][hour[learned] == h].mean() for h in range(HOURS)])
        angle, season = 2 * np.pi * hour / HOURS, 2 * np.pi * np.full(len(own), m - 0.5) / 12
        found.append((
            np.column_stack([clear, warm[own] - usual[hour], wind[own]]),
            np.column_stack([np.sin(angle), np.cos(angle), np.sin(season), np.cos(season)]),
        ))  # fmt: skip
    return found


def judge(method: str, seed: int) -> dict[str, Any]:
    found = months()
    end = LEARNED_DAYS * HOURS
    train = Trajectories.from_arrays(
        [x[:end] for x, _ in found], controls=[u[:end] for _, u in found], names=NAMES,
        control_names=["sin_hour", "cos_hour", "sin_month", "cos_month"],
    )  # fmt: skip
    kind, settings = METHODS[method]
    own = {} if kind is AnalogueTransition else {"random_state": seed}
    model = kind(**settings, **own)
    scale = np.concatenate(train.values).std(axis=0)
    ensembles, later = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        begin = time.process_time()
        model.fit(train)
        seconds = time.process_time() - begin
        for x, u in found:
            for hour in (0, HOURS // 2):
                starts = np.arange((FIRST_JUDGED - 1) * HOURS + hour, len(x) - HOURS, HOURS)
                first = int(starts[0])
                runs = model.rollout(
                    x[starts], HOURS, MEMBERS, seed, controls=u[first : first + HOURS]
                )
                ensembles.append(runs[:, :, list(LEADS)] / scale)
                later.append(np.stack([x[starts + k] for k in LEADS], axis=1) / scale)
    draws, truth = np.concatenate(ensembles), np.concatenate(later)
    return {
        "scores": [float(energy_score(draws[:, :, k], truth[:, k]).mean()) for k in range(3)],
        "spread_skill": [spread_skill(draws[:, :, k], truth[:, k]).ratio for k in range(3)],
        "chi_square": [rank_histogram(draws[:, :, k], truth[:, k]).chi_square for k in range(3)],
        "day": energy_score(draws[:, :, 2], truth[:, 2]).round(5).tolist(),
        "evaluations": model.evaluations_per_step,
        "seconds": seconds,
    }


def plan() -> list[dict[str, Any]]:
    return [
        {"method": m, "seed": s} for s in SEEDS for m in METHODS
        if not (s and METHODS[m][0] is AnalogueTransition)
    ]  # fmt: skip


def main() -> None:
    if station() is None:
        left_out("the station file of pvlib is not here: pip install --no-deps pvlib")
    jobs = plan()
    results = run_jobs("lifting_weather", judge, jobs, workers=1)
    rows = []
    for m in METHODS:
        own = [r for j, r in zip(jobs, results, strict=True) if j["method"] == m]
        mean = {
            k: np.mean([r[k] for r in own], axis=0)
            for k in ("scores", "spread_skill", "chi_square")
        }
        rows.append([
            m, own[0]["evaluations"], *[f"{v:.3f}" for v in mean["scores"]],
            *[f"{v:.2f}" for v in mean["spread_skill"]], *[f"{v:.1f}" for v in mean["chi_square"]],
            round(float(np.mean([r["seconds"] for r in own])), 1),
        ])  # fmt: skip
    write_result(
        "lifting_weather",
        {"seeds": len(SEEDS), "members": MEMBERS, "net": NET, "ours": OURS},
        {
            "lifting-weather": {
                "columns": ["sampler", "evaluations a step", "energy score, 1 h", "6 h", "24 h",
                            "spread / skill, 1 h", "6 h ", "24 h ", "ranks: chi-square / df, 1 h",
                            " 6 h", " 24 h", "CPU-s to fit"],
                "rows": rows,
                "note": f"Mean of {len(SEEDS)} seeds; {len(results[0]['day'])} starts with "
                f"{MEMBERS} members each. Energy scores in standard deviations of each variable.",
            },
        },
        results=[{"job": j, **r} for j, r in zip(jobs, results, strict=True)],
    )  # fmt: skip
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
