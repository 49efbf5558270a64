"""Verdicts, findings and warnings in words."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

from foretell.app.findings import caution, describe, judge
from foretell.app.folder import FitFolder
from foretell.app.planning import EFFORTS, irregularity, make_plan
from foretell.app.report import render
from foretell.app.spectrum import power_spectrum
from foretell.app.study import Analysis, Study
from foretell.core.errors import DataError, ParameterError
from foretell.data import Trajectories
from tests.app.fake import pulse_recording

Fitted = tuple[Study, FitFolder]


@pytest.mark.parametrize(
    ("change", "grade", "words"),
    [
        ({}, "good", "same rhythm"),
        ({"state": "escapes"}, "poor", "runs away"),
        ({"state": "settles"}, "poor", "comes to rest"),
        ({"divergence": float("nan")}, "poor", "differently"),
        ({"divergence": 9.0}, "poor", "differently"),
        ({"divergence": 1.5}, "fair", "rhythm"),
        ({"hellinger": 0.4}, "fair", "rhythm"),
        ({"divergence_floor": 4.0, "divergence": 4.2}, "unclear", "trend"),
        ({"divergence_floor": 4.0, "divergence": 40.0}, "poor", "differently"),
        ({"ensembles": SimpleNamespace(ratio=0.3)}, "fair", "far too narrow"),
        ({"ensembles": SimpleNamespace(ratio=3.0)}, "fair", "far too wide"),
        ({"ensembles": SimpleNamespace(ratio=0.9)}, "good", "same rhythm"),
        ({"driven_error": 0.1}, "good", "inputs closely"),
        ({"driven_error": 0.9}, "poor", "does not follow"),
    ],
)
def test_verdict(fitted: Fitted, change: dict[str, object], grade: str, words: str) -> None:
    calm = replace(
        fitted[0].held_out,
        divergence=0.3,
        divergence_floor=0.2,
        hellinger=0.12,
        hellinger_floor=0.1,
    )
    verdict = judge(replace(calm, **change))
    assert verdict.grade == grade
    assert words in verdict.sentence


def test_whole_recordings_that_fill_their_states_thinly_are_judged_by_forecasts(
    fitted: Fitted,
) -> None:
    held = replace(fitted[0].held_out, episodes=True, divergence=16.0, divergence_floor=15.0)
    own = held.forecast
    ahead = replace(own, model_error=0.1 * own.persistence_error, valid_time=2.0)
    ahead.model_error[1:] = 0.5 * own.persistence_error[1:]
    verdict = judge(replace(held, forecast=ahead))
    assert verdict.grade == "fair"
    assert verdict.sentence.startswith("Its forecasts beat keeping the last value at 100")
    assert "differ too much among themselves" in verdict.sentence
    behind = replace(own, persistence_error=0 * own.lead, valid_time=0.1)
    verdict = judge(replace(held, forecast=behind))
    assert verdict.grade == "unclear"
    assert "More recordings" in verdict.sentence


def test_a_state_that_is_not_whole_is_named_with_a_remedy(fitted: Fitted) -> None:
    study = fitted[0]
    own = study.held_out.forecast
    found = replace(own, persistence_error=0 * own.lead, valid_time=0.1)
    narrow: Any = SimpleNamespace(ratio=0.3)
    held = replace(study.held_out, forecast=found, ensembles=narrow)
    said = " ".join(caution(study.recordings, study.plan, held, study.analysis, ()))
    assert "add its velocity" in said
    assert "add its velocity" not in " ".join(study.warnings)
    assert "last value does as well" in " ".join(describe(held, study.analysis, study.recordings))


def test_findings_name_cycle_and_period(fitted: Fitted) -> None:
    study = fitted[0]
    found = " ".join(study.findings)
    assert "stable limit cycle with period 0.829\u00a0s, crossing four region boundaries" in found
    assert "two equilibria (1 stable, 1 unstable); there are no others" in found
    assert re.search(r"held-out data \([+−]0\.\d\u00a0%\)", found)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ((0.0, 9.0), "Where the data are, the model has one equilibrium (unstable). Another one"),
        ((0.0, 9.0, 9.5), "Two others lie far outside, where the data say nothing; there are no"),
        ((9.0,), "one equilibrium (unstable), far from everything that was recorded"),
        ((), "has no equilibrium"),
    ],
)
def test_equilibria_outside_the_data_are_told_apart(
    fitted: Fitted, places: tuple[float, ...], words: str
) -> None:
    held = fitted[0].held_out
    seen = held.observed.values[0]
    items = tuple(
        SimpleNamespace(state=seen.mean(axis=0) + x * seen.std(axis=0), stable=False)
        for x in places
    )
    found = SimpleNamespace(items=items, completeness="complete")
    said = describe(held, Analysis(equilibria=found, cycles=()), fitted[0].recordings)
    assert words in " ".join(said)


@pytest.mark.parametrize(
    ("exponent", "words"),
    [
        (0.9, "chaotic: its largest"),
        (0.01, "without being"),
        (-0.5, "drawn to a stable equilibrium: there a small disturbance shrinks by a factor e"),
    ],
)
def test_attractor_from_exponents(fitted: Fitted, exponent: float, words: str) -> None:
    spectrum = SimpleNamespace(
        exponents=np.array([exponent, -1.0]), standard_errors=np.array([0.02, 0.1]), duration=50.0
    )
    rest = SimpleNamespace(state=fitted[0].held_out.observed.values[0].mean(axis=0), stable=True)
    found = SimpleNamespace(items=(rest,), completeness="complete")
    analysis = Analysis(exponents=spectrum, cycles=(), equilibria=found if exponent < 0 else None)
    said = describe(fitted[0].held_out, analysis, fitted[0].recordings)
    assert words in " ".join(said)


def test_cautions(fitted: Fitted) -> None:
    study = fitted[0]
    doubtful = SimpleNamespace(quality="check")
    said = " ".join(
        caution(
            study.recordings,
            replace(study.plan, learner="alrnn"),
            replace(study.held_out, divergence_floor=5.0),
            Analysis(cycles=(doubtful,), failures=("No exponents: it escaped.",)),
            ("3 duplicate stamps merged", "not learned: raise max_steps (now 1500)."),
        )
    )
    assert f"(now 1500). On the command line: --effort {study.plan.effort + 1}." in said
    for part in ("gap of", "equal steps", "drifted", "carries the flag", "escaped", "merged"):
        assert part in said, part


def test_a_drift_is_named(fitted: Fitted) -> None:
    study = fitted[0]
    held = study.held_out
    risen = held.observed.values[0] + 3 * np.nanstd(study.recordings.values[0], axis=0)
    moved = Trajectories.from_arrays(risen, held.observed.times[0], names=held.observed.names)
    drifting = replace(held, observed=moved, divergence_floor=40.0)
    said = caution(study.recordings, study.plan, drifting, Analysis(), ())
    assert "drifts: in the held-out part it lies 3" in " ".join(said)


def test_without_a_unit_a_forecast_is_counted_in_samples(fitted: Fitted) -> None:
    study = fitted[0]
    plain = replace(study.recordings, time_unit="")
    soon = replace(study.held_out.forecast, valid_time=0.084)
    said = " ".join(describe(replace(study.held_out, forecast=soon), study.analysis, plain))
    assert re.search(r"within 0.4 standard deviations for seven samples? \(median", said)


def test_plan_embeds_one_variable_and_says_so() -> None:
    data = pulse_recording(2000)
    plan = make_plan(data, effort=1)
    assert plan.embedding_dimension == 5
    assert 0.05 < plan.lag < 0.4
    assert plan.gap > 0
    assert plan.learner == "cplrnn"
    assert plan.settings["max_updates"] == EFFORTS[1][0]
    assert "varies" in next(c.why for c in plan.choices if c.what == "Learner")


def test_plan_leaves_several_variables_alone() -> None:
    rng = np.random.default_rng(0)
    plan = make_plan(Trajectories.from_arrays(rng.normal(size=(400, 3))))
    assert plan.embedding_dimension == 1
    assert "even" in next(c.why for c in plan.choices if c.what == "Learner")


def driven_recording(n: int, step: float = 4.0) -> Trajectories:
    rng = np.random.default_rng(0)
    force = np.repeat(rng.normal(size=n // 40 + 1), 40)[:n]
    level = np.zeros(n)
    for k in range(1, n):
        level[k] = level[k - 1] + 0.05 * (force[k - 1] - level[k - 1])
    return Trajectories.from_arrays(
        level[:, None],
        step * np.arange(n),
        controls=force[:, None],
        names=["level"],
        control_names=["pump"],
        time_unit="s",
    )


def test_plan_with_inputs_runs_long_after_a_run_up() -> None:
    plan = make_plan(driven_recording(1000), effort=3)
    settings = plan.settings
    assert plan.embedding_dimension == 1
    assert settings["forcing_interval"] == settings["sequence_length"] == 560
    assert settings["warm_up"] == 70
    assert settings["max_updates"] == 2800  # five for each row that is trained on
    assert settings["time_scale"] == 20.0  # the level hardly moves from one sample to the next
    said = {choice.what: choice.value + choice.why for choice in plan.choices}
    assert "70 samples (280\u00a0s)" in said["Run-up"]
    assert "learned by heart" in said["Training"]
    assert "time_scale" not in make_plan(driven_recording(1000), learner="alrnn").settings
    assert make_plan(driven_recording(1000), effort=3, updates=7).settings["max_updates"] == 7


def test_cautions_about_rhythm_are_not_given_with_inputs(fitted: Fitted) -> None:
    study = fitted[0]
    held = replace(study.held_out, divergence_floor=5.0, driven_error=0.3, run_up=40)
    said = " ".join(caution(study.recordings, study.plan, held, study.analysis, ()))
    assert "drifted" not in said
    assert "periods" not in said
    found = " ".join(describe(held, study.analysis, study.recordings))
    assert "0.3 standard deviations, after a run-up of 40 samples" in found
    assert "91\u00a0% of the variance" in found


def test_plan_refuses() -> None:
    data = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(50, 2)))
    with pytest.raises(DataError, match="50 rows; at least 100"):
        make_plan(data)
    short = [np.random.default_rng(n).normal(size=(19, 2)) for n in range(8)]
    with pytest.raises(DataError, match="152 rows together and at most 19 each"):
        make_plan(Trajectories.from_arrays(short))
    with pytest.raises(ParameterError, match="effort=7"):
        make_plan(data, effort=7)


def test_short_recordings_are_enough_where_there_are_many() -> None:
    rng = np.random.default_rng(0)
    plan = make_plan(Trajectories.from_arrays([rng.normal(size=(30, 2)) for _ in range(6)]))
    assert plan.episodes
    assert plan.settings["sequence_length"] <= 30
    said = next(c.value for c in plan.choices if c.what == "Split")
    assert said == "the last 2 of 6 recordings are held out"


def test_irregularity_ignores_gaps() -> None:
    times = np.r_[np.arange(100.0), 1000 + np.arange(100.0)]
    data = Trajectories.from_arrays(np.sin(times), times)
    assert irregularity(data) < 1e-12


@pytest.mark.parametrize("irregular", [False, True])
def test_dominant_frequency(irregular: bool) -> None:
    rng = np.random.default_rng(3)
    steps = rng.uniform(0.002, 0.018, 8000) if irregular else np.full(8000, 0.01)
    times = np.cumsum(steps)
    data = Trajectories.from_arrays(np.sin(2 * np.pi * 1.37 * times), times)
    assert power_spectrum(data).peak == pytest.approx(1.37, rel=0.01)


def test_the_fundamental_is_found_below_a_stronger_harmonic() -> None:
    times = 0.01 * np.arange(6000)
    x = 0.7 * np.sin(2 * np.pi * 1.5 * times) + np.sin(2 * np.pi * 3.0 * times + 1)
    data = Trajectories.from_arrays(x, times)
    assert power_spectrum(data).peak == pytest.approx(1.5, rel=0.01)


def test_a_flat_run_has_no_frequency() -> None:
    data = Trajectories.from_arrays(np.sin(np.arange(500.0)))
    flat = replace(data, values=(np.full((500, 1), 3.0),))
    assert power_spectrum(flat).peak == 0.0


def test_a_process_that_only_forgets_is_rarely_given_a_rhythm() -> None:
    """Two looks at one in a hundred each; more than 13 of 300 happens once in a thousand."""
    rng = np.random.default_rng(0)
    alarms = 0
    for k in range(300):
        memory, n = (0.0, 0.5, 0.9, 0.97)[k % 4], (300, 1000, 2000)[k % 3]
        x = lfilter([1.0], [1.0, -memory], rng.normal(size=n + 200))[200:]
        alarms += power_spectrum(Trajectories.from_arrays(x[:, None])).rhythmic
    assert alarms <= 13


@pytest.mark.parametrize("rounds", [6, 40])
def test_a_rhythm_under_noise_stands_out(rounds: int) -> None:
    t = np.arange(0, rounds, 0.03)
    x = np.sin(2 * np.pi * t) + np.random.default_rng(0).normal(size=t.size)
    found = power_spectrum(Trajectories.from_arrays(x[:, None], t))
    assert found.rhythmic
    assert found.peak == pytest.approx(1.0, rel=0.1)


def test_without_a_rhythm_no_period_is_told(fitted: Fitted) -> None:
    study = fitted[0]
    assert "period" in " ".join(study.findings).lower()
    data, model = study.held_out.spectra
    held = replace(study.held_out, spectra=(replace(data, rhythmic=False), model))
    said = " ".join(describe(held, Analysis(), study.recordings))
    assert "ominant period" not in said
    assert "rhythm" not in judge(replace(held, divergence=held.divergence_floor)).sentence
    html = render(replace(study, held_out=held), "x/model")
    assert "Period of the model" not in html
    assert "only forgets" in html
