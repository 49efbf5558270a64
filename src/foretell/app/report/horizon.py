"""The section on how far ahead the model may be trusted: its figure and its table."""

from __future__ import annotations

from foretell.app.report.plot import Plot
from foretell.app.report.tables import Table
from foretell.app.study import Study
from foretell.app.trust_horizon_words import share
from foretell.app.words import amount, number


def horizon_figure(study: Study) -> str:
    """Share of wrong forecasts against the horizon, with the level and where it ends."""
    trust = study.held_out.trust
    tried = [] if trust is None else [trial for trial in trust.trials if trial.tried]
    if trust is None or len(tried) < 2:
        return ""
    unit = study.recordings.time_unit
    ahead = [trial.horizon for trial in tried]
    overall = [trial.wrong_overall for trial in tried]
    top = max(*overall, 2 * trust.level)
    plot = Plot(
        (0.0, 1.04 * ahead[-1]),
        (0.0, min(1.05, 1.15 * top)),
        x_label=f"horizon [{unit}]" if unit else "horizon",
        y_label="share of forecasts that were wrong by then",
        title="Wrong forecasts against the horizon",
        height=190,
    )
    plot.band([0.0, 1.04 * ahead[-1]], [0.0, 0.0], [trust.level] * 2, "held", "allowed")
    plot.level(trust.level, "muted")
    plot.line(ahead, overall, "data", "all starts").points(ahead, overall, "data")
    plot.line(ahead, [trial.wrong for trial in tried], "model", "accepted starts")
    if trust.horizon is not None:
        plot.rule(trust.horizon, "model", f"trusted to {amount(trust.horizon, unit, 2)}")
    return plot.html()


def horizon_table(study: Study) -> Table | None:
    """Every horizon that was tried."""
    trust, unit = study.held_out.trust, study.recordings.time_unit
    if trust is None:
        return None
    rows = []
    for trial in trust.trials:
        ahead, blocks = amount(trial.horizon, unit, 2), str(trial.n_blocks)
        if not trial.tried:
            rows.append((ahead, blocks, "–", "–", f"no: {trial.needed} stretches are needed"))
        elif trial.threshold is None:
            needed = trial.needed
            more = needed is not None and needed > trial.n_blocks
            why = f"no: about {needed} stretches would be enough" if more else "no: too often wrong"
            rows.append((ahead, blocks, "–", share(trial.wrong_overall), why))
        else:
            rows.append((ahead, blocks, share(trial.accepted), share(trial.wrong), "certified"))
    columns = (
        ("horizon", "w"),
        ("stretches", "n"),
        ("accepted", "n"),
        ("wrong among them", "n"),
        ("verdict", ""),
    )
    note = (
        f"Wrong: off by more than {number(trust.tolerance)} standard deviations by then. Tried "
        "from the shortest horizon on, up to the first that fails. Where none is accepted, the "
        "share is that of all starts."
    )
    return Table(columns, tuple(rows), "", "", note, "stack")
