"""``foretell train plan``: how much redundancy, how fine, and how often to save."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from foretell.app.words import number, seconds
from foretell.core.errors import ArtifactError, ParameterError
from foretell.core.files import write_bytes_atomic, write_text_atomic
from foretell.train.plan import (
    FailureModel,
    MaskingPolicy,
    Prediction,
    SimulatedTraining,
    StackPlacement,
    TimeToTrainSimulator,
    TrainingCosts,
    golomb_offsets,
    largest_redundancy,
    predict,
)

PICTURES = (".png", ".svg", ".pdf")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MOST, _SIMULATED_STEPS, _GIVE_UP = 16, 3000, 20.0
_ELASTIC = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


@dataclass(frozen=True)
class PlanRequest:
    """The options of ``foretell train plan``; times as text, such as 5m."""

    groups: int
    mtbf: str
    save: str
    restart: str
    compute: str = "64s"
    reduce: str = "6s"
    micro: int = 8
    shape: float = 1.0
    steps: int = 10_000
    rack: int | None = None
    rack_share: float = 0.0
    seeds: int = 3
    out: Path = Path("plan.html")


@dataclass(frozen=True)
class Alternative:
    """The best of one kind of policy: predicted, and simulated."""

    name: str
    predicted: Prediction
    simulated: SimulatedTraining


@dataclass(frozen=True)
class PlanStudy:
    """What the command found."""

    request: PlanRequest
    costs: TrainingCosts
    failures: FailureModel
    alternatives: tuple[Alternative, ...]
    curves: dict[str, tuple[Prediction, ...]] = field(repr=False)

    @property
    def best(self) -> Alternative:
        """The recommended one: stacks, as whole or micro-stacks."""
        return min(self.alternatives[:2], key=lambda a: a.predicted.time_ratio)


def run(request: PlanRequest, *, as_json: bool = False) -> PlanStudy:
    """Compare, print, draw."""
    out = request.out
    if out.suffix.lower() not in (*PICTURES, ".html"):
        raise ParameterError(
            f"--out {out} must end in .html, {', '.join(PICTURES)}, for instance --out plan.html."
        )
    if out.exists():
        raise ArtifactError(
            f"{out} exists, and nothing was touched. Give a new name with --out, or remove it."
        )
    study = examine(request)
    _draw(study, out)
    if as_json:
        typer.echo(json.dumps(_summary(study), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join([*lines(study), "", f"Picture  {out}"]))
    return study


def examine(request: PlanRequest) -> PlanStudy:
    """Predict every alternative, and simulate the best of each kind."""
    if request.steps < 1 or request.seeds < 2:
        raise ParameterError("--steps must be at least 1 and --seeds at least 2.")
    costs = TrainingCosts(
        compute_s=duration("--compute", request.compute),
        reduce_s=duration("--reduce", request.reduce),
        save_s=duration("--save", request.save),
        restart_s=duration("--restart", request.restart),
    )
    failures = FailureModel.weibull(request.shape, duration("--mtbf", request.mtbf))
    racks = _racks(request)
    curves = {
        name: tuple(predict(policy, failures, costs) for policy in policies)
        for name, policies in _policies(request)
    }
    stacks = [p.time_ratio for points in list(curves.values())[:2] for p in points]
    if not math.isfinite(min(stacks)):
        raise ParameterError(
            f"With one failure in {request.mtbf}, saves of {request.save} and restarts of "
            f"{request.restart}, no redundancy of {request.groups} groups gets anywhere. Use more "
            "groups or a faster restart."
        )
    if racks is not None and request.rack_share > 0:
        failures = failures.domains(racks, request.rack_share)
    typer.echo(
        "Simulating the best of each (the first time it compiles, half a minute) ...", err=True
    )
    found = []
    for name, points in curves.items():
        best = min(points, key=lambda p: (p.time_ratio, p.redundancy))
        policy = _apart(best.policy, racks)
        simulator = TimeToTrainSimulator(policy, failures, costs)
        steps = min(request.steps, _SIMULATED_STEPS)
        found.append(Alternative(name, best, simulator.run(steps, request.seeds, give_up=_GIVE_UP)))
    return PlanStudy(request, costs, failures, tuple(found), curves)


def duration(name: str, text: str) -> float:
    """Seconds from text such as 90, 90s, 5m, 1.5h or 2d.

    Examples
    --------
    >>> duration("--mtbf", "5m"), duration("--save", "1.5h")
    (300.0, 5400.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|d)?\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ParameterError(
            f"{name} {text!r} is not a time above 0. Write for instance {name} 90s, {name} 5m or "
            f"{name} 1.5h."
        )
    return float(match[1]) * _UNITS[match[2] or "s"]


