"""The section on jumps: its sentences and its figure, for guards that can and cannot be told."""

from dataclasses import replace

import numpy as np
import pytest

from foretell.app.jumps import FoundJumps, look_at_jumps
from foretell.app.report.jumps import jump_figure, jump_words
from foretell.app.study import Study
from foretell.dynamics.hybrid import GuardReset


@pytest.fixture
def study(fitted: tuple[Study, object]) -> Study:
    return fitted[0]


def found(study: Study, extent: float = 0.8, **changes) -> FoundJumps:
    names = study.held_out.observed.names
    N = len(names)
    guard = GuardReset(
        np.eye(N)[0], 0.02, 0.03, -0.9 * np.eye(N), np.zeros(N), 0.05, 90, np.ones(N), extent
    )
    t = np.arange(20.0)
    content = FoundJumps(
        40, 0.031, 9, 8, 0.94, 1.1, 0.25, 2.0, 0.3, 3, (guard,), names, 0, t, np.sin(t),
        np.cos(t), np.array([4.2]),
    )  # fmt: skip
    return replace(content, **changes)


def test_a_model_without_jumps_has_no_section(study: Study) -> None:
    assert study.jumps is None
    assert jump_words(study) == ()
    assert jump_figure(study) == ""
    assert look_at_jumps(object(), study.recordings) is None  # type: ignore[arg-type]


def test_the_sentences_tell_agreement_gluing_and_guard(study: Study) -> None:
    said = " ".join(jump_words(replace(study, jumps=found(study))))
    first = study.held_out.observed.names[0]
    for part in ("40 times", "3.1", "0.94", "closely glued", f"1 {first} = 0.02", "0.9"):
        assert part in said


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"extent": 0.01}, "cannot be told"),
        ({"position_gap": 4.0}, "not glued yet"),
        ({"position_gap": np.nan}, "not judged"),
        ({"n_heads": 1, "guards": ()}, "smeared"),
    ],
)
def test_what_is_missing_is_said(study: Study, changes, part) -> None:
    assert part in " ".join(jump_words(replace(study, jumps=found(study, **changes))))


def test_the_figure_marks_the_jumps(study: Study) -> None:
    drawn = jump_figure(replace(study, jumps=found(study)))
    assert "held-out stretch" in drawn or "<svg" in drawn
