"""The section on what looked like the end of the recording before: its words, figure and table."""

from __future__ import annotations

import numpy as np

from foretell.app.episodes import Episode
from foretell.app.report.figures import axis
from foretell.app.report.plot import Plot, padded
from foretell.app.report.tables import Table
from foretell.app.study import Study
from foretell.app.words import amount


def episodes_words(study: Study) -> str:
    """What was asked, and how to read the answer."""
    found = study.episodes
    if found is None:
        return ""
    unit, data = study.recordings.time_unit, study.recordings
    length = amount(found.asked.stop - found.asked.start, unit)
    of = (
        "the recording"
        if data.n_recordings == 1
        else "recording " + data.labels[found.asked.recording]
    )
    return (
        f"The last {length} of {of}, and the stretches that are most like it. Compared are shapes: "
        "the mean of each variable is taken off and its spread set to one. The similarity is the "
        "mean correlation of the variables, 1 for the same shape."
    )


def episodes_figure(study: Study) -> str:
    """The first variable in the stretch that was asked about and in those found, laid over it."""
    found, data = study.episodes, study.recordings
    if found is None:
        return ""
    lines = [_part(study, episode) for episode in (found.asked, *found.found)]
    plot = Plot(
        (0.0, found.asked.stop - found.asked.start),
        padded(np.concatenate([values for _, values in lines])),
        x_label=axis("time since its start", data.time_unit),
        y_label=axis(data.names[0], data.units[0]),
        title=f"{data.names[0]} in similar episodes",
        height=190,
    )
    gap = 10 * data.median_interval
    for n, (times, values) in enumerate(lines[2:]):
        plot.line(times, values, "muted thin", "" if n else "others", max_gap=gap, read=False)
    plot.line(*lines[1], "model", "the most similar one", max_gap=gap)
    plot.line(*lines[0], "data", "the end of the recording", max_gap=gap)
    return plot.html()


def episodes_table(study: Study) -> Table | None:
    """Where they are, and how similar."""
    found, data = study.episodes, study.recordings
    if found is None:
        return None
    many = data.n_recordings > 1
    rows = []
    for episode in found.found:
        place = (data.labels[episode.recording],) if many else ()
        ends = (amount(t, data.time_unit, 5) for t in (episode.start, episode.stop))
        rows.append((*place, *ends, f"{episode.similarity:.3f}"))
    columns = (("from", "n"), ("to", "n"), ("similarity", "n"))
    return Table(((("recording", "w"), *columns) if many else columns), tuple(rows))


def _part(study: Study, episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    times = study.recordings.times[episode.recording]
    inside = (times >= episode.start) & (times <= episode.stop)
    return times[inside] - episode.start, study.recordings.values[episode.recording][inside, 0]
