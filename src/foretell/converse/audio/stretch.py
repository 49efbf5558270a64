"""A stretch of speech that is still going on, read again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretell.converse.audio.activity import FRAME_S
from foretell.converse.audio.samples import Samples
from foretell.converse.audio.whisper import Recogniser
from foretell.converse.lookup.query import agreed
from foretell.converse.lookup.words import split_words

_SHORTEST_S = 0.2  # of speech with a word in it
_KEPT_S = 2.0  # at both ends when words are cut off
_MOST_S = 20.0


class Stretch:
    """What was heard since the last pause, and the last two readings of it.

    Parameters
    ----------
    recogniser : Recogniser
    before : sequence of frames
        What was heard just before the speech was noticed.
    """

    def __init__(self, recogniser: Recogniser, before: Sequence[Samples]) -> None:
        self.frames = list(before)
        self._recogniser = recogniser
        self._at_start = len(before)
        self._read_to = len(before)
        self._words: list[str] = []
        self._text = ""

    @property
    def seconds(self) -> float:
        """Length, with what was heard before."""
        return len(self.frames) * FRAME_S

    @property
    def unread_s(self) -> float:
        """How much of it the last reading did not have."""
        return (len(self.frames) - self._read_to) * FRAME_S

    def add(self, frame: Samples) -> None:
        """The next 32 ms."""
        self.frames.append(frame)

    def read(self, *, careful: bool = False) -> tuple[str, int]:
        """The text so far, and how many of its first words the reading before had as well.

        Careful is right for a reading that stays the last one if nothing more is said.
        """
        self._read_to = len(self.frames)
        self._text = self._recogniser.transcribe(np.concatenate(self.frames), careful=careful)
        words = split_words(self._text)
        stable = agreed(self._words, words)
        self._words = words
        return self._text, stable

    def final(self) -> str:
        """The text of the whole stretch, now that it is over."""
        if (len(self.frames) - self._at_start) * FRAME_S < _SHORTEST_S:
            return ""
        if self._read_to <= self._at_start:
            self.read(careful=True)
        return self._text

    def cut(self) -> str:
        """Take out the first words, with their sound; for speech without a pause.

        The border lies where it is quietest, not in the first seconds nor in the last ones, whose
        words may still change.
        """
        words = self._recogniser.words(np.concatenate(self.frames))
        levels = np.array([float(np.mean(np.abs(frame))) for frame in self.frames])
        borders = []
        for place in range(1, len(words)):
            begins = words[place].start
            if _KEPT_S <= begins <= self.seconds - _KEPT_S:
                near = round(begins / FRAME_S)
                first = max(near - 3, 1)
                at = first + int(levels[first : near + 2].argmin())
                borders.append((float(levels[at]), at, place))
        if not borders and self.seconds < _MOST_S:
            return ""
        _, at, place = min(borders, default=(0.0, len(self.frames), len(words)))
        self.frames = self.frames[at:]
        self._at_start, self._read_to, self._words = 0, 0, []
        return " ".join(word.text for word in words[:place])
