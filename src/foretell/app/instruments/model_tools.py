"""Instruments of a fitted model: where it is, where it will be, where it would be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foretell.app.instruments.asking import Request
from foretell.app.instruments.grammar import (
    MEASURED as MEASURED,
    duration,
    measured,
    named,
    which,
)
from foretell.app.instruments.model_view import SHARE, ModelView
from foretell.app.words import amount, listing, number
from foretell.converse.instrument import Argument, Finding
from foretell.core.errors import ParameterError

FORECAST = re.compile(
    r"\b(?:forecast\w*|predict\w*|simulat\w*|will|going to|expect\w*|project\w*|extrapolat\w*)\b",
    re.I,
)
NOW = re.compile(
    r"\b(?:now|current(?:ly)?|at the moment|latest|last (?:value|reading|row))\b", re.I
)
WHAT_IF = re.compile(
    r"\b(?:what if|what happens|what would happen|suppose|if (?:i|we|you|the)|if)\b", re.I
)
_SET = re.compile(
    r"(?P<name>[\w .()-]{1,60}?)\s*(?:=|\b(?:is|was|were|be|becomes?|goes|go|went|rises?|rose|"
    r"drops?|dropped|falls?|fell|stays?|set|turned|raised|lowered|reduced|increased|kept|held|at|to)\b)"
    r"(?:\s+(?:set|to|at|up|down|kept|held|raised|lowered|turned))*\s*" + MEASURED.format("a"),
    re.I,
)
_FARTHEST = 5000  # steps of a run
_ANSWER_S, LONG_S = 10.0, 30.0


@dataclass
class OfModel:
    """What all instruments of a model share."""

    view: ModelView
    name: str = ""
    speculative: bool = True
    timeout_s: float = _ANSWER_S

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """What it needs."""
        return {}

    def _variable(self, text: str) -> Request | str:
        """The variable of a text; a request that asks which one, where that is open."""
        found = named(text, self.view.shown)
        if found.candidates:
            return Request(asks=which(found.candidates))
        return found.name or (self.view.shown[0] if len(self.view.shown) == 1 else "")

    def _steps(self, text: str) -> Request | int | None:
        """How many steps ahead a text asks for; None where it does not say."""
        said = duration(text)
        if said is None:
            return None
        if said.unit == "steps":
            steps = round(said.value)
        else:
            try:
                steps = round(said.told_in(self.view.time_unit, "time") / self.view.step)
            except ParameterError as error:
                return Request(asks=str(error))
        if not 1 <= steps <= _FARTHEST:
            step = amount(self.view.step, self.view.time_unit)
            return Request(
                asks=f"One step of this model is {step}. Ask for one step to {_FARTHEST} steps."
            )
        return steps

    def _source(self, finding: str = "") -> str:
        return self.view.name + (f", {finding}" if finding else "")

    def _span(self, steps: int) -> str:
        return amount(steps * self.view.step, self.view.time_unit)


@dataclass
class Now(OfModel):
    """The last row of the recording."""

    name: str = "now"

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The variable or input."""
        names = (*self.view.shown, *self.view.controls)
        return {"variable": Argument("choice", choices=names)}

    def read(self, text: str) -> Request | None:
        """``What is the level now?``"""
        if not NOW.search(text) or FORECAST.search(text) or WHAT_IF.search(text):
            return None
        found = named(text, (*self.view.shown, *self.view.controls))
        if found.candidates:
            return Request(asks=which(found.candidates))
        return Request({"variable": found.name}) if found.name else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The value."""
        name, start = arguments["variable"], self.view.start
        if name in self.view.names:
            value = start.now[self.view.names.index(name)]
        else:
            value = self.view.u_now[self.view.controls.index(name)]
        return Finding(float(value), unit=self.view.unit_of(name), source=start.source)

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The value in words."""
        return (
            f"{arguments.get('variable', 'It')} is {amount(finding.value, finding.unit)} at "
            f"{finding.source}."
        )


