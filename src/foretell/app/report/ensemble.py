"""The section on the ensembles of a stochastic model: its words and its figures."""

from __future__ import annotations

import numpy as np

from foretell.app.ensemble import Ensembles
from foretell.app.report.figures import axis, time_axis
from foretell.app.report.plot import Plot, padded
from foretell.app.study import Study
from foretell.app.words import number

_NARROW, _WIDE = 0.8, 1.25


def ensemble_words(study: Study) -> str:
    """What the ensembles say, in sentences; nothing for a model without chance."""
    found = study.held_out.ensembles
    if found is None:
        return ""
    said = (
        f"The model draws at random what comes next, so it gives an ensemble: {found.n_members} "
        f"runs from each of {found.n_starts} held-out states. "
        f"{100 * found.inside:.0f}\u00a0% of the recorded values lie where 80\u00a0% of the runs "
        f"do, and the runs scatter {number(found.ratio, 2)} times as widely as the recording "
        "misses their mean. "
    )
    return said + _meaning(found)


def _meaning(found: Ensembles) -> str:
    if found.ratio < _NARROW:
        return "Its ranges are too narrow: what happens is more often outside than they say."
    if found.ratio > _WIDE:
        return "Its ranges are too wide: it is surer than it says."
    return "Its ranges can be taken as they are."


def ensemble_fan(study: Study) -> str:
    """One held-out start: bands of the runs, and what was recorded."""
    found, held = study.held_out.ensembles, study.held_out.observed
    if found is None:
        return ""
    plot = Plot(
        (float(found.times[0]), float(found.times[-1])),
        padded([found.bands, found.observed]),
        x_label=time_axis(held),
        y_label=axis(held.names[0], held.units[0]),
        title="Ensemble from a held-out start",
        height=230,
    )
    for k, kind in ((2, "model b95"), (1, "model b80"), (0, "model b50")):
        share = ("50", "80", "95")[k]
        plot.band(found.times, found.bands[0, k], found.bands[1, k], kind,
                  f"{share}\u00a0% of the runs")  # fmt: skip
    plot.line(found.times, found.middle, "model", "median")
    plot.line(found.times, found.observed, "data wide", "recorded")
    return plot.html()


def ensemble_ranks(study: Study) -> str:
    """Rank histogram; flat is right."""
    found = study.held_out.ensembles
    if found is None:
        return ""
    height = found.ranks / found.ranks.mean()
    plot = Plot(
        (0.0, 1.0),
        (0.0, max(2.0, 1.1 * float(height.max()))),
        x_label="rank of the recorded value among the runs",
        y_label="share, relative to flat",
        title="Rank histogram",
        height=190,
        narrow=True,
        hover=False,
    )
    edges = np.linspace(0.0, 1.0, height.size + 1)
    return plot.bars(edges, height, "data").level(1.0, "muted").html()


def ensemble_width(study: Study) -> str:
    """Spread and error of the mean against lead time."""
    found, unit = study.held_out.ensembles, study.recordings.time_unit
    if found is None:
        return ""
    plot = Plot(
        (0.0, float(found.lead[-1])),
        (0.0, 1.1 * float(max(found.spread.max(), found.skill.max()))),
        x_label=axis("lead time", unit),
        y_label="standard deviations",
        title="Width of the ensembles and error of their means",
        height=190,
        narrow=True,
    )
    plot.line(found.lead, found.spread, "model", "width of the runs")
    return plot.line(found.lead, found.skill, "data", "error of their mean").html()
