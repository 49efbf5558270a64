"""A conversation in real time: asyncio around one `Conversation`, every wait bounded.

    what the user does ->  inbox  -> Conversation.on, in a thread, one event after another
    sound              ->  Hearing, in a thread               -> inbox
    "work" "compose"   ->  notes, instruments, answers in threads, each with a time-out -> inbox
    "say"              ->  Voice, in a thread                  -> sound for the client

The machine decides everything; this file only waits, and gives up in time. Each event that went in
or came out is handed on in the order in which it happened, so that the listeners together have the
whole timeline.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from foretell.app.talk.parts import Answers, Ears, Limits, Listener, Workers, withheld
from foretell.app.talk.speaking import Speech, SpeechOutput
from foretell.converse.answer import language_of
from foretell.converse.conversation import Conversation, Manners
from foretell.converse.lookup.live import better_query, patience, perform
from foretell.core.clock import Clock, MonotonicClock
from foretell.core.errors import DataError, ForetellError
from foretell.core.timeline import Event


class LiveConversation:
    """One conversation of one user; needs a running asyncio loop.

    Parameters
    ----------
    assistant : Answers
        Finds and answers.
    listeners : iterable of callable
        Get each event in order; they must not block.
    workers : Workers
        Threads.
    ears : callable, optional
        Makes what hears; called with the first sound.
    voice : Speech, optional
        Says answers.
    play : callable, optional
        Gets turn, PCM (16 bit) and rate of what is said.
    speaks : bool
        Whether it does so from the start.
    manners : Manners, optional
    limits : Limits, optional
    clock : Clock, optional

    Examples
    --------
    >>> from foretell.app.talk.parts import Workers
    >>> from foretell.converse.lookup import BM25, StreamingLookup
    >>> class Reader:
    ...     lookup = StreamingLookup(BM25({"p7": "The Curies discovered radium."}), k=1)
    ...     def source(self, id):
    ...         return id
    ...     def answer(self, question, passages, findings, *, language=None, cancelled=None):
    ...         return {"text": f"See {passages[0]}."}
    >>> async def ask():
    ...     workers, said = Workers(), asyncio.get_running_loop().create_future()
    ...     def listen(event):
    ...         if event.kind == "say":
    ...             said.set_result(event["text"])
    ...     talk = LiveConversation(Reader(), [listen], workers)
    ...     talk.put("end_of_turn", {"text": "who discovered radium"})
    ...     text = await said
    ...     await talk.close()
    ...     workers.close()
    ...     return text
    >>> asyncio.run(ask())
    'See p7.'
    """

    def __init__(
        self,
        assistant: Answers,
        listeners: Iterable[Listener],
        workers: Workers,
        *,
        ears: Callable[[], Ears] | None = None,
        voice: Speech | None = None,
        play: Callable[[int, bytes, int], None] | None = None,
        speaks: bool = True,
        manners: Manners | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.assistant, self.workers, self._ears = assistant, workers, ears
        self.listeners = list(listeners)
        self.limits, self.clock = limits or Limits(), clock or MonotonicClock()
        self.conversation = Conversation(assistant.lookup, manners=manners)
        self.language: str | None = None
        self.language_chosen = False
        self.language_seems: str | None = None
        self.speech = SpeechOutput(voice, play, self.put, workers.sound) if voice and play else None
        self.speaks = speaks
        self._inbox: deque[tuple[str, Mapping[str, Any], bool]] = deque()
        self._sound: deque[tuple[bytes, int, int] | None] = deque()
        self._sound_s = 0.0
        self._came, self._heard_something = asyncio.Event(), asyncio.Event()
        self._tasks: dict[tuple[Any, ...], tuple[asyncio.Task[None], threading.Event]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._count, self._stepping = itertools.count(), False
        self._run_task = self._loop.create_task(self._run())
        self._listening: asyncio.Task[None] | None = None
        self._deaf_until = 0.0

    # What comes in -------------------------------------------------------------------------------

    def put(self, kind: str, data: Mapping[str, Any] | None = None, *, user: bool = False) -> None:
        """Something happened; never blocks. Of partials that wait, the newest is enough.

        Raises
        ------
        DataError
            For input of a user who is too fast or whose text is too long.
        """
        data = data or {}
        if user:
            text = data.get("text", "")
            if isinstance(text, str) and len(text) > self.limits.text:
                raise DataError(
                    f"The question has {len(text)} characters; the most is {self.limits.text}."
                )
            if len(self._inbox) >= self.limits.waiting:
                raise DataError("Too much at once; wait until the answer is there.")
        if kind == "partial" and self._inbox and self._inbox[-1][0] == "partial":
            self._inbox.pop()
        self._inbox.append((kind, data, user))
        self._came.set()

    def hear(self, pcm: bytes, rate: int, channels: int = 1) -> None:
        """A piece of sound, 16 bit little endian; never blocks."""
        if self._ears is None:
            raise DataError("There is no speech recogniser here, so nothing can be heard.")
        if self._listening is None or self._listening.done():
            if self.clock.now() < self._deaf_until:
                return
            self._listening = self._loop.create_task(self._listen(self._ears))
        self._sound.append((pcm, rate, channels))
        self._sound_s += len(pcm) / (2 * rate * channels)
        while self._sound_s > self.limits.sound_s and len(self._sound) > 1:
            old = self._sound.popleft()
            self._sound_s -= len(old[0]) / (2 * old[1] * old[2]) if old else 0.0
        self._heard_something.set()

    def end_sound(self) -> None:
        """The user let go of the microphone: what was said until now is the question."""
        if self._listening is not None:
            self._sound.append(None)
            self._heard_something.set()

    def stop_listening(self) -> None:
        """The microphone is gone: what hears is free for others, and comes back with new sound."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._sound.clear()
        self._sound_s = 0.0

    def choose_language(self, language: str) -> None:
        """The user says which language it is; no detector overrules that.

        Raises
        ------
        DataError
            For what is no code of a language.
        """
        if not _CODE.fullmatch(language):
            raise DataError(f"language={language!r:.40}; needed is a code, for instance 'en'.")
        self.language, self.language_chosen = language, True
        self.put("language", {"language": language})

    @property
    def quiet(self) -> bool:
        """Whether nothing is waited for: no input is left, and no question is open."""
        return not (self._inbox or self._stepping or self._tasks or self._sound) and (
            self.conversation.state in ("idle", "listening")
        )

    async def close(self) -> None:
        """End everything; nothing of it is waited for longer than a second."""
        runs = [self._run_task, *([self._listening] if self._listening else [])]
        for run in runs:
            run.cancel()
        for timer in self._timers.values():
            timer.cancel()
        for key in list(self._tasks):
            self._stop(key)
        if self.speech:
            self.speech.stop()
        await asyncio.wait(runs, timeout=1.0)

    # One event after another ---------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            while self._inbox:
                self._stepping = True
                await self._step(*self._inbox.popleft())
                self._stepping = False

    async def _step(self, kind: str, data: Mapping[str, Any], user: bool) -> None:
        try:
            event = Event(kind, max(self.clock.now(), self.conversation.time), data)
            call = partial(self.conversation.on, event)
            outs = await self._loop.run_in_executor(self.workers.steps, call)
        except DataError as error:
            self._refused(kind, data, str(error), user)
            return
        except Exception as error:  # of a search: this question fails, the conversation goes on
            self._refused(kind, data, f"{type(error).__name__}: {error}", user)
            if kind != "cancel":
                self.put("cancel", {"reason": "the search failed"})
            return
        for one in (event, *outs):
            self._tell(one)
        for out in outs:
            if not out.get("again"):
                self._act(out)
            if out.kind == "heard" and not self.language_chosen:
                self._notice_language(out["text"])

    def _notice_language(self, text: str) -> None:
        if len(text.split()) < _ENOUGH_WORDS:
            return
        seems = language_of(text)
        if seems != self.language_seems:
            self.language_seems = seems
            self.put("language", {"language": seems})

    def _refused(self, kind: str, data: Mapping[str, Any], reason: str, user: bool) -> None:
        if kind == "work_done":
            failed = {"turn": data["turn"], "job": data["job"], "reason": reason}
            self.put("work_failed", failed)
        elif kind == "answer":
            self.put("answer", {"turn": data["turn"], **withheld("The answer was not usable.")})
        else:
            about = {"id": data["id"]} if user and isinstance(data.get("id"), str) else {}
            self._tell(Event("refused", self.conversation.time, {"reason": reason[:500], **about}))

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def _act(self, out: Event) -> None:
        if out.kind == "work":
            self._begin(("work", out["turn"], out["job"]), self._work, out)
        elif out.kind == "cancel_work":
            self._stop(("work", out["turn"], out["job"]))
        elif out.kind == "fire" and self.conversation.lookup.rewrite is not None:
            self._begin(("query", out["turn"], out["call"]), self._generate, out)
        elif out.kind == "compose":
            self._begin(("answer", out["turn"]), self._answer, out)
        elif out.kind == "cancelled":
            self._stop(("answer", out["turn"]))
        elif out.kind == "wait":
            self._wait(out)
        elif out.kind == "say":
            self._say(out)
        elif out.kind == "stop_speaking" and self.speech:
            self.speech.stop()

    def _wait(self, out: Event) -> None:
        number = next(self._count)
        data = {key: value for key, value in out.data.items() if key not in ("at", "n")}

        def ring() -> None:
            del self._timers[number]
            self.put("timer", data)

        delay = max(out["at"] - self.clock.now(), 0.0)
        self._timers[number] = self._loop.call_later(delay, ring)

    # Work, in threads ----------------------------------------------------------------------------

    def _begin(self, key: tuple[Any, ...], work: Callable[..., Any], out: Event) -> None:
        cancelled = threading.Event()

        async def whole() -> None:
            try:
                await work(out, cancelled)
            finally:
                cancelled.set()
                self._tasks.pop(key, None)

        self._tasks[key] = (self._loop.create_task(whole()), cancelled)

    def _stop(self, key: tuple[Any, ...]) -> None:
        if key in self._tasks:
            task, cancelled = self._tasks.pop(key)
            cancelled.set()
            task.cancel()

    async def _work(self, out: Event, cancelled: threading.Event) -> None:
        plan, about = self.conversation.lookup.plan, {"turn": out["turn"], "job": out["job"]}
        seconds = patience(plan, out)
        try:
            work = perform(plan, out, cancelled, self.workers.jobs)
            async with asyncio.timeout(seconds):
                value = await work
            self.put("work_done", {**about, "value": value})
        except TimeoutError:
            self.put("work_failed", {**about, "reason": f"no answer within {seconds:g} s"})
        except Exception as error:  # whatever it raises is its result
            self.put("work_failed", {**about, "reason": f"{type(error).__name__}: {error}"})

    async def _generate(self, out: Event, cancelled: threading.Event) -> None:
        lookup = self.conversation.lookup
        assert lookup.rewrite is not None
        query = await better_query(
            lookup.rewrite, out["text"], lookup.plan.timeout_s, self.workers.jobs
        )
        about = {"turn": out["turn"], "call": out["call"]}
        self.put("query", {**about, "text": query.text, "weights": query.weights})

    async def _answer(self, out: Event, cancelled: threading.Event) -> None:
        compose = partial(self._composed, out, cancelled)
        try:
            future = self._loop.run_in_executor(self.workers.answers, compose)
            async with asyncio.timeout(self.limits.answer_s):
                data = await future
        except TimeoutError:
            data = withheld(
                f"No answer was ready within {self.limits.answer_s:g} s, so none is given."
            )
        except Exception as error:  # whatever it raises, the user hears something
            data = withheld(f"The answer failed ({type(error).__name__}: {error}).")
        self.put("answer", {**data, "turn": out["turn"]})

    def _composed(self, out: Event, cancelled: threading.Event) -> dict[str, Any]:
        passages = [self.assistant.source(id) for id in out["ids"]]
        answer = self.assistant.answer(
            out["text"],
            passages,
            out["findings"],
            language=self.language,
            cancelled=cancelled.is_set,
        )
        return dict(answer if isinstance(answer, Mapping) else answer.to_dict())

    # Sound ---------------------------------------------------------------------------------------

    async def _listen(self, ears: Callable[[], Ears]) -> None:
        making = self._loop.run_in_executor(self.workers.sound, ears)
        try:
            hearing = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_close_unused)
            raise
        except ForetellError as error:
            self._tell(Event("refused", self.conversation.time, {"reason": str(error)[:500]}))
            self._deaf_until = self.clock.now() + _DEAF_S
            self._sound.clear()
            self._sound_s = 0.0
            return
        try:
            while True:
                await self._heard_something.wait()
                self._heard_something.clear()
                while self._sound:
                    await self._hear(hearing, self._sound.popleft())
        finally:  # in a thread: it may still be hearing the last piece
            with contextlib.suppress(RuntimeError):  # where all threads have ended
                self.workers.sound.submit(hearing.close)

    async def _hear(self, hearing: Ears, piece: tuple[bytes, int, int] | None) -> None:
        if piece is None:
            await self._heard(hearing.finish)
            self.put("end_of_turn", {"released": True})
            hearing.reset()
            return
        self._sound_s -= len(piece[0]) / (2 * piece[1] * piece[2])
        await self._heard(partial(hearing.feed, *piece, behind=self._sound_s))

    async def _heard(self, feed: Callable[[], Sequence[tuple[str, dict[str, Any]]]]) -> None:
        try:
            found = await self._loop.run_in_executor(self.workers.sound, feed)
        except Exception as error:  # of a recogniser: this piece is lost, the conversation goes on
            reason = f"What was said could not be recognised: {error}"
            self._tell(Event("refused", self.conversation.time, {"reason": reason[:500]}))
            return
        for kind, data in found:
            self.put(kind, data)

    def _say(self, out: Event) -> None:
        if self.speech and self.speaks:
            turn = self.conversation.turn
            hold = 0.0
            if turn is not None and turn.ended_at is not None and not turn.released:
                hold = turn.ended_at + self.limits.voice_s - self.clock.now()
            language = self.language or out.get("language")
            self.speech.start(out["turn"], out["text"], language, after=hold)
        else:
            self.put("spoken", {"turn": out["turn"]})


_ENOUGH_WORDS = 4  # to tell their language
_DEAF_S = 10.0  # after there was nothing to hear with
_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})?")


def _close_unused(making: asyncio.Future[Ears]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().close()
