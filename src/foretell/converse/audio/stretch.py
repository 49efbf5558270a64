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
        """Take out the words that are stable, with their sound; for speech without a pause."""
        sound = np.concatenate(self.frames)
        words = self._recogniser.words(sound)
        keep = agreed(self._words, [w for word in words for w in split_words(word.text)])
        done = [word for word in words[:keep] if word.end <= self.seconds - 1.0]
        if not done and self.seconds < 20.0:
            return ""
        done = done or list(words)
        end = done[-1].end if done else self.seconds
        self.frames = self.frames[round(end / FRAME_S) :]
        self._at_start, self._read_to, self._words = 0, 0, []
        return " ".join(word.text for word in done)
