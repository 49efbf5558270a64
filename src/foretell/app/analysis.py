"""Ask a fitted model for what it can tell about itself: by capability, never by class name."""

from __future__ import annotations

import warnings
from typing import Any

from foretell.app.study import Analysis
from foretell.core.errors import ForetellError, ForetellWarning
from foretell.dynamics.model import Cycles, Exponents, FixedPoints, Model


def analyse(model: Model) -> Analysis:
    """Equilibria, limit cycles and Lyapunov exponents, where the model offers them.

    One failing part does not take the others with it: its message is kept in ``failures``.
    """
    failures: list[str] = []
    found: dict[str, Any] = {}
    requests = (
        ("equilibria", FixedPoints, "equilibria"),
        ("cycles", Cycles, "limit_cycles"),
        ("exponents", Exponents, "lyapunov_spectrum"),
    )
    for name, capability, method in requests:
        if not isinstance(model, capability):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found[name] = getattr(model, method)()
            except ForetellError as error:
                failures.append(f"No {name}: {error}")
        failures += [str(w.message) for w in caught if issubclass(w.category, ForetellWarning)]
    if "cycles" in found:
        order = sorted(found["cycles"], key=lambda c: (not c.stable, c.quality != "good"))
        found["cycles"] = tuple(order)
    return Analysis(failures=tuple(dict.fromkeys(failures)), **found)
