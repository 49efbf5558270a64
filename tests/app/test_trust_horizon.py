"""How far ahead a model may be trusted: blocks, the search, its words, and its false alarms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from foretell.app.findings import describe
from foretell.app.folder import FitFolder
from foretell.app.report import render
from foretell.app.study import Analysis, HorizonTrial, Study, TrustHorizon
from foretell.app.summary import summarise, to_json
from foretell.app.trust_horizon import forgetting_time, spaced_blocks, trust_horizon
from foretell.app.trust_horizon_words import finding, sentences
from foretell.data import Trajectories

Fitted = tuple[Study, FitFolder]


class Drifting:
    """Forecasts that are right up to a time that depends on the start, then lost."""

    def __init__(self, data: Trajectories, lasts: Any) -> None:
        self.data, self.lasts, self.calls = data, lasts, 0

    def simulate(self, x0: Any, times: Any, **_: Any) -> Any:
        self.calls += 1
        known = self.data.times[0]
        row = int(np.searchsorted(known, times[0]))
        values = self.data.values[0][np.searchsorted(known, times)].copy()
        values[times - times[0] > self.lasts(row, x0)] += 1e3
        return SimpleNamespace(values=[values])


def noise(n: int, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    return Trajectories.from_arrays(rng.normal(size=(n, 2)), np.arange(float(n)), time_unit="s")


def test_blocks_are_spaced_and_take_every_phase() -> None:
    data = noise(4000)
    blocks = spaced_blocks(data, 3.0, 10.0)
    starts = np.array([rows.start for _, rows in blocks])
    ends = np.array([rows.stop - 1 for _, rows in blocks])
    gaps = starts[1:] - ends[:-1]
    assert gaps.min() >= 5
    assert gaps.max() <= 16
    phases = np.bincount(starts % 10, minlength=10) / starts.size
    assert phases.min() > 0.05
    assert phases.max() < 0.2


def test_blocks_avoid_gaps_and_missing_starts() -> None:
    times = np.r_[np.arange(50.0), 200 + np.arange(50.0)]
    values = np.random.default_rng(0).normal(size=(100, 2))
    values[:4, 1] = np.nan
    data = Trajectories.from_arrays(values, times, mask=np.isfinite(values))
    blocks = spaced_blocks(data, 10.0, 2.0)
    assert blocks[0][1].start == 4
    for _, rows in blocks:
        assert np.diff(times[rows]).max() == 1.0
        assert times[rows][-1] - times[rows][0] == 10.0


def test_forecasts_that_last_are_trusted_as_far_as_they_last() -> None:
    data = noise(6000)
    train, test = data.take_rows([slice(0, 2000)]), data.take_rows([slice(2000, None)])
    model = Drifting(test, lambda row, x0: 25.5)
    found = trust_horizon(model, train, test, period=4.0)  # type: ignore[arg-type]
    assert found.horizon is not None
    assert 10 < found.horizon <= 25.5
    assert found.trials[-1].wrong_overall == 1.0
    words = " ".join(sentences(found, "s"))
    assert "so the model itself is what ends it" in words
    assert "do not overlap" in words
    assert model.calls < 12 * 240


def test_strange_starts_are_not_accepted() -> None:
    data = noise(8000)
    train, test = data.take_rows([slice(0, 3000)]), data.take_rows([slice(3000, None)])
    far = np.abs(test.values[0]).max(axis=1) > 1.9  # about one in ten

    def lasts(row: int, x0: Any) -> float:
        return 0.0 if far[row] else 1e9

    found = trust_horizon(Drifting(test, lasts), train, test, period=4.0)  # type: ignore[arg-type]
    assert found.best is not None
    assert found.best.accepted < 1
    assert found.best.wrong < found.best.wrong_overall
    assert "of the forecasts from the starts that it accepts" in finding(found, "s")


def test_a_short_recording_cannot_be_told_and_says_what_would_do() -> None:
    data = noise(300)
    train, test = data.take_rows([slice(0, 200)]), data.take_rows([slice(200, None)])
    model = Drifting(test, lambda row, x0: 1e9)
    found = trust_horizon(model, train, test, period=20.0)  # type: ignore[arg-type]
    assert found.horizon is None
    assert found.needed == 22
    assert model.calls == 0
    (answer, *_) = sentences(found, "s")
    assert answer.startswith("This cannot be told.")
    assert "at least 22 are needed" in answer
    assert finding(found, "s") == ""


def test_a_bad_model_is_told_from_too_little_data() -> None:
    trial = HorizonTrial(2.0, 60, None, 0.0, 0.5, 0.5, None)
    found = TrustHorizon(None, (trial,), 0.1, 0.9, 0.4, 1.0, 22)
    assert sentences(found, "s")[0].startswith("Not even 2\u00a0s ahead")
    close = replace(found, trials=(replace(trial, wrong=0.08, wrong_overall=0.08, needed=150),))
    assert "about 150 would be enough" in sentences(close, "s")[0]


def test_neighbours_that_fail_alike_are_pointed_out() -> None:
    data = noise(6000)
    train, test = data.take_rows([slice(0, 2000)]), data.take_rows([slice(2000, None)])

    def lasts(row: int, x0: Any) -> float:
        return 3.0 if 3000 < row < 3240 else 1e9  # one bad spell

    found = trust_horizon(Drifting(test, lasts), train, test, period=4.0)  # type: ignore[arg-type]
    assert found.horizon is not None
    assert "went wrong alike" in " ".join(sentences(found, "s"))


@pytest.mark.theory
def test_a_horizon_that_is_too_long_is_rarely_certified() -> None:
    """With probability 0.1 at most per recording. 150 recordings with independent blocks; fails by
    chance with probability below 1e-4."""
    runs, misled = 150, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        data = noise(1400, seed)
        train, test = data.take_rows([slice(0, 300)]), data.take_rows([slice(300, None)])
        last = rng.exponential(20.0, size=1400)  # wrong by h: 1 - exp(-h / 20); 0.1 at 2.1

        def lasts(row: int, x0: Any, last: Any = last) -> float:
            return float(last[row])

        model = Drifting(test, lasts)
        found = trust_horizon(model, train, test, period=3.0)  # type: ignore[arg-type]
        # Rows are one apart, so a forecast that lasts 2.1 is seen to be wrong at 3.
        true = 1 - np.exp(-np.floor((found.horizon or 0) + 1e-9) / 20)
        misled += bool(true > 0.1)
    assert misled <= binom.isf(1e-4, runs, 0.1)


def test_with_inputs_forecasts_get_them_and_start_after_a_run_up() -> None:
    plain = noise(1500)
    inputs = np.arange(1500.0)[:, None]
    data = Trajectories.from_arrays(plain.values[0], plain.times[0], controls=inputs)
    seen: list[int] = []

    class Driven(Drifting):
        def simulate(self, x0: Any, times: Any, *, controls: Any, **_: Any) -> Any:
            assert np.array_equal(controls[:, 0], times)
            assert np.array_equal(x0.times[0], np.arange(max(0, times[0] - 399), times[0] + 1))
            seen.append(len(x0.times[0]))
            return super().simulate(x0, times)

    trust = trust_horizon(Driven(data, lambda row, x0: 60.0), data, data, period=10.0, run_up=30)
    assert min(seen) >= 31
    assert trust.given_inputs
    assert trust.horizon is not None
    assert trust.horizon <= 60
    said = " ".join(sentences(trust, "s"))
    assert "ahead where the inputs are known" in said
    assert "after a run-up along the rows before it" in said
    assert "ahead where the inputs are known" in finding(trust, "s")


def test_forgetting_time_of_a_known_process() -> None:
    rng, n = np.random.default_rng(0), 40_000
    x = np.zeros(n)
    for i in range(1, n):
        x[i] = 0.95 * x[i - 1] + rng.normal()
    data = Trajectories.from_arrays(x[:, None], 0.5 * np.arange(n))
    assert forgetting_time(data) == pytest.approx(0.5 / -np.log(0.95), rel=0.2)


def test_report_summary_and_findings(fitted: Fitted) -> None:
    study, folder = fitted
    html = folder.report.read_text(encoding="utf-8")
    assert "How far ahead this model may be trusted" in html
    assert "separate stretch" in html
    trust = study.held_out.trust
    assert trust is not None
    assert trust.horizon is not None
    assert "held-out stretches" in study.findings[-1]
    assert '"trust_horizon": {' in to_json(summarise(study, folder))


def test_report_without_it(fitted: Fitted) -> None:
    study = fitted[0]
    held = replace(study.held_out, trust=None)
    html = render(replace(study, held_out=held), "x/model")
    assert "may be trusted" not in html
    assert describe(held, Analysis(), study.recordings)
