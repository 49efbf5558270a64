"""From recordings to what the training draws from and is judged by."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError, ForetellWarning
from foretell.data import Scaler, Trajectories
from foretell.dynamics.hybrid.columns import Columns, column_trajectories
from foretell.dynamics.hybrid.scoring import FreeRuns
from foretell.dynamics.hybrid.seams import seam_pairs
from foretell.dynamics.hybrid.windows import (
    Jumps,
    WindowDrawer,
    cut_at_gaps,
    find_jumps,
    hold_back_recordings,
)
from foretell.dynamics.sequences import Sequences

Array = NDArray[np.float64]

LONGER = 4  # a free run is so many times longer than the longest rollout of the training
MANY_JUMPS = 0.15  # share of the steps that is suspicious
_ROOM = 0.05  # share of the range of the recordings by which predictions may leave it


@dataclass(frozen=True)
class Prepared:
    """Everything about the data that a fit needs."""

    scaler: Scaler
    time_scale: float
    jumps: Jumps
    drawer: WindowDrawer
    free_runs: FreeRuns
    held_out: Sequences
    low: Array
    high: Array
    pairs: dict[str, Array]


def prepare(
    recordings: Trajectories,
    columns: Columns,
    learner: Any,
    jump_index: list[NDArray[np.int64]] | None,
    derivatives: tuple[Array, ...] | None,
) -> Prepared:
    """Standardise, find the jumps, hold a part back.

    Raises
    ------
    DataError
        A recording is shorter than the shortest horizon, or no window of the longest one is left.
    """
    tau = recordings.median_interval if learner.time_scale == "auto" else float(learner.time_scale)
    spread = column_trajectories(recordings, columns)
    longest = max(learner.horizons)
    length = max(t.size for t in recordings.times)
    if length < longest + 1:
        raise DataError(
            f"the longest recording has {length} samples; the last of horizons="
            f"{tuple(learner.horizons)} needs {longest + 1}. Write horizons up to "
            f"{max(length // 2, 1)}."
        )
    first = min(learner.horizons)
    for label, t in zip(recordings.labels, recordings.times, strict=True):
        if t.size < first + 1:
            raise DataError(
                f"recording {label!r} has {t.size} samples; the shortest of "
                f"horizons={tuple(learner.horizons)} needs {first + 1}. Leave it out with "
                "recordings.select([..]), or begin with a shorter horizon."
            )
    scaled, scaler = spread.standardise()
    sequences = as_sequences(scaled, tau)
    jumps = find_jumps(sequences, learner.jump_threshold)
    if jump_index is not None:
        jumps = jumps.replaced(jump_index)
    rates = _scaled_rates(recordings, columns, scaler, tau, derivatives)
    train, held_out, flags, kept_rates = hold_back_recordings(
        sequences, jumps.flags, rates, float(learner.validation), longest
    )
    drawer = WindowDrawer(*cut_at_gaps(train, flags, kept_rates))
    if drawer.starts(longest).size == 0:
        raise DataError(
            f"no stretch of {longest + 1} samples that begins with a complete row and has no wide "
            f"gap is left for training. Give longer recordings, or shorter horizons than "
            f"{tuple(learner.horizons)}."
        )
    low, high = _range(sequences)
    pairs = seam_pairs(sequences, jumps.flags)
    free_runs = FreeRuns(held_out, LONGER * longest, int(learner.substeps), low, high, pairs)
    return Prepared(scaler, tau, jumps, drawer, free_runs, held_out, low, high, pairs)


def as_sequences(scaled: Trajectories, time_scale: float) -> Sequences:
    """Standardised columns in model time."""
    return Sequences(
        values=tuple(np.ascontiguousarray(v) for v in scaled.values),
        dt=tuple(np.diff(t) / time_scale for t in scaled.times),
        controls=scaled.controls,
        driven=scaled.controls is not None,
    )


def _scaled_rates(
    recordings: Trajectories,
    columns: Columns,
    scaler: Scaler,
    tau: float,
    derivatives: tuple[Array, ...] | None,
) -> tuple[Array, ...] | None:
    """Derivatives of the standardised columns in model time."""
    if derivatives is None:
        return None
    return tuple(
        columns.spread_rates(d, v) / scaler.scale * tau
        for d, v in zip(derivatives, recordings.values, strict=True)
    )


def _range(sequences: Sequences) -> tuple[Array, Array]:
    """Range of the columns, widened a little."""
    low = np.min([np.nanmin(v, axis=0) for v in sequences.values], axis=0)
    high = np.max([np.nanmax(v, axis=0) for v in sequences.values], axis=0)
    room = _ROOM * (high - low)
    return low - room, high + room


def remark_on_jumps(jumps: Jumps) -> None:
    """Warn of recordings without jumps, and of those with suspiciously many."""
    if jumps.n_jumps == 0:
        warnings.warn(
            "no jumps found in the recordings, so a plain neural ODE may do as well (and CPLRNN "
            "can be analysed). Lower jump_threshold="
            f"{jumps.threshold:.3g} (standard deviations) if you know that there are some.",
            ForetellWarning,
            stacklevel=3,
        )
    elif jumps.share > MANY_JUMPS:
        warnings.warn(
            f"{jumps.share:.0%} of the steps count as jumps, more than {MANY_JUMPS:.0%}: the "
            "sampling may be too coarse for the motion, or the noise too large. Sample faster, or "
            f"raise jump_threshold={jumps.threshold:.3g} (standard deviations).",
            ForetellWarning,
            stacklevel=3,
        )
