"""One question as bars over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.core.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from foretell.converse.lookup.trace import Trace


def work_spans(trace: Trace) -> list[tuple[str, float, float, str]]:
    """Name, begin, end and fate of every piece of work, in the order begun."""
    begun: dict[str, float] = {}
    spans: list[tuple[str, float, float, str]] = []
    fates = {"work_done": "done", "work_failed": "failed", "cancel_work": "cancelled"}
    for event in trace.timeline:
        if event.kind == "work":
            begun[event["job"]] = event.time
        elif event.kind in fates and event["job"] in begun:
            start = begun.pop(event["job"])
            spans.append((event["job"], start, event.time, fates[event.kind]))
    end = trace.timeline[-1].time if len(trace.timeline) else 0.0
    spans += [(job, start, end, "unfinished") for job, start in begun.items()]
    return sorted(spans, key=lambda span: (span[1], span[0]))


def plot_timeline(trace: Trace, axes: Axes | None = None) -> Axes:
    """Bars for the work, ticks for the partials, lines where the words and the turn end."""
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingExtraError("matplotlib", "plot", "draw a timeline") from error
        axes = pyplot.subplots()[1]
    spans = work_spans(trace)
    needed = set(trace.ids)
    for row, (job, start, end, fate) in enumerate(spans):
        used = job.partition(":")[2] in needed or "#" in job
        shade = 0.9 if fate == "done" and used else 0.35
        axes.barh(row, end - start, left=start, alpha=shade)
        axes.text(start, row, f" {job} ({fate})", va="center", fontsize=7)
    for event in trace.timeline.of("partial"):
        axes.plot([event.time], [-1], marker="|", color="black")
    marks = ((trace.stop_s, "last word"), (trace.commit_s, "turn over"), (trace.ready_s, "ready"))
    for time, name in marks:
        axes.axvline(time, linestyle=":", color="black")
        axes.text(time, len(spans), name, rotation=90, va="top", ha="right", fontsize=7)
    axes.set_xlabel("seconds")
    axes.set_yticks([])
    return axes