def lines(study: PlanStudy) -> list[str]:
    """The answer in words, then the table."""
    request, best = study.request, study.best
    plan, policy = best.predicted, best.predicted.policy
    ideal = request.steps * study.costs.step_s
    offsets = " ".join(map(str, policy.placement.offsets or ()))
    said = [
        f"{number(request.groups, 9)} groups, one failure in {request.mtbf}, saves of "
        f"{request.save}, restarts of {request.restart}.",
        f"Taken for granted: {request.compute} of compute a shard, {request.reduce} an all-reduce, "
        + (
            "constant failure rates."
            if request.shape == 1
            else f"Weibull clocks of shape {request.shape:g} that start anew at a restart."
        ),
        *(
            [
                f"{request.rack_share:.0%} of the failures take a rack of {request.rack}: in the "
                "simulation; formulas take failures one by one."
            ]
            if request.rack is not None and request.rack_share
            else []
        ),
        "",
        f"Redundancy    {plan.redundancy} hosts a shard, offsets {offsets}",
        f"Micro-stacks  {plan.micro} units a shard",
        f"Checkpoint    every {seconds(plan.interval_s)}",
        f"Time          {plan.time_ratio:.2f} times the failure-free one, by formula: "
        f"{number(request.steps, 9)} steps in {days(plan.time_ratio * ideal)} instead of "
        f"{days(ideal)}",
        f"              {ratio_words(best.simulated)} simulated, {request.seeds} seeds",
        f"A restart     every {days(plan.uptime_s)}, after {plan.mean_failures:.0f} failures",
        "",
        f"{'best of each kind':34} {'hosts':>6} {'by formula':>11} {'simulated':>16} "
        f"{'stacks a step':>14}",
    ]
    said += [
        f"{found.name:34} {hosts_words(found.predicted):>6} "
        f"{formula_words(found.predicted):>11} {ratio_words(found.simulated):>16} "
        f"{found.simulated.load.mean():14.2f}"
        for found in study.alternatives
    ]
    return said


def formula_words(found: Prediction) -> str:
    """The predicted ratio, or what stands for none."""
    J = found.time_ratio
    return f"{J:.2f}" if math.isfinite(J) and J < _GIVE_UP else f"over {_GIVE_UP:g}"


def hosts_words(found: Prediction) -> str:
    """Hosts of a shard, as a word where everybody is one."""
    everybody = found.redundancy == found.policy.placement.n_groups
    return "all" if everybody and found.redundancy > 1 else str(found.redundancy)


def days(span: float) -> str:
    """A span of time, in days where it is long.

    Examples
    --------
    >>> days(86400 * 9.5), days(7200)
    ('9.5 d', '2 h 0 min')
    """
    return f"{span / 86400:.1f} d" if span >= 2 * 86400 else seconds(span)


def ratio_words(found: SimulatedTraining) -> str:
    """The simulated ratio with its standard error, or what stands for one."""
    J = found.time_ratio
    if not found.finished.all():
        return f"over {_GIVE_UP:g}"
    return f"{J.mean():.2f} +/- {J.std(ddof=1) / J.size**0.5:.2f}"


