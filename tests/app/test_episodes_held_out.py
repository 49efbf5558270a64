"""Many short recordings: whole ones are held out, and coming to rest is right where they do."""

import numpy as np
import pytest

from foretell.app.command_plan_start import forecast_errors
from foretell.app.evaluation import evaluate
from foretell.app.fitting import prepare
from foretell.app.planning import make_plan
from foretell.data import Trajectories
from foretell.dynamics import EDMDc


def throws(n: int, *, restless: bool = False, controls: bool = False) -> Trajectories:
    """Damped swings that come to rest, or undamped ones."""
    rng = np.random.default_rng(0)
    t, values = np.arange(0, 6, 0.05), []
    for _ in range(n):
        a, p = rng.uniform(0.5, 1.5), rng.uniform(0, 6)
        fade = 1.0 if restless else np.exp(-1.5 * t)
        values.append(np.column_stack([a * fade * np.sin(4 * t + p), a * fade * np.cos(4 * t + p)]))
    u = [np.zeros((len(t), 1)) + k for k in range(n)] if controls else None
    return Trajectories.from_arrays(values, [t] * n, controls=u)


def test_whole_recordings_are_held_out_from_six_on() -> None:
    data = throws(10)
    plan = make_plan(data, learner="edmdc", effort=1)
    assert plan.episodes
    assert "the last 3 of 10 recordings" in next(c.value for c in plan.choices if c.what == "Split")
    train, test = prepare(data, plan)
    assert (len(train), len(test)) == (7, 3)
    assert np.array_equal(test.values[-1], data.values[-1])
    few = throws(5)
    plan = make_plan(few, learner="edmdc", effort=1)
    assert not plan.episodes
    assert [len(part) for part in prepare(few, plan)] == [5, 5]


@pytest.mark.parametrize("restless", [False, True])
def test_a_model_may_rest_where_the_recordings_do(restless: bool) -> None:
    data = throws(10, restless=restless)
    train, test = prepare(data, make_plan(data, learner="edmdc", effort=1))
    model = EDMDc(degree=1, n_centres=0, random_state=0).fit(train)
    held = evaluate(model, train, test, episodes=True)
    assert held.state == "moving"
    assert len(held.long_run) == 3
    assert np.array_equal(held.long_run.times[1], test.times[1])
    assert held.divergence < held.divergence_floor + 0.2
    assert (held.spectra[0].peak > 0.3) or not restless


def test_a_model_that_rests_too_early_settles() -> None:
    data = throws(10, restless=True)
    train, test = prepare(data, make_plan(data, learner="edmdc", effort=1))
    model = EDMDc(degree=1, n_centres=0, random_state=0).fit(train)
    model._adopt(0.5 * model.W_, model.lift_)
    assert evaluate(model, train, test, episodes=True).state == "settles"
    model._adopt(4.0 * model.W_, model.lift_)
    with np.errstate(all="ignore"):
        assert evaluate(model, train, test, episodes=True).state == "escapes"


def test_errors_of_forecasts_come_from_the_recordings_held_out() -> None:
    data = throws(10)
    model = EDMDc(degree=1, n_centres=0, random_state=0).fit(data.select(range(7)))
    wild = list(data.values)
    wild[:7] = [v + 100.0 for v in wild[:7]]
    errors = forecast_errors(
        model, Trajectories.from_arrays(wild, list(data.times)), 5, model.step_
    )
    assert errors is not None
    assert np.abs(errors).max() < 1.0
