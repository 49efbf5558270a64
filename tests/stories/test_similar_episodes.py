"""A pump fails the way it failed once before: the earlier failure is found first.

An irregularly sampled recording of two noisy variables; one episode is played again later, louder,
from another level and with other noise.
"""

from __future__ import annotations

import numpy as np
import pytest

from foretell import Trajectories
from foretell.app.episodes import similar_episodes
from foretell.core.errors import DataError, ParameterError

pytestmark = pytest.mark.story

WINDOW, FIRST, AGAIN = 12.0, 83.4, 285.0


def smooth(rng: np.random.Generator, t: np.ndarray, slowness: float) -> np.ndarray:
    """A random curve without structure: many sines of random phases."""
    rates = rng.uniform(0.2, 1.0 / slowness, 40)
    return np.sqrt(2 / 40) * np.sin(np.outer(t, 2 * np.pi * rates) + rng.uniform(0, 6.28, 40)).sum(
        1
    )


def recording(seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, 300.0, 3000))
    x = np.column_stack([smooth(rng, t, 0.8), smooth(rng, t, 1.5)])
    inside = (t >= AGAIN) & (t <= AGAIN + WINDOW)
    for n in range(2):
        x[inside, n] = 5.0 + 2.0 * np.interp(t[inside] - AGAIN + FIRST, t, x[:, n])
    x += 0.15 * rng.normal(size=x.shape)
    return Trajectories.from_arrays([x], [t])


@pytest.mark.parametrize("seed", range(5))
def test_the_planted_repeat_is_found_first(seed: int) -> None:
    first, second, *_ = similar_episodes(recording(seed), WINDOW, start=AGAIN, k=3)
    assert abs(first.start - FIRST) < 0.5
    assert first.similarity > 0.8
    assert second.similarity < first.similarity - 0.1
    assert abs(second.start - first.start) >= WINDOW


def test_the_last_window_is_asked_about_and_other_recordings_answer() -> None:
    whole = recording(0)
    t, x = whole.times[0], whole.values[0]
    early, late = t < 200.0, (t > 200.0) & (t <= AGAIN + WINDOW)
    two = Trajectories.from_arrays([x[early], x[late]], [t[early], t[late]])
    first, *_ = similar_episodes(two, WINDOW, recording=1)
    assert first.recording == 0
    assert abs(first.start - FIRST) < 0.7


def test_gaps_and_stillness() -> None:
    t = np.r_[np.arange(0, 50, 0.1), np.arange(80, 130, 0.1)]
    x = np.where((t > 90) & (t < 110), 1.0, np.sin(t))[:, None]
    pump = Trajectories.from_arrays([x], [t])
    found = similar_episodes(pump, 8.0, start=10.0, k=20)
    assert all(not (e.start < 80 and e.stop > 50) for e in found)
    with pytest.raises(DataError, match="stands still or lies across a gap"):
        similar_episodes(pump, 8.0, start=95.0)
    with pytest.raises(DataError, match="stands still or lies across a gap"):
        similar_episodes(pump, 8.0, start=60.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": -1.0}, "not a length of time"),
        ({"window": 500.0}, "does not lie within"),
        ({"window": 5.0, "start": 299.0}, "does not lie within"),
        ({"window": 5.0, "recording": 3}, "counted from 0"),
    ],
)
def test_impossible_questions(options: dict[str, float], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        similar_episodes(recording(0), **options)