def _policies(request: PlanRequest) -> Iterator[tuple[str, list[MaskingPolicy]]]:
    n = StackPlacement(request.groups, 1).n_groups
    most = min(_MOST, largest_redundancy(n))
    ruled = [StackPlacement(n, r) for r in range(1, most + 1) if golomb_offsets(n, r) is not None]
    yield f"micro-stacks, {request.micro} units", [MaskingPolicy(p, request.micro) for p in ruled]
    yield "whole stacks", [MaskingPolicy(p, 1) for p in ruled]
    blocks = [StackPlacement(n - n % r, r, "block") for r in range(1, min(6, n) + 1)]
    yield "replication in blocks", [MaskingPolicy(p, 1, "replicate") for p in blocks]
    yield "restarts only", [MaskingPolicy(ruled[0], 1)]
    if n <= 2000:
        whole = StackPlacement(n, scheme="elastic")
        yield (
            "any group, any shard",
            [MaskingPolicy(whole, request.micro, restart_at=share) for share in _ELASTIC],
        )


def _apart(policy: MaskingPolicy, racks: Any) -> MaskingPolicy:
    """The same policy, with the hosts of a shard in different racks."""
    placement = policy.placement
    if racks is None or placement.scheme != "golomb" or placement.redundancy < 2:
        return policy
    n, r = placement.n_groups, placement.redundancy
    return replace(policy, placement=StackPlacement(n, r, failure_domains=racks))


def _racks(request: PlanRequest) -> Any:
    if request.rack is None:
        if request.rack_share:
            raise ParameterError(
                "--rack-share needs the size of a rack: add for instance --rack 8."
            )
        return None
    if not 1 <= request.rack <= request.groups:
        raise ParameterError(
            f"--rack {request.rack} must be a number of groups from 1 to {request.groups}."
        )
    return np.arange(request.groups) // request.rack


def _draw(study: PlanStudy, out: Path) -> None:
    if out.suffix.lower() == ".html":
        from foretell.app.report.train_plan_page import render_plan

        write_text_atomic(out, render_plan(study))
        return
    from foretell.train.plan.plots import panels, plot_load, plot_time_ratio

    best = study.best.predicted
    by_hosts = {k: v for k, v in study.curves.items() if len(v) > 1 and "any" not in k}
    levels = {
        f"{a.name} (restart at {a.predicted.policy.restart_at:.0%} lost)": a.predicted.time_ratio
        for a in study.alternatives
        if a.predicted.policy.restart_at is not None
    }
    left, right = panels(2)
    plot_time_ratio(by_hosts, best=best, levels=levels, axes=left)
    left.set_title("Which redundancy: time to train, by formula", fontsize="medium")
    units = (study.request.micro, 1) if study.request.micro > 1 else (1,)
    plot_load(best.policy.placement, units, axes=right)
    right.set_title(f"After failures, with {best.redundancy} hosts a shard", fontsize="medium")
    drawn = io.BytesIO()
    left.figure.savefig(drawn, format=out.suffix.lower()[1:], dpi=150)
    write_bytes_atomic(out, drawn.getvalue())


def _summary(study: PlanStudy) -> dict[str, Any]:
    plan = study.best.predicted
    return {
        "redundancy": plan.redundancy,
        "micro": plan.micro,
        "offsets": list(plan.policy.placement.offsets or ()),
        "checkpoint_interval_s": plan.interval_s,
        "predicted_time_ratio": plan.time_ratio,
        "simulated_time_ratio": study.best.simulated.time_ratio.tolist(),
        "mean_failures_between_restarts": plan.mean_failures,
        "mean_seconds_between_restarts": plan.uptime_s,
        "picture": study.request.out.as_posix(),
        "alternatives": [
            {
                "name": found.name,
                "redundancy": found.predicted.redundancy,
                "predicted_time_ratio": found.predicted.time_ratio
                if math.isfinite(found.predicted.time_ratio)
                else None,
                "simulated_time_ratio": found.simulated.time_ratio.tolist(),
                "simulated_to_the_end": bool(found.simulated.finished.all()),
            }
            for found in study.alternatives
        ],
    }
