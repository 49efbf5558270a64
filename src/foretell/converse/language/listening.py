"""Features of a turn that is still growing, at fixed amounts heard, and the rule that decides.

The same code makes the features of training turns and of live ones, so that they cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.converse.language.encoders import checked_piece
from foretell.core.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Windows:
    """When to look: at ``first``, then every ``step``, for a first decision until ``last``."""

    first: float
    step: float
    last: float


class GrowingTurn:
    """What has been heard of one turn; digital silence before the first sound does not count.

    Parameters
    ----------
    encoder : callable
    windows : Windows
    """

    def __init__(self, encoder: Any, windows: Windows) -> None:
        self.encoder, self.windows = encoder, windows
        self.text = encoder.unit == "characters"
        self.rate = 1 if self.text else int(encoder.sample_rate)
        self._heard: Any = "" if self.text else np.empty(0)
        self._total: Array | float = 0.0
        self._rows = 0
        self._looks = 0

    @property
    def amount(self) -> float:
        """Seconds or characters so far."""
        return len(self._heard) / self.rate

    def hear(self, piece: Any) -> list[tuple[float, Array]]:
        """Add a piece; features at every look that has come due, with the amount heard there."""
        piece = checked_piece(piece, self.encoder, whole=False)
        if not self.text and not len(self._heard):
            sounding = np.flatnonzero(piece)
            piece = piece[sounding[0] :] if sounding.size else piece[:0]
        self._heard = self._heard + piece if self.text else np.concatenate([self._heard, piece])
        found = []
        while len(self._heard) >= (end := self._next()):
            self._looks += 1
            features = self._features(end)
            if features is not None:
                found.append((end / self.rate, features))
        return found

    def rest(self) -> list[tuple[float, Array]]:
        """Features of all that was heard, where the last look was earlier."""
        end = len(self._heard)
        if self._looks and end <= self._next(self._looks - 1):
            return []
        features = self._features(end)
        return [] if features is None else [(self.amount, features)]

    def _next(self, look: int | None = None) -> int:
        number = self._looks if look is None else look
        return round(self.rate * (self.windows.first + number * self.windows.step))

    def _features(self, end: int) -> Array | None:
        if self.text:
            rows = self.encoder(self._heard[:end])
            return _described(self.encoder, _checked_rows(rows).mean(axis=0))
        hop = getattr(self.encoder, "hop", None)
        if hop is None:
            rows = _checked_rows(self.encoder(self._heard[:end]))
            return _described(self.encoder, rows.mean(axis=0)) if len(rows) else None
        ready = max(0, 1 + (end - self.encoder.window) // hop)
        if ready > self._rows:
            stop = (ready - 1) * hop + self.encoder.window
            rows = _checked_rows(self.encoder(self._heard[self._rows * hop : stop]))
            self._total, self._rows = self._total + rows.sum(axis=0), ready
        if not self._rows:
            return None
        return _described(self.encoder, np.asarray(self._total) / self._rows)


class Decider:
    """Hysteresis, patience and loyalty over probabilities that come one after another.

    Parameters
    ----------
    threshold : float
        Decide when the most probable class has at least this in ``hysteresis`` looks in a row.
    hysteresis : int
    switch_after : float
        After a decision, another class must hold the threshold for this long.
    """

    def __init__(self, threshold: float, hysteresis: int, switch_after: float) -> None:
        self.threshold, self.hysteresis = threshold, hysteresis
        self.switch_after = switch_after
        self.chosen: int | None = None
        self._candidate = -1
        self._looks = 0
        self._since = 0.0

    def see(self, amount: float, proba: Array) -> int | None:
        """The class decided on at this look, if there is a new one."""
        best = int(np.argmax(proba))
        if proba[best] < self.threshold or best == self.chosen:
            self._candidate, self._looks = -1, 0
            return None
        if best != self._candidate:
            self._candidate, self._looks, self._since = best, 0, amount
        self._looks += 1
        if self.chosen is None:
            settled = self._looks >= self.hysteresis
        else:
            settled = amount - self._since >= self.switch_after
        if not settled:
            return None
        self.chosen, self._candidate, self._looks = best, -1, 0
        return best


def looks(turn: Any, encoder: Any, windows: Windows) -> list[tuple[float, Array]]:
    """Features of a whole turn at every look until ``last``; at its end where it is shorter."""
    whole = checked_piece(turn, encoder, whole=True)
    growing = GrowingTurn(encoder, windows)
    most = round(growing.rate * windows.last)
    found = growing.hear(whole[:most])
    return found or growing.rest()


def _described(encoder: Any, mean: Array) -> Array:
    summary = getattr(encoder, "summary", None)
    return np.asarray(mean if summary is None else summary(mean), dtype=np.float64)


def _checked_rows(rows: Any) -> Array:
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise DataError(
            f"The encoder gave an array of shape {array.shape}; needed are finite rows, (rows, d)."
        )
    return array
