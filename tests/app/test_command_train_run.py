"""foretell train job.toml: what it says, what it keeps, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app.command_train import train_app

TASKS = Path(__file__).parent.parent / "train" / "stacked" / "helper_tasks.py"


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(train_app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TASKS.read_text())
    (tmp_path / "job.toml").write_text(
        'kind = "module"\ntarget = "mine:regression"\nsteps = 20\ntimeout_s = 2.0\n'
    )
    return tmp_path


def test_a_worker_is_killed_and_the_answer_is_yes(here: Path) -> None:
    code, said, told = call(
        "job.toml",
        "--workers",
        3,
        "--survive",
        2,
        "--verify",
        "--inject",
        "kill:1@6,kill:0@12/reduce",
    )
    assert code == 0, told
    assert "identical to the failure-free run: yes (20 committed states)" in said
    assert "Two failures masked" in said
    assert "worker 1 does to itself: kill:1@6/compute" in told
    kept = json.loads((here / "job-run" / "summary.json").read_text())
    assert kept["identical_to_the_failure_free_run"] is True
    events = [json.loads(x) for x in (here / "job-run" / "events.jsonl").read_text().splitlines()]
    assert {"started", "view", "step", "fault", "ended", "checkpoint", "done"} <= {
        e["event"] for e in events
    }
    code, _, told = call("job.toml")
    assert code == 1
    assert "holds a training, and nothing was touched. Go on with --resume" in told
    code, said, told = call("job.toml", "--workers", 2, "--resume", "--json")
    assert code == 0, told
    assert json.loads(said)["sha256"] == kept["sha256"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.toml",), "There is no job file none.toml"),
        (("job.toml", "--resume"), "holds no training to go on with"),
        (("job.toml", "--inject", "kill:7@1"), "there is no worker 7"),
        (("job.toml", "--survive", 4), "at least one worker has to be left"),
        (("job.toml", "--workers", 0), "workers = 0"),
        (("typo.toml",), "unknown key 'step'. Did you mean 'steps'?"),
        (("rl.toml", "--verify"), 'the ranks of kind = "rl" all have to live'),
        (("lost.toml",), "there is no recording"),
    ],
)
def test_refused(here: Path, words: tuple[object, ...], said: str) -> None:
    (here / "typo.toml").write_text('kind = "module"\ntarget = "a:b"\nstep = 3\n')
    (here / "rl.toml").write_text('kind = "rl"\n')
    (here / "lost.toml").write_text('kind = "learner"\nfile = "lost.csv"\nsteps = 3\n')
    code, out, told = call(*words)
    assert (code, out) == (1, "")
    assert said in told
    assert not (here / "job-run").exists()


def test_a_program_that_fails_says_why_and_how_to_go_on(here: Path) -> None:
    (here / "job.toml").write_text('kind = "module"\ntarget = "mine:Impure"\nsteps = 5\n')
    code, _, told = call("job.toml", "--workers", 1, "--survive", 0)
    assert code == 1
    assert "computed twice and gave two gradients" in told
    assert "--resume" in told


@pytest.mark.slow
def test_a_learner_is_trained_and_kept(here: Path) -> None:
    import foretell

    t = np.arange(600) * 0.1
    table = np.column_stack([t, np.sin(t), np.cos(t)])
    np.savetxt(here / "pump.csv", table, delimiter=",", header="t,x,y", comments="")
    (here / "pump.toml").write_text(
        'kind = "learner"\nlearner = "alrnn"\nfile = "pump.csv"\ntime = "t"\nsteps = 30\n'
        "[settings]\nlatent_dim = 4\nn_relu = 1\nsequence_length = 40\n"
    )
    code, said, told = call("pump.toml", "--workers", 2, "--inject", "kill:1@9", "--verify")
    assert code == 0, told
    assert "identical to the failure-free run: yes" in said
    model = foretell.load(here / "pump-run" / "model")
    assert np.isfinite(model.predict(table[0, 1:], t[:20])).all()
