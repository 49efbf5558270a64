"""Error of free runs, from which networks and the number of heads are chosen.

Runs are compared in the glued space: a state that is still before a jump is as near to one just
after it as they are to the two sides of that jump. The plain distance would prefer a decoder that
smears a jump over several samples to one that makes it a sample too late.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from foretell.dynamics.hybrid.latent_model import LatentModel
from foretell.dynamics.sequences import Sequences, complete_rows

Array = NDArray[np.float64]

_MOST_RUNS = 64
_MOST_PAIRS = 100
WORST = 100.0  # squared error of one sample beyond which it makes no difference


class FreeRuns:
    """Free runs of some length from places in recordings, all followed at once.

    Parameters
    ----------
    sequences : Sequences
        Standardised columns.
    length : int
        Steps of a run; shorter where the recording ends.
    substeps : int
        Runge-Kutta steps in each interval.
    low, high : arrays (n,)
        Range to which predictions are clipped.
    pairs : mapping, optional
        ``before`` and ``after`` (S, n), samples on the two sides of known jumps.
    """

    def __init__(
        self,
        sequences: Sequences,
        length: int,
        substeps: int,
        low: Array,
        high: Array,
        pairs: Mapping[str, Array] | None = None,
    ) -> None:
        places = [
            (k, start)
            for k, values in enumerate(sequences.values)
            for start in _starts(complete_rows(values), length)
        ]
        if len(places) > _MOST_RUNS:
            chosen = np.linspace(0, len(places) - 1, _MOST_RUNS).astype(int)
            places = [places[k] for k in chosen]
        spans = [min(length, len(sequences.values[k]) - 1 - s) for k, s in places]
        T = max(spans, default=0)
        n = sequences.values[0].shape[1]
        self.truth = np.full((len(places), T + 1, n), np.nan)
        self.dt = np.ones((len(places), T))
        K = sequences.n_controls
        self.u = np.zeros((len(places), T, K)) if K else None
        for row, ((k, start), span) in enumerate(zip(places, spans, strict=True)):
            stop = start + span
            self.truth[row, : span + 1] = sequences.values[k][start : stop + 1]
            self.dt[row, :span] = sequences.dt[k][start:stop]
            if self.u is not None and sequences.controls is not None:
                self.u[row, :span] = sequences.controls[k][start:stop]
        self._substeps, self._low, self._high = substeps, low, high
        self._complete = np.isfinite(self.truth).all(axis=2)
        self._sides: tuple[Array, Array] | None = None
        if pairs is not None and len(pairs["before"]):
            rows = np.linspace(0, len(pairs["before"]) - 1, min(len(pairs["before"]), _MOST_PAIRS))
            b, a = (pairs[name][rows.astype(int)] for name in ("before", "after"))
            self._sides = b, a

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return len(self.truth)

    def errors(self, model: LatentModel) -> list[float]:
        """Mean squared error of the runs for each of the model's decoders, in variances."""
        z = model.roll_out(model.encode(self.truth[:, 0]), self.dt, self.u, self._substeps)
        return [self._error(model.with_head(k).decode(z)) for k in range(len(model.shape.heads))]

    def error(self, model: LatentModel) -> float:
        """The same for the decoder in use."""
        return self.errors(model)[model.head]

    def _error(self, x: Array) -> float:
        near = np.clip(x, self._low, self._high)
        seen = np.isfinite(self.truth)
        away = np.where(seen, near - self.truth, 0.0)
        square = (away**2).sum(axis=2) / np.maximum(seen.sum(axis=2), 1)
        if self._sides is not None:
            at = self._complete & np.isfinite(near).all(axis=2)
            glued = _through(near[at], self.truth[at], *self._sides)
            square[at] = np.minimum(square[at], glued**2 / x.shape[2])
        square = np.where(np.isfinite(x).all(axis=2), np.minimum(square, WORST), WORST)
        return float(square[:, 1:][seen[:, 1:].any(axis=2)].mean())


def _through(x: Array, y: Array, before: Array, after: Array) -> Array:
    """Shortest way (P,) from x to y (P, n) through one jump, in either direction."""
    ways = [
        (cdist(x, one) + cdist(y, two)).min(axis=1)
        for one, two in ((before, after), (after, before))
    ]
    return np.asarray(np.minimum(*ways))


def _starts(complete: NDArray[np.bool_], length: int) -> list[int]:
    """Complete rows from which runs begin: one every ``length`` samples, the first at once."""
    rows = np.flatnonzero(complete[:-1])
    starts: list[int] = []
    for row in rows:
        if not starts or row >= starts[-1] + length:
            starts.append(int(row))
    if len(starts) > 1 and len(complete) - 1 - starts[-1] < length // 2:
        starts.pop()
    return starts
