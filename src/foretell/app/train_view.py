"""What a person sees while workers train: a table that lives, or plain lines in a log file."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from foretell.app.words import count, number
from foretell.train.stacked.members import Member

_TOLD = {"fault", "ended", "started", "killed", "checkpoint-failed", "error", "wipeout", "minority"}


class TrainView:
    """Shows workers, steps and failures; use it as a context manager."""

    def __init__(self, n_workers: int, n_steps: int, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.n_workers, self.n_steps = n_workers, n_steps
        self.step, self.loss, self.failures, self.epoch = 0, float("nan"), 0, 0
        self.members: dict[int, Member] = {}
        self._inside: set[int] = set()
        self._live: Live | None = None
        self._tenth = 0

    def __enter__(self) -> TrainView:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=8, get_renderable=self.table)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, markup=False, soft_wrap=True)

    def event(self, event: dict[str, Any], members: dict[int, Member]) -> None:
        """Something happened."""
        self.members = members
        kind = event["event"]
        if kind == "step" and event["step"] > self.step:
            self._advance(event)
        elif kind == "view" and event["epoch"] > self.epoch:
            self._new_view(event)
        elif kind in _TOLD and not (kind == "ended" and event["code"] == 0):
            if kind != "started" or event["life"] > 0:
                self.say(f"  {event['t']:7.2f} s  worker {event['worker']} {_words(event)}")

    def table(self) -> Table:
        """The workers now."""
        failed = f"{self.failures} failures masked"
        title = f"step {self.step} of {self.n_steps}   loss {number(self.loss, 4)}   {failed}"
        found = Table(title=title, title_justify="left")
        for name in ("worker", "process", "state", "step", "units", "step time"):
            found.add_column(name, justify="left" if name == "state" else "right")
        for worker in range(self.n_workers):
            m = self.members.get(worker)
            if m is None:
                found.add_row(str(worker), "", "dead", "", "", "", style="red")
                continue
            style = "" if m.state in ("training", "done") else "yellow"
            lasted = f"{1000 * m.seconds:.0f} ms" if m.seconds else ""
            found.add_row(
                str(worker), str(m.process.pid), m.state, str(m.step), str(m.units), lasted,
                style=style,
            )  # fmt: skip
        return found

    def _advance(self, event: dict[str, Any]) -> None:
        self.step, self.n_steps = event["step"], event["of"]
        self.loss = event["loss"] if event["loss"] is not None else float("nan")
        tenth = 10 * self.step // max(self.n_steps, 1)
        if self._live is None and tenth > self._tenth:
            self._tenth = tenth
            self.say(
                f"  {10 * tenth:3d} %  step {self.step}  loss {number(self.loss, 4)}  "
                f"{count(event['members'], 'worker')}  {1000 * event['seconds']:.0f} ms"
            )

    def _new_view(self, event: dict[str, Any]) -> None:
        self.epoch = event["epoch"]
        inside = set(event["members"])
        self.failures += len(self._inside - inside)
        if self._inside:
            joined = sorted(inside - self._inside)
            lost = sorted(self._inside - inside)
            parts = [f"without {', '.join(map(str, lost))}"] if lost else []
            parts += [f"with {', '.join(map(str, joined))} again"] if joined else []
            parts += [f"patch of {count(event['patch'], 'unit')}"] if event["patch"] else []
            by = count(len(inside), "worker")
            self.say(
                f"  {event['t']:7.2f} s  step {event['step']} goes on by {by}"
                f"{', ' if parts else ''}{', '.join(parts)}"
            )
        self._inside = inside


def _words(event: dict[str, Any]) -> str:
    match event["event"]:
        case "fault":
            return f"does to itself: {event['fault']}"
        case "ended":
            code = event["code"]
            return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        case "started":
            return f"is started anew as process {event['pid']}"
        case "killed":
            return "is killed: " + str(event["why"])
        case "checkpoint-failed":
            return "could not save a checkpoint: " + str(event["why"])
    return str(event.get("why", event["event"]))
