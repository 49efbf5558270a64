"""`foretell replay`: the page of a recorded conversation."""

from __future__ import annotations

import statistics
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import typer

from foretell.app.report.templates import templates
from foretell.app.talk.spans import Span, TurnSpans, turns_of
from foretell.core.errors import ParameterError
from foretell.core.files import write_text_atomic
from foretell.core.timeline import Timeline

_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_NAMES = {"used": "", "unused": "not used in the end", "failed": "failed", "stopped": "stopped"}


@dataclass(frozen=True, slots=True)
class Row:
    """A bar of the picture, in percent of the width."""

    label: str
    kind: str
    left: float
    width: float
    seconds: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One turn, drawn."""

    turn: TurnSpans
    rows: list[Row]
    marks: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    ended: float | None
    answered: float | None
    words: str


def run(file: Path, out: Path | None, *, browser: bool) -> None:
    """Write the page and say where it is."""
    target = file.with_suffix(".html") if out is None else out
    if target.resolve() == file.resolve():
        raise ParameterError(f"{target} is the recording itself. Give --out another name.")
    timeline = Timeline.open(file)
    turns = turns_of(timeline)
    write_text_atomic(target, page(turns, file.name))
    for line in summary(turns):
        typer.echo(line)
    typer.echo(str(target))
    if browser:
        webbrowser.open(target.resolve().as_uri())


def summary(turns: list[TurnSpans]) -> list[str]:
    """What stands above the turns, in sentences."""
    waits = [turn.waited for turn in turns if turn.waited is not None]
    count = f"{len(turns)} turn{'s' * (len(turns) != 1)}, {len(waits)} answered."
    if not waits:
        return [count]
    work = sum(turn.work_s for turn in turns)
    ahead = sum(turn.ahead_s for turn in turns)
    lines = [
        count,
        f"From the end of a question to its answer: median {_seconds(statistics.median(waits))}, "
        f"longest {_seconds(max(waits))}.",
    ]
    if work:
        lines.append(
            f"Of {_seconds(work)} of work on what was used, {100 * ahead / work:.0f} % was over "
            "before the question was."
        )
    return lines


def page(turns: list[TurnSpans], name: str) -> str:
    """The page, complete in itself."""
    from markupsafe import Markup

    style = Markup((files("foretell.app.report") / "style.css").read_text(encoding="utf-8"))
    template = templates().get_template("conversation.html.j2")
    pictures = [picture(turn) for turn in turns]
    return template.render(style=style, name=name, summary=summary(turns), pictures=pictures)


def picture(turn: TurnSpans) -> Picture:
    """Where everything lies."""
    begin = turn.begin
    length = max(turn.end - begin, 0.05) * 1.02

    def at(time: float) -> float:
        return round(100 * (time - begin) / length, 3)

    rows = [_row(span, at) for span in turn.spans]
    step = next((s for s in _STEPS if length / s <= 10), _STEPS[-1])
    ticks = [(at(begin + n * step), f"{n * step:g}") for n in range(int(length / step) + 1)]
    return Picture(
        turn=turn,
        rows=rows,
        marks=[(at(time), text) for time, text in turn.marks],
        ticks=ticks,
        ended=None if turn.ended is None else at(turn.ended),
        answered=None if turn.answered is None else at(turn.answered),
        words=_words(turn),
    )


def _row(span: Span, at: Callable[[float], float]) -> Row:
    left, right = at(span.begin), at(span.end)
    seconds = _seconds(span.end - span.begin)
    outcome = _NAMES.get(span.outcome, "")
    title = ", ".join(part for part in (span.label, seconds, outcome, span.note) if part)
    kind = f"{span.kind} {span.outcome}".strip()
    return Row(span.label, kind, left, max(right - left, 0.25), seconds, title)


def _words(turn: TurnSpans) -> str:
    if turn.waited is None:
        return f"Without answer{f': {turn.outcome}' if turn.outcome else ''}."
    decision = {"withhold": ", withheld", "pass_on": ", unsure"}.get(turn.decision, "")
    said = f"Answered {_seconds(turn.waited)} after the question was over{decision}."
    if turn.work_s:
        said += f" {100 * turn.ahead_s / turn.work_s:.0f} % of the work was done by then."
    return f"{said} This turn {turn.outcome}." if turn.outcome.startswith("goes") else said


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 0.9995 else f"{value:.3g} s"
