"""What the inputs of a model can do, and how its error grows when it is given the recorded ones.

The first is asked of the model (``Controllable``), the second of held-out recordings: forecasts
from many recorded states, each given the inputs that followed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.starts import start_at
from foretell.core.errors import ForetellError, ForetellWarning
from foretell.data import Trajectories
from foretell.dynamics.model import Controllable, Model
from foretell.dynamics.reachability import Reachability

Array = NDArray[np.float64]

_STARTS = 60
_MOST_STEPS, _FEWEST_STEPS, _FEWEST_STARTS = 40, 3, 5
_LOST = 1e3  # the error of a run that escaped, in standard deviations
SHARES = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class InputEffects:
    """Inputs of a model.

    Attributes
    ----------
    reachability : Reachability
        How far they move the variables within the horizon.
    lead : array (H + 1,)
        Lead times of the forecasts, from the start.
    error : array (3, H + 1)
        Error that 50, 80 and 95 % of them keep, in standard deviations (root mean square over
        the variables).
    still : array (H + 1,)
        Median error of keeping the last value.
    n_starts : int
        Forecasts; 0 where the held-out part is too short, and then the arrays are NaN.
    """

    reachability: Reachability
    lead: Array
    error: Array
    still: Array
    n_starts: int


def look_at_inputs(model: Model, test: Trajectories, scale: Array) -> InputEffects | None:
    """Ask a model about its inputs; None for a model without, or one that cannot be asked."""
    if test.controls is None or not isinstance(model, Controllable):
        return None
    found = _errors(model, test, scale)
    H = len(found[0]) - 1
    try:
        reachability = model.input_response(n_steps=H, step=test.median_interval)
    except ForetellError:
        return None
    return InputEffects(reachability, *found)


def _errors(model: Any, test: Trajectories, scale: Array) -> tuple[Array, Array, Array, int]:
    longest = max(t.size for t in test.times)
    H = int(np.clip(longest // 4, _FEWEST_STEPS, _MOST_STEPS))
    lead = np.asarray(test.median_interval * np.arange(H + 1), dtype=np.float64)
    misses, kept = [], []
    delays = int(getattr(model, "n_delays", 0))
    for n, start in _starts(test, H, int(getattr(model, "warm_up", 0)), delays):
        rows = slice(start, start + H + 1)
        truth, times = test.values[n][rows], test.times[n][rows]
        assert test.controls is not None
        run = np.full_like(truth, np.nan)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ForetellWarning)
                reached = model.simulate(
                    start_at(model, test, n, start), times, controls=test.controls[n][rows]
                )
            run[: len(reached.values[0])] = reached.values[0]
        except ForetellError:
            pass
        misses.append(np.nan_to_num(_rms(run - truth, scale), nan=_LOST))
        kept.append(_rms(truth[0] - truth, scale))
    if len(misses) < _FEWEST_STARTS:
        return lead, np.full((3, H + 1), np.nan), np.full(H + 1, np.nan), 0
    error = np.quantile(misses, SHARES, axis=0)
    return lead, np.asarray(error), np.asarray(np.median(kept, axis=0)), len(misses)


def _rms(miss: Array, scale: Array) -> Array:
    return np.asarray(np.sqrt(np.mean((miss / scale) ** 2, axis=1)))


def _starts(test: Trajectories, H: int, run_up: int, delays: int = 0) -> list[tuple[int, int]]:
    """Recording and row of starts of stretches without missing cells, evenly spread.

    All have ``delays`` rows before them. Where enough of them have ``run_up``, the others are left
    out.
    """
    found = []
    for n, values in enumerate(test.values):
        if len(values) <= H:
            continue
        whole = np.isfinite(values).all(axis=1).astype(np.int64)
        sums = np.convolve(whole, np.ones(H + 1, dtype=np.int64), "valid")
        found += [(n, int(s)) for s in np.flatnonzero(sums == H + 1) if s >= delays]
    late = [(n, row) for n, row in found if row >= run_up]
    found = late if len(late) >= _FEWEST_STARTS else found
    chosen = np.unique(np.linspace(0, max(len(found) - 1, 0), _STARTS).astype(np.intp))
    return [found[k] for k in chosen] if found else []
