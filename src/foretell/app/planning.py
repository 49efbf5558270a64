"""Decide how to cut, embed and fit a recording, and say why in words.

One dial: ``effort`` 1..5 sets the number of updates and the size of the model. Everything else
follows from the data by the simple rules below, and every choice is shown in the report.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretell.app.learner_settings import FRACTION, SETTINGS
from foretell.app.methods import METHODS
from foretell.app.study import Choice, Plan
from foretell.app.words import amount, number
from foretell.core.errors import DataError, ParameterError
from foretell.data import Trajectories

LEARNERS = {method.name: method.public.removeprefix("foretell.") for method in METHODS}
# effort: (updates, hidden units, rectified units, longest window in samples)
EFFORTS = {
    1: (1_500, 8, 4, 60),
    2: (5_000, 10, 8, 60),
    3: (10_000, 15, 6, 200),
    4: (35_000, 20, 10, 200),
    5: (100_000, 20, 12, 200),
}
# The same with inputs: effort: (updates, hidden units, rectified units, longest window)
DRIVEN_EFFORTS = {
    1: (1_000, 6, 4, 400),
    2: (4_000, 8, 6, 600),
    3: (10_000, 8, 6, 600),
    4: (30_000, 12, 8, 600),
    5: (90_000, 12, 8, 600),
}
_FEWEST = 100
_FEWEST_EACH = 20  # where whole recordings are held out
_EMBEDDED = 5
_PER_ROW = 5  # updates per row of the training part, with inputs


def irregularity(data: Trajectories) -> float:
    """Standard deviation of the time between samples as a share of its mean, gaps left out."""
    steps = np.concatenate([np.diff(t) for t in data.times])
    steps = steps[steps <= 10 * np.median(steps)]
    return float(steps.std() / steps.mean())


def make_plan(
    data: Trajectories,
    *,
    learner: str = "auto",
    effort: int = 3,
    random_state: int = 0,
    updates: int | None = None,
) -> Plan:
    """Choose embedding, split, learner and settings for a recording.

    Parameters
    ----------
    data : Trajectories
        As read.
    learner : str
        ``"auto"`` or a key of ``LEARNERS``.
    effort : int
        1 (seconds) to 5 (half an hour).
    random_state : int
        Seed of the fit.
    updates : int, optional
        Overrides the number of updates of the effort.

    Raises
    ------
    DataError
        When there are too few rows to fit and to check a model.
    ParameterError
        For an unknown learner or effort.
    """
    if effort not in EFFORTS:
        raise ParameterError(f"effort={effort} is not one of 1, 2, 3, 4, 5. Write for example 3.")
    if learner != "auto" and learner not in LEARNERS:
        known = ", ".join(["auto", *LEARNERS])
        raise ParameterError(f"There is no learner {learner!r}. Choose one of: {known}.")
    from foretell.dynamics.choose import WHOLE_FROM

    episodes = data.n_recordings >= WHOLE_FROM
    _enough(data, episodes)
    choices: list[Choice] = []
    dimension, lag = _embedding(data, choices)
    gap = _gap(data, dimension, lag)
    choices.append(_split(data, gap, episodes))
    name, why = _learner(data, learner)
    choices.append(Choice("Learner", name, why))
    if name in SETTINGS:
        settings, more = SETTINGS[name](data, effort, random_state)
        parts = (*choices, *more)
        return Plan(name, settings, effort, dimension, lag, gap, FRACTION, parts, episodes)
    longest = max(t.size for t in data.times)
    driven = data.controls is not None
    n_updates, extra, n_relu, longest_window = (DRIVEN_EFFORTS if driven else EFFORTS)[effort]
    n_observed = dimension if dimension > 1 else data.n_variables
    train_rows = int(FRACTION * longest * 0.8)
    most = max(_PER_ROW * int(FRACTION * data.n_samples * 0.8), 2_000)
    limited = driven and n_updates > most
    n_updates = updates or (most if limited else n_updates)
    if driven:  # as long as the recording allows: what the inputs did long ago matters
        length = int(np.clip(round(0.8 * FRACTION * longest), 20, longest_window))
    else:
        length = int(np.clip(train_rows // 3, 20, longest_window))
    settings = {
        "latent_dim": n_observed + extra,
        "n_relu": n_relu,
        "sequence_length": length,
        "max_updates": n_updates,
        "random_state": random_state,
    }
    if driven:
        settings |= _driven(data, name, length, choices)
    choices.append(
        Choice(
            "Size",
            f"{n_observed + extra} units, {n_relu} rectified",
            f"effort {effort}: {n_observed} observed and {extra} hidden; each rectified unit can "
            "divide the state space once",
        )
    )
    choices.append(
        Choice(
            "Training",
            f"{number(float(n_updates), 9)} updates",
            f"effort {effort}; windows of {length} samples; the parameters with the best free run "
            + (
                "along all of the training part are kept"
                if driven
                else "on the last fifth of the training part are kept"
            )
            + (
                f"; no more than {_PER_ROW} updates a row, beyond which this recording would be "
                "learned by heart"
                if limited
                else ""
            ),
        )
    )
    return Plan(name, settings, effort, dimension, lag, gap, FRACTION, tuple(choices), episodes)


def _enough(data: Trajectories, episodes: bool) -> None:
    longest = max(t.size for t in data.times)
    remedy = "Record longer, or sample faster."
    if episodes and (longest < _FEWEST_EACH or data.n_samples < _FEWEST):
        raise DataError(
            f"{data.n_recordings} recordings have {data.n_samples} rows together and at most "
            f"{longest} each; at least {_FEWEST} together and {_FEWEST_EACH} in the longest are "
            f"needed to fit a model and to check it on recordings that it has not seen. {remedy}"
        )
    if not episodes and longest < _FEWEST:
        raise DataError(
            f"The longest recording has {longest} rows; at least {_FEWEST} are needed to fit a "
            "model and to check it on a part that it has not seen (or six recordings of at least "
            f"{_FEWEST_EACH}, some of which are held out). {remedy}"
        )


def _split(data: Trajectories, gap: float, episodes: bool) -> Choice:
    if episodes:
        n = data.n_recordings
        held = n - round(FRACTION * n)
        return Choice(
            "Split",
            f"the last {held} of {n} recordings are held out",
            "each recording is an episode of its own, with a beginning and an end",
        )
    return Choice(
        "Split",
        f"{100 * FRACTION:.0f}\u00a0% / {100 - 100 * FRACTION:.0f}\u00a0% in time",
        "random rows would leak: neighbours are almost copies"
        + (f"; {amount(gap, data.time_unit, 2)} between the parts are left out" if gap else ""),
    )


def _embedding(data: Trajectories, choices: list[Choice]) -> tuple[int, float]:
    if data.n_variables > 1:
        why = f"{data.n_variables} variables are recorded; hidden units can add what they leave out"
        choices.append(Choice("Delay embedding", "none", why))
        return 1, 0.0
    if data.controls is not None:
        why = (
            f"the past of {data.names[0]} follows from the inputs, which are known; hidden units "
            "or former samples carry what it leaves out"
        )
        choices.append(Choice("Delay embedding", "none", why))
        return 1, 0.0
    from foretell.data import choose_lag

    first, _ = data.split(FRACTION)
    lag = float(choose_lag(first))
    shortest = min(float(t[-1] - t[0]) for t in first.times)
    lag = min(lag, shortest / (4 * _EMBEDDED))
    choices.append(
        Choice(
            "Delay embedding",
            f"{_EMBEDDED} copies, {amount(lag, data.time_unit, 3)} apart",
            f"one variable alone does not say where the system is going; {data.names[0]} and its "
            "own "
            "past do. At this lag the signal has forgotten most of its present",
        )
    )
    return _EMBEDDED, lag


def _driven(data: Trajectories, learner: str, length: int, choices: list[Choice]) -> dict[str, Any]:
    """Settings for recordings with inputs: long stretches without correction, after a run-up."""
    run_up = max(length // 8, 10)
    interval = data.median_interval
    choices.append(
        Choice(
            "Run-up",
            f"{run_up} samples ({amount(run_up * interval, data.time_unit, 3)})",
            "one recorded row does not tell the state of the hidden units; they find it from the "
            "inputs, and errors before that do not count",
        )
    )
    settings: dict[str, Any] = {
        "warm_up": run_up,
        "forcing_interval": length,
        "batch_size": 4,
        "noise": 0.0,
        "lr": 1e-2,
        "validation": 0.0,
    }
    slowness = _slowness(data)
    if learner != "alrnn" and slowness > 1:
        settings["time_scale"] = slowness * interval
        choices.append(
            Choice(
                "Unit of time",
                f"{amount(slowness * interval, data.time_unit, 3)}, {slowness} samples",
                "the recording changes slowly between samples, so the hidden units begin slow",
            )
        )
    return settings


def _slowness(data: Trajectories) -> int:
    """Samples, 1 to 5, in which a variable moves by about a fifth of its standard deviation."""
    moves = []
    for n in range(data.n_variables):
        column = np.concatenate([v[:, n] for v in data.values])
        steps = np.concatenate([np.diff(v[:, n]) for v in data.values])
        moves.append(float(np.sqrt(np.nanmean(steps**2)) / np.nanstd(column)))
    return int(np.clip(round(0.2 / max(np.median(moves), 1e-9)), 1, 5))


def _gap(data: Trajectories, dimension: int, lag: float) -> float:
    shortest = min(float(t[-1] - t[0]) for t in data.times)
    wanted = max((dimension - 1) * lag, 10 * data.median_interval)
    return float(min(wanted, 0.05 * shortest)) if shortest > 0 else 0.0


def _learner(data: Trajectories, wanted: str) -> tuple[str, str]:
    if wanted != "auto":
        return wanted, "you asked for it"
    uneven = irregularity(data)
    if uneven > 0.05:
        return "cplrnn", (
            f"the time between samples varies (by {100 * uneven:.0f}\u00a0%); it moves in "
            "continuous time "
            "and uses the stamps as they are"
        )
    return "cplrnn", (
        "its equilibria, cycles and exponents can be solved for; the stamps are even, so alrnn "
        "would fit about as well and train faster"
    )
