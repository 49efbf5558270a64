"""foretell plan: from a saved model or a fit, with a table of the state."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app.commands import app
from foretell.data.controlled_systems import cascaded_tanks
from foretell.dynamics.koopman import EDMDc

run = CliRunner().invoke


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data = cascaded_tanks().recordings(10, 200, hold=20, random_state=0)
    place = tmp_path_factory.mktemp("plan")
    EDMDc(degree=2, n_centres=0, horizon=40).fit(data).save(place / "tanks")
    (place / "now.csv").write_text("pump,level,upper\n4.0,6.4,6.9\n4.4,6.5,7.0\n")
    return place


def test_a_plan_is_printed_and_drawn(folder) -> None:
    words = ["plan", str(folder / "tanks"), "--keep", "level < 7.2", "--from"]
    done = run(app, [*words, str(folder / "now.csv")])
    assert done.exit_code == 0, done.output
    assert "The plan keeps level < 7.2 in" in done.stdout
    assert "pump" in done.stdout
    page = (folder / "tanks" / "plan.html").read_text()
    assert "Keep level &lt; 7.2" in page
    assert page.count("<svg") >= 2
    again = run(app, [*words, str(folder / "now.csv"), "--out", str(folder / "tanks/plan.html")])
    assert again.exit_code == 1
    assert "exists" in again.stderr


def test_the_plan_as_numbers_keeps_the_plant_below(folder) -> None:
    words = ["plan", str(folder / "tanks"), "--keep", "level < 7.2", "--json", "--from"]
    done = run(app, [*words, str(folder / "now.csv"), "--limits", "pump 0.6 to 4.4"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["kept"] > 0.8 > found["kept_untouched"]
    u = np.array(found["inputs"]["pump"])
    assert u.max() <= 4.4
    plant = cascaded_tanks().run([[7.0, 6.5]], u[None, :, None])[0]
    assert plant[:, 1].max() < 7.2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep", "level < 8"], "--from STATE.csv"),
        (["--keep", "depth < 8", "--from", "now.csv"], "upper, level"),
        (["--keep", "level < 8", "--from", "none.csv"], "none.csv"),
        (["--keep", "level < 8", "--from", "short.csv"], "no column 'level'"),
        (["--keep", "level < 8", "--from", "words.csv"], "row 1: level is 'high'"),
        (["--keep", "level < 8", "--from", "now.csv", "--limits", "pump 3"], "pump 0 to 5"),
        (["--keep", "level < 8", "--from", "now.csv", "--steer", "valve"], "the model has pump"),
    ],
)
def test_what_cannot_be_planned(folder, monkeypatch, words, message: str) -> None:
    (folder / "short.csv").write_text("pump,upper\n1,2\n")
    (folder / "words.csv").write_text("pump,upper,level\n1,2,high\n")
    monkeypatch.chdir(folder)
    done = run(app, ["plan", "tanks", *words])
    assert done.exit_code == 1
    assert message in done.stderr


def test_a_folder_without_a_model(tmp_path) -> None:
    done = run(app, ["plan", str(tmp_path / "nothing"), "--keep", "level < 8"])
    assert done.exit_code == 1
    assert "There is no folder" in done.stderr
