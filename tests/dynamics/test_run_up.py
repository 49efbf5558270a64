"""Starts that are recordings: hidden units, delays and histories come from what was before."""

import numpy as np
import pytest

from foretell.core import ParameterError
from foretell.data import Trajectories
from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE

SMALL = {
    "latent_dim": 4, "n_relu": 2, "sequence_length": 20, "batch_size": 4, "max_updates": 40,
    "random_state": 0,
}  # fmt: skip


def driven(n_samples: int = 200, seed: int = 0) -> Trajectories:
    """The first of two states of a chain that a pump drives."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1, 1, n_samples // 10), 10)[:, None]
    x, hidden = np.zeros(n_samples), np.zeros(n_samples)
    for k in range(n_samples - 1):
        hidden[k + 1] = 0.9 * hidden[k] + u[k, 0]
        x[k + 1] = 0.8 * x[k] + 0.3 * hidden[k]
    return Trajectories.from_arrays(x[:, None], np.arange(n_samples) * 0.5, controls=u)


@pytest.mark.parametrize("learner", [CPLRNN, ALRNN, ReLUNeuralODE])
def test_a_recording_of_the_model_itself_goes_on_as_it_was(learner) -> None:
    data = driven()
    model = learner(**SMALL).fit(data)
    times, controls = data.times[0][:60], data.controls[0][:60]
    run = model.simulate(data.values[0][0], times, controls=controls)
    past = run.take_rows([slice(0, 31)])
    after = model.predict(past, times[30:], controls=controls[30:])
    assert np.allclose(after[0], run.values[0][30:], rtol=1e-9, atol=1e-9)
    bare = model.predict(run.values[0][30], times[30:], controls=controls[30:])
    assert not np.allclose(bare[0], run.values[0][30:], rtol=1e-3, atol=1e-3)
    again = model.simulate(past, times[30:], controls=controls[30:])
    assert np.array_equal(again.values[0], after[0])


def test_several_recordings_are_several_starts_and_gaps_are_no_harm() -> None:
    data = driven()
    model = CPLRNN(**SMALL).fit(data)
    times, controls = data.times[0][40:60], data.controls[0][40:60]
    one, other = (data.take_rows([slice(first, 41)]) for first in (0, 25))
    both = Trajectories.from_arrays(
        [one.values[0], other.values[0]], [one.times[0], other.times[0]],
        controls=[one.controls[0], other.controls[0]],
    )  # fmt: skip
    runs = model.predict(both, times, controls=controls)
    for run, past in zip(runs, (one, other), strict=True):
        assert np.array_equal(run, model.predict(past, times, controls=controls)[0])
    holed = one.values[0].copy()
    holed[10:13] = np.nan
    gap = Trajectories.from_arrays(
        holed, one.times[0], controls=one.controls[0], mask=np.isfinite(holed)
    )
    assert np.isfinite(model.predict(gap, times, controls=controls)).all()


def test_a_start_of_other_columns_is_refused() -> None:
    data = driven()
    model = CPLRNN(**SMALL).fit(data)
    wide = Trajectories.from_arrays(np.random.default_rng(0).normal(size=(30, 2)))
    with pytest.raises(ParameterError, match="x0"):
        model.predict(wide, data.times[0][:5], controls=data.controls[0][:5])


def test_delays_are_taken_from_a_recording() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.koopman import EDMDc

    data = driven()
    model = EDMDc(degree=1, n_centres=0, n_delays=2, horizon=5).fit(data)
    past = data.take_rows([slice(0, 41)])
    times, controls = data.times[0][40:60], data.controls[0][40:60]
    run = model.predict(past, times, controls=controls)
    given = {"controls": controls, "past_controls": data.controls[0][38:40]}
    assert np.array_equal(run, model.predict(data.values[0][38:41], times, **given))
    with pytest.raises(ParameterError, match="has 2 rows; this model starts from the last 3"):
        model.predict(data.take_rows([slice(0, 2)]), times, controls=controls)


def test_a_sampler_with_a_history_takes_it_from_a_recording() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.lifting import AnalogueTransition

    data = driven()
    model = AnalogueTransition(k=3, history=3, random_state=0).fit(data)
    past = data.take_rows([slice(0, 41)])
    times, controls = data.times[0][40:50], data.controls[0][40:50]
    run = model.predict(past, times, controls=controls)
    assert np.array_equal(run, model.predict(data.values[0][None, 38:41], times, controls=controls))
