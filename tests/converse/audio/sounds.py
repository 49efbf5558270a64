"""Sounds and stand-ins for the tests of hearing."""

import numpy as np

from foretell.converse.audio import EnergyActivity, HeardWord, Hearing


def tone(seconds, rate, *, hertz=300.0, level=0.3):
    return level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def spoken(pattern, rate=16_000):
    """Loud and quiet stretches in turn, beginning with a quiet one, in faint noise."""
    parts = [tone(s, rate) if n % 2 else np.zeros(round(s * rate)) for n, s in enumerate(pattern)]
    sound = np.concatenate(parts)
    return sound + np.random.default_rng(0).normal(scale=1e-4, size=sound.size)


class Counting:
    """Recognises how long the sound is: one word for each half second."""

    def __init__(self):
        self.calls = []

    def transcribe(self, samples, *, careful=False):
        self.calls.append(len(samples) / 16_000)
        return " ".join(f"word{n}" for n in range(round(len(samples) / 8_000)))

    def words(self, samples):
        said = self.transcribe(samples).split()
        return [HeardWord(word, 0.5 * n, 0.5 * n + 0.5) for n, word in enumerate(said)]


def ears(recogniser="count", **options):
    recogniser = Counting() if recogniser == "count" else recogniser
    return Hearing(recogniser, activity=EnergyActivity(), **{"turn_end": None, **options})
