"""`StreamingLookup`: look things up while the question is still being asked.

Paper: Arora et al., "Stream RAG: Instant and Accurate Spoken Dialogue Systems with Streaming Tool
Usage", arXiv:2510.02044. Idea: queries from partial speech start the slow work early; at the end it
is judged whether what came back is what the complete question would have brought.

Differs from the paper: documents, not whole results, are shared between queries, so that the
evidence is that of asking at the end on every question and only missing documents are waited for;
evidence may be frozen early at a calibrated risk; and everything runs without a language model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from foretell.converse.lookup.live import LiveTurn, Rewrite
from foretell.converse.lookup.prefix import Look, Prefix
from foretell.converse.lookup.query import content_query, text_query
from foretell.converse.lookup.reflectors import DocumentCache, Reflector
from foretell.converse.lookup.retriever import Retriever
from foretell.converse.lookup.simulation import Timing, simulate_question
from foretell.converse.lookup.spoken import SpokenWord, partials, spread_words
from foretell.converse.lookup.store import DocumentStore
from foretell.converse.lookup.tools import Tool, tool_table
from foretell.converse.lookup.trace import Trace
from foretell.converse.lookup.triggers import FixedInterval, Trigger
from foretell.converse.lookup.turn import AHEAD, LookupPlan, LookupTurn
from foretell.converse.lookup.words import split_words
from foretell.core.clock import Clock
from foretell.core.errors import DataError, ParameterError


class StreamingLookup:
    """Looks passages up while a question is being said or typed.

    Parameters
    ----------
    retriever : Retriever
        Finds passages and fetches them; `BM25` is one.
    k : int
        Passages of the evidence.
    query_generator : "content" or callable
        "content" takes the content words of what is stable. A function (it may be a coroutine
        function) gets the text and gives the text to search for, for instance by a language model.
    trigger : Trigger
        `FixedInterval`, `CostAwareTrigger`, `ModelTrigger`, `EveryChange`, `AtPause`, `AfterTurn`.
    reflector : Reflector
        `DocumentCache`, `RiskControlled`, `TopKEqual`, `LastResult`.
    tools : iterable of Tool
        Asked beside the passages.
    max_calls : int
        Queries for one question. One is kept for the complete question and one for a pause before.
    min_interval_s : float
        Between two queries while words come.
    workers : int
        Documents fetched at once.
    timeout_s : float
        After so many seconds the evidence is handed over as it is, and says what is missing.
    block_s : float
        How often a recogniser gives words; used in replays.
    clock : Clock, optional
        Of live turns.

    Examples
    --------
    >>> from foretell.converse.lookup import BM25
    >>> notes = BM25({"radium": "The Curies discovered radium.", "radon": "Radon is a noble gas."})
    >>> lookup = StreamingLookup(notes, k=1)
    >>> trace = lookup.replay("who discovered the element radium", Timing(document_s=1.0))
    >>> trace.ids
    ('radium',)
    >>> round(trace.first_word_s, 2)  # 1.5 s when asked after the turn is over
    0.65
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        k: int = 5,
        query_generator: Literal["content"] | Rewrite = "content",
        trigger: Trigger | None = None,
        reflector: Reflector | None = None,
        tools: Iterable[Tool] = (),
        max_calls: int = 4,
        min_interval_s: float = 0.5,
        workers: int = 2,
        timeout_s: float = 10.0,
        block_s: float = 0.5,
        clock: Clock | None = None,
    ) -> None:
        self.rewrite = _rewrite(query_generator)
        self.block_s, self.clock = block_s, clock
        if not len(retriever):
            raise DataError("The retriever has no passages. Give it at least one.")
        for name, whole in (("k", k), ("max_calls", max_calls), ("workers", workers)):
            if isinstance(whole, bool) or not isinstance(whole, int) or whole < 1:
                raise ParameterError(f"{name}={whole!r}; needed is a whole number of at least 1.")
        if k > len(retriever):
            raise ParameterError(
                f"k={k} passages are asked for and there are {len(retriever)}. Write "
                f"k={len(retriever)} or less."
            )
        for name, seconds, least in (
            ("min_interval_s", min_interval_s, 0.0),
            ("timeout_s", timeout_s, 1e-6),
            ("block_s", block_s, 1e-6),
        ):
            if not (math.isfinite(seconds) and seconds >= least):
                raise ParameterError(f"{name}={seconds!r}; needed is a positive number of seconds.")
        self.plan = LookupPlan(
            retriever=retriever,
            trigger=trigger or FixedInterval(1.0),
            reflector=reflector or DocumentCache(),
            tools=tool_table(tools),
            k=k,
            max_calls=max_calls,
            min_interval_s=min_interval_s,
            workers=workers,
            timeout_s=timeout_s,
            rewrites=self.rewrite is not None,
        )
        self.store = self.new_store()

    def new_store(self) -> DocumentStore:
        """An empty store of fetched documents; one conversation should have one."""
        reflector = self.plan.reflector
        return DocumentStore(
            ttl_s=getattr(reflector, "ttl_s", 600.0), size=getattr(reflector, "size", 1000)
        )

    def machine(self, *, store: DocumentStore | None = None, began: float = 0.0) -> LookupTurn:
        """A turn without clock and threads: events in, events out."""
        return LookupTurn(self.plan, self.store if store is None else store, began=began)

    def turn(self, *, store: DocumentStore | None = None) -> LiveTurn:
        """A live turn; needs a running asyncio loop."""
        return LiveTurn(
            self.plan,
            self.store if store is None else store,
            rewrite=self.rewrite,
            clock=self.clock,
        )

    def replay(
        self,
        question: str | Sequence[SpokenWord],
        timing: Timing | None = None,
        *,
        words_per_second: float = 2.7,
        final_text: str | None = None,
        store: DocumentStore | None = None,
    ) -> Trace:
        """What happens when a question is said, in virtual time.

        Parameters
        ----------
        question : str or sequence of SpokenWord
            A text is spread evenly.
        timing : Timing
            How long things take.
        words_per_second : float
            For a text.
        final_text : str, optional
            What the recogniser makes of it in the end, where that is something else.
        store : DocumentStore, optional
            What is fetched already; nothing by default.
        """
        words = question
        if isinstance(words, str):
            words = spread_words(words, words_per_second=words_per_second)
        return simulate_question(
            self.plan,
            words,
            timing or Timing(),
            block_s=self.block_s,
            store=store or self.new_store(),
            final_text=final_text,
        )

    def looks(
        self, question: str | Sequence[SpokenWord], *, words_per_second: float = 2.7
    ) -> list[Look]:
        """The looks at the index that a turn has while a question is said: what models learn from.

        The last one is that at the pause, with the complete question.
        """
        words = question
        if isinstance(words, str):
            words = spread_words(words, words_per_second=words_per_second)
        retriever = self.plan.retriever
        prefix = Prefix(self.plan.k, getattr(retriever, "idf", _no_idf))
        k = min(AHEAD * self.plan.k, len(retriever))
        looks = []
        for event in partials(words, block_s=self.block_s):
            now = tuple(split_words(event["text"]))
            query = content_query(now)
            if query:
                hits = retriever.search(query, k)
                looks.append(prefix.see(event.time, now, len(now), query, hits))
        full = tuple(split_words(" ".join(word.text for word in words)))
        query = content_query(full)
        if query:
            hits = retriever.search(query, k)
            looks.append(prefix.see(words[-1].end, full, len(full), query, hits))
        return looks

    def final_ids(self, text: str) -> tuple[str, ...]:
        """The passages found for a complete question: what asking after the turn would give."""
        query = text_query(text)
        return tuple(id for id, _ in self.plan.retriever.search(query, self.plan.k))


def _rewrite(generator: object) -> Rewrite | None:
    if generator == "content":
        return None
    if not callable(generator):
        raise ParameterError(
            f"query_generator={generator!r} is neither 'content' nor a function from text to text."
        )
    return generator


def _no_idf(term: str) -> float:
    return 0.0
