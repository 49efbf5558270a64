"""When to send a query while somebody is still speaking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from foretell.converse.lookup.prefix import Look
from foretell.converse.lookup.reflectors import Call
from foretell.core.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Moment:
    """What a trigger may look at: the present look, the ones before, and what was sent."""

    look: Look
    before: Look | None
    sent: Call | None
    known: frozenset[str]  # ids that are fetched or on their way
    since_sent: float  # seconds; since the turn began where nothing was sent


class Trigger(Protocol):
    """Decides at every partial; ``at_pause`` says whether a pause sends what was heard."""

    at_pause: ClassVar[bool]

    def fire(self, moment: Moment) -> bool:
        """Whether to send the present query now."""
        ...

    def worth(self, moment: Moment) -> tuple[str, ...]:
        """Which of its documents to fetch ahead, the most promising first."""
        ...


class FetchesAll:
    """All documents of the query, in their order."""

    def worth(self, moment: Moment) -> tuple[str, ...]:
        """All of them."""
        return moment.look.ids


@dataclass(frozen=True, slots=True)
class AfterTurn(FetchesAll):
    """Only when the turn is over: the sequential way, to compare with."""

    at_pause: ClassVar[bool] = False

    def fire(self, moment: Moment) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class AtPause(FetchesAll):
    """When the speaker falls silent, before it is certain that the turn is over: "at VAD"."""

    at_pause: ClassVar[bool] = True

    def fire(self, moment: Moment) -> bool:
        """Never while words come."""
        return False


@dataclass(frozen=True, slots=True)
class FixedInterval(FetchesAll):
    """Every so many seconds, if the query has changed.

    Parameters
    ----------
    seconds : float
    """

    seconds: float = 1.0
    at_pause: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ParameterError(f"seconds={self.seconds!r}; needed is a positive number.")

    def fire(self, moment: Moment) -> bool:
        """When the interval is over."""
        return moment.since_sent >= self.seconds - 1e-9


@dataclass(frozen=True, slots=True)
class EveryChange(FetchesAll):
    """Whenever the documents found are others than those on their way."""

    at_pause: ClassVar[bool] = True

    def fire(self, moment: Moment) -> bool:
        """When a document is new."""
        return bool(set(moment.look.ids) - moment.known)


class CostAwareTrigger:
    """When the seconds that fetching now is likely to save are worth what it costs.

    A document that is not on its way yet is worth fetching if the probability that it stays in the
    evidence, times its work, exceeds the cost of a document. A call is worth sending if that of all
    such documents together exceeds the cost of a call. Without a fitted model the probability is a
    rule of thumb (`RankDiscount`); `LearnedStays` learns it from past questions.

    Parameters
    ----------
    document_s : float
        Seconds of work for a document.
    call_cost_s, document_cost_s : float
        What a call and a document have to save, in seconds.
    stays : callable, optional
        Probabilities that the documents at some ranks stay, from the moment and the ranks.
    """

    at_pause: ClassVar[bool] = True

    def __init__(
        self,
        *,
        document_s: float = 0.4,
        call_cost_s: float = 0.1,
        document_cost_s: float = 0.1,
        stays: StaysModel | None = None,
    ) -> None:
        costs = {"call_cost_s": call_cost_s, "document_cost_s": document_cost_s}
        for name, value in {"document_s": document_s, **costs}.items():
            if not value >= 0:
                raise ParameterError(f"{name}={value!r}; needed is a number of at least 0.")
        self.document_s, self.stays = document_s, stays or RankDiscount()
        self.call_cost_s, self.document_cost_s = call_cost_s, document_cost_s

    def fire(self, moment: Moment) -> bool:
        """When the expected saving exceeds the cost of a call."""
        return sum(saved for saved, _ in self.savings(moment)) > self.call_cost_s

    def worth(self, moment: Moment) -> tuple[str, ...]:
        """The documents that are worth their cost, the one that saves most first."""
        return tuple(id for _, id in self.savings(moment))

    def savings(self, moment: Moment) -> list[tuple[float, str]]:
        """Expected seconds saved by each document that is worth its cost."""
        near = moment.look.near
        new = [rank for rank, one in enumerate(near) if one.id not in moment.known]
        chances = self.stays(moment, new) if new else []
        saved = [(p * self.document_s, near[rank].id) for p, rank in zip(chances, new, strict=True)]
        return sorted((s for s in saved if s[0] > self.document_cost_s), reverse=True)


class StaysModel(Protocol):
    """Probabilities that the documents at some ranks stay in the evidence until the end."""

    def __call__(self, moment: Moment, ranks: Sequence[int]) -> list[float]:
        """One probability for each rank, counted from 0."""
        ...


@dataclass(frozen=True, slots=True)
class RankDiscount:
    """Nothing learnt: documents that were there before stay, the others by rank."""

    def __call__(self, moment: Moment, ranks: Sequence[int]) -> list[float]:
        """One probability for each rank."""
        k, near = len(moment.look.ids), moment.look.near
        found = [0.7 if near[rank].streak > 1 else 0.45 / (1 + 0.3 * rank) for rank in ranks]
        return [p if rank < k else 0.2 for p, rank in zip(found, ranks, strict=True)]
