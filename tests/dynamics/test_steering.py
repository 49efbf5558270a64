"""Plans that keep conditions, checked on the plant that the model never saw."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foretell.core import ParameterError
from foretell.data import Trajectories
from foretell.data.controlled_systems import cascaded_tanks
from foretell.dynamics import CPLRNN
from foretell.dynamics.conditions import parse_condition
from foretell.dynamics.koopman import EDMDc
from foretell.dynamics.steering import steer

NAMES, UNITS = ["upper", "level"], ["", "m"]


@pytest.fixture(scope="module")
def model() -> EDMDc:
    data = cascaded_tanks().recordings(10, 200, hold=20, random_state=0)
    return EDMDc(degree=2, n_centres=0, horizon=40).fit(data)


@given(st.floats(-1e6, 1e6), st.sampled_from(["<", ">", "<=", ">="]))
def test_a_condition_reads_back(value: float, sign: str) -> None:
    found = parse_condition(f"level {sign} {value!r}", NAMES, UNITS)
    assert (found.high if sign[0] == "<" else found.low) == value
    assert found.column == 1
    assert found.unit == "m"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("level<8", -np.inf, 8.0),
        ("  level >= -2.5e-1 m ", -0.25, np.inf),
        ("level between 2 and 8", 2.0, 8.0),
        ("'upper' < .5", -np.inf, 0.5),
    ],
)
def test_conditions(text: str, low: float, high: float) -> None:
    found = parse_condition(text, NAMES, UNITS)
    assert (found.low, found.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("level", "not a condition"),
        ("level = 8", "not a condition"),
        ("depth < 8", "the model has upper, level"),
        ("level < 8 cm", "is in m"),
        ("upper < 8 cm", "has no unit"),
        ("level between 8 and 2", "smaller"),
    ],
)
def test_what_is_no_condition(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse_condition(text, NAMES, UNITS)


def test_the_plant_keeps_what_the_plan_promised(model) -> None:
    plan = steer(model, [7.0, 6.5], "level < 7.2", u_now=[4.4])
    assert plan.kept > 0.8 > 0.3 > plan.kept_untouched
    plant = cascaded_tanks()
    planned = plant.run([[7.0, 6.5]], plan.inputs[None])[0, :, 1]
    untouched = plant.run([[7.0, 6.5]], np.full((1, 40, 1), 4.4))[0, :, 1]
    assert planned.max() < 7.2 < untouched.max()
    low, high = model.facts_["control_range"]
    assert plan.inputs.min() >= low[0]
    assert plan.inputs.max() <= high[0]


def test_a_range_and_a_lower_bound(model) -> None:
    plan = steer(model, [5.0, 4.0], ["level > 3.5", "upper between 3 and 6"], u_now=[1.0])
    plant = cascaded_tanks().run([[5.0, 4.0]], plan.inputs[None])[0]
    assert plant[:, 1].min() > 3.5
    assert plan.breach == 0.0


def test_what_cannot_be_kept_is_said(model) -> None:
    plan = steer(model, [8.0, 8.0], "level < 5", u_now=[4.0], horizon=10)
    assert plan.breach > 1.0
    assert plan.kept == 0.0
    assert np.allclose(plan.inputs[-4], model.facts_["control_range"][0], atol=0.3)


def test_nothing_to_do_changes_nothing(model) -> None:
    plan = steer(model, [4.0, 4.0], "level < 9.5", u_now=[2.5])
    assert np.allclose(plan.inputs, 2.5, atol=1e-3)


def test_limits_and_inputs_are_obeyed(model) -> None:
    plan = steer(
        model, [7.0, 6.5], "level < 7.2", u_now=[4.4], inputs=["pump"], limits={"pump": (4.0, 4.5)}
    )
    assert plan.inputs.min() >= 4.0


def test_a_learner_that_is_only_run_can_be_steered_too() -> None:
    """A recurrent network with inputs; its past errors give the range."""
    t = 0.2 * np.arange(300)
    u = np.repeat(np.random.default_rng(0).uniform(-1, 1, 30), 10)[:, None]
    x = np.zeros((300, 1))
    for k in range(299):
        x[k + 1] = 0.9 * x[k] + 0.3 * u[k]
    data = Trajectories.from_arrays(x, t, controls=u, names=["level"], control_names=["valve"])
    model = CPLRNN(
        latent_dim=2, n_relu=0, sequence_length=30, forcing_interval=10, batch_size=8,
        max_updates=300, lr=2e-2, random_state=0,
    ).fit(data)  # fmt: skip
    quiet = model.predict([[0.0]], 0.2 * np.arange(16), controls=np.ones((16, 1)))
    limit = 0.5 * quiet.max()
    assert limit > 0.05
    errors = 0.02 * limit * np.random.default_rng(1).normal(size=(20, 15, 1))
    keep = f"level < {limit:.6f}"
    plan = steer(model, [0.0], keep, u_now=[1.0], horizon=15, errors=errors, step=0.2)
    assert plan.forecast[:, 0].max() < limit
    assert plan.inputs.sum() < 15.0
    assert plan.kept > 0.4 > plan.kept_untouched  # the margin holds in each step: .95^15 = .46
    assert plan.n_runs == 200
    no_errors = steer(model, [0.0], keep, u_now=[1.0], horizon=5, step=0.2)
    assert no_errors.n_runs == 0
    assert np.isnan(no_errors.kept)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 1}, "horizon=1"),
        ({"inputs": ["valve"]}, "the model has pump"),
        ({"limits": {"pump": (2.0, 1.0)}}, "smaller"),
        ({"limits": {"valve": (1.0, 2.0)}}, "inputs are pump"),
        ({"u_now": [1.0, 2.0]}, "u_now"),
        ({"margin": 1.0}, "margin"),
        ({"keep": []}, "nothing to keep"),
    ],
)
def test_bad_questions(model, changes, message: str) -> None:
    question = {"state": [5.0, 5.0], "keep": "level < 8", "u_now": [2.0], **changes}
    with pytest.raises(ParameterError, match=message):
        steer(model, **question)


def test_a_model_without_inputs_cannot_be_steered() -> None:
    model = EDMDc(degree=1, n_centres=0, horizon=5).fit(
        np.random.default_rng(0).normal(size=(50, 2))
    )
    with pytest.raises(ParameterError, match="without inputs"):
        steer(model, [0.0, 0.0], "x0 < 1")
