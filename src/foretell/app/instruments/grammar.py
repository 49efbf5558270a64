"""Reads names, numbers with units, conditions and durations out of a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from foretell.app.instruments.units import converted, is_unit, spelled
from foretell.app.words import listing
from foretell.core.errors import ParameterError

NUMBER = r"[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?![\d.,]*\d)"
_UNIT = (
    r"(?:°[CF]|%|degrees? (?:celsius|fahrenheit)|per ?cent|"
    r"[A-Za-zµμΩ]+[²³\d]?(?:/[A-Za-zµμΩ]+[²³\d]?)?|[A-Za-z]+ per [A-Za-z]+)"
)
MEASURED = rf"(?P<{{0}}>{NUMBER})\s*(?P<{{0}}_unit>{_UNIT})?"
_BELOW = r"below|under|beneath|less than|lower than|smaller than|at most|no more than|<=?|≤"
_ABOVE = r"above|over|more than|greater than|higher than|larger than|at least|no less than|>=?|≥"
_KEEP = (
    r"\b(?:keep(?:s|ing)?|hold(?:s|ing)?|stay(?:s|ing)?|maintain(?:s|ing)?|remain(?:s|ing)?|"
    r"bring(?:s|ing)?|get(?:s|ting)?)\b"
)
CONDITION = re.compile(
    rf"(?P<name>[^,;?]{{1,60}}?)\s*(?P<side>{_BELOW}|{_ABOVE}|\bbetween\b|\bwithin\b)\s*"
    + MEASURED.format("a")
    + rf"(?:\s*(?:and|to|-|–)\s*{MEASURED.format('b')})?",
    re.IGNORECASE,
)
KEEP = re.compile(_KEEP, re.IGNORECASE)
_SIDE_ALONE = re.compile(rf"\b(?:{_BELOW}|{_ABOVE}|between|within)\b", re.IGNORECASE)
_AT = re.compile(rf"\b(?:at|near|around|close to|on)\s+{MEASURED.format('a')}", re.IGNORECASE)
_SPAN = re.compile(
    r"\b(?:in|after|over|for|within|during|next|by)\s+(?:the\s+)?(?:next\s+|coming\s+)?(?:about\s+)?"
    + MEASURED.format("a"),
    re.IGNORECASE,
)
_SPAN_WORDS = re.compile(
    r"\b(?:in|after|over|for|within|during|next)\s+(?:the\s+)?(?:next\s+)?(?:an?|one|half an?)?\s*"
    r"(?P<unit>second|minute|hour|day|week|year)\b",
    re.IGNORECASE,
)
_STEPS = re.compile(r"^(?:steps?|samples?|rows?|points?)$", re.IGNORECASE)
_LITTLE = frozenset("the a an its our your my this that value of level".split())


@dataclass(frozen=True, slots=True)
class Named:
    """What a text names: one thing, several that it may mean, or nothing.

    Parameters
    ----------
    name : str
        The one, else empty.
    candidates : tuple of str
        Where it is not clear which.
    """

    name: str = ""
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A number as it was said, with its unit if one was said."""

    value: float
    unit: str = ""

    def told_in(self, unit: str, what: str) -> float:
        """The number in the unit of the model; a ParameterError where that is not possible."""
        if not self.unit or self.unit == unit:
            return self.value
        if not unit:
            raise ParameterError(
                f"The recording says no unit for {what}, so that {self.value:g} {self.unit} cannot "
                "be compared with it. Say the number as it stands in the recording."
            )
        if not is_unit(unit):
            raise ParameterError(f"{what} is measured in {unit}. Say the number in {unit}.")
        return converted(self.value, self.unit, unit)


