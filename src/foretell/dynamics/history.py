"""How a training went, for a fitted model to tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class History:
    """Steps at which the model was looked at, with the smoothed loss and the free-run score."""

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    skipped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which ``from_dict`` makes the same history, infinities included."""
        return {
            "steps": self.steps,
            "losses": [repr(float(v)) for v in self.losses],
            "scores": [repr(float(v)) for v in self.scores],
            "skipped": self.skipped,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> History:
        """The history that ``to_dict`` described."""
        return cls(
            list(content["steps"]),
            [float(v) for v in content["losses"]],
            [float(v) for v in content["scores"]],
            content["skipped"],
        )
