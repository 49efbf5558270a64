"""The report's ensembles: only for models with chance, with words that match their width."""

import dataclasses
from types import SimpleNamespace

import numpy as np

from foretell.app.ensemble import ensembles, mean_run
from foretell.app.report.ensemble import (
    ensemble_fan,
    ensemble_ranks,
    ensemble_width,
    ensemble_words,
)
from foretell.data import Trajectories
from foretell.dynamics.lifting import AnalogueTransition
from tests.app.fake import Pulse, pulse_recording


def walk(n: int, seed: int) -> Trajectories:
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 2))
    for t in range(n - 1):
        x[t + 1] = 0.9 * x[t] + 0.3 * rng.normal(size=2)
    return Trajectories.from_arrays(x, 0.5 * np.arange(n), names=["x", "y"], time_unit="s")


def found():
    train, test = walk(3000, 0), walk(1200, 1)
    model = AnalogueTransition(k=30).fit(train)
    return model, test, ensembles(model, test, np.concatenate(train.values).std(axis=0))


def test_a_good_sampler_is_as_wide_as_its_error() -> None:
    _, test, ens = found()
    assert ens is not None
    assert 0.75 < ens.ratio < 1.3
    assert 0.65 < ens.inside < 0.95
    assert ens.ranks.sum() == ens.n_starts * (ens.lead.size - 1) * 2
    assert ens.bands.shape == (2, 3, ens.lead.size)
    study = SimpleNamespace(held_out=SimpleNamespace(ensembles=ens, observed=test), recordings=test)
    assert "can be taken as they are" in ensemble_words(study)
    for drawn in (ensemble_fan(study), ensemble_ranks(study), ensemble_width(study)):
        assert drawn.count("<svg") == 1
    for ratio, said in ((0.4, "too narrow"), (2.0, "too wide")):
        study.held_out.ensembles = dataclasses.replace(ens, ratio=ratio)
        assert said in ensemble_words(study)


def test_a_model_without_chance_has_none() -> None:
    data = pulse_recording()
    model = Pulse().fit(data)
    assert ensembles(model, data, np.ones(data.n_variables)) is None
    study = SimpleNamespace(
        held_out=SimpleNamespace(ensembles=None, observed=data), recordings=data
    )
    for words in (ensemble_words, ensemble_fan, ensemble_ranks, ensemble_width):
        assert words(study) == ""


def test_too_short_a_recording_has_none() -> None:
    model, test, _ = found()
    assert ensembles(model, test.take_rows([slice(0, 12)]), np.ones(2)) is None


def test_a_forecast_of_a_sampler_is_a_mean() -> None:
    model, test, _ = found()
    run = mean_run(model, test.values[0][0], test.times[0][:10], None)
    assert run.shape == (10, 2)
    assert np.allclose(run[0], test.values[0][0])
