"""The command line: its flags, its exit codes, its words, and what it costs to start."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from foretell import __version__
from foretell.app import command_fit, fitting
from foretell.app.commands import app
from foretell.app.folder import FitFolder
from foretell.app.guard import interrupts_as_such
from foretell.app.study import Study
from foretell.core.errors import ArtifactError, NumericalError
from tests.app.fake import Pulse, pulse_recording

FLAGS = {
    "demo": {"out", "json"},
    "doctor": {"json"},
    "fit": {
        "file",
        "out",
        "time",
        "group",
        "controls",
        "columns",
        "effort",
        "learner",
        "resume",
        "merge_duplicates",
        "json",
    },
    "find ask": {"folder", "question", "k", "budget", "rerank", "json"},
    "find build": {"folder", "notes", "bits", "json"},
    "find compare": {
        "codes",
        "queries",
        "vectors",
        "matrix",
        "bits",
        "bit_order",
        "k",
        "out",
        "json",
    },
    "methods": set(),
    "plan": {"folder", "keep", "steer", "horizon", "start", "limits", "out", "json"},
    "replay": {"file", "out", "browser"},
    "show": {"folder", "browser", "cite", "json"},
    "talk calibrate": {"questions", "notes", "out", "level", "json"},
    "talk start": {
        "model",
        "notes",
        "serve",
        "host",
        "port",
        "record",
        "llm",
        "level",
        "whisper",
    },
    "train run": {"job", "workers", "survive", "out", "inject", "verify", "resume", "json"},
    "train plan": {
        "groups",
        "mtbf",
        "save",
        "restart",
        "compute",
        "reduce",
        "micro",
        "shape",
        "rack",
        "rack_share",
        "steps",
        "seeds",
        "out",
        "json",
    },
    "trust apply": {"rule", "new", "out", "score", "json"},
    "trust calibrate": {
        "scores",
        "unlabeled_scores",
        "alpha",
        "out",
        "guarantee",
        "delta",
        "score",
        "errors",
        "direction",
        "json",
    },
    "trust report": {"rule", "scores", "new", "out", "errors", "score", "json"},
}


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    data = pulse_recording(1500)
    path = tmp_path / "pulse.csv"
    rows = [f"{t:.6f},{v:.4f}" for t, v in zip(data.times[0], data.values[0][:, 0], strict=True)]
    path.write_text("t [s],pulse [mV]\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def known_model(monkeypatch: pytest.MonkeyPatch) -> Pulse:
    """Let every fit use the model with the known answer."""
    model = Pulse()
    monkeypatch.setattr(
        fitting.fit_study,
        "__kwdefaults__",
        {**(fitting.fit_study.__kwdefaults__ or {}), "learner": lambda plan: model},
    )
    return model


def test_flags_are_frozen() -> None:
    commands = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    inner = {
        f"{group} {name}": command
        for group in ("find", "talk", "train", "trust")
        for name, command in commands.pop(group).commands.items()
    }
    commands |= inner
    found = {name: {p.name for p in command.params} for name, command in commands.items()}
    assert found == FLAGS
    assert max(len(flags) for name, flags in FLAGS.items() if name != "train plan") <= 11
    options = [
        [p for p in command.params if p.param_type_name == "option"]
        for name, command in inner.items()
        if name != "train plan"  # a calculator: each option is one number of the formula
    ]
    assert max(map(len, options)) <= 8


def test_version_and_methods() -> None:
    assert call("--version") == (0, f"foretell {__version__}\n", "")
    code, said, _ = call("methods")
    assert code == 0
    assert "foretell.CPLRNN" in said


def test_fit_writes_everything_and_show_reads_it(
    table: Path, tmp_path: Path, known_model: Pulse
) -> None:
    out = tmp_path / "out"
    code, said, told = call("fit", table, "--time", "t", "--out", out, "--effort", "1")
    assert code == 0, told
    assert "limit cycle" in said
    assert "Delay embedding" in told
    for name in ("report.html", "summary.json", "fit.json", "model/model.json"):
        assert (out / name).exists(), name
    assert not (out / "progress").exists()
    code, said, _ = call("show", out)
    assert code == 0
    assert "report.html" in said
    assert json.loads(call("show", out, "--json")[1])["plan"]["learner"] == "cplrnn"
    assert "@inproceedings{braendle2026continuous" in call("show", out, "--cite")[1]


def test_json_is_one_object_on_stdout(table: Path, tmp_path: Path, known_model: Pulse) -> None:
    code, said, told = call("fit", table, "--time", "t", "--out", tmp_path / "o", "--json")
    assert code == 0
    content = json.loads(said)
    assert content["verdict"]["grade"] in ("good", "fair", "poor")
    assert content["data"]["samples"] == 1500
    assert "Fitting" in told


def test_interrupt_says_how_to_continue_and_resume_finishes(
    table: Path, tmp_path: Path, known_model: Pulse
) -> None:
    out = tmp_path / "out"
    known_model.stall_at = 50
    code, said, told = call("fit", table, "--time", "t", "--out", out)
    assert code == 130
    assert said == ""
    assert f"foretell fit {table} --time t --out {out} --resume" in told
    assert call("show", out)[0] == 1
    assert "--resume" in call("show", out)[2]
    assert "interrupted fit" in call("fit", table, "--time", "t", "--out", out)[2]
    known_model.stall_at = None
    changed = call("fit", table, "--time", "t", "--out", out, "--effort", "1", "--resume")
    assert changed[0] == 1
    assert "started with" in changed[2]
    code, _, told = call("fit", table, "--time", "t", "--out", out, "--resume")
    assert code == 0, told
    code, _, told = call("fit", table, "--time", "t", "--out", out, "--resume")
    assert code == 1
    assert "nothing to resume" in told


def test_auto_compares_learners_once_and_tells_it(
    table: Path, tmp_path: Path, known_model: Pulse
) -> None:
    out = tmp_path / "out"
    known_model.stall_at = 50
    assert call("fit", table, "--time", "t", "--out", out)[0] == 130
    first = (out / "comparison.json").read_bytes()
    known_model.stall_at = None
    code, said, told = call("fit", table, "--time", "t", "--out", out, "--resume", "--json")
    assert code == 0, told
    assert "Comparing learners" not in told
    assert (out / "comparison.json").read_bytes() == first
    found = json.loads(said)["comparison"]
    assert found["learner"] == "cplrnn"
    assert found["tried"][0]["name"] == "cplrnn"
    assert "uneven" in dict(found["left_out"])["alrnn"]
    page = (out / "report.html").read_text()
    assert "Learners that were tried" in page
    assert "uneven stamps" in page


def test_a_named_learner_and_effort_1_are_not_compared(
    table: Path, tmp_path: Path, known_model: Pulse
) -> None:
    for n, more in enumerate((["--learner", "cplrnn"], ["--effort", "1"])):
        out = tmp_path / f"out{n}"
        code, said, told = call("fit", table, "--time", "t", "--out", out, "--json", *more)
        assert code == 0, told
        assert json.loads(said)["comparison"] is None
        assert not (out / "comparison.json").exists()


def test_folders_of_others_are_left_alone(table: Path, tmp_path: Path, known_model: Pulse) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    code, _, told = call("fit", table, "--time", "t", "--out", out)
    assert code == 1
    assert "nothing was touched" in told
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]
    assert call("demo", "--out", out)[0] == 1
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]
    code, _, told = call("fit", table, "--time", "t", "--out", table)
    assert code == 1
    assert "is a file" in told


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fit"], 2, "Missing argument"),
        (["fit", "x.csv", "--out", "o", "--effort", "9"], 2, "effort"),
        (["fit", "missing.csv", "--time", "t", "--out", "o"], 1, "There is no file missing.csv"),
        (["fit", ".", "--out", "o"], 1, "is a folder without tables"),
        (["show", "nowhere"], 1, "There is no folder nowhere"),
        (["show", "."], 1, "it has no fit.json"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_mistakes(
    words: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, said, told = call(*words)
    assert found == code
    assert said == ""
    assert message in told
    assert "Traceback" not in told
    assert list(tmp_path.iterdir()) == []


def test_unknown_learner_and_forgotten_time(table: Path, tmp_path: Path) -> None:
    code, _, told = call("fit", table, "--time", "t", "--out", tmp_path / "o", "--learner", "lstm")
    assert code == 1
    assert "auto, cplrnn, alrnn, neural-ode" in told
    table.write_text(table.read_text().replace("t [s]", "clock [s]"))
    code, _, told = call("fit", table, "--out", tmp_path / "o")
    assert code == 1
    assert "--time 'clock'" in told


def test_too_few_rows(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("t,x\n" + "".join(f"{i},{np.sin(i)}\n" for i in range(30)))
    code, _, told = call("fit", path, "--time", "t", "--out", tmp_path / "o")
    assert code == 1
    assert "30 rows" in told
    assert not (tmp_path / "o").exists()


def test_useless_columns_and_failed_fits_leave_nothing_behind(
    tmp_path: Path, known_model: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("t,x,fixed\n" + "".join(f"{i},{np.sin(i)},4\n" for i in range(300)))
    out = tmp_path / "o"
    code, _, told = call("fit", path, "--time", "t", "--out", out)
    assert code == 1
    assert "'fixed': it is 4 everywhere. Leave it out with: --columns x" in told

    def diverge(*args: object, **kwargs: object) -> None:
        raise NumericalError("training diverged")

    monkeypatch.setattr(Pulse, "fit", diverge)
    code, _, told = call("fit", path, "--time", "t", "--columns", "x", "--out", out)
    assert code == 1
    assert "training diverged" in told
    assert not out.exists()


def test_a_full_disk_says_how_to_go_on(
    table: Path, tmp_path: Path, known_model: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise ArtifactError("report.html was not written: no space left on device.")

    out = tmp_path / "o"
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "write", full)
        code, said, told = call("fit", table, "--time", "t", "--out", out)
    assert code == 1
    assert said == ""
    assert f"Then continue with: foretell fit {table} --time t --out {out} --resume" in told
    assert call("fit", table, "--time", "t", "--out", out, "--resume")[0] == 0


def test_an_interrupt_inside_compiled_code_is_an_interrupt(
    table: Path, tmp_path: Path, known_model: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(fitting, "analyse", stop)
    code, _, told = call("fit", table, "--time", "t", "--out", tmp_path / "o")
    assert code == 130
    assert "--resume" in told

    def fail(*args: object) -> None:
        raise SystemError("something else")

    with pytest.raises(SystemError, match="something else"):
        with interrupts_as_such():
            fail()


def test_an_early_interrupt_leaves_the_fit_of_others_out_of_it(
    table: Path, tmp_path: Path, known_model: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "o"
    assert call("fit", table, "--time", "t", "--out", out)[0] == 0

    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_fit, "make_plan", stop)
    code, _, told = call("fit", table, "--time", "t", "--out", out)
    assert code == 130
    assert "Nothing was written." in told
    assert "--resume" not in told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ('{"format": "foretell-fit", "schema": 99, "state": "done", "request": {}}', "newer"),
        ('{"format": "other", "schema": 1, "state": "done", "request": {}}', "not the record"),
    ],
)
def test_strange_records(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "fit.json").write_text(content)
    code, _, told = call("show", tmp_path)
    assert code == 1
    assert message in told


def test_damaged_summary(fitted: tuple[Study, FitFolder], tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_text(fitted[1].record.read_text())
    (tmp_path / "summary.json").write_text("{}")
    code, _, told = call("show", tmp_path)
    assert code == 1
    assert "damaged" in told


def test_show_says_when_the_model_cannot_be_loaded(
    fitted: tuple[Study, FitFolder], tmp_path: Path
) -> None:
    folder = FitFolder(shutil.copytree(fitted[1].path, tmp_path / "o"))
    assert call("show", folder.path)[0] == 0
    weights = folder.model / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    code, said, told = call("show", folder.path)
    assert code == 1
    assert "Good model" in said
    assert "The findings can be read, the model cannot" in told
    assert "was cut off" in told
    assert call("show", folder.path, "--cite")[0] == 0


def test_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FORETELL_DEBUG", "1")
    result = CliRunner().invoke(app, ["show", str(tmp_path / "nowhere")])
    assert result.exception is not None
    assert "no folder" in str(result.exception)


def test_doctor_says_what_is_there() -> None:
    code, said, _ = call("doctor", "--json")
    found = json.loads(said)
    assert code == 0
    assert found["ok"]
    assert found["self_test"]["ok"]
    assert found["extras"]["learn"]["install"] == 'pip install "foretell[learn]"'
    described = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    offered = set(described["project"]["optional-dependencies"])
    assert set(found["extras"]) == offered - {"all"}
    assert "self-test" in call("doctor")[1]


def test_help_starts_fast_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, foretell.app.cli as cli\nsys.argv = ['foretell', '--help']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'numba', 'torch', 'pandas', 'jinja2'} & set(sys.modules)\n"
        "sys.stderr.write(repr(sorted(heavy)))"
    )
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert done.stderr == "[]"
        assert "Commands:" in done.stdout
    assert min(costs) <= 0.25
