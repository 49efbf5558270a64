"""What a live conversation is given: an assistant, ears, limits, and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from foretell.converse.answer.statements import Answer, Verdict
from foretell.converse.lookup.streaming import StreamingLookup
from foretell.core.errors import CapacityError
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
    voice_s : float
        After a silence ended the question, before the answer may be heard; it is shown at once, and
        taken back where the question goes on.
    """

    answer_s: float = 20.0
    waiting: int = 200
    text: int = 4000
    sound_s: float = 20.0
    voice_s: float = 0.15


class EarPool:
    """Recognisers that conversations borrow: one takes megabytes and is not made for each.

    Parameters
    ----------
    make : callable
        Makes one.
    most : int
        At once; who comes later is told to type.

    Examples
    --------
    >>> from foretell.converse.audio import Hearing
    >>> pool = EarPool(lambda: Hearing(recogniser=None), most=1)
    >>> ears = pool()
    >>> len(ears.feed(bytes(3200), 16_000))
    3
    >>> ears.close()
    >>> pool().close()
    """

    def __init__(self, make: Callable[[], Ears], *, most: int = 16) -> None:
        self._make, self._most = make, most
        self._lock = threading.Lock()
        self._idle: list[Ears] = []
        self._lent = 0

    def __call__(self) -> Ears:
        """One of them; a CapacityError where all are lent. Its `close` gives it back."""
        with self._lock:
            if self._lent >= self._most:
                raise CapacityError(
                    f"{self._most} people are speaking already, and more cannot be heard at once. "
                    "Type, or try again in a minute."
                )
            self._lent += 1
            ears = self._idle.pop() if self._idle else None
        try:
            return _Lent(ears or self._make(), self._take_back)
        except BaseException:
            with self._lock:
                self._lent -= 1
            raise

    def _take_back(self, ears: Ears) -> None:
        with self._lock:
            self._lent -= 1
            self._idle.append(ears)


class _Lent:
    """Ears until they are given back; closing waits for what they are hearing."""

    def __init__(self, ears: Ears, give_back: Callable[[Ears], None]) -> None:
        self._ears: Ears | None = ears
        self._give_back, self._lock = give_back, threading.Lock()

    def feed(
        self, pcm: Any, rate: int, channels: int = 1, *, behind: float = 0.0
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        with self._lock:
            return self._ears.feed(pcm, rate, channels, behind=behind) if self._ears else []

    def finish(self) -> Sequence[tuple[str, dict[str, Any]]]:
        with self._lock:
            return self._ears.finish() if self._ears else []

    def reset(self) -> None:
        with self._lock:
            if self._ears:
                self._ears.reset()

    def close(self) -> None:
        with self._lock:
            ears, self._ears = self._ears, None
            if ears is not None:
                ears.reset()
                self._give_back(ears)


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
