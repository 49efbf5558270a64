"""The page about a plan: the variables with their range, the inputs, and the numbers."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from foretell.app.command_plan import caution, rows, verdict
from foretell.app.report.plot import Plot, padded
from foretell.app.report.tables import Table
from foretell.app.report.templates import templates

if TYPE_CHECKING:
    from foretell.app.command_plan import Planned


def render_plan(planned: Planned) -> str:
    """The page as one self-contained HTML text."""
    from markupsafe import Markup

    folder = files("foretell.app.report")
    environment = templates()
    header, body = rows(planned)
    table = Table(tuple((h, "n") for h in header), tuple(map(tuple, body)), style="stack")
    return environment.get_template("plan.html.j2").render(
        title=" and ".join(map(str, planned.plan.conditions)),
        version=version("foretell"),
        lead=verdict(planned),
        start=planned.start.source,
        caution=caution(planned),
        figures=[Markup(figure) for figure in (*_variables(planned), *_inputs(planned))],
        table=Markup(environment.get_template("table.html.j2").render(title="", block=table)),
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "script.js").read_text(encoding="utf-8")),
    )


def _variables(planned: Planned) -> list[str]:
    plan, model = planned.plan, planned.model
    drawn = []
    for n in dict.fromkeys(c.column for c in plan.conditions):
        limits = [v for c in plan.conditions if c.column == n for v in (c.low, c.high)]
        limits = [v for v in limits if np.isfinite(v)]
        shown = padded([plan.low[:, n], plan.high[:, n], np.array(limits)])
        plot = _plot(planned, shown, model.names_[n], model.units_[n])
        if plan.n_runs:
            plot.band(plan.times, plan.low[:, n], plan.high[:, n], "model", "90\u00a0% of the runs")
        plot.line(plan.times, plan.forecast[:, n], "model", "forecast")
        for limit in limits:
            plot.level(limit, "muted")
        drawn.append(plot.html())
    return drawn


def _inputs(planned: Planned) -> list[str]:
    plan, model = planned.plan, planned.model
    drawn = []
    for name in planned.changed:
        k = list(model.control_names_).index(name)
        held = np.repeat(plan.inputs[:, k], 2)
        times = np.repeat(plan.times, 2)[1:-1]
        plot = _plot(planned, padded([held]), name, model.control_units_[k])
        drawn.append(plot.line(times, held, "data", "planned input").html())
    return drawn


def _plot(planned: Planned, shown: tuple[float, float], name: str, unit: str) -> Plot:
    plan, model = planned.plan, planned.model
    time = f"{model.time_name_}, {model.time_unit_}" if model.time_unit_ else model.time_name_
    return Plot(
        (0.0, float(plan.times[-1])), shown, x_label=f"{time} from now",
        y_label=f"{name}, {unit}" if unit else name, title=f"{name} under the plan", height=260,
    )  # fmt: skip