def plain(name: str) -> str:
    """A name as people say it.

    Examples
    --------
    >>> plain("Tank_level(mm)")
    'tank level'
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[(\[].*$", "", name))
    return " ".join(re.sub(r"[_\-./]+", " ", spaced).casefold().split())


def named(text: str, names: Sequence[str]) -> Named:
    """Which of the names a text means.

    Examples
    --------
    >>> named("how high is the upper tank", ["upper_level", "lower_level", "pump"]).name
    'upper_level'
    >>> named("the level", ["upper_level", "lower_level"]).candidates
    ('upper_level', 'lower_level')
    """
    low = " " + " ".join(re.findall(r"[\w°%]+", plain_text(text))) + " "
    whole = [name for name in names if _said(plain(name), low)]
    if whole:
        longest = max(len(plain(name).split()) for name in whole)
        best = [name for name in whole if len(plain(name).split()) == longest]
        first = min(best, key=lambda name: low.find(plain(name)))
        return Named(first) if len(best) == 1 or longest == 1 else Named("", tuple(best))
    parts: dict[str, int] = {}
    for name in names:
        count = sum(_said(word, low) for word in plain(name).split() if len(word) > 2)
        if count:
            parts[name] = count
    best = [name for name, count in parts.items() if count == max(parts.values())]
    return Named(best[0]) if len(best) == 1 else Named("", tuple(best))


def plain_text(text: str) -> str:
    """A text in the form in which names are looked for."""
    return re.sub(r"[_\-./]+", " ", text).casefold()


def _said(words: str, text: str) -> bool:
    return bool(words) and (f" {words} " in text or f" {words}s " in text)


def measured(found: re.Match[str], group: str) -> Measured | None:
    """A number and its unit out of a match; what is no unit was only the next word."""
    if found[group] is None:
        return None
    unit = (found[f"{group}_unit"] or "").strip()
    value = float(found[group].replace("−", "-"))
    return Measured(value, spelled(unit) if unit and is_unit(unit) else "")


def duration(text: str) -> Measured | None:
    """How long or how far ahead; the unit is "steps" for samples.

    Examples
    --------
    >>> duration("what will it be in 5 minutes"), duration("over the next 20 samples")
    (Measured(value=5.0, unit='min'), Measured(value=20.0, unit='steps'))
    """
    for found in _SPAN.finditer(text):
        unit = (found["a_unit"] or "").strip()
        if _STEPS.match(unit):
            return Measured(float(found["a"]), "steps")
        if not unit or is_unit(unit):
            return measured(found, "a")
    words = _SPAN_WORDS.search(text)
    if words:
        half = 0.5 if "half" in words[0].lower() else 1.0
        return Measured(half, spelled(words["unit"].lower()))
    return None


@dataclass(frozen=True, slots=True)
class Range:
    """A range that a text wants a variable in; a side may be open.

    Parameters
    ----------
    said : str
        The words before it, which should name a variable.
    low, high : Measured or None
    """

    said: str
    low: Measured | None
    high: Measured | None


def ranges(text: str) -> list[Range]:
    """The ranges that a text states.

    Examples
    --------
    >>> [(r.said, r.low, r.high) for r in ranges("what keeps the level below 80 mm?")]
    [('what keeps the level', None, Measured(value=80.0, unit='mm'))]
    """
    found = []
    for match in CONDITION.finditer(text):
        a, b = measured(match, "a"), measured(match, "b")
        side = match["side"].casefold()
        if side in ("between", "within"):
            if a is None or b is None:
                continue
            a = Measured(a.value, a.unit or b.unit)
            found.append(Range(match["name"], a, Measured(b.value, b.unit or a.unit)))
        elif re.fullmatch(_BELOW, side):
            found.append(Range(match["name"], None, a))
        else:
            found.append(Range(match["name"], a, None))
    return found


def lacks_number(text: str) -> bool:
    """Whether a text names a side but no number."""
    return bool(_SIDE_ALONE.search(text)) and not ranges(text)


def target(text: str) -> Measured | None:
    """A single value at which something should be kept."""
    found = _AT.search(text)
    return measured(found, "a") if found else None


def which(candidates: Sequence[str]) -> str:
    """The question back where several things may be meant."""
    return f"Which one do you mean: {listing(list(candidates), 'or')}?"
