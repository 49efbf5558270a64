"""Conditions on variables, as people write them: ``level < 8``, ``level between 2 and 8 m``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError

Array = NDArray[np.float64]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SIDE = re.compile(
    rf"(?P<name>.+?)(?:\s*(?P<sign><=|>=|<|>)\s*|\s+(?P<word>below|under|above|over)\s+)"
    rf"(?P<a>{_NUMBER})\s*(?P<unit>\S*)"
)
_BETWEEN = re.compile(
    rf"(?P<name>.+?)\s+between\s+(?P<a>{_NUMBER})\s+and\s+(?P<b>{_NUMBER})\s*(?P<unit>\S*)"
)


@dataclass(frozen=True)
class Condition:
    """A range for one variable, in its unit; infinite where one side is open.

    Examples
    --------
    >>> Condition("level", 0, -np.inf, 8.0, "m")
    Condition(level < 8 m)
    """

    name: str
    column: int
    low: float
    high: float
    unit: str = ""

    def holds(self, values: Array) -> NDArray[np.bool_]:
        """Whether rows (.., N) of values are inside; not so where a value is not finite."""
        x = values[..., self.column]
        return np.asarray((x > self.low) & (x < self.high))

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if np.isinf(self.low):
            return f"{self.name} < {self.high:g}{unit}"
        if np.isinf(self.high):
            return f"{self.name} > {self.low:g}{unit}"
        return f"{self.name} between {self.low:g} and {self.high:g}{unit}"

    def __repr__(self) -> str:
        return f"Condition({self})"


def parse_condition(text: str, names: Sequence[str], units: Sequence[str]) -> Condition:
    """Read a condition.

    Parameters
    ----------
    text : str
        ``NAME < NUMBER [UNIT]``, the same with ``>``, ``<=``, ``>=``, ``below``, ``above``, or
        ``NAME between NUMBER and NUMBER [UNIT]``.
    names, units : sequences of str
        The variables that there are.

    Raises
    ------
    ParameterError
        The text is no condition, or names an unknown variable or another unit.

    Examples
    --------
    >>> parse_condition("level between 2 and 8 m", ["flow", "level"], ["", "m"])
    Condition(level between 2 and 8 m)
    >>> parse_condition("level below 8", ["flow", "level"], ["", "m"])
    Condition(level < 8 m)
    """
    found = _BETWEEN.fullmatch(text.strip()) or _SIDE.fullmatch(text.strip())
    if found is None:
        raise ParameterError(
            f"{text!r} is not a condition. Write for instance "
            f'"{names[0]} < 8" or "{names[0]} between 2 and 8".'
        )
    parts = found.groupdict()
    name = parts["name"].strip().strip("'\"")
    if name not in names:
        raise ParameterError(
            f"{text!r} is about {name!r}, and the model has {', '.join(names)}. Use one of these."
        )
    column = list(names).index(name)
    unit, own = parts["unit"], units[column]
    if unit and unit != own:
        has = f"is in {own}" if own else "has no unit"
        raise ParameterError(
            f"{text!r} gives {unit!r}, and {name} {has} in the recordings. Convert the number, or "
            "leave the unit out."
        )
    a = float(parts["a"])
    if "b" in parts:
        low, high = a, float(parts["b"])
        if not low < high:
            raise ParameterError(
                f"{text!r}: the first number must be the smaller one; write "
                f'"{name} between {high:g} and {low:g}".'
            )
    elif (parts["sign"] or "").startswith("<") or parts["word"] in ("below", "under"):
        low, high = -np.inf, a
    else:
        low, high = a, np.inf
    return Condition(name, column, low, high, own)
