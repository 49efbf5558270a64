"""What a live conversation is given: an assistant, ears, limits, and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from foretell.converse.answer.statements import Answer, Verdict
from foretell.converse.lookup.streaming import StreamingLookup
from foretell.core.timeline import Event

Listener = Callable[[Event], None]


class Answers(Protocol):
    """What a conversation needs of an assistant; `foretell.app.talk.assistant.Assistant` is one."""

    lookup: StreamingLookup

    def answer(
        self,
        question: str,
        passages: Any,
        findings: Any,
        *,
        language: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Answer from passages and findings; may block."""
        ...

    def source(self, id: str) -> Any:
        """The passage of an id."""
        ...


class Ears(Protocol):
    """Speech to events; `foretell.converse.audio.Hearing` is one."""

    def feed(
        self, pcm: Any, rate: int, channels: int = 1, *, behind: float = 0.0
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """Events of `foretell.converse.messages` that follow from a piece of sound."""
        ...

    def finish(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """The sound is over; the events that were held back."""
        ...

    def reset(self) -> None:
        """Forget the sound so far."""
        ...

    def close(self) -> None:
        """Let go of the recogniser."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one conversation may ask for.

    Parameters
    ----------
    answer_s : float
        Seconds for an answer; then it is withheld.
    waiting : int
        Inputs of the user that may wait; more are refused.
    text : int
        Characters of a question.
    sound_s : float
        Seconds of sound that may wait for the recogniser; older sound is dropped.
    """

    answer_s: float = 20.0
    waiting: int = 200
    text: int = 4000
    sound_s: float = 20.0


class Workers:
    """The threads that all conversations of a process share.

    Parameters
    ----------
    jobs : int
        For passages and instruments.
    answers : int
        For answers, which mostly compute.
    """

    def __init__(self, *, jobs: int = 8, answers: int = 4) -> None:
        self.steps = ThreadPoolExecutor(2, "foretell-step")
        self.jobs = ThreadPoolExecutor(jobs, "foretell-job")
        self.answers = ThreadPoolExecutor(answers, "foretell-answer")
        self.sound = ThreadPoolExecutor(4, "foretell-sound")

    def close(self) -> None:
        """Begin nothing more; what runs looks at its cancelled() and ends."""
        for pool in (self.steps, self.jobs, self.answers, self.sound):
            pool.shutdown(wait=False, cancel_futures=True)


def withheld(reason: str) -> dict[str, Any]:
    """The content of an answer that says only why there is none."""
    return Answer(reason, decision=Verdict("withhold", reason)).to_dict()
