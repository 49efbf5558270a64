"""What a person sees while a fit runs: stages, and one progress line with loss, score, time left.

Everything goes to stderr, so that ``--json`` keeps stdout for one JSON object. Where stderr is not
a terminal (a log file), a plain line is written every tenth of the way.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TaskID, TextColumn

from foretell.app.fitting import Listener
from foretell.app.words import number, seconds
from foretell.core.progress import Progress


class ProgressView(Listener):
    """Shows stages and updates; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task = TaskID(0)
        self._tenth = 0

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def say(self, text: str) -> None:
        """Print one line of plain text."""
        self.console.print(text, markup=False)

    def stage(self, text: str) -> None:
        """A new stage begins."""
        self._close()
        self.console.print(f"{text} ...", style="dim", markup=False)

    def step(self, progress: Progress) -> None:
        """The fit moved on."""
        status = f"loss {number(progress.loss, 2)}"
        if progress.score is not None:
            status += f"  free run {number(progress.score, 2)}"
        status += f"  {seconds(max(progress.eta, 0.0))} left"
        if not self.console.is_terminal:
            tenth = int(10 * progress.fraction)
            if tenth > self._tenth:
                self._tenth = tenth
                self.say(f"  {10 * tenth:3d} %  {status}")
            return
        if self._bar is None:
            columns = (BarColumn(28), MofNCompleteColumn(), TextColumn("{task.fields[status]}"))
            self._bar = Bar(*columns, console=self.console, transient=False)
            self._bar.start()
            self._task = self._bar.add_task("", total=progress.total, status=status)
        self._bar.update(self._task, completed=progress.step, total=progress.total, status=status)

    def _close(self) -> None:
        self._tenth = 0
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def results(
    console: Console, verdict: str, findings: tuple[str, ...], warnings: int, places: list[str]
) -> None:
    """Print verdict, findings and where things are."""
    console.print()
    console.print(verdict, style="bold", markup=False)
    for finding in findings:
        console.print(f"  - {finding}", markup=False)
    if warnings:
        these = "warning" if warnings == 1 else "warnings"
        console.print(f"  {warnings} {these}: read the top of the report.", style="yellow")
    console.print()
    for place in places:
        console.print(place, markup=False, soft_wrap=True)
