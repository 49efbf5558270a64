"""A turn that is being listened to, with the decisions about it so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.converse.language.listening import Decider, GrowingTurn
from foretell.converse.language.results import LanguageDecision

if TYPE_CHECKING:
    from foretell.converse.language.detector import ConvexLanguageDetector

Array = NDArray[np.float64]


class LanguageStream:
    """One turn; made by `ConvexLanguageDetector.stream`."""

    def __init__(self, detector: ConvexLanguageDetector, fallback: Any) -> None:
        self.detector, self.fallback = detector, fallback
        self._turn = GrowingTurn(detector.encoder_, detector.windows_)
        self._rule = Decider(detector.threshold_, detector.hysteresis, detector.switch_after_)
        self._said: LanguageDecision | None = None
        self._withheld = False
        self._last = (0.0, 0.0)

    @property
    def decision(self) -> LanguageDecision | None:
        """The decision in force."""
        return self._said

    def push(self, piece: Any) -> LanguageDecision | None:
        """Hear the next piece; a decision when one falls, changes, or is given up."""
        said = None
        for amount, features in self._turn.hear(piece):
            said = self.see(amount, features) or said
        late = self._turn.amount >= self.detector.windows_.last
        if said is None and self._said is None and late and not self._withheld:
            said = self.end()
        return said

    def see(self, amount: float, features: Array) -> LanguageDecision | None:
        """The same for features that were computed already."""
        if self._said is None and amount > self.detector.windows_.last:
            return None  # too late for a first decision
        head = self.detector.head_
        proba = head.predict_proba(features[None])[0]
        self._last = (amount, float(proba.max()))
        chosen = self._rule.see(amount, proba)
        if chosen is None:
            return None
        radius = getattr(head, "certified_radius", None)
        self._said = LanguageDecision(
            label=self.detector.classes_.tolist()[chosen],
            proba=float(proba[chosen]),
            after=amount,
            unit=self.detector.encoder_.unit,
            action="accept" if self._said is None else "switch",
            certified_radius=None if radius is None else float(radius(features[None])[0]),
        )
        return self._said

    def end(self) -> LanguageDecision:
        """The turn is over, or the time: the decision in force, or that there is none."""
        if self._said is not None:
            return self._said
        self._withheld = True
        amount, proba = self._last
        return LanguageDecision(
            self.fallback, proba, max(amount, 0.0), self.detector.encoder_.unit, "withhold"
        )
