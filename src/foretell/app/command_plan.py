"""``foretell plan``: inputs that keep a condition, with the range in which the system will be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from foretell.app.command_plan_start import (
    Start,
    forecast_errors,
    open_model,
    start_from_end,
    start_from_table,
)
from foretell.app.words import amount, number
from foretell.core.errors import ArtifactError, DataError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.dynamics.steering import SteeringPlan, steer

_SHOWN = 12  # rows of the table in the terminal


@dataclass(frozen=True)
class PlanRequest:
    """The options of ``foretell plan``."""

    folder: Path
    keep: tuple[str, ...]
    steer: str | None = None
    horizon: int = 40
    start: Path | None = None
    limits: tuple[str, ...] = ()
    out: Path | None = None


@dataclass(frozen=True)
class Planned:
    """A plan with the model and the start that it belongs to."""

    request: PlanRequest
    model: Any
    start: Start
    plan: SteeringPlan
    changed: tuple[str, ...]


def run(request: PlanRequest, *, as_json: bool = False) -> Planned:
    """Plan, write the page, and say what came out."""
    if request.out is not None and request.out.exists():
        raise ArtifactError(
            f"{request.out} exists, and nothing was touched. Give a new name with --out, or remove "
            "it."
        )
    planned = make(request)
    from foretell.app.report.plan_page import render_plan

    page = request.out or request.folder / "plan.html"
    write_text_atomic(page, render_plan(planned))
    if as_json:
        typer.echo(json.dumps(as_numbers(planned), ensure_ascii=False))
    else:
        _print(planned, page)
    return planned


def make(request: PlanRequest) -> Planned:
    """Carry the request out, without writing anything."""
    model, data = open_model(request.folder)
    if not getattr(model, "control_names_", ()):
        raise ParameterError(
            f"the model in {request.folder} was fitted without inputs, so that nothing can be "
            "steered. Fit it with: foretell fit FILE --controls NAME"
        )
    if not hasattr(model, "predict"):
        raise ParameterError(
            f"a {type(model).__name__} cannot be steered; fit with --learner koopman or cplrnn."
        )
    step = float(getattr(model, "step_", 0.0))
    if not step:
        step = data.median_interval if data is not None else float(model.time_scale_)
    if request.start is not None:
        start = start_from_table(request.start, model, step)
    elif data is not None:
        start = start_from_end(data, model)
    else:
        columns = ", ".join((*model.names_, *model.control_names_))
        raise DataError(
            "the recording of this model is not at hand, so that the state now is not known. Give "
            f"it with --from STATE.csv, a table with the columns {columns}."
        )
    errors = None
    if not hasattr(model, "ensemble") and data is not None:
        errors = forecast_errors(model, data, request.horizon, step)
    limits = dict(_limit(text) for text in request.limits)
    if data is not None and data.controls is not None:
        used = np.concatenate(data.controls)
        seen = zip(data.control_names, used.min(axis=0), used.max(axis=0), strict=True)
        limits = {name: (float(a), float(b)) for name, a, b in seen if a < b} | limits
    wanted = None if request.steer is None else [n.strip() for n in request.steer.split(",")]
    plan = steer(
        model, start.state, list(request.keep), horizon=request.horizon, inputs=wanted,
        u_now=start.u_now, limits=limits, errors=errors, step=step,
    )  # fmt: skip
    return Planned(request, model, start, plan, tuple(wanted or model.control_names_))


def _limit(text: str) -> tuple[str, tuple[float, float]]:
    """``pump 0 to 5`` as a range.

    Examples
    --------
    >>> _limit("pump 0 to 5")
    ('pump', (0.0, 5.0))
    """
    words = text.split()
    try:
        if words[-2] != "to":
            raise ValueError
        return " ".join(words[:-3]), (float(words[-3]), float(words[-1]))
    except (ValueError, IndexError) as error:
        raise ParameterError(f'{text!r} is no range. Write for instance "pump 0 to 5".') from error


def verdict(planned: Planned) -> str:
    """The result in a sentence or two."""
    plan = planned.plan
    what = " and ".join(map(str, plan.conditions))
    if plan.breach > 0:
        unit = plan.conditions[0].unit
        first = (
            f"{what} cannot be kept from here: even under the plan the forecast is up to "
            f"{amount(plan.breach, unit)} outside."
        )
    elif plan.n_runs == 0:
        first = f"Under the plan the forecast keeps {what}."
    elif plan.kept >= 0.8:
        first = f"The plan keeps {what} in {_share(plan.kept)} of {plan.n_runs} simulated runs."
    else:
        first = (
            f"The plan keeps {what} in only {_share(plan.kept)} of {plan.n_runs} simulated runs; "
            "the forecast itself keeps it."
        )
    if plan.n_runs == 0:
        return (
            f"{first} How far it may be off is not known here, so that there is no margin: the "
            "recording of the fit is not at hand."
        )
    return f"{first} With the inputs as they are now it would be {_share(plan.kept_untouched)}."


def caution(planned: Planned) -> str:
    """What the ensemble is made of."""
    plan = planned.plan
    if plan.n_runs == 0:
        return ""
    where = (
        "recordings that the model was not trained on"
        if plan.held_back
        else "recordings that the model was fitted to, so that the range may be too narrow"
    )
    return (
        f"The range holds 90\u00a0% of {plan.n_runs} runs that scatter as forecasts did on "
        f"{where}. It knows nothing of disturbances that were never recorded."
    )


def as_numbers(planned: Planned) -> dict[str, Any]:
    """The plan for programs."""
    plan, model = planned.plan, planned.model
    return {
        "keep": [str(c) for c in plan.conditions],
        "start": planned.start.source,
        "time": plan.times.tolist(),
        "inputs": {n: plan.inputs[:, k].tolist() for k, n in enumerate(model.control_names_)},
        "forecast": {n: plan.forecast[:, k].tolist() for k, n in enumerate(model.names_)},
        "low": {n: plan.low[:, k].tolist() for k, n in enumerate(model.names_)},
        "high": {n: plan.high[:, k].tolist() for k, n in enumerate(model.names_)},
        "kept": None if np.isnan(plan.kept) else plan.kept,
        "kept_untouched": None if np.isnan(plan.kept_untouched) else plan.kept_untouched,
        "breach": plan.breach,
        "runs": plan.n_runs,
        "errors_held_back": plan.held_back,
    }


def rows(planned: Planned, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Header and rows: time, inputs, forecast and range of the variables in question."""
    plan, model = planned.plan, planned.model
    time_unit = f" [{model.time_unit_}]" if model.time_unit_ else ""
    columns = list(dict.fromkeys(c.column for c in plan.conditions))
    inputs = [list(model.control_names_).index(n) for n in planned.changed]
    header = [f"{model.time_name_}{time_unit}"]
    header += [_named(model.control_names_[k], model.control_units_[k]) for k in inputs]
    for n in columns:
        header += [_named(model.names_[n], model.units_[n]), "90 % from", "to"]
    H = len(plan.inputs)
    every = 1 if most is None else max(1, -(-H // most))
    table = []
    for k in range(0, H + 1, every):
        row = [number(float(plan.times[k]), 4)]
        row += [number(float(plan.inputs[k, i]), 4) if k < H else "" for i in inputs]
        for n in columns:
            row += [number(float(v[k, n]), 4) for v in (plan.forecast, plan.low, plan.high)]
        table.append(row)
    return header, table


def _named(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _share(value: float) -> str:
    return f"{100 * value:.0f}\u00a0%"


def _print(planned: Planned, page: Path) -> None:
    console = Console(highlight=False)
    console.print()
    console.print(verdict(planned), style="bold", markup=False)
    console.print(f"Start: {planned.start.source}.", markup=False)
    header, table = rows(planned, _SHOWN)
    wide = [max(map(len, column)) for column in zip(header, *table, strict=True)]
    console.print()
    for row in (header, *table):
        cells = (cell.rjust(n) for cell, n in zip(row, wide, strict=True))
        console.print("  " + "  ".join(cells), markup=False, soft_wrap=True)
    if said := caution(planned):
        console.print()
        console.print(said, markup=False)
    console.print()
    console.print(f"Picture  {page}", markup=False, soft_wrap=True)
