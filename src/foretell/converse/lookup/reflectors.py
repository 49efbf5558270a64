"""How earlier results are judged once the question is complete, and what one piece of work is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from foretell.converse.lookup.prefix import Look
from foretell.converse.lookup.query import Query
from foretell.core.errors import ParameterError

Unit = Literal["document", "call"]


@dataclass(slots=True)
class Call:
    """One query that was sent."""

    number: int
    time: float
    key: str
    text: str
    words: tuple[str, ...]
    query: Query
    final: bool
    look: Look | None = None  # what was seen when it was sent
    worth: tuple[str, ...] | None = None  # the documents to fetch for it, where not all
    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    answered: bool = False  # whether its query was generated and its ids are known
    cancelled: bool = False


class Reflector(Protocol):
    """Which call's results are the evidence.

    ``unit`` says what is fetched: single documents, shared by all calls, or whole calls. ``single``
    says that a new call cancels the one before; ``final_query`` that the complete question is
    always looked up too.
    """

    unit: ClassVar[Unit]
    single: ClassVar[bool]
    final_query: ClassVar[bool]

    def chosen(self, calls: Sequence[Call], final: Call) -> Call:
        """The call to answer from, given all before and the final one."""
        ...

    def sufficient(self, look: Look) -> bool:
        """Whether the evidence may be frozen now, before the question is complete."""
        ...


class _Never:
    def sufficient(self, look: Look) -> bool:
        """Never before the end."""
        return False


@dataclass(frozen=True, slots=True)
class DocumentCache(_Never):
    """Waits only for documents of the final query that are not fetched yet.

    The evidence is that of asking after the end, on every question, by construction: documents of
    earlier queries only save time.

    Parameters
    ----------
    ttl_s, size
        See `DocumentStore`.
    """

    ttl_s: float = 600.0
    size: int = 1000
    unit: ClassVar[Unit] = "document"
    single: ClassVar[bool] = False
    final_query: ClassVar[bool] = True

    def chosen(self, calls: Sequence[Call], final: Call) -> Call:
        """The final call."""
        return final


@dataclass(frozen=True, slots=True)
class TopKEqual(_Never):
    """Uses the first call with the same first k documents as the final query, else waits for that.

    Parameters
    ----------
    k : int
    """

    k: int = 5
    unit: ClassVar[Unit] = "call"
    single: ClassVar[bool] = False
    final_query: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ParameterError(f"k={self.k!r}; needed is a whole number of at least 1.")

    def chosen(self, calls: Sequence[Call], final: Call) -> Call:
        """The first call whose documents are those of the final one."""
        wanted = set(final.ids[: self.k])
        same = (
            c for c in calls if c.answered and not c.cancelled and set(c.ids[: self.k]) == wanted
        )
        return next(same, final)


@dataclass(frozen=True, slots=True)
class LastResult(_Never):
    """Answers from the last call that the trigger made, without looking up the whole question.

    What the trigger missed is missing in the evidence: there is no guarantee.
    """

    unit: ClassVar[Unit] = "call"
    single: ClassVar[bool] = True
    final_query: ClassVar[bool] = False

    def chosen(self, calls: Sequence[Call], final: Call) -> Call:
        """The last call."""
        return final
