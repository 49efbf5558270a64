"""What a conversation may ask: an instrument with a name, typed arguments and a sourced finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from foretell.core.errors import DataError, ParameterError

ArgumentKind = Literal["number", "whole", "text", "choice"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What an instrument found.

    Parameters
    ----------
    value : JSON value
        The answer itself.
    unit : str
        Of the value; empty where it has none or none is known.
    interval : pair of float or None
        Where the value lies with the confidence that the source states.
    source : str
        What it rests on: a file with lines, or a model with its version.
    seconds : float
        How long it took.

    Examples
    --------
    >>> Finding(20.2, unit="ms", interval=(19.8, 20.6), source="pump/model.json", seconds=0.1)
    Finding(20.2 ms in [19.8, 20.6], from pump/model.json)
    """

    value: Any
    unit: str = ""
    interval: tuple[float, float] | None = None
    source: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        interval = None if self.interval is None else list(self.interval)
        return {
            "value": self.value,
            "unit": self.unit,
            "interval": interval,
            "source": self.source,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        low_high = "" if self.interval is None else " in [{:.6g}, {:.6g}]".format(*self.interval)
        unit = f" {self.unit}" if self.unit else ""
        return f"Finding({self.value!r}{unit}{low_high}, from {self.source or 'no source'})"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an instrument.

    Parameters
    ----------
    kind : {"number", "whole", "text", "choice"}
    unit : str
        In which the instrument wants it.
    required : bool
        Whether it has to be asked back for when the question does not say it.
    choices : tuple of str
        For "choice".
    lowest, highest : float
        Ends of the allowed range, both included.
    """

    kind: ArgumentKind
    unit: str = ""
    required: bool = True
    choices: tuple[str, ...] = ()
    lowest: float = -math.inf
    highest: float = math.inf


@runtime_checkable
class Instrument(Protocol):
    """Something that answers one kind of question.

    It is pure: the same arguments give the same finding, and nothing else happens. Only one that
    is declared ``speculative`` (read-only, repeatable, without charge or side effect) is ever
    asked before the question is complete.
    """

    name: str
    arguments: Mapping[str, Argument]
    speculative: bool
    timeout_s: float

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The finding. Looks at ``cancelled()`` in long work and may stop when it is true."""
        ...


def missing_arguments(instrument: Instrument, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the required arguments that are not there, in the order of the schema.

    Raises
    ------
    DataError
        For an argument that the instrument does not have, or a value that it cannot take.
    """
    for name, value in given.items():
        if name not in instrument.arguments:
            raise DataError(
                f"{instrument.name} has no argument {name!r}; it takes "
                f"{', '.join(instrument.arguments) or 'none'}."
            )
        _check(instrument.name, name, value, instrument.arguments[name])
    wanted = instrument.arguments.items()
    return tuple(name for name, argument in wanted if argument.required and name not in given)


def instrument_table(instruments: Iterable[Instrument]) -> dict[str, Instrument]:
    """Instruments by name; a ParameterError where two share one."""
    table: dict[str, Instrument] = {}
    for instrument in instruments:
        if instrument.name in table:
            raise ParameterError(
                f"Two instruments are named {instrument.name!r}. Give each a name of its own."
            )
        table[instrument.name] = instrument
    return table


def _check(instrument: str, name: str, value: Any, wanted: Argument) -> None:
    def refuse(needed: str) -> DataError:
        return DataError(f"{name}={value!r} is nothing that {instrument} can take; it is {needed}.")

    if wanted.kind in ("text", "choice"):
        if not isinstance(value, str):
            raise refuse("a text")
        if wanted.kind == "choice" and value not in wanted.choices:
            raise refuse(f"one of {', '.join(wanted.choices)}")
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or (wanted.kind == "whole" and value != int(value)):
        raise refuse("a whole number" if wanted.kind == "whole" else "a finite number")
    if not wanted.lowest <= value <= wanted.highest:
        raise refuse(f"between {wanted.lowest:g} and {wanted.highest:g} {wanted.unit}".rstrip())
