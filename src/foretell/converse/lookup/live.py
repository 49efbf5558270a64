"""A turn in real time: asyncio around the coordinator, with every wait bounded.

Fetching and tools run in threads, or in the loop where they are coroutines. Nothing of theirs is
ever raised into the turn: a failure or a time-out becomes an event, and the evidence says so.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from foretell.converse.lookup.query import Query, text_query
from foretell.converse.lookup.store import DocumentStore
from foretell.converse.lookup.tools import RESERVED
from foretell.converse.lookup.trace import Trace
from foretell.converse.lookup.turn import LookupPlan, LookupTurn
from foretell.core.clock import Clock, MonotonicClock
from foretell.core.errors import DataError
from foretell.core.timeline import Event, Timeline

Rewrite = Callable[[str], str | Awaitable[str]]


class LiveTurn:
    """One question as it is said; made by `StreamingLookup.turn`.

    Examples
    --------
    >>> from foretell.converse.lookup import BM25, StreamingLookup
    >>> lookup = StreamingLookup(BM25({"radium": "The Curies discovered radium."}), k=1)
    >>> async def ask():
    ...     turn = lookup.turn()
    ...     turn.push_partial("who discovered")
    ...     return await turn.commit("who discovered radium")
    >>> asyncio.run(ask())["ids"]
    ('radium',)
    """

    def __init__(
        self,
        plan: LookupPlan,
        store: DocumentStore,
        *,
        rewrite: Rewrite | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or MonotonicClock()
        self._rewrite = rewrite
        self._plan = plan
        self.timeline = Timeline()
        self.machine = LookupTurn(plan, store, began=self._clock.now())
        self._evidence: asyncio.Future[Event] = self._loop.create_future()
        self._tasks: dict[str, tuple[asyncio.Task[None], threading.Event]] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._stop_s = self._commit_s = self._clock.now()

    def push_partial(self, text: str, *, stable: int | None = None) -> None:
        """What was heard so far; `stable` words of it will not change. Never blocks."""
        data = {"text": text} if stable is None else {"text": text, "stable": stable}
        self._feed("partial", data)

    def pause(self, text: str | None = None) -> None:
        """The speaker fell silent; the turn may be over or not."""
        self._stop_s = self._clock.now()
        self._feed("pause", {} if text is None else {"text": text})

    async def commit(self, text: str | None = None) -> Event:
        """The turn is over: wait for the evidence, at most for the time-out of the lookup.

        Returns
        -------
        Event
            "evidence": ids, what is missing and why; the texts are in `documents`.
        """
        self._commit_s = self._clock.now()
        self._feed("commit", {} if text is None else {"text": text})
        try:
            return await self._evidence
        finally:
            self._end()

    def cancel(self, reason: str = "cancelled") -> None:
        """Give the question up; what is fetched stays for the next one."""
        self._feed("cancel", {"reason": reason})
        if not self._evidence.done():
            self._evidence.cancel()
        self._end()

    @property
    def documents(self) -> dict[str, Any]:
        """The texts of the evidence by id."""
        return self.machine.documents

    @property
    def findings(self) -> dict[str, Any]:
        """The answers of the tools by name."""
        return self.machine.findings

    @property
    def trace(self) -> Trace:
        """Everything so far; the end of the words is where the pause was reported."""
        stop = min(self._stop_s, self._commit_s) or self._commit_s
        return Trace(Timeline(self.timeline), stop, self._commit_s)

    # Driving -------------------------------------------------------------------------------------

    def _feed(self, kind: str, data: dict[str, Any]) -> None:
        event = Event(kind, max(self._clock.now(), self.machine.time), data)
        outs = self.machine.on(event)
        self.timeline.append(event)
        self.timeline.extend(outs)
        for out in outs:
            self._act(out)

    def _act(self, out: Event) -> None:
        if out.kind == "work":
            self._start(out)
        elif out.kind == "fire" and self._rewrite is not None:
            task = self._loop.create_task(self._generate(out))
            self._tasks[f"query {out['call']}"] = (task, threading.Event())
        elif out.kind == "cancel_work":
            self._stop(out["job"])
        elif out.kind == "wait":
            delay = max(out["at"] - self._clock.now(), 0.0)
            self._timers.append(
                self._loop.call_later(delay, self._feed, "timer", {"name": out["name"]})
            )
        elif out.kind == "evidence" and not self._evidence.done():
            self._evidence.set_result(out)

    def _start(self, out: Event) -> None:
        cancelled = threading.Event()
        task = self._loop.create_task(self._work(out, cancelled))
        self._tasks[out["job"]] = (task, cancelled)

    def _stop(self, job: str) -> None:
        task, cancelled = self._tasks.pop(job)
        cancelled.set()
        task.cancel()

    async def _work(self, out: Event, cancelled: threading.Event) -> None:
        job, seconds = out["job"], patience(self._plan, out)
        try:
            async with asyncio.timeout(seconds):
                value = await perform(self._plan, out, cancelled)
            self._report("work_done", {"job": job, "value": value})
        except TimeoutError:
            cancelled.set()
            self._report("work_failed", {"job": job, "reason": f"no answer within {seconds:g} s"})
        except Exception as error:  # whatever a tool raises is its answer
            reason = f"{type(error).__name__}: {error}"
            self._report("work_failed", {"job": job, "reason": reason})
        finally:
            self._tasks.pop(job, None)

    async def _generate(self, out: Event) -> None:
        assert self._rewrite is not None
        try:
            query = await better_query(self._rewrite, out["text"], self._plan.timeout_s)
        finally:
            self._tasks.pop(f"query {out['call']}", None)
        data = {"call": out["call"], "text": query.text, "weights": query.weights}
        self._report("query", data)

    def _report(self, kind: str, data: dict[str, Any]) -> None:
        try:
            self._feed(kind, data)
        except DataError as error:
            if kind != "work_done":
                raise
            self._feed("work_failed", {"job": data["job"], "reason": str(error)})

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for job in list(self._tasks):
            self._stop(job)


async def perform(
    plan: LookupPlan, out: Event, cancelled: threading.Event, pool: Executor | None = None
) -> Any:
    """Do the work that a "work" event asks for; blocking parts in a thread of the pool."""
    if out["tool"] != RESERVED:
        tool = plan.tools[out["tool"]]
        return await _run(lambda: tool.call(out["text"], cancelled.is_set), tool.fn, pool)
    fetch = plan.retriever.fetch
    if "id" in out.data:
        return await _run(partial(fetch, out["id"]), fetch, pool)
    return {id: await _run(partial(fetch, id), fetch, pool) for id in out["ids"]}


def patience(plan: LookupPlan, out: Event) -> float:
    """Seconds after which the work of a "work" event is given up."""
    return plan.timeout_s if out["tool"] == RESERVED else plan.tools[out["tool"]].timeout_s


async def better_query(
    rewrite: Rewrite, text: str, seconds: float, pool: Executor | None = None
) -> Query:
    """Ask for a better query; the plain one serves where that fails."""
    try:
        async with asyncio.timeout(seconds):
            found = await _run(lambda: rewrite(text), rewrite, pool)
        return text_query(str(found)) or text_query(text)
    except Exception:
        return text_query(text)


async def _run(call: Callable[[], Any], of: Callable[..., Any], pool: Executor | None) -> Any:
    """Call in the loop where it gives something to wait for, else in a thread."""
    if inspect.iscoroutinefunction(of):
        return await call()
    found = await asyncio.get_running_loop().run_in_executor(pool, call)
    return await found if inspect.isawaitable(found) else found
