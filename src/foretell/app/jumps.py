"""Jumps of a model beside those of a held-out recording: when, where and to where.

Runs start from several recorded states. A predicted jump counts as right within three sampling
intervals of a recorded one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ForetellError
from foretell.data import Trajectories
from foretell.dynamics.model import Jumping, Model

Array = NDArray[np.float64]

_STARTS, _LONGEST, _SHORTEST = 8, 100, 10
_TOLERANCE = 3.0  # sampling intervals


@dataclass(frozen=True)
class FoundJumps:
    """What a model of a jumping system says.

    Attributes
    ----------
    n_recorded, share : int, float
        Jumps in the training part, and their share of its steps.
    n_held_out, n_predicted : int
        Jumps of the held-out stretches and of the runs along them.
    f1, timing : float
        Agreement of the two (1 = all), and mean distance of matched ones, in sampling intervals.
    position_gap, velocity_gap, usual_gap : float
        Gluing of the latent space, in latent steps and speeds; the last one away from jumps.
    n_heads : int
        Of the decoder.
    guards : tuple
        Planes at which the model jumps, with their resets.
    names : tuple of str
    variable : int
        The one that is drawn.
    times, observed, run : arrays (T,)
        One stretch of it.
    events : array
        Jump times of the run.
    """

    n_recorded: int
    share: float
    n_held_out: int
    n_predicted: int
    f1: float
    timing: float
    position_gap: float
    velocity_gap: float
    usual_gap: float
    n_heads: int
    guards: tuple[Any, ...]
    names: tuple[str, ...]
    variable: int
    times: Array
    observed: Array
    run: Array
    events: Array


def look_at_jumps(model: Model, test: Trajectories) -> FoundJumps | None:
    """Compare the jumps of a model with a held-out recording; None for a model that has none."""
    if not isinstance(model, Jumping):
        return None
    return _compare(model, test)


def _compare(model: Any, test: Trajectories) -> FoundJumps | None:
    from foretell.dynamics.hybrid import event_f1
    from foretell.dynamics.hybrid.windows import find_jumps

    flags = find_jumps(model.sequences(test), model.jumps_.threshold).flags
    predicted, true, drawn = [], [], None
    for k, rows in _stretches(test):
        values, times = test.values[k][rows], test.times[k][rows]
        u = None if test.controls is None else test.controls[k][rows]
        found = model.events(values[0], times, controls=u)
        predicted.append([event.time for event in found])
        jump = np.flatnonzero(flags[k][rows.start : rows.stop - 1])
        true.append((times[jump] + times[jump + 1]) / 2)
        if drawn is None or (jump.size and not drawn[1].size):
            drawn = k, jump, rows, np.array(predicted[-1]), u
    if drawn is None:
        return None
    match = event_f1(predicted, true, _TOLERANCE * test.median_interval)
    k, jump, rows, events, u = drawn
    values, times = test.values[k][rows], test.times[k][rows]
    run = model.predict(values[0], times, controls=u)[0]
    scale = np.nanstd(np.concatenate(test.values), axis=0)
    size = np.abs(np.diff(values, axis=0)[jump]).sum(axis=0) if jump.size else np.ones(len(scale))
    n = int(np.nanargmax(size / np.maximum(scale, 1e-12)))
    return FoundJumps(
        model.jumps_.n_jumps, model.jumps_.share,
        sum(len(t) for t in true), sum(len(p) for p in predicted), match.f1,
        match.timing_error / test.median_interval, model.seams_.position, model.seams_.velocity,
        model.seams_.usual_velocity, model.n_heads_, _guards(model), test.names, n,
        times, values[:, n], run[:, n], events,
    )  # fmt: skip


def _guards(model: Any) -> tuple[Any, ...]:
    if model.n_heads_ == 1 or not model.jumps_.n_jumps:
        return ()
    try:
        return tuple(model.guards())
    except ForetellError:
        return ()


def _stretches(test: Trajectories) -> list[tuple[int, slice]]:
    """Recording and rows of stretches without missing cells, evenly spread."""
    found = []
    for k, values in enumerate(test.values):
        whole = np.asarray(np.isfinite(values).all(axis=1))
        length = min(_LONGEST, max(len(values) // 3, _SHORTEST))
        found += [
            (k, slice(s, s + length))
            for s in range(0, len(values) - length + 1, length)
            if whole[s : s + length].all()
        ]
    chosen = np.unique(np.linspace(0, len(found) - 1, min(len(found), _STARTS)).astype(int))
    return [found[n] for n in chosen] if found else []
