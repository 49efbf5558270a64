"""What the loop asks of whoever agrees on views, and the meeting of one worker that is alone."""

from __future__ import annotations

from typing import Protocol

from foretell.train.stacked.membership import Message, View


class Meeting(Protocol):
    """What the loop needs of ``Links``."""

    pulse: int
    finished: set[int]

    def wait_view(self, patience_s: float) -> View | None:
        """The next undisturbed view."""
        ...

    def stands(self, epoch: int) -> bool:
        """Whether it is undisturbed."""
        ...

    def commit(self, epoch: int, step: int, *, stopped: bool = False) -> bool:
        """Whether a step counts."""
        ...

    def settle(self, epoch: int, step: int, base: Message) -> bool:
        """Note that the state belongs to the view."""
        ...

    def admit(self) -> bool:
        """Whether somebody waits to be taken in."""
        ...

    def why_not(self) -> str:
        """In words, what a view is missing."""
        ...

    def form(self, *, calm: bool = False) -> None:
        """Ask for a new view."""
        ...


class Unmet:
    """The meeting of a worker that is alone."""

    def __init__(self, step: int = 0) -> None:
        self.pulse, self.finished, self._step = 0, set[int](), step

    def wait_view(self, patience_s: float) -> View | None:
        """Always the same one."""
        return View(1, {0: 0}, source=0, step=self._step)

    def stands(self, epoch: int) -> bool:
        """It does."""
        return True

    def commit(self, epoch: int, step: int, *, stopped: bool = False) -> bool:
        """It does."""
        return True

    def settle(self, epoch: int, step: int, base: Message) -> bool:
        """It does."""
        return True

    def admit(self) -> bool:
        """Nobody does."""
        return False

    def why_not(self) -> str:
        """Nothing is missing."""
        return ""

    def form(self, *, calm: bool = False) -> None:
        """Nothing changes."""
