"""Settings of the learners that are not trained by teacher forcing, by effort.

Each function gets the recordings as the learner will see them (embedded), the effort and the seed,
and returns the constructor arguments with the choices that the report tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from foretell.app.study import Choice
from foretell.core.errors import ForetellError
from foretell.data import Trajectories

Settings = tuple[dict[str, Any], list[Choice]]

FRACTION = 0.7  # of the recordings, for training

_KOOPMAN = {1: (4, 100), 2: (6, 200), 3: (8, 400), 4: (8, 800), 5: (12, 2_000)}
_HORIZON = 15
_HYBRID = {1: (60, 8), 2: (250, 16), 3: (600, 25), 4: (1_200, 50), 5: (3_000, 50)}
_ROLLOUTS = (4, 8, 16, 25, 50)
_DELAYS = (0, 1, 2, 4)
_NEARLY = 1.05
_PLANNED, _WINDOWS = 40, 1000  # steps of a plan; forecasts by which delays are judged
_SAMPLERS = {1: 500, 2: 1_500, 3: 3_000, 4: 8_000, 5: 20_000}


def edmdc(data: Trajectories, effort: int, random_state: int) -> Settings:
    """Monomials and splines; one regression, whatever the effort."""
    settings, choices = _regression(data, random_state)
    delays, more = _delays(data, settings)
    return settings | delays, choices + more


def _regression(data: Trajectories, random_state: int) -> Settings:
    centres = int(np.clip(data.n_samples // 20, 5, 50))
    settings = {
        "degree": 2, "n_centres": centres, "stable": True, "horizon": _horizon(data),
        "random_state": random_state,
    }  # fmt: skip
    return settings, [
        Choice(
            "Size",
            f"monomials of degree 2 and {centres} splines",
            "fixed observables, so that one regression gives the model",
        )
    ]


def koopman(data: Trajectories, effort: int, random_state: int) -> Settings:
    """Trained observables: their number and the number of updates grow with the effort."""
    n_observables, steps = _KOOPMAN[effort]
    horizon = _horizon(data)
    settings = {
        "n_observables": n_observables, "max_steps": steps, "horizon": horizon,
        "random_state": random_state,
    }  # fmt: skip
    delays, more = _delays(data, _regression(data, random_state)[0])
    return settings | delays, [
        Choice(
            "Size",
            f"{n_observables} trained observables",
            f"effort {effort}: beside the measured variables; in them the model is linear",
        ),
        Choice("Training", f"{steps} updates", f"effort {effort}; errors {horizon} steps ahead"),
        *more,
    ]


def hybrid(data: Trajectories, effort: int, random_state: int) -> Settings:
    """The number of updates and the length of the rollouts grow with the effort."""
    per_horizon, longest = _HYBRID[effort]
    room = max(t.size for t in data.times)
    horizons = [h for h in _ROLLOUTS if h <= longest and 4 * h <= room] or [max(room // 4, 1)]
    settings = {
        "horizons": horizons, "updates_per_horizon": per_horizon, "batch_size": 32,
        "random_state": random_state,
    }  # fmt: skip
    return settings, [
        Choice(
            "Size",
            "a latent space of twice the dimension of the flow plus one",
            "enough for almost every way of gluing states before and after jumps",
        ),
        Choice(
            "Training",
            f"{per_horizon * len(horizons)} updates",
            f"effort {effort}; rollouts of {', '.join(map(str, horizons))} steps, one after the "
            "other; the networks with the best long runs on the part held back are kept",
        ),
    ]


def analogue(data: Trajectories, effort: int, random_state: int) -> Settings:
    """Nearest recorded states; nothing is trained."""
    settings = {"random_state": random_state}
    return settings, [
        Choice(
            "Size", "all recorded transitions", "nothing is trained; similar states are looked up"
        )
    ]


def gaussian(data: Trajectories, effort: int, random_state: int) -> Settings:
    """The number of updates grows with the effort."""
    steps = _SAMPLERS[effort]
    settings = {"max_steps": steps, "random_state": random_state}
    return settings, [Choice("Training", f"{steps} updates", f"effort {effort}")]


def lifting(data: Trajectories, effort: int, random_state: int) -> Settings:
    """The number of updates grows with the effort; from 4 on the label is chosen as well."""
    steps = _SAMPLERS[effort]
    labels: int | str = 64 if effort < 4 else "auto"
    settings = {
        "label_dim": labels, "max_steps": steps, "mean_steps": max(steps // 3, 200),
        "random_state": random_state,
    }  # fmt: skip
    size = "labels of 64 numbers" if effort < 4 else "labels chosen on data held back"
    return settings, [
        Choice("Size", size, "each recorded transition is stored under a random label"),
        Choice("Training", f"{steps} updates", f"effort {effort}"),
    ]


def _delays(data: Trajectories, regression: dict[str, Any]) -> Settings:
    """Former samples in the state: the fewest that forecast nearly as well as any.

    Judged by a regression on a part of the training part, on the rest of it; the part that the
    report judges by plays no role.
    """
    if data.controls is None:
        return {}, []
    from foretell.dynamics import EDMDc
    from foretell.dynamics.choose import hold_out

    try:
        first, rest = hold_out(hold_out(data, FRACTION)[0], FRACTION)
        ahead = int(np.clip(min(t.size for t in rest.times) // 4, 2, _PLANNED))
        errors = {}
        for d in _DELAYS:
            model = EDMDc(**{**regression, "n_delays": d}).fit(first)
            errors[d] = model.horizon_errors(rest, horizon=ahead, most=_WINDOWS).mean()
    except ForetellError:
        return {}, []  # uneven stamps, missing cells or too few rows, of which the fit will tell
    chosen = next(d for d in _DELAYS if errors[d] <= _NEARLY * min(errors.values()))
    tried = f"on a part of the training part, {ahead} samples ahead, forecasts miss by"
    if not chosen:
        said = f"{tried} {errors[0]:.2g} standard deviations, and with delays by hardly less"
        return {}, [Choice("Delays", "none", said)]
    why = (
        f"one row does not say where the system is going: {tried} {errors[chosen]:.2g} standard "
        f"deviations with them and by {errors[0]:.2g} without"
    )
    return {"n_delays": chosen}, [Choice("Delays", f"{chosen} former samples", why)]


def _horizon(data: Trajectories) -> int:
    shortest = min(t.size for t in data.times)
    return int(np.clip(shortest // 4, 2, _HORIZON))


SETTINGS: dict[str, Callable[[Trajectories, int, int], Settings]] = {
    "edmdc": edmdc,
    "koopman": koopman,
    "hybrid": hybrid,
    "analogue": analogue,
    "gaussian": gaussian,
    "lifting": lifting,
}
