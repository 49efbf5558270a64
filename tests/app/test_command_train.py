"""foretell train plan: what it says, what it draws, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretell.app.command_train import train_app
from foretell.app.command_train_plan import duration
from tests.app.test_report import parsed

GIVEN = ("--groups", 60, "--mtbf", "30m", "--save", "1m", "--restart", "60m", "--steps", 300)


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(train_app, ["plan", *(str(word) for word in words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_says_redundancy_units_interval_and_time(here: Path) -> None:
    code, said, told = call(*GIVEN, "--seeds", 2)
    assert code == 0, told
    for word in ("Redundancy", "Micro-stacks", "Checkpoint", "by formula", "simulated", "whole"):
        assert word in said
    page = (here / "plan.html").read_text(encoding="utf-8")
    parsed(page)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "imulated" in page


def test_json_and_a_picture(here: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra plot")
    code, said, told = call(
        *GIVEN, "--seeds", 2, "--rack", 6, "--rack-share", 0.1, "--out", "plan.png", "--json"
    )
    assert code == 0, told
    found = json.loads(said)
    assert found["redundancy"] >= 2
    assert found["micro"] == 8
    assert found["checkpoint_interval_s"] > 60
    assert found["predicted_time_ratio"] > 1
    assert len(found["alternatives"]) == 5
    assert (here / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mtbf", "soon"), "--mtbf 'soon' is not a time above 0"),
        (("--mtbf", "0m"), "is not a time above 0"),
        (("--restart", "-5m"), "is not a time above 0"),
        (("--restart", "0"), "--restart '0' is not a time above 0"),
        (("--shape", "0"), "shape=0.0"),
        (("--rack", "61"), "from 1 to 60"),
        (("--rack-share", "0.1"), "add for instance --rack 8"),
        (("--out", "plan.doc"), "must end in .html"),
        (("--seeds", "1"), "--seeds at least 2"),
    ],
)
def test_impossible_options_are_refused(here: Path, words: tuple[str, str], said: str) -> None:
    code, _, told = call(*GIVEN, *words)
    assert code == 1
    assert said in told
    assert not list(here.iterdir())


def test_never_writes_over_something(here: Path) -> None:
    (here / "plan.html").write_text("mine")
    code, _, told = call(*GIVEN)
    assert code == 1
    assert "plan.html exists" in told
    assert (here / "plan.html").read_text() == "mine"


def test_a_plan_that_gets_nowhere_is_said(here: Path) -> None:
    code, _, told = call("--groups", 3, "--mtbf", "10s", "--save", "10m", "--restart", "60m")
    assert code == 1
    assert "gets anywhere" in told


def test_times_with_units() -> None:
    assert [duration("--x", t) for t in ("90", "90s", "1.5m", "2min", "1h", "2d")] == [
        90.0, 90.0, 90.0, 120.0, 3600.0, 172800.0,
    ]  # fmt: skip
