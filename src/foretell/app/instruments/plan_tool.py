"""Inputs that keep a condition: ``What keeps the level below 80?``"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.app.command_plan_start import forecast_errors
from foretell.app.instruments.asking import Request
from foretell.app.instruments.grammar import KEEP, lacks_number, named, ranges, target, which
from foretell.app.instruments.model_tools import LONG_S, OfModel
from foretell.app.words import amount, listing, number
from foretell.converse.instrument import Argument, Finding
from foretell.core.errors import ParameterError
from foretell.dynamics.steering import SteeringPlan, steer

KEEPS = KEEP
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 40, 5, 200
_SURE = 0.8  # share of the runs from which a plan is said to keep a condition


@dataclass
class Plan(OfModel):
    """Inputs that keep conditions on variables."""

    name: str = "plan"
    timeout_s: float = LONG_S

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """Conditions, with " and " between, and steps."""
        return {
            "keep": Argument("text"),
            "steps": Argument("whole", lowest=_FEWEST_STEPS, highest=_MOST_STEPS),
        }

    def read(self, text: str) -> Request | None:
        """The conditions of a text that asks to keep something."""
        if not KEEP.search(text):
            return None
        wanted = ranges(text)
        if not wanted:
            return self._incomplete(text)
        conditions = []
        before = ""
        for each in wanted:
            found = named(each.said, self.view.shown)
            if found.candidates:
                return Request(asks=which(found.candidates))
            name = found.name or before
            if not name:
                return self._unknown(each.said)
            before = name
            unit = self.view.unit_of(name)
            try:
                low = None if each.low is None else each.low.told_in(unit, name)
                high = None if each.high is None else each.high.told_in(unit, name)
            except ParameterError as error:
                return Request(asks=str(error))
            conditions.append(_condition(name, low, high))
        steps = self._steps(text)
        if isinstance(steps, Request):
            return steps
        steps = min(max(steps or _STEPS, _FEWEST_STEPS), _MOST_STEPS)
        return Request({"keep": " and ".join(conditions), "steps": steps})

    def _incomplete(self, text: str) -> Request | None:
        found = named(text, self.view.shown)
        if found.candidates and (lacks_number(text) or target(text)):
            return Request(asks=which(found.candidates))
        if not found.name:
            return None
        if at := target(text):
            value = number(at.value, 4)
            return Request(
                asks=f"Within which range around {value} shall {found.name} stay? Say for "
                f"instance: keep {found.name} between {number(0.95 * at.value, 3)} and "
                f"{number(1.05 * at.value, 3)}."
            )
        if lacks_number(text):
            return Request(asks=f"Which value of {found.name} do you mean? Give a number.")
        return None

    def _unknown(self, said: str) -> Request | None:
        word = said.split()[-1].strip("\"'") if said.split() else "that"
        if word.casefold() in ("it", "this", "that", "everything", "them"):
            return Request(asks=f"Keep what? This model has {listing(list(self.view.shown))}.")
        return Request(
            asks=f"There is no {word!r} in this model; it has {listing(list(self.view.shown))}. "
            "Which one do you mean?"
        )

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The plan, and what an ensemble of runs does under it."""
        view, steps = self.view, int(arguments["steps"])
        keep = _split(arguments["keep"])
        start = view.start
        errors = None
        if not hasattr(view.model, "ensemble") and view.data is not None:
            errors = forecast_errors(view.model, view.data, steps, view.step)
        limits = {}
        for name in view.controls:
            seen = view.seen_range(name)
            if seen and seen[0] < seen[1]:
                limits[name] = seen
        plan = steer(
            view.model, start.state, keep, horizon=steps, u_now=start.u_now, limits=limits,
            errors=errors, step=view.step,
        )  # fmt: skip
        column = plan.conditions[0].column
        interval = (float(plan.low[1:, column].min()), float(plan.high[1:, column].max()))
        return Finding(
            _numbers(plan, view.controls),
            unit=plan.conditions[0].unit,
            interval=interval if plan.n_runs else None,
            source=f"{view.name}, plan from {start.source}",
        )

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The plan in words."""
        plan = finding.value
        what, span = listing(plan["keep"]), self._span(len(plan["times"]) - 1)
        inputs = listing([self._moves(name, plan["inputs"][name]) for name in plan["inputs"]])
        unit = finding.unit
        if plan["breach"] > 0:
            return (
                f"Nothing that I found keeps {what} for {span}: even with {inputs} the forecast is "
                f"up to {amount(plan['breach'], unit)} outside."
            )
        said = f"{inputs[0].upper()}{inputs[1:]} keeps {what} for {span}"
        if plan["kept"] is None:
            return said + " in the forecast; how far that may be off is not known."
        held = f" in {100 * plan['kept']:.0f} % of {plan['runs']} simulated runs"
        only = " only" if plan["kept"] < _SURE else ""
        untouched = f"{100 * plan['kept_untouched']:.0f} %"
        return (
            f"{said}{held.replace(' in ', f'{only} in ', 1)}; as it is now it would be {untouched}."
        )

    def _moves(self, name: str, values: list[float]) -> str:
        unit = self.view.unit_of(name)
        first, last, low, high = values[0], values[-1], min(values), max(values)
        if high - low <= 0.02 * max(abs(high), abs(low), 1e-12):
            return f"{name} at {amount(float(np.mean(values)), unit, 3)}"
        shown = f"{name} from {number(first, 3)} to {amount(last, unit, 3)}"
        if low < min(first, last) - 0.05 * (high - low) or high > max(first, last) + 0.05 * (
            high - low
        ):
            shown += f" (between {number(low, 3)} and {number(high, 3)})"
        return shown


def _condition(name: str, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{name} between {low:.12g} and {high:.12g}"
    return f"{name} < {high:.12g}" if low is None else f"{name} > {low:.12g}"


def _split(keep: str) -> list[str]:
    """Conditions; the "and" of "between" does not end one."""
    return [part.strip() for part in re.split(r"\s+and\s+(?=\D)", keep)]


def _numbers(plan: SteeringPlan, controls: tuple[str, ...]) -> dict[str, Any]:
    return {
        "keep": [str(condition) for condition in plan.conditions],
        "times": plan.times.tolist(),
        "inputs": {name: plan.inputs[:, k].tolist() for k, name in enumerate(controls)},
        "kept": None if np.isnan(plan.kept) else plan.kept,
        "kept_untouched": None if np.isnan(plan.kept_untouched) else plan.kept_untouched,
        "breach": plan.breach,
        "runs": plan.n_runs,
        "held_back": plan.held_back,
    }
