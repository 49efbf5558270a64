"""Similar episodes in the report: found for recordings that are long enough, cheap, and shown."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from foretell import Trajectories
from foretell.app.episodes import like_the_end
from foretell.app.folder import FitFolder
from foretell.app.report.page import render
from foretell.app.study import Study


def wave(n: int, seed: int = 0, n_variables: int = 1) -> Trajectories:
    rng = np.random.default_rng(seed)
    t = np.arange(n) * 0.1
    x = np.sin(2 * np.pi * t / 3.0)[:, None] + 0.1 * rng.normal(size=(n, n_variables))
    return Trajectories.from_arrays(x, t)


def test_a_rhythm_is_like_itself() -> None:
    found = like_the_end(wave(2000), 1 / 3.0)
    assert found is not None
    assert found.asked.stop == pytest.approx(199.9)
    assert found.asked.stop - found.asked.start == pytest.approx(6.0)
    assert len(found.found) == 3
    for episode in found.found:
        assert episode.similarity > 0.9
        assert (found.asked.start - episode.start) / 3.0 == pytest.approx(
            round((found.asked.start - episode.start) / 3.0), abs=0.1
        )


def test_short_recordings_and_ends_that_stand_still() -> None:
    assert like_the_end(wave(600), 1 / 3.0) is not None
    assert like_the_end(wave(300), 1 / 30.0) is None  # not eight windows of two periods
    assert like_the_end(wave(100), 0.0) is None  # windows of 16 samples
    still = wave(2000)
    values = still.values[0].copy()
    values[-30:] = values[-31]
    ended = Trajectories.from_arrays(values, still.times[0])
    found = like_the_end(ended, 1 / 1.4)
    assert found is not None
    assert found.asked.stop < 198.6  # before it stopped
    flat = Trajectories.from_arrays(np.r_[values[:900], np.zeros((900, 1))], still.times[0][:1800])
    assert like_the_end(flat, 1 / 3.0) is None


@pytest.mark.parametrize(("n", "n_variables"), [(200_000, 1), (20_000, 12)])
def test_long_recordings_cost_about_a_second(n: int, n_variables: int) -> None:
    data = wave(n, n_variables=n_variables)
    for _ in range(2):  # the first one may compile the search
        began = time.process_time()
        assert like_the_end(data, 1 / 3.0) is not None
        seconds = time.process_time() - began
        if seconds < 3.0:  # 0.4 to 0.9 here
            break
    assert seconds < 3.0


def test_the_section(fitted: tuple[Study, FitFolder]) -> None:
    study, folder = fitted
    html = folder.report.read_text(encoding="utf-8")
    assert '<section id="episodes">' in html
    assert "the stretches that are most like it" in html
    assert study.episodes is not None
    assert study.episodes.found[0].similarity > 0.8
    assert "the most similar one" in html
    without = render(replace(study, episodes=None), "x/model")
    assert "Similar episodes" not in without


def test_several_recordings_are_named(fitted: tuple[Study, FitFolder]) -> None:
    study = fitted[0]
    data = wave(2000)
    two = Trajectories.from_arrays([data.values[0]] * 2, [data.times[0]] * 2, names=["pulse"])
    found = like_the_end(two, 1 / 3.0)
    html = render(replace(study, recordings=two, train=two, episodes=found), "x/model")
    part = html[html.index('id="episodes"') : html.index('id="heldout"')]
    assert "<th" in part
    assert "recording" in part
    assert two.labels[0] in part
