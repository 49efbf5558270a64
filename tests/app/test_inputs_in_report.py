"""The report's section on inputs: only for models that have some, with words that match numbers."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from foretell.app.inputs import InputEffects, look_at_inputs
from foretell.app.report.inputs import (
    input_errors,
    input_hint,
    input_steps,
    input_table,
    input_words,
)
from foretell.app.summary import _inputs
from foretell.data import Trajectories
from foretell.dynamics.koopman.linear import markov_parameters
from foretell.dynamics.reachability import Reachability
from tests.app.fake import Pulse, pulse_recording

pytest.importorskip("torch", reason="EDMDc and GaussianTransition need torch, the extra learn")
from foretell.dynamics import EDMDc, GaussianTransition


def tank(n: int, seed: int) -> Trajectories:
    """A level that the pump fills, and a temperature that it does not touch."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(0, 5, n // 10), 10)[:, None]
    x = np.zeros((n, 2))
    for t in range(n - 1):
        x[t + 1] = [0.9 * x[t, 0] + 0.3 * u[t, 0], 0.8 * x[t, 1] + rng.normal()]
    return Trajectories.from_arrays(
        x, 4.0 * np.arange(n), controls=u, names=("level", "heat"), units=("m", "K"),
        control_names=("pump",), control_units=("V",), time_unit="s",
    )  # fmt: skip


@pytest.fixture(scope="module")
def study() -> SimpleNamespace:
    train, test = tank(600, 0), tank(300, 1)
    model = EDMDc(degree=1, n_centres=0, random_state=0).fit(train)
    found = look_at_inputs(model, test, np.concatenate(train.values).std(axis=0))
    return SimpleNamespace(inputs=found, recordings=test, held_out=SimpleNamespace(run_up=0))


def test_what_cannot_be_moved_is_said(study: SimpleNamespace) -> None:
    found = study.inputs
    assert found.reachability.n_reached == 1
    assert (found.n_starts, found.lead[-1]) == (60, 160.0)
    assert (np.diff(found.error, axis=0) >= 0).all()
    said = " ".join(input_words(study))
    assert "the input pump can push level" in said
    assert "in 1 of two directions only" in said
    assert "out of reach in practice (less than a twentieth of a standard deviation): heat" in said
    assert "60 held-out forecasts" in said
    table = input_table(study)
    assert table is not None
    assert [name for name, _ in table.columns] == ["reach [sd]", "level", "heat"]
    assert input_hint(study, "pump/").startswith('foretell plan pump/ --keep "level below ')


def test_lead_times_at_which_the_last_value_is_nearer_are_named(study: SimpleNamespace) -> None:
    assert "would miss by less" not in " ".join(input_words(study))
    error = study.inputs.error.copy()
    error[:, 1:11] += study.inputs.still[1:11] + 0.1
    other = SimpleNamespace(**vars(study))
    other.inputs = dataclasses.replace(study.inputs, error=error)
    assert "Up to 40\u00a0s ahead the last value would miss by less" in " ".join(input_words(other))


def test_the_step_response_is_that_of_the_plant(study: SimpleNamespace) -> None:
    after = study.inputs.reachability.step_response[:, 0, 0]
    rise = study.inputs.reachability.control_scale[0]
    assert np.allclose(after, rise * 3 * (1 - 0.9 ** np.arange(1, 41)), rtol=0.03)


def test_figures_are_drawn_once_for_each_input(study: SimpleNamespace) -> None:
    assert input_steps(study).count("<svg") == 1
    assert "change after pump +" in input_steps(study)
    assert input_errors(study).count("<svg") == 1


def test_a_model_without_inputs_has_none() -> None:
    data = pulse_recording()
    assert look_at_inputs(Pulse().fit(data), data, np.ones(1)) is None
    train = tank(200, 0)
    sampler = GaussianTransition(width=4, depth=1, max_steps=2, random_state=0).fit(train)
    assert look_at_inputs(sampler, train, np.ones(2)) is None
    study = SimpleNamespace(inputs=None, recordings=data)
    assert input_words(study) == ()
    assert input_table(study) is None
    for drawn in (input_steps, input_errors):
        assert drawn(study) == ""
    assert input_hint(study, "x") == ""
    assert _inputs(None) is None


@pytest.mark.parametrize(
    ("gain", "said"), [(1e-4, "next to nothing"), (0.03, "That is little"), (1.0, "reach enough")]
)
def test_words_for_one_variable_follow_the_reach(gain: float, said: str) -> None:
    response = markov_parameters(np.array([[0.5]]), np.array([[gain]]), np.eye(1), 8)
    reach = Reachability(np.arange(1.0, 9), response, np.ones(1), np.ones(1), ("x",), ("u",))
    nothing = np.full((3, 9), np.nan)
    effects = InputEffects(reach, np.arange(9.0), nothing, nothing[0], 0)
    data = SimpleNamespace(control_names=("u",), time_unit="s", control_units=("",))
    study = SimpleNamespace(inputs=effects, recordings=data, held_out=SimpleNamespace(run_up=0))
    assert said in input_words(study)[0]
    assert input_errors(study) == ""


def test_directions_that_move_together_are_named_together(study: SimpleNamespace) -> None:
    reach = study.inputs.reachability
    both = reach.response.copy()
    both[:, 1] = -both[:, 0] * reach.scale[1] / reach.scale[0]
    both[-1, 1, -1] *= 1.5
    other = dataclasses.replace(
        study.inputs, reachability=dataclasses.replace(reach, response=both)
    )
    said = input_words(SimpleNamespace(**{**vars(study), "inputs": other}))[0]
    assert "(against" in said
    assert "(with" in said
