"""Instruments of a fitted model: where it rests, how it oscillates, what it did before."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.app.episodes import like_the_end
from foretell.app.instruments.asking import Request
from foretell.app.instruments.model_tools import LONG_S, OfModel, in_unit
from foretell.app.words import amount, count, listing, number
from foretell.converse.instrument import Finding

_REST = re.compile(
    r"\b(?:equilibri\w+|steady[- ]states?|fixed points?|rest(?:ing)? (?:points?|states?)|settles?|"
    r"come to rest|comes to rest|stable states?|resting)\b",
    re.I,
)
_CYCLE = re.compile(r"\b(?:limit cycles?|oscillat\w*|periodic\w*|cycles?|period)\b", re.I)
_CHAOS = re.compile(r"\b(?:chaos|chaotic|lyapunov|exponents?|predictab\w+)\b", re.I)
_BEFORE = re.compile(
    r"\b(?:similar (?:episodes?|stretch\w*|times?|events?|patterns?)|happened before|seen (?:this|"
    r"it|something like this) before|like (?:this|now|it) before|before like this|"
    r"anything like this|look(?:ed|s)? like (?:this|now))\b",
    re.I,
)


@dataclass
class Equilibria(OfModel):
    """Where the system rests."""

    name: str = "equilibria"
    timeout_s: float = LONG_S

    def read(self, text: str) -> Request | None:
        """``Where does it come to rest?``"""
        return Request() if _REST.search(text) else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """States with their stability."""
        kept = self.view.summary.get("equilibria")
        if kept is None:
            extra = {"control": self.view.u_now} if self.view.controls else {}
            found = self.view.model.equilibria(**extra)
            items = [
                {
                    "state": np.asarray(e.state).tolist(),
                    "stable": bool(e.stable),
                    "kind": str(e.kind),
                }
                for e in found.items
            ]
            kept = {"completeness": str(found.completeness), "items": items}
        return Finding(kept, source=self._source("equilibria"))

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The equilibria in words."""
        items = finding.value["items"]
        at = " with the inputs as they are now" if self.view.controls else ""
        if not items:
            return f"It rests nowhere{at}: the model has no equilibrium ({self._claim(finding)})."
        said = []
        for item in items[:4]:
            pairs = zip(self.view.names, item["state"], self.view.units, strict=False)
            shown = [f"{n} = {amount(v, u)}" for n, v, u in pairs if n in self.view.shown]
            said.append(f"{listing(shown[:4])} ({item['kind']})")
        more = f", and {len(items) - 4} more" if len(items) > 4 else ""
        n = f"{len(items)} equilibri{'um' if len(items) == 1 else 'a'}"
        return f"It has {n}{at}: {'; '.join(said)}{more}. The search was {self._claim(finding)}."

    def _claim(self, finding: Finding) -> str:
        return str(finding.value.get("completeness", "heuristic"))


@dataclass
class LimitCycles(OfModel):
    """Periodic orbits."""

    name: str = "cycles"
    timeout_s: float = LONG_S

    def read(self, text: str) -> Request | None:
        """``Does it oscillate?``"""
        return Request() if _CYCLE.search(text) else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """Periods with their stability."""
        kept = self.view.summary.get("cycles")
        if kept is None:
            extra = {"control": self.view.u_now} if self.view.controls else {}
            kept = [
                {"period": float(c.period), "stable": bool(c.stable), "quality": str(c.quality)}
                for c in self.view.model.limit_cycles(**extra)
            ]
        return Finding(list(kept), unit=self.view.time_unit, source=self._source("cycles"))

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The cycles in words."""
        if not finding.value:
            return "No limit cycle was found in the model."
        said = [
            f"{'a stable' if c['stable'] else 'an unstable'} one with the period "
            f"{amount(c['period'], finding.unit)}"
            + ("" if c.get("quality") == "good" else " (to be checked)")
            for c in finding.value[:4]
        ]
        n = count(len(finding.value), "limit cycle")
        return f"The model has {n}: {listing(said)}."


@dataclass
class Chaos(OfModel):
    """The largest Lyapunov exponent."""

    name: str = "exponents"
    timeout_s: float = LONG_S

    def read(self, text: str) -> Request | None:
        """``Is it chaotic?``"""
        return Request() if _CHAOS.search(text) else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """The largest exponent with twice its standard error."""
        kept = self.view.summary.get("lyapunov")
        if kept is None:
            extra = {"control": self.view.u_now} if self.view.controls else {}
            found = self.view.model.lyapunov_spectrum(**extra)
            kept = {
                "exponents": np.asarray(found.exponents).tolist(),
                "standard_errors": np.asarray(found.standard_errors).tolist(),
            }
        value, error = float(kept["exponents"][0]), float(kept["standard_errors"][0])
        unit = f"1/{self.view.time_unit}" if self.view.time_unit else ""
        interval = (value - 2 * error, value + 2 * error)
        return Finding(value, unit=unit, interval=interval, source=self._source("exponents"))

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The exponent in words."""
        low, high = finding.interval or (-math.inf, math.inf)
        half = (high - low) / 2
        error = f" (twice its standard error is {number(half, 2)})" if 0 < half < math.inf else ""
        kind = (
            "positive: neighbouring states part, it is chaotic"
            if low > 0
            else "negative: neighbouring states come together"
            if high < 0
            else "zero within its error: it is neither chaotic nor at rest"
        )
        return (
            f"The largest Lyapunov exponent of the model is {amount(finding.value, finding.unit)}"
            f"{error}, which is {kind}."
        )


@dataclass
class Episodes(OfModel):
    """Where else in the recording something like its end happened."""

    name: str = "episodes"

    def read(self, text: str) -> Request | None:
        """``Has this happened before?``"""
        return Request() if _BEFORE.search(text) else None

    def __call__(self, arguments: Mapping[str, Any], *, cancelled: Callable[[], bool]) -> Finding:
        """Stretches, best first."""
        assert self.view.data is not None
        peak = self.view.summary.get("held_out", {}).get("dominant_frequency") or 0.0
        found = like_the_end(self.view.data, float(peak))
        labels = self.view.data.labels
        stretches = [] if found is None else [
            {"recording": labels[e.recording], "start": e.start, "stop": e.stop,
             "similarity": e.similarity}
            for e in found.found
        ]  # fmt: skip
        return Finding(stretches, unit=self.view.time_unit, source=self._source("recording"))

    def say(self, arguments: Mapping[str, Any], finding: Finding) -> str:
        """The stretches in words."""
        if not finding.value:
            return "The recording is too short to look for something like its end in it."
        many = len({e["recording"] for e in finding.value}) > 1 or (
            self.view.data is not None and self.view.data.n_recordings > 1
        )
        said = [
            f"{number(e['start'], 5)} to {number(e['stop'], 5)}{in_unit(finding.unit, '')}"
            + (f" of {e['recording']}" if many else "")
            + f" (correlation {e['similarity']:.2f})"
            for e in finding.value[:3]
        ]
        return f"The end of the recording looks most like {listing(said)}."
