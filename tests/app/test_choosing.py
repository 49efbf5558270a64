"""What ``--learner auto`` tries, what it leaves out and why, and what it keeps of that."""

from dataclasses import replace

import numpy as np
import pytest

from foretell.app import choosing
from foretell.app.choosing import CANDIDATES, compare, keep, kept, plausible
from foretell.data import Trajectories
from foretell.dynamics.evidence import Evidence
from foretell.dynamics.lifting import AnalogueTransition

PLAIN = Evidence(
    n_rows=2000, n_variables=2, n_controls=0, unevenness=0.0, jumps=0.0, scatter=0.0
)  # fmt: skip


def left_out(**changes: float) -> dict[str, str]:
    return plausible(replace(PLAIN, **changes))[1]


def test_every_learner_is_tried_or_left_out_with_a_reason() -> None:
    for changes in ({}, {"n_rows": 90}, {"n_controls": 1}, {"jumps": 0.02}, {"unevenness": 0.3}):
        names, omitted = plausible(replace(PLAIN, **changes))
        assert sorted([*names, *omitted]) == sorted(c.name for c in CANDIDATES)
        assert all(omitted.values())


def test_what_the_recording_shows_decides_what_is_left_out(monkeypatch) -> None:
    monkeypatch.setattr(choosing, "find_spec", lambda name: object())
    assert left_out()["hybrid"] == "nothing jumps"
    assert "hybrid" not in left_out(jumps=0.02)
    assert "too few rows" in left_out(n_rows=90)["lifting"]
    assert "for inputs" in left_out()["koopman"]
    assert not {"koopman", "edmdc"} & left_out(n_controls=1).keys()
    assert "uneven" in left_out(n_controls=1, unevenness=0.3)["koopman"]
    assert "lifting" not in left_out(scatter=0.2)


def test_without_torch_its_learners_are_left_out_with_the_line_that_mends_it(monkeypatch) -> None:
    monkeypatch.setattr(choosing, "find_spec", lambda name: None)
    assert "pip install 'foretell[learn]'" in left_out()["gaussian"]


def walk() -> Trajectories:
    rng, x = np.random.default_rng(0), np.zeros((1200, 1))
    for t in range(1199):
        x[t + 1] = 0.9 * x[t] + rng.normal()
    return Trajectories.from_arrays(x)


@pytest.mark.parametrize("budget", [0.0, 600.0])
def test_after_the_budget_no_further_learner_is_begun(monkeypatch, tmp_path, budget) -> None:
    monkeypatch.setattr(choosing, "BUDGET", budget)
    found = compare(walk(), lambda name, first: AnalogueTransition())
    names, omitted = plausible(replace(PLAIN, n_rows=1200, n_variables=1, scatter=0.2))
    assert len(found.tried) == (len(names) if budget else 1)
    assert len(found.left_out) + len(found.tried) == len(names) + len(omitted)
    assert any("budget" in why for _, why in found.left_out) == (not budget)
    assert "different ways" in found.shown
    keep(found, tmp_path / "comparison.json")
    assert kept(tmp_path / "comparison.json") == found


def test_too_few_rows_to_compare_is_said() -> None:
    few = Trajectories.from_arrays(walk().values[0][:60])
    assert "name the learner" in compare(few, lambda name, first: AnalogueTransition())
