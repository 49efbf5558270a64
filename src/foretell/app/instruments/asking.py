"""What a question asks of an instrument, and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from foretell.converse.instrument import Argument, Finding


@dataclass(frozen=True, slots=True)
class Request:
    """What a question asks of an instrument.

    Parameters
    ----------
    arguments : mapping
        By the names of the instrument.
    asks : str
        A question back to the user, where an argument is missing or ambiguous; else empty.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    asks: str = ""


class Asked(Protocol):
    """An instrument that reads its arguments from a question and puts its finding into words."""

    name: str
    speculative: bool
    timeout_s: float

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """What it needs."""
        ...

    def read(self, text: str) -> Request | None:
        """What a question asks of it; None where it does not concern it."""
        ...

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The finding."""
        ...

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The finding as a sentence or two."""
        ...
