"""What a search has to offer, and one that repeats what was found before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from foretell.converse.lookup.query import Query
from foretell.core.errors import DataError
from foretell.core.timeline import Event

Hits = list[tuple[str, float]]


@runtime_checkable
class Retriever(Protocol):
    """Finds passages fast, and fetches one slowly.

    ``search`` is an index lookup: in memory, deterministic, ties broken in a fixed order. The work
    worth hiding is ``fetch``: reading, cutting, reranking, embedding. Set ``speculative = True``
    where both only read and cost nothing; otherwise nothing is asked before the turn is over.
    Two further attributes are used where present: ``idf(term)``, and ``version``, which names the
    content of the index.
    """

    speculative: bool

    def search(self, query: Query, k: int) -> Hits:
        """Ids and scores of at most k passages, best first."""
        ...

    def fetch(self, id: str) -> str:
        """The passage, ready to be used as evidence."""
        ...

    def __len__(self) -> int:
        """How many passages there are."""
        ...


class RecordedRetriever:
    """Answers from a recorded timeline, so that it can be replayed without the index.

    Parameters
    ----------
    timeline : iterable of Event
        With the "search" events of a lookup.

    Examples
    --------
    >>> from foretell.converse.lookup import text_query
    >>> found = Event("search", 0.0, {"key": "radium", "k": 1, "of": 9, "hits": [["p7", 2.5]]})
    >>> RecordedRetriever([found]).search(text_query("radium"), 1)
    [('p7', 2.5)]
    """

    speculative = True

    def __init__(self, timeline: Iterable[Event]) -> None:
        self._found: dict[tuple[str, int], Hits] = {}
        self._idf: dict[str, float] = {}
        self._texts: dict[str, str] = {}
        self._size = 0
        for event in timeline:
            if event.kind == "search":
                hits = [(str(id), float(score)) for id, score in event["hits"]]
                self._found[event["key"], event["k"]] = hits
                self._size = event["of"]
                idf: Mapping[str, float] = event.get("idf", {})
                self._idf.update(idf)
            elif event.kind == "work_done" and isinstance(event.get("value"), str):
                self._texts[event["job"].partition(":")[2]] = event["value"]

    def search(self, query: Query, k: int) -> Hits:
        """What was found then; a DataError where it was not looked for."""
        try:
            return self._found[query.key, k]
        except KeyError:
            raise DataError(
                f"The recording has no search for {query.key!r} with k={k}, so it cannot be "
                "replayed here. Replay with the settings that it was made with."
            ) from None

    def fetch(self, id: str) -> str:
        """The text that was fetched then."""
        if id not in self._texts:
            raise DataError(f"The recording never fetched {id!r}.")
        return self._texts[id]

    def idf(self, term: str) -> float:
        """The weight that a term had then."""
        return self._idf.get(term, 0.0)

    def __len__(self) -> int:
        return self._size
