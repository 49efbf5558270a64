"""A calculator that knows units: ``3.5 l/min * 20 min in l``, ``80 °F in °C``, ``sqrt(2) * 3``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foretell.app.instruments.asking import Request
from foretell.app.instruments.units import NOTHING, Dimension, Unit, is_unit, spelled, unit
from foretell.app.words import number
from foretell.converse.instrument import Argument, Finding
from foretell.core.errors import ParameterError

_LONGEST, _DEEPEST, _LARGEST = 200, 20, 1e300
_LEAD = re.compile(
    r"^\s*(?:(?:please|can you|could you|and|so|then)\s+)*(?:what(?:'s| is| are)|"
    r"how much (?:is|are)|calculate|compute|convert|work out|evaluate)?\s+",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"^\s*how many\s+(?P<unit>.+?)\s+(?:are there in|are in|is|are|in)\s+(?P<rest>.+)$", re.I
)
_WORDS = (
    (r"\btimes\b|×|⋅", "*"), (r"\bdivided by\b|\bover\b|÷", "/"), (r"\bplus\b", "+"),
    (r"\bminus\b|−", "-"), (r"\bto the power(?: of)?\b|\*\*", "^"), (r"\bsquared\b", "^2"),
    (r"\bcubed\b", "^3"), (r"\b(?:the )?square root of\s+([\d.]+)", r"sqrt(\1)"),
    (r"π", "pi"), (r"%\s+of\b", "% *"), (r"(?<=\d)\s*(?:degrees?|°)\s*(?:celsius|C)\b", " °C"),
    (r"(?<=\d)\s*(?:degrees?|°)\s*(?:fahrenheit|F)\b", " °F"),
)  # fmt: skip
_TARGET = re.compile(r"\s(?:in|to|into|as)\s+(?P<unit>[^\d()+]+?)\s*$", re.IGNORECASE)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+)|"
    r"(?P<sign>[-+*/^()])|(?P<name>(?:°[CF]|%|[A-Za-zµμΩ]+)(?:[²³]|\d(?!\.))?))"
)
_COMMA = re.compile(r"\d,\d{1,2}(?!\d)")
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "ln": math.log, "log10": math.log10,
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "abs": abs,
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "e": math.e}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it measures, in base units."""

    value: float
    dimension: Dimension = NOTHING


@dataclass
class Calculator:
    """Calculates what a question writes out.

    Examples
    --------
    >>> calculate = Calculator()
    >>> request = calculate.read("What is 3.5 l/min * 20 min in l?")
    >>> calculate(request.arguments, cancelled=lambda: False)
    Finding(70.0 l, from calculator)
    >>> calculate.read("What is the pump?") is None
    True
    """

    name: str = "calculator"
    speculative: bool = True
    timeout_s: float = 1.0
    arguments: Mapping[str, Argument] = field(
        default_factory=lambda: {
            "expression": Argument("text"),
            "unit": Argument("text", required=False),
        }
    )

    def read(self, text: str) -> Request | None:
        """The expression that a question consists of; None where it is no calculation."""
        if len(text) > _LONGEST or not re.search(r"\d", text):
            return None
        plain = text.strip().rstrip("?.! =")
        asked = _HOW_MANY.match(plain)
        if asked and is_unit(asked["unit"]):
            plain = f"{asked['rest']} in {asked['unit']}"
        plain = _LEAD.sub("", " " + plain)
        for pattern, sign in _WORDS:
            plain = re.sub(pattern, sign, plain, flags=re.IGNORECASE)
        target = _TARGET.search(" " + plain)
        wanted = ""
        if target:
            if not is_unit(target["unit"]):
                return None
            wanted, plain = spelled(target["unit"]), (" " + plain)[: target.start()].strip()
        expression = plain.strip()
        if _COMMA.search(expression):
            dotted = _COMMA.sub(lambda m: m[0].replace(",", "."), expression)
            if _parses(dotted):
                return Request({}, asks=f"Do you mean {dotted}? Write numbers with a point.")
        if not _parses(expression) or not (wanted or re.search(r"[-+*/^(]", expression)):
            return None
        arguments = {"expression": expression} | ({"unit": wanted} if wanted else {})
        return Request(arguments)

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The result, in the unit that was asked for."""
        quantity = _Parser(arguments["expression"]).result()
        wanted = str(arguments.get("unit", "")) or _natural(arguments["expression"], quantity)
        goal = unit(wanted) if wanted else Unit(NOTHING, 1.0)
        if goal.dimension != quantity.dimension:
            raise ParameterError(f"{arguments['expression']} cannot be told in {wanted}.")
        value = (quantity.value - goal.offset) / goal.factor
        if not abs(value) < _LARGEST:
            raise ParameterError(f"{arguments['expression']} is too large to be written down.")
        return Finding(float(f"{value:.12g}"), unit=wanted, source="calculator")

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The result in words."""
        shown = f"{number(float(finding.value), 6)} {finding.unit}".strip()
        return f"{arguments.get('expression', 'That')} = {shown}."


