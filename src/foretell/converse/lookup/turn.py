"""One question, from its first word to its evidence: what is looked up, fetched, dropped and kept.

A machine without clocks, threads or sockets. Events come in, events go out; the live driver, the
simulation and the tests run this same code.

    in   partial {text, stable}   pause {}   commit {text}   cancel {reason}   language {language}
         query {call, text, weights}   (only where queries are rewritten outside)
         work_done {job, value}   work_failed {job, reason}   timer {name}
    out  search {key, k, hits}   fire {call, key, text, final}   work {job, tool, ...}
         drop {jobs}   cancel_work {job}   wait {name, at}
         early_commit {ids, span}   recant {span}   evidence {...}   cancelled {reason}

Jobs are named "notes:ID" for one document, "notes#3" for the whole third call, "tool#3" for a tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretell.converse.lookup.prefix import Look, Prefix
from foretell.converse.lookup.query import Query, agreed, content_query
from foretell.converse.lookup.reflectors import Call, Reflector
from foretell.converse.lookup.repair import contradicted, has_cue
from foretell.converse.lookup.retriever import Hits, Retriever
from foretell.converse.lookup.store import DocumentStore
from foretell.converse.lookup.tools import RESERVED, Tool
from foretell.converse.lookup.triggers import Moment, Trigger
from foretell.converse.lookup.words import split_words
from foretell.converse.lookup.work import WorkQueue
from foretell.core.errors import DataError, ParameterError
from foretell.core.timeline import Event

INPUTS = frozenset("partial pause commit cancel language query work_done work_failed timer".split())
AHEAD = 2  # times k hits are looked at while words come
_FINAL, _PAUSE = 1, 1  # calls kept free for the complete question, and for a pause before it


@dataclass(frozen=True, kw_only=True)
class LookupPlan:
    """What all turns of a lookup share; `StreamingLookup` makes and checks it."""

    retriever: Retriever
    trigger: Trigger
    reflector: Reflector
    tools: Mapping[str, Tool] = field(default_factory=dict)
    k: int = 5
    max_calls: int = 4
    min_interval_s: float = 0.5
    workers: int = 2
    timeout_s: float = 10.0
    rewrites: bool = False
    record_searches: bool = True


@dataclass(slots=True)
class _Asked:
    """What a tool was last asked in this turn."""

    key: str
    job: str


class LookupTurn:
    """Follows one question.

    Parameters
    ----------
    plan : LookupPlan
    store : DocumentStore
        Shared by the turns of a conversation.
    began : float
        Seconds at which the turn begins.
    """

    def __init__(self, plan: LookupPlan, store: DocumentStore, *, began: float = 0.0) -> None:
        self.plan, self.store = plan, store
        self.time = self.began = began
        self.text, self.stable = "", 0
        self.words: tuple[str, ...] = ()
        self.prefix = Prefix(plan.k, getattr(plan.retriever, "idf", _no_idf))
        self.calls: list[Call] = []
        self.early: Look | None = None
        self.evidence: Event | None = None
        self.documents: dict[str, Any] = {}  # by id, as fetched
        self.findings: dict[str, Any] = {}  # by tool
        self.begun: list[str] = []  # every job that was started
        self.over = self.cancelled = False
        self._early_barred = False
        self._language: str | None = None
        self._final: Call | None = None
        self._chosen: Call | None = None
        self._queue = WorkQueue(plan.workers)
        self._done: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._keys: dict[str, tuple[str, str, str]] = {}  # of jobs of speculative tools
        self._n_asked = 0
        self._asked: dict[str, _Asked] = {}
        self._required: tuple[str, ...] = ()
        self._committed_at = began
        speculative = (plan.retriever.speculative, *(t.speculative for t in plan.tools.values()))
        self._speculates = any(speculative)
        self._version = str(getattr(plan.retriever, "version", ""))
        self._seen: set[str] = set()
        self._out: list[Event] = []

    def on(self, event: Event) -> list[Event]:
        """What follows from an event.

        Raises
        ------
        DataError
            For an event that is earlier than the last one, of an unknown kind, or out of place: a
            partial or a second commit after the turn is over.
        """
        if event.time < self.time:
            raise DataError(
                f"{event.kind} has the time {event.time:.6f} s, and the turn is at "
                f"{self.time:.6f} s. Stamp all events with one clock."
            )
        if event.kind not in INPUTS:
            raise DataError(
                f"A lookup knows no event {event.kind!r}; it knows {', '.join(sorted(INPUTS))}."
            )
        if self.over and event.kind in ("partial", "pause", "commit"):
            raise DataError(
                f"{event.kind} at {event.time:.3f} s comes after the turn was over. Begin a new "
                "turn for the next question."
            )
        self.time, self._out = event.time, []
        getattr(self, f"_on_{event.kind}")(event)
        return self._out

    # Words ---------------------------------------------------------------------------------------

    def _on_partial(self, event: Event) -> None:
        self._hear(event["text"], event.get("stable"))
        look = self._look(content_query(self.words, self.stable))
        self._recant_if_contradicted()
        if look is None or self.early or self._freeze_if_sufficient(look):
            return
        moment = self._moment(look)
        free = len(self.calls) < self.plan.max_calls - _FINAL - _PAUSE
        rested = not self.calls or moment.since_sent >= self.plan.min_interval_s - 1e-9
        if free and rested and self._is_new(look.query) and self.plan.trigger.fire(moment):
            self._fire(look.query, final=False, worth=self.plan.trigger.worth(moment))

    def _on_pause(self, event: Event) -> None:
        self._hear(event.get("text", self.text), None)
        self.stable = len(self.words)
        look = self._look(content_query(self.words))
        self._recant_if_contradicted()
        if look is None or self.early or self._freeze_if_sufficient(look):
            return
        if not self.plan.trigger.at_pause:
            return
        if not self._is_new(look.query):
            self._fetch_rest(self.calls[-1])
        elif len(self.calls) < self.plan.max_calls - _FINAL:
            self._fire(look.query, final=False)

    def _on_language(self, event: Event) -> None:
        changed = self._language is not None and event["language"] != self._language
        self._language = event["language"]
        if changed:
            self._early_barred = True
            self._recant()

    def _hear(self, text: str, stable: int | None) -> None:
        words = tuple(split_words(text))
        sure = agreed(self.words, words) if stable is None else stable
        if not 0 <= sure <= len(words):
            raise DataError(f"stable={stable!r} of {len(words)} words; needed is a number of them.")
        self.text, self.words, self.stable = text, words, sure

    def _look(self, query: Query) -> Look | None:
        """Look into the index, which is cheap; None before there is anything to look for."""
        if not query or not self._speculates:
            return None
        hits = self._search(query, AHEAD * self.plan.k) if self.plan.retriever.speculative else []
        return self.prefix.see(self.time, self.words, self.stable, query, hits)

    def _search(self, query: Query, k: int) -> Hits:
        retriever = self.plan.retriever
        k = min(k, len(retriever))
        hits = retriever.search(query, k)
        name = f"{k} {query.key}"
        if self.plan.record_searches and name not in self._seen:
            self._seen.add(name)
            idf = {name: self.prefix.idf(name) for name, _ in query.weights}
            self._emit("search", key=query.key, k=k, of=len(retriever), hits=hits, idf=idf)
        return hits

    def _moment(self, look: Look) -> Moment:
        sent = self.calls[-1] if self.calls else None
        since = self.time - (sent.time if sent else self.began)
        known = {near.id for near in look.near if self._has(f"{RESERVED}:{near.id}")}
        return Moment(look, self.prefix.before, sent, frozenset(known), since)

    def _is_new(self, query: Query) -> bool:
        return not self.calls or self.calls[-1].key != query.key

    # Freezing the evidence early -----------------------------------------------------------------

    def _freeze_if_sufficient(self, look: Look) -> bool:
        """Freeze the evidence where the reflector finds it sufficient and nothing is against it."""
        barred = self._early_barred or not look.ids or has_cue(self.words)
        if barred or not self.plan.reflector.sufficient(look):
            return False
        new = self._is_new(look.query)
        if new and len(self.calls) >= self.plan.max_calls - _FINAL:
            return False
        self.early = look
        if new:
            self._fire(look.query, final=False)
        else:
            self._fetch_rest(self.calls[-1])
        self._drop(self._queue.keep_only({f"{RESERVED}:{id}" for id in look.ids}))
        self._emit("early_commit", ids=look.ids, span=" ".join(look.words))
        return True

    def _recant_if_contradicted(self) -> None:
        if self.early and contradicted(self.early.words, self.words):
            self._early_barred = True
            self._recant()

    def _recant(self) -> None:
        if self.early:
            self._emit("recant", span=" ".join(self.early.words))
            self.early = None

    # Calls ---------------------------------------------------------------------------------------

    def _fire(self, query: Query, *, final: bool, worth: tuple[str, ...] | None = None) -> Call:
        number = len(self.calls) + 1
        look = None if final else self.prefix.last
        call = Call(number, self.time, query.key, self.text, self.words, query, final, look, worth)
        self.calls.append(call)
        self._emit("fire", call=number, key=query.key, text=self.text, final=final)
        if not final:
            self._ask_tools(final=False)
        if not self.plan.rewrites:
            self._answer_call(call, query)
        return call

    def _on_query(self, event: Event) -> None:
        number = event["call"]
        if not 1 <= number <= len(self.calls):
            raise DataError(f"There is no call {number!r}; {len(self.calls)} were made.")
        call = self.calls[number - 1]
        if self.cancelled or self.evidence or call.answered or call.cancelled:
            return
        weights = tuple((str(name), float(weight)) for name, weight in event["weights"])
        self._answer_call(call, Query(event["text"], weights))

    def _answer_call(self, call: Call, query: Query) -> None:
        """The query of a call is known: find its documents and begin to fetch them."""
        call.query, call.answered = query, True
        if call.look is not None and call.look.query.key == query.key:
            call.ids, call.scores = call.look.ids, call.look.scores
        elif self.plan.retriever.speculative or self.over:
            hits = self._search(query, self.plan.k)
            call.ids = tuple(id for id, _ in hits)
            call.scores = tuple(score for _, score in hits)
        newest = not any(c.answered for c in self.calls[call.number :])
        if newest and (call.final or call is self._final or not self.over):
            self._fetch(call)
        if call is self._final:
            self._choose()

    def _fetch(self, call: Call) -> None:
        if self.plan.reflector.unit == "document":
            jobs = [f"{RESERVED}:{id}" for id in call.ids]
            frozen = [f"{RESERVED}:{id}" for id in self.early.ids] if self.early else []
            if call.worth is not None and call.look and call.look.query.key == call.query.key:
                jobs = [f"{RESERVED}:{id}" for id in call.worth[: self._budget()]]
            self._drop(self._queue.keep_only({*jobs, *frozen}))
            self._queue.ask([job for job in jobs if not self._has(job)])
            self._pump()
        elif call.ids:
            if self.plan.reflector.single:
                self._cancel_calls(keep=call.number)
            self._begin(f"{RESERVED}#{call.number}", call=call.number, ids=call.ids)

    def _fetch_rest(self, call: Call) -> None:
        """Fetch what was not worth it while words came: the call is likely to be the last."""
        if call.worth is not None:
            call.worth = None
            if call.answered:
                self._fetch(call)

    def _budget(self) -> int:
        """Documents that may still be begun: max_calls * k in all, k of them for the end."""
        begun = sum(":" in job for job in self.begun)
        return max((self.plan.max_calls - _FINAL) * self.plan.k - begun, 0)

    def _cancel_calls(self, keep: int) -> None:
        for job in list(self._queue.running):
            name, _, number = job.partition("#")
            if name == RESERVED and number and int(number) != keep:
                self._cancel_job(job)
                self.calls[int(number) - 1].cancelled = True

    def _cancel_job(self, job: str) -> None:
        self._queue.finish(job)
        self._emit("cancel_work", job=job)

    # Tools ---------------------------------------------------------------------------------------

    def ask(self, name: str, text: str) -> list[Event]:
        """Ask one tool now, as an application may wish to.

        Raises
        ------
        ParameterError
            For an unknown tool, or before the turn is over for one that is not speculative.
        """
        if name not in self.plan.tools:
            raise ParameterError(
                f"There is no tool {name!r}; there are {', '.join(self.plan.tools) or 'none'}."
            )
        self._out = []
        self._ask(self.plan.tools[name], text)
        return self._out

    def _ask_tools(self, *, final: bool) -> None:
        for tool in self.plan.tools.values():
            if tool.speculative or final:
                self._ask(tool, self.text)

    def _ask(self, tool: Tool, text: str) -> None:
        if not (self.over or tool.speculative):
            raise ParameterError(
                f"{tool.name!r} is not declared speculative, so it is not used before the turn is "
                "over. If it only reads, costs nothing and may be repeated, say "
                "Tool(..., speculative=True)."
            )
        key = tool.key_fn(text)
        asked = self._asked.get(tool.name)
        if asked and asked.key == key and asked.job not in self._failed:
            return
        if asked and asked.job in self._queue.running:
            self._cancel_job(asked.job)
        if key is None:
            self._asked.pop(tool.name, None)
            return
        self._n_asked += 1
        job = f"{tool.name}#{self._n_asked}"
        self._asked[tool.name] = _Asked(key, job)
        if tool.speculative:
            self._keys[job] = (tool.name, key, tool.version)
        kept = self.store.get((tool.name, key, tool.version), self.time)
        if kept is not None:
            self._done[job] = kept
            return
        self._begin(job, tool=tool.name, text=text, key=key)

    # Work ----------------------------------------------------------------------------------------

    def _has(self, job: str) -> bool:
        """Whether a document is fetched or being fetched."""
        if job in self._done or job in self._queue.running:
            return True
        kept = self.store.get((RESERVED, job.partition(":")[2], self._version), self.time)
        if kept is not None:
            self._done[job] = kept
        return kept is not None

    def _pump(self) -> None:
        for job in self._queue.start():
            self.begun.append(job)
            self._emit("work", job=job, tool=RESERVED, id=job.partition(":")[2])

    def _begin(self, job: str, **what: Any) -> None:
        self._queue.start_now(job)
        self.begun.append(job)
        self._emit("work", **{"job": job, "tool": RESERVED, **what})

    def _drop(self, jobs: Sequence[str]) -> None:
        if jobs:
            self._emit("drop", jobs=jobs)

    def _on_work_done(self, event: Event) -> None:
        job, value = event["job"], event.get("value")
        wanted = self._queue.finish(job)
        name, _, id = job.partition(":")
        if name == RESERVED and id:  # late or not, a fetched document is kept
            self.store.put((RESERVED, id, self._version), value, self.time)
        if job in self._keys:
            self.store.put(self._keys[job], value, self.time)
        if wanted or (name == RESERVED and id):
            self._done[job] = value
            self._failed.pop(job, None)
        self._go_on()

    def _on_work_failed(self, event: Event) -> None:
        job = event["job"]
        if self._queue.finish(job):
            self._failed[job] = str(event.get("reason", "failed"))
        self._go_on()

    def _go_on(self) -> None:
        if not self.cancelled and not self.evidence:
            self._pump()
            self._settle()

    # The end -------------------------------------------------------------------------------------

    def _on_commit(self, event: Event) -> None:
        self._hear(event.get("text", self.text), None)
        self.stable = len(self.words)
        self._recant_if_contradicted()
        self.over, self._committed_at = True, self.time
        self._emit("wait", name="deadline", at=self.time + self.plan.timeout_s)
        self._ask_tools(final=True)
        query = content_query(self.words)
        if self.early:
            frozen = self.early
            self._final = next(c for c in reversed(self.calls) if c.key == frozen.query.key)
        elif not self.plan.reflector.final_query and self.calls:
            self._final = self.calls[-1]
        elif query:
            sent = (c for c in reversed(self.calls) if c.key == query.key and not c.cancelled)
            usable = sent if self.plan.retriever.speculative else iter(())
            self._final = next(usable, None)
            self._final = self._final or self._fire(query, final=True)
        self._choose()

    def _choose(self) -> None:
        """The complete question was looked up: what is needed of the work, begun or not?

        What failed while words still came is tried once more.
        """
        if self._final is not None and not self._final.answered:
            return
        if self._final is not None:
            self._chosen = self._final
            if not self.early:
                self._chosen = self.plan.reflector.chosen(self.calls, self._final)
            if self.plan.reflector.unit == "document":
                self._required = tuple(f"{RESERVED}:{id}" for id in self._chosen.ids)
                self._drop(self._queue.keep_only(self._required))
                self._queue.ask([job for job in self._required if not self._has(job)])
            elif self._chosen.ids:
                job = f"{RESERVED}#{self._chosen.number}"
                self._required = (job,)
                self._cancel_calls(keep=self._chosen.number)
                if job not in self._done and job not in self._queue.running:
                    self._begin(job, call=self._chosen.number, ids=self._chosen.ids)
        for job in self._required:
            self._failed.pop(job, None)
        self._pump()
        self._settle()

    def _settle(self) -> None:
        """Hand over the evidence as soon as nothing that is needed is missing."""
        if not self.over or self.evidence or (self._final and not self._final.answered):
            return
        needed = [*self._required, *(asked.job for asked in self._asked.values())]
        if all(job in self._done or job in self._failed for job in needed):
            self._hand_over(())

    def _on_timer(self, event: Event) -> None:
        if event["name"] == "deadline" and self.over and not self.evidence and not self.cancelled:
            self._hand_over(("deadline",))

    def _hand_over(self, flags: tuple[str, ...]) -> None:
        chosen, final = self._chosen, self._final
        ids = chosen.ids if chosen else ()
        if final and set(final.ids) == set(ids):
            ids = final.ids  # the same documents, best first for the complete question
        whole = f"{RESERVED}#{chosen.number}" if chosen else ""
        unit = self.plan.reflector.unit
        jobs = [f"{RESERVED}:{id}" if unit == "document" else whole for id in ids]
        there = [id for id, job in zip(ids, jobs, strict=True) if job in self._done]
        for id, job in zip(ids, jobs, strict=True):
            if job in self._done:
                value = self._done[job]
                self.documents[id] = value if unit == "document" else _part(value, id)
        for name, asked in self._asked.items():
            if asked.job in self._done:
                self.findings[name] = self._done[asked.job]
        failed = {job: self._failed[job] for job in dict.fromkeys(jobs) if job in self._failed}
        silent = {
            name: self._failed.get(asked.job, "no answer yet")
            for name, asked in self._asked.items()
            if asked.job not in self._done
        }
        self._drop(self._queue.keep_only(()))
        used = set(self._required) | {asked.job for asked in self._asked.values()}
        self.evidence = self._emit(
            "evidence",
            ids=there,
            missing=[id for id in ids if id not in there],
            call=chosen.number if chosen else None,
            early=self.early is not None,
            span=" ".join(chosen.words) if chosen else "",
            waited=self.time - self._committed_at,
            flags=[*flags, *(f"{name}: {why}" for name, why in (failed | silent).items())],
            findings=self.findings,
            calls=len(self.calls),
            work=len(self.begun),
            wasted=sum(job not in used for job in self.begun),
        )

    def _on_cancel(self, event: Event) -> None:
        if self.cancelled:
            return
        self.over = self.cancelled = True
        self._drop(self._queue.keep_only(()))
        for job in list(self._queue.running):
            self._cancel_job(job)
        done = self.evidence is not None
        wasted = 0 if done else len(self.begun)
        self._emit("cancelled", reason=event.get("reason", "cancelled"), wasted=wasted)

    def _emit(self, kind: str, **data: Any) -> Event:
        event = Event(kind, self.time, data)
        self._out.append(event)
        return event


def _part(value: Any, id: str) -> Any:
    """One document of the result of a whole call."""
    return value.get(id) if isinstance(value, Mapping) else value


def _no_idf(term: str) -> float:
    return 0.0
