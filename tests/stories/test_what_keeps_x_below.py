"""dynamics + solve.mpc -> instruments -> talk: a plan that was asked for in words, in the plant."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.app.instruments.model_view import ModelView
from foretell.app.instruments.offered import offered
from foretell.app.talk.assistant import Assistant, shipped_reading
from foretell.app.talk.notebook import Notebook
from foretell.converse.answer import Gate
from foretell.data import Trajectories
from foretell.data.controlled_systems import cascaded_tanks

pytestmark = pytest.mark.story
pytest.importorskip("torch", reason="EDMDc needs torch, from the extra learn")
SCALE = 12.0  # x is the level of the lower tank in these units, so that 80 means something


@pytest.fixture(scope="module")
def assistant() -> Assistant:
    from foretell.dynamics.koopman import EDMDc

    plant = cascaded_tanks()
    known = plant.recordings(10, 200, hold=20, random_state=0)
    pump = np.concatenate([np.full(60, 3.0), np.full(20, 4.4)])[None, :, None]
    last = plant.run([[5.0, 4.0]], pump)[0]
    values = [SCALE * v for v in known.values] + [SCALE * last[:-1]]
    assert known.controls is not None
    data = Trajectories.from_arrays(
        values,
        [*known.times, known.times[0][: len(last) - 1]],
        controls=[*known.controls, pump[0]],
        names=["upper", "x"],
        units=["", "mm"],
        control_names=["pump"],
        time_unit="s",
    )
    model = EDMDc(degree=2, n_centres=0, horizon=40).fit(data)
    view = ModelView(model, data, name="tanks")
    notes = Notebook([("card.md", _card())])
    reading = shipped_reading(vectors=False)
    return Assistant(notes, *reading, Gate(), instruments=offered(view))


def _card():
    from foretell.app.notes.passages import Passage

    return Passage("Tanks", "The pump fills the upper tank.", 1, 1)


def test_the_plan_that_is_answered_keeps_x_below_80_in_the_true_system(assistant) -> None:
    question = "What keeps x below 80?"
    tool, request = assistant._concerned(question)
    finding = tool(request.arguments, cancelled=lambda: False)
    answer = assistant.answer(question, [], {"plan": finding.to_dict()})
    assert answer.decision.action == "accept", answer
    assert "keeps x < 80 mm" in answer.text
    source = answer.statements[0].sources[0]
    assert source.kind == "model"
    assert source.interval is not None
    start = tool.view.start.now / SCALE
    u = np.array(finding.value["inputs"]["pump"])
    plant = cascaded_tanks()
    kept = SCALE * plant.run([start], u[None, :, None])[0, :, 1]
    untouched = SCALE * plant.run([start], np.full((1, len(u), 1), 4.4))[0, :, 1]
    assert kept.max() < 80 <= untouched.max()


def test_other_words_and_units_ask_for_the_same(assistant) -> None:
    wanted = assistant._concerned("What keeps x below 80?")[1].arguments
    for question in (
        "How can I keep x under 80 mm?",
        "keep x less than 8 cm please",
        "Which pump keeps X below 80.0 mm?",
    ):
        assert assistant._concerned(question)[1].arguments == wanted, question


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What keeps y below 80?", "There is no 'y' in this model; it has upper and x."),
        ("What keeps it below 80?", "Keep what?"),
        ("What keeps x below?", "Which value of x"),
        ("Keep x at 75", "between 71.2 and 78.8"),
        ("Keep x below 80 bar", "measure different things"),
        ("What will x be?", "How far ahead"),
        ("What if the pump is?", "Give a number"),
        ("What if x is 30?", "can be told what pump"),
        ("What if the pump is 3 for 20 s?", "upper or x"),
    ],
)
def test_what_is_missing_or_ambiguous_is_asked_back(assistant, question, asked) -> None:
    answer = assistant.answer(question, [])
    assert asked in answer.asks_back, answer
    assert not answer.statements
    assert answer.decision.action == "pass_on"


def test_a_forecast_has_an_interval_that_holds_in_the_plant(assistant) -> None:
    answer = assistant.answer("What will x be in 20 s?", [])
    source = answer.statements[0].sources[0]
    assert source.unit == "mm"
    low, high = source.interval
    start = assistant._concerned("What will x be in 20 s?")[0].view.start.now / SCALE
    truth = SCALE * cascaded_tanks().run([start], np.full((1, 5, 1), 4.4))[0, 5, 1]
    assert low - 0.5 < truth < high + 0.5


def test_no_instrument_where_the_model_lacks_the_capability(assistant) -> None:
    names = [tool.name for tool in assistant.instruments]
    assert {"plan", "what_if", "forecast"} <= set(names)
    assert "equilibria" not in names  # this learner has no fixed points to offer
