"""Which instruments a model makes possible: decided by what it can do, never by its class."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from foretell.app.instruments.asking import Asked, Request
from foretell.app.instruments.grammar import named
from foretell.app.instruments.model_tools import (
    FORECAST,
    NOW,
    WHAT_IF,
    Forecast,
    Now,
    OfModel,
    WhatIf,
)
from foretell.app.instruments.model_view import ModelView
from foretell.app.instruments.plan_tool import KEEPS, Plan
from foretell.app.instruments.structure_tools import Chaos, Episodes, Equilibria, LimitCycles
from foretell.converse.instrument import Finding
from foretell.core.errors import ParameterError
from foretell.dynamics.model import Cycles, Exponents, FixedPoints


@dataclass
class Lacking(OfModel):
    """Says what this model cannot be asked, instead of searching the notes for it."""

    name: str = "lacking"
    pattern: re.Pattern[str] = WHAT_IF
    reason: str = ""

    def read(self, text: str) -> Request | None:
        """A question of the kind that names a variable of the model."""
        concerns = self.pattern.search(text) and named(text, self.view.shown).name
        return Request(asks=self.reason) if concerns else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """Never asked: what it reads is never complete."""
        raise ParameterError(self.reason)

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The reason."""
        return self.reason


def offered(view: ModelView) -> list[Asked]:
    """The instruments that a model makes possible, in the order in which they are tried."""
    tools: list[Asked] = []
    if view.controls and view.data is not None:
        tools.append(WhatIf(view))
        if hasattr(view.model, "predict"):
            tools.insert(0, Plan(view))
    if not view.controls:
        none = (
            f"The model {view.name} was fitted without inputs, so that nothing can be changed in "
            "it. Fit it with: foretell fit FILE --controls NAME"
        )
        tools.append(Lacking(view, name="no_plan", pattern=KEEPS, reason=none))
        tools.append(Lacking(view, name="no_inputs", pattern=WHAT_IF, reason=none))
    if view.data is not None:
        tools += [Forecast(view), Now(view), Episodes(view)]
    else:
        gone = (
            f"The recording that {view.name} was fitted to is not at hand, so that the state now "
            "is not known. Put the file back where it was when the model was fitted."
        )
        tools.append(Lacking(view, name="no_state", pattern=FORECAST, reason=gone))
        tools.append(Lacking(view, name="no_recording", pattern=NOW, reason=gone))
    if isinstance(view.model, FixedPoints):
        tools.append(Equilibria(view))
    if isinstance(view.model, Cycles):
        tools.append(LimitCycles(view))
    if isinstance(view.model, Exponents):
        tools.append(Chaos(view))
    return tools