def _natural(expression: str, quantity: Quantity) -> str:
    """The unit of a result that nobody asked for: one of the expression, else of base units."""
    if quantity.dimension == NOTHING:
        return ""
    names = re.findall(r"(?:°[CF]|[A-Za-zµΩ]+\d?(?:/[A-Za-zµΩ]+\d?)?)", expression)
    for name in [*names, *(part for each in names for part in each.split("/"))]:
        if is_unit(name) and unit(name).dimension == quantity.dimension:
            return str(name)
    base = ("m", "kg", "s", "A", "K", "mol")
    parts = [
        f"{n}{e if e != 1 else ''}" for n, e in zip(base, quantity.dimension, strict=True) if e
    ]
    return "*".join(parts)


class _NoResult(ParameterError):
    """The expression can be read and has no result."""


def _parses(expression: str) -> bool:
    try:
        _Parser(expression).result()
    except _NoResult:
        return True
    except ParameterError:
        return False
    return True


class _Parser:
    """Sum, product, power, from the left; a unit behind a number multiplies it."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise ParameterError(f"{text[at:]!r} cannot be calculated.")
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind]))
            at = found.end()
        self.at, self.depth = 0, 0

    def result(self) -> Quantity:
        try:
            value = self._sum()
        except ParameterError:
            raise
        except OverflowError as error:
            raise _NoResult("That is too large to be written down.") from error
        except ZeroDivisionError as error:
            raise _NoResult("Nothing can be divided by zero.") from error
        except ValueError as error:
            raise _NoResult("That has no result among the real numbers.") from error
        if self.at < len(self.tokens):
            raise ParameterError(f"{self.tokens[self.at][1]!r} stands where nothing is expected.")
        return value

    def _next(self, *signs: str) -> str | None:
        if self.at < len(self.tokens):
            kind, text = self.tokens[self.at]
            if kind == "sign" and text in signs:
                self.at += 1
                return text
        return None

    def _sum(self) -> Quantity:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ParameterError("There are too many brackets inside each other.")
        value = self._product()
        while sign := self._next("+", "-"):
            other = self._product()
            if other.dimension != value.dimension:
                raise _NoResult("Different things cannot be added.")
            value = Quantity(
                value.value + (1 if sign == "+" else -1) * other.value, value.dimension
            )
        self.depth -= 1
        return value

    def _product(self) -> Quantity:
        value = self._signed()
        while sign := self._next("*", "/"):
            value = _multiplied(value, self._signed(), 1 if sign == "*" else -1)
        return value

    def _signed(self) -> Quantity:
        sign = 1.0
        while mark := self._next("-", "+"):
            sign = -sign if mark == "-" else sign
        value = self._power()
        return Quantity(sign * value.value, value.dimension)

    def _power(self) -> Quantity:
        value = self._atom()
        if self._next("^"):
            exponent = self._signed()
            if exponent.dimension != NOTHING:
                raise _NoResult("An exponent has no unit.")
            if value.dimension == NOTHING:
                return Quantity(_power(value.value, exponent.value))
            whole = int(exponent.value)
            if whole != exponent.value or abs(whole) > 6:
                raise _NoResult("Units have small whole exponents.")
            return Quantity(value.value**whole, tuple(whole * e for e in value.dimension))
        return value

    def _atom(self) -> Quantity:
        if self._next("("):
            value = self._sum()
            if not self._next(")"):
                raise ParameterError("A bracket is open.")
            return value
        if self.at >= len(self.tokens):
            raise ParameterError("Something is missing at the end.")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return self._measured(float(text.replace(",", "")))
        if kind == "name" and text in _FUNCTIONS and self._next("("):
            inner = self._sum()
            if inner.dimension != NOTHING or not self._next(")"):
                raise _NoResult("A function takes a bare number in brackets.")
            return Quantity(_FUNCTIONS[text](inner.value))
        if kind == "name" and text in _CONSTANTS:
            return Quantity(_CONSTANTS[text])
        raise ParameterError(f"{text!r} is no number.")

    def _measured(self, value: float) -> Quantity:
        """A number with the unit behind it, which may be a fraction like l/min."""
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            return Quantity(value)
        name = self.tokens[self.at][1]
        if not is_unit(name):
            raise ParameterError(f"{name!r} is no unit.")
        self.at += 1
        total = unit(name)
        quantity = Quantity(value * total.factor + total.offset, total.dimension)
        while self._fraction():
            self.at += 2
            below = unit(self.tokens[self.at - 1][1])
            quantity = _multiplied(quantity, Quantity(below.factor, below.dimension), -1)
        return quantity

    def _fraction(self) -> bool:
        rest = self.tokens[self.at : self.at + 2]
        if len(rest) < 2 or rest[0] != ("sign", "/") or rest[1][0] != "name":
            return False
        return is_unit(rest[1][1])


def _power(base: float, exponent: float) -> float:
    result = base**exponent
    if isinstance(result, complex):
        raise _NoResult("That has no result among the real numbers.")
    return float(result)


def _multiplied(a: Quantity, b: Quantity, sign: int) -> Quantity:
    dimension = tuple(x + sign * y for x, y in zip(a.dimension, b.dimension, strict=True))
    return Quantity(a.value * b.value**sign, dimension)
