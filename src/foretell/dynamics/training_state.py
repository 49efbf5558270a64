"""Everything that an interrupted training needs to go on to the same result, kept in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import Artifact, ArtifactError
from foretell.dynamics.optimise import RAdam

Array = NDArray[np.float64]

_CHECKPOINT = "training-state"


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


class TrainingState:
    """Everything that a resumed training needs to go on to the same result."""

    def __init__(self, theta: Array, rng: np.random.Generator) -> None:
        self.theta, self.rng = theta, rng
        self.optimiser = RAdam(theta.size)
        self.step, self.loss, self.seconds = 0, float("nan"), 0.0
        self.skips_in_a_row = 0
        self.history = History()
        self.best_theta, self.best_step, self.best_score = theta.copy(), 0, -np.inf
        self.looked_at: list[Array] = []  # the parameters of every score in the history

    def take(self, loss: float, gradient: Array, norm: float, clip: float, rate: float) -> None:
        """Follow a gradient, or count it as skipped when it is not finite."""
        self.step += 1
        if not (np.isfinite(loss) and np.isfinite(norm)):
            self.skips_in_a_row += 1
            self.history = replace(self.history, skipped=self.history.skipped + 1)
            return
        self.skips_in_a_row = 0
        self.loss = loss if np.isnan(self.loss) else self.loss + 0.02 * (loss - self.loss)
        if norm > clip:
            gradient *= clip / norm
        self.optimiser.update(self.theta, gradient, learning_rate=rate)

    def look(self, score: float, slack: float = 0.0) -> None:
        """Note a free-run score and keep the parameters if it is the best so far.

        Of equal scores (all escaped, say), and of those within ``slack`` times the best one, the
        later is the better.
        """
        self.history.steps.append(self.step)
        self.history.losses.append(self.loss)
        self.history.scores.append(score)
        self.looked_at.append(self.theta.copy())
        top = max(self.history.scores)
        if not np.isfinite(top) or score >= top - slack * abs(top):
            self.best_theta, self.best_step, self.best_score = self.theta.copy(), self.step, score

    def candidates(self) -> list[int]:
        """Which looks to prefer: the best one, then the others by score; none that escaped."""
        scores = np.array(self.history.scores)
        order = [int(n) for n in np.argsort(-scores, kind="stable") if np.isfinite(scores[n])]
        best = [n for n in order if self.history.steps[n] == self.best_step]
        return best + [n for n in order if n not in best]

    def choose(self, look: int) -> None:
        """Keep the parameters of that look as the best ones."""
        self.best_theta = self.looked_at[look].copy()
        self.best_step, self.best_score = self.history.steps[look], self.history.scores[look]

    def save(self, path: Path, identity: str, seconds: float) -> None:
        """Write the checkpoint folder; ``identity`` names data and settings."""
        fields = {
            "identity": identity,
            "step": self.step,
            "loss": repr(float(self.loss)),
            "seconds": seconds,
            "skips_in_a_row": self.skips_in_a_row,
            "best_step": self.best_step,
            "best_score": repr(float(self.best_score)),
            "history": self.history.to_dict(),
            "generator": json.dumps(self.rng.bit_generator.state),
        }
        arrays = {
            "theta": self.theta,
            "mean": self.optimiser.mean,
            "square": self.optimiser.square,
            "best_theta": self.best_theta,
            "looked_at": np.reshape(self.looked_at, (-1, self.theta.size)),
            "optimiser_step": np.array([self.optimiser.step]),
        }
        Artifact(model_class=_CHECKPOINT, arrays=arrays, fields=fields).save(path)

    def restore(self, path: Path, identity: str) -> None:
        """Take over what ``save`` wrote; refuse the checkpoint of another identity."""
        if not path.exists():
            raise ArtifactError(
                f"there is no checkpoint {path} to resume from. Start with resume=False; a "
                "training that is interrupted leaves one there."
            )
        artifact = Artifact.open(path, classes=[_CHECKPOINT])
        fields: dict[str, Any] = dict(artifact.fields)
        if fields["identity"] != identity:
            raise ArtifactError(
                f"{path} was saved by a training with other data or settings. Go on with the same "
                "file and the same arguments, or start anew with resume=False."
            )
        arrays = artifact.arrays
        if "looked_at" not in arrays:
            raise ArtifactError(
                f"{path} was saved by an older version of foretell, whose trainings cannot be gone "
                "on with. Start anew with resume=False."
            )
        self.theta, self.best_theta = arrays["theta"], arrays["best_theta"]
        self.looked_at = list(arrays["looked_at"])
        self.optimiser.mean, self.optimiser.square = arrays["mean"], arrays["square"]
        self.optimiser.step = int(arrays["optimiser_step"][0])
        self.step, self.loss = fields["step"], float(fields["loss"])
        self.seconds = fields["seconds"]
        self.skips_in_a_row = fields["skips_in_a_row"]
        self.best_step, self.best_score = fields["best_step"], float(fields["best_score"])
        self.history = History.from_dict(fields["history"])
        self.rng.bit_generator.state = json.loads(fields["generator"])
