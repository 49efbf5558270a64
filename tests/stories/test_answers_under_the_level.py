"""trust.selective -> converse.answer: the error among accepted answers stays under the level.

The questions that come with foretell are asked of its example notes once; their doubts and outcomes
are the law from which calibrations are drawn, with replacement, so that the true share of wrong
answers of every gate is known exactly. Some outcomes are turned around at random, to make errors
of those that look sure.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from foretell.app.talk.assistant import Assistant, shipped_reading
from foretell.app.talk.calibration import example_folder, shipped_calibration
from foretell.app.talk.notebook import Notebook
from foretell.converse.answer import Gate

pytestmark = pytest.mark.story

LEVEL, DELTA, DRAWS = 0.1, 0.1, 250


@pytest.fixture(scope="module")
def law():
    made = shipped_calibration(vectors=True)
    doubts, wrong = np.array(made.doubts), np.array(made.wrong)
    turned = np.random.default_rng(0).random(len(wrong)) < 0.04
    return doubts, wrong | turned


@pytest.mark.parametrize("n", [60, 180, 500])
def test_wrong_among_accepted_is_above_the_level_in_at_most_a_tenth_of_the_draws(law, n) -> None:
    """P(more misses than this) <= 1e-4 when the promise holds exactly."""
    doubts, wrong = law
    missed, answered = 0, 0
    for draw in range(DRAWS):
        rows = np.random.default_rng((n, draw)).integers(len(doubts), size=n)
        gate = Gate.calibrated(
            doubts[rows], wrong[rows], level=LEVEL, population="a draw", confidence=1 - DELTA
        )
        accepted = doubts <= (-1.0 if gate.threshold is None else gate.threshold)
        answered += bool(accepted.any())
        missed += bool(accepted.any()) and wrong[accepted].mean() > LEVEL
    assert missed <= binom.isf(1e-4, DRAWS, DELTA)
    assert answered > 0 or n == 60


def test_where_no_threshold_keeps_the_level_everything_is_withheld_and_it_is_said() -> None:
    gate = Gate.calibrated(
        [0.01 * k for k in range(80)], [k % 2 == 0 for k in range(80)], level=0.05, population="all"
    )
    assert gate.threshold is None
    assert gate.certificate is not None
    assert not gate.certificate.feasible
    notes = Notebook.open(example_folder() / "notes", vectors=False)
    assistant = Assistant(notes, *shipped_reading(vectors=False), gate)
    for question in ("When does the inlet valve shut?", "Who built the turbine?", "What is love?"):
        answer = assistant.ask(question)
        assert answer.decision.action == "withhold"
        assert not answer.statements
    assert "no threshold keeps the level 0.05" in assistant.ask("Who built W3?").decision.reason


def test_without_a_calibration_nothing_is_accepted() -> None:
    verdict = Gate().decide(0.0001)
    assert verdict.action != "accept"
    assert "nothing was calibrated" in verdict.reason
    assert Gate().certificate is None
