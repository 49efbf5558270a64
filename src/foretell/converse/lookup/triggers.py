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


@dataclass(frozen=True, slots=True)
class AfterTurn:
    """Only when the turn is over: the sequential way, to compare with."""

    at_pause: ClassVar[bool] = False

    def fire(self, moment: Moment) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class AtPause:
    """When the speaker falls silent, before it is certain that the turn is over: "at VAD"."""

    at_pause: ClassVar[bool] = True

    def fire(self, moment: Moment) -> bool:
        """Never while words come."""
        return False


@dataclass(frozen=True, slots=True)
class FixedInterval:
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
class EveryChange:
    """Whenever the documents found are others than those on their way."""

    at_pause: ClassVar[bool] = True

    def fire(self, moment: Moment) -> bool:
        """When a document is new."""
        return bool(set(moment.look.ids) - moment.known)


class CostAwareTrigger:
    """When the seconds that fetching now is likely to save are worth what the call costs.

    The expected saving is the sum, over the documents that are not on their way yet, of the
    probability that the document stays in the evidence times the work of one document. Without a
    fitted model that probability is the share of the last evidence that is still there, discounted
    by rank; `fit_cost_trigger` learns it from past questions.

    Parameters
    ----------
    document_s : float
        Seconds of work for a document.
    cost_s : float
        What a call has to save, in seconds.
    stays : callable, optional
        Probability that the document at a rank stays, from the moment and the rank.
    """

    at_pause: ClassVar[bool] = True

    def __init__(
        self, *, document_s: float = 0.4, cost_s: float = 0.5, stays: StaysModel | None = None
    ) -> None:
        for name, value in (("document_s", document_s), ("cost_s", cost_s)):
            if not value >= 0:
                raise ParameterError(f"{name}={value!r}; needed is a number of at least 0.")
        self.document_s, self.cost_s, self.stays = document_s, cost_s, stays

    def fire(self, moment: Moment) -> bool:
        """When the expected saving exceeds the cost."""
        return self.expected_saving(moment) > self.cost_s

    def expected_saving(self, moment: Moment) -> float:
        """Seconds that sending the present query is expected to save."""
        chances = self.stays or RankDiscount()
        new = [rank for rank, id in enumerate(moment.look.ids) if id not in moment.known]
        return self.document_s * sum(chances(moment, new)) if new else 0.0


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
        before = moment.before.ids if moment.before else ()
        ids = moment.look.ids
        return [0.7 if ids[rank] in before else 0.45 / (1 + 0.3 * rank) for rank in ranks]