@dataclass
class Forecast(OfModel):
    """Where a variable will be, inputs as they are now."""

    name: str = "forecast"

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """Variable and steps."""
        return {
            "variable": Argument("choice", choices=self.view.shown),
            "steps": Argument("whole", lowest=1, highest=_FARTHEST),
        }

    def read(self, text: str) -> Request | None:
        """``What will the level be in 30 s?``"""
        if not FORECAST.search(text) or (self.view.controls and WHAT_IF.search(text)):
            return None
        variable = self._variable(text)
        steps = self._steps(text)
        if isinstance(variable, Request):
            return variable if steps is not None else None
        if not named(text, self.view.shown).name and steps is None:
            return None
        if not variable:
            return Request(asks=f"Forecast what? This model has {listing(self.view.shown)}.")
        if steps is None:
            example = amount(20 * self.view.step, self.view.time_unit)
            return Request(asks=f"How far ahead shall I forecast {variable}? Say: in {example}.")
        return (
            steps if isinstance(steps, Request) else Request({"variable": variable, "steps": steps})
        )

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The value at the end, with its interval."""
        ahead = self.view.ahead(arguments["steps"], cancelled=cancelled)
        n = self.view.names.index(arguments["variable"])
        return _ended(self.view, ahead, n, self._source())

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The forecast in words."""
        steps = int(arguments["steps"])
        said = (
            f"In {self._span(steps)} {arguments['variable']} will be about "
            f"{amount(finding.value, finding.unit)}{between(finding)}."
        )
        return said + self._beyond(steps)

    def _beyond(self, steps: int) -> str:
        horizon = (self.view.summary.get("trust_horizon") or {}).get("horizon")
        if horizon is None or steps * self.view.step <= horizon:
            return ""
        return (
            f" That is beyond {amount(float(horizon), self.view.time_unit)}, up to which forecasts "
            "kept their level on held-out recordings."
        )


@dataclass
class WhatIf(OfModel):
    """Where a variable would be if an input were held at another value."""

    name: str = "what_if"

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """Input, value, variable, steps."""
        return {
            "input": Argument("choice", choices=self.view.controls),
            "value": Argument("number"),
            "variable": Argument("choice", choices=self.view.shown),
            "steps": Argument("whole", lowest=1, highest=_FARTHEST),
        }

    def read(self, text: str) -> Request | None:
        """``What if the pump is at 3 for 60 s?``"""
        if not WHAT_IF.search(text):
            return None
        control = named(text, self.view.controls)
        if control.candidates:
            return Request(asks=which(control.candidates))
        if not control.name:
            return self._not_an_input(text)
        found = next(
            (m for m in _SET.finditer(text) if named(m["name"], self.view.controls).name), None
        )
        value = measured(found, "a") if found else None
        if value is None:
            unit = self.view.unit_of(control.name)
            return Request(asks=f"What if {control.name} is what? Give a number{in_unit(unit)}.")
        try:
            told = value.told_in(self.view.unit_of(control.name), control.name)
        except ParameterError as error:
            return Request(asks=str(error))
        rest = text.replace(found[0] if found else "", " ")
        variable = self._variable(rest)
        if isinstance(variable, Request):
            return variable
        if not variable:
            names = listing(list(self.view.shown), "or")
            return Request(asks=f"What do you want to know then: {names}?")
        steps = self._steps(text)
        if isinstance(steps, Request):
            return steps
        steps = steps or 40
        return Request({"input": control.name, "value": told, "variable": variable, "steps": steps})

    def _not_an_input(self, text: str) -> Request | None:
        found = next(
            (m for m in _SET.finditer(text) if named(m["name"], self.view.shown).name), None
        )
        if found is None:
            return None
        variable = named(found["name"], self.view.shown).name
        return Request(
            asks=f"{variable} is what the model computes; it can be told what "
            f"{listing(list(self.view.controls), 'or')} is. What if that were which value?"
        )

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The value at the end, with its interval."""
        control = self.view.u_now.copy()
        control[self.view.controls.index(arguments["input"])] = arguments["value"]
        ahead = self.view.ahead(arguments["steps"], control=control, cancelled=cancelled)
        n = self.view.names.index(arguments["variable"])
        return _ended(self.view, ahead, n, self._source())

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """What would be, in words."""
        unit = self.view.unit_of(arguments["input"])
        value = float(arguments["value"])
        said = (
            f"With {arguments['input']} at {amount(value, unit)} for "
            f"{self._span(int(arguments['steps']))}, {arguments['variable']} would be about "
            f"{amount(finding.value, finding.unit)}{between(finding)}."
        )
        seen = self.view.seen_range(arguments["input"])
        if seen and not seen[0] <= value <= seen[1]:
            said += (
                f" The recording has {arguments['input']} only between {number(seen[0], 4)} and "
                f"{number(seen[1], 4)}: beyond that the model guesses."
            )
        return said


def _ended(view: ModelView, ahead: Any, n: int, source: str) -> Finding:
    interval = None
    if ahead.low is not None and ahead.high is not None:
        interval = (float(ahead.low[n]), float(ahead.high[n]))
        source += f"; range from {ahead.basis}"
    value = float(ahead.values[-1, n])
    return Finding(value, unit=view.units[n], interval=interval, source=source)


def between(finding: Finding) -> str:
    """The interval of a finding as the end of a sentence."""
    if finding.interval is None:
        return " (how far that may be off is not known)"
    low, high = (number(v, 4) for v in finding.interval)
    return f", between {low} and {high} in {100 * SHARE:.0f} % of such cases"


def in_unit(unit: str, word: str = "in") -> str:
    """A unit as the end of a sentence, where there is one."""
    return f" {word} {unit}".replace("  ", " ") if unit else ""
