"""The page about a training plan: time by redundancy, load and survival by failures, the table."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

import numpy as np

from foretell.app.command_train_plan import (
    PlanStudy,
    days,
    formula_words,
    hosts_words,
    lines,
    ratio_words,
)
from foretell.app.report.plot import Plot
from foretell.app.report.tables import Table
from foretell.app.report.templates import templates
from foretell.app.words import number, seconds
from foretell.core import citation
from foretell.train.plan import EnduranceModel, OverheadModel

_TOP = 8.0


def render_plan(study: PlanStudy) -> str:
    """The page as one self-contained HTML text."""
    from markupsafe import Markup

    folder = files("foretell.app.report")
    environment = templates()
    table = environment.get_template("table.html.j2").render(title="", block=_table(study))
    plan = study.best.predicted
    return environment.get_template("train_plan.html.j2").render(
        title=f"A plan for {number(study.request.groups, 9)} groups",
        version=version("foretell"),
        lead=f"{plan.redundancy} hosts a shard, {plan.micro} units a shard, a checkpoint every "
        f"{seconds(plan.interval_s)}: {plan.time_ratio:.2f} times the failure-free time.",
        facts=_facts(study),
        given=lines(study)[:2],
        ratio=Markup(ratio_figure(study)),
        load=Markup(load_figure(study)),
        table=Markup(table),
        bibtex=citation("spare"),
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "script.js").read_text(encoding="utf-8")),
    )


def ratio_figure(study: PlanStudy) -> str:
    """Predicted time against the hosts of a shard; discs are simulated."""
    curves = {k: v for k, v in study.curves.items() if len({p.redundancy for p in v}) > 1}
    finite = [p.time_ratio for v in curves.values() for p in v if np.isfinite(p.time_ratio)]
    top = min(_TOP, 1.05 * max(finite))
    last = max(p.redundancy for v in curves.values() for p in v)
    plot = Plot(
        (1.0, float(last)),
        (1.0, top),
        x_label="hosts of a shard",
        y_label="time to train / failure-free time",
        title="Time to train by redundancy, one line for each kind of policy",
        height=340,
    )
    for n, (name, points) in enumerate(curves.items()):
        shown = [p for p in points if p.time_ratio <= top]
        x = [float(p.redundancy) for p in shown]
        plot.line(x, [p.time_ratio for p in shown], f"region-{n}", name)
    for found in study.alternatives:
        if found.name in curves and found.simulated.finished.all():
            kind = f"region-{list(curves).index(found.name)}"
            J = float(found.simulated.time_ratio.mean())
            plot.points(found.predicted.redundancy, J, kind, f"{found.name}, simulated")
    return plot.html()


def load_figure(study: PlanStudy) -> str:
    """Stacks of a step and chance to be running, against failures, for the recommended plan."""
    placement = study.best.predicted.policy.placement
    model = EnduranceModel(placement)
    k = np.arange(min(max(3, model.quantile(0.999)), placement.n_groups))
    top = float(OverheadModel(placement, 1).load(k).max())
    plot = Plot(
        (0.0, float(k[-1])),
        (0.0, top + 0.1),
        x_label="failures since the start",
        y_label="stacks a step; chance that all failures are masked",
        title="Load and survival by the number of failures",
        height=280,
    )
    for n, q in enumerate(dict.fromkeys((study.request.micro, 1))):
        load = OverheadModel(placement, q).load(k)
        steps, level = np.repeat(k, 2)[1:].astype(float), np.repeat(load, 2)[:-1]
        plot.line(steps, level, f"region-{n}", f"load, {q} unit{'s' * (q > 1)} a shard")
    plot.line(k.astype(float), model.survival(k), "muted", "chance")
    return plot.html()


def _facts(study: PlanStudy) -> list[dict[str, str]]:
    plan = study.best.predicted
    facts = [
        ("Hosts of a shard", str(plan.redundancy), "groups that may compute it"),
        ("Units of a shard", str(plan.micro), f"mean load {plan.mean_load:.2f} stacks"),
        ("Checkpoint", seconds(plan.interval_s), "from one to the next"),
        ("Restart", days(plan.uptime_s), f"apart, after {plan.mean_failures:.0f} failures"),
    ]
    return [dict(zip(("name", "value", "note"), fact, strict=True)) for fact in facts]


def _table(study: PlanStudy) -> Table:
    rows = tuple(
        (
            found.name,
            hosts_words(found.predicted),
            formula_words(found.predicted),
            ratio_words(found.simulated),
            f"{found.simulated.load.mean():.2f}",
            f"{100 * found.simulated.availability.mean():.0f}\u00a0%",
            seconds(found.simulated.interval_s),
        )
        for found in study.alternatives
    )
    columns = (
        ("best of each kind", "w"),
        ("hosts", "n"),
        ("time, formula", "n"),
        ("time, simulated", "n"),
        ("stacks a step", "n"),
        ("available", "n"),
        ("checkpoint", "n"),
    )
    return Table(
        columns,
        rows,
        note=f"Times are multiples of the failure-free time. Simulated: {study.request.seeds} "
        "seeds, mean and standard error; none of it was measured on machines. Replication in "
        "blocks takes the nearest multiple of its redundancy below the number of groups.",
        style="stack",
    )
