"""Tools that answer a whole query at once, and instruments used as such."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from foretell.converse.instrument import Instrument, missing_arguments
from foretell.converse.lookup.query import text_query
from foretell.core.errors import ParameterError

Cancelled = Callable[[], bool]
RESERVED = "notes"  # the name under which the passages run


def query_key(text: str) -> str | None:
    """The content words in a fixed order; None where there are none."""
    return text_query(text).key or None


@dataclass(frozen=True, slots=True)
class Tool:
    """Something to ask that has no documents to share between queries.

    Parameters
    ----------
    name : str
    fn : callable
        Takes the text so far, and ``cancelled`` if it has a parameter of that name (a function
        that turns true when the answer is no longer wanted). May be a coroutine function. Gives a
        JSON value.
    speculative : bool
        Whether it may be asked before the question is complete: only if it just reads, may be
        repeated, has no side effect and costs nothing.
    timeout_s : float
        After so many seconds the answer goes without it.
    key_fn : callable, optional
        What of a text matters to the tool; the same key is asked once, and None is not asked.
    version : str
        Of what it reads; answers of another version are not used again.

    Examples
    --------
    >>> tool = Tool("length", len, speculative=True)
    >>> tool.key_fn("what is a pump"), tool.key_fn("the pump")
    ('pump', 'pump')
    """

    name: str
    fn: Callable[..., Any]
    speculative: bool = False
    timeout_s: float = 10.0
    key_fn: Callable[[str], str | None] = query_key
    version: str = ""

    def __post_init__(self) -> None:
        if not self.name or "#" in self.name or ":" in self.name or self.name == RESERVED:
            raise ParameterError(
                f"{self.name!r} is no name for a tool. Use a word without '#' and ':' that is not "
                f"{RESERVED!r}."
            )
        if not self.timeout_s > 0:
            raise ParameterError(
                f"timeout_s={self.timeout_s!r} of {self.name!r}; needed is a positive number."
            )

    def call(self, text: str, cancelled: Cancelled) -> Any | Awaitable[Any]:
        """Ask it."""
        if "cancelled" in inspect.signature(self.fn).parameters:
            return self.fn(text, cancelled=cancelled)
        return self.fn(text)


def tool(
    *, name: str | None = None, speculative: bool = False, timeout_s: float = 10.0
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool.

    Examples
    --------
    >>> @tool(speculative=True)
    ... def level(text):
    ...     return 0.8
    >>> level.name, level.speculative
    ('level', True)
    """

    def made(fn: Callable[..., Any]) -> Tool:
        return Tool(name or fn.__name__, fn, speculative=speculative, timeout_s=timeout_s)

    return made


def instrument_tool(
    instrument: Instrument, read: Callable[[str], Mapping[str, Any] | None], *, version: str = ""
) -> Tool:
    """An instrument as a tool.

    Parameters
    ----------
    instrument : Instrument
    read : callable
        The arguments that a text states, or None where the text does not concern the instrument.
        It is not asked while a required argument is missing.
    version : str
        Of the model or data behind it.
    """

    def key(text: str) -> str | None:
        arguments = read(text)
        if arguments is None or missing_arguments(instrument, arguments):
            return None
        return repr(sorted(arguments.items()))

    def ask(text: str, cancelled: Cancelled) -> dict[str, Any]:
        return instrument(read(text) or {}, cancelled=cancelled).to_dict()

    return Tool(
        instrument.name,
        ask,
        speculative=instrument.speculative,
        timeout_s=instrument.timeout_s,
        key_fn=key,
        version=version,
    )


def tool_table(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by name; a ParameterError where two share one."""
    table: dict[str, Tool] = {}
    for one in tools:
        if one.name in table:
            raise ParameterError(
                f"Two tools are named {one.name!r}. Give each a name of its own: Tool(name, ...)."
            )
        table[one.name] = one
    return table
