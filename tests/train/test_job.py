"""Job files: what is read, and what is refused with the line that fixes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretell.core import DataError, ParameterError
from foretell.train.job import make_job, read_table

MODULE = {"kind": "module", "target": "a:b", "steps": 10}
LEARNER = {"kind": "learner", "file": "pump.csv", "steps": 10}


def test_flags_take_the_place_of_values(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('kind = "module"\ntarget = "a:b"\nsteps = 5\nworkers = 3\n[arguments]\nx = 1\n')
    job = make_job(read_table(file), tmp_path, workers=7, survive=2)
    assert (job.workers, job.survive, job.steps, dict(job.arguments)) == (7, 2, 5, {"x": 1})
    assert job.spec(job.target, job.arguments).units == 14


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"worker": 3}, "unknown key 'worker'. Did you mean 'workers'?"),
        ({"patience": 3}, "Did you mean 'patience_s'?"),
        ({"zzz": 3}, "Known are arguments, backend"),
        ({"file": "x.csv"}, 'belongs to kind = "learner"'),
        ({"steps": "ten"}, "steps = 'ten' in the job; needed is a whole number"),
        ({"steps": 0}, "steps = 0; needed is a whole number of at least 1"),
        ({"exact": 1}, "needed is true or false"),
        ({"timeout_s": -1.0}, "needed are seconds above 0"),
        ({"timeout_s": float("nan")}, "needed are seconds above 0"),
        ({"arguments": 3}, "a table [arguments]"),
        ({"backend": "nccl"}, "one of sockets, gloo"),
        ({"target": ""}, 'needs target, for instance target = "my_training:main"'),
        ({"survive": 4}, "at least one worker has to be left"),
        ({"micro": 0}, "micro = 0"),
        ({"units": 0}, "units = 0"),
        ({"port": 65535}, "needed is one below 65532"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make_job({**MODULE, **change}, Path())
    assert said in str(caught.value)


def test_a_learner_has_no_target_and_needs_a_file() -> None:
    with pytest.raises(ParameterError, match='belongs to kind = "module"'):
        make_job({**LEARNER, "target": "a:b"}, Path())
    with pytest.raises(ParameterError, match="needs file"):
        make_job({**LEARNER, "file": ""}, Path())
    with pytest.raises(ParameterError, match="list of names"):
        make_job({**LEARNER, "controls": "pump"}, Path())
    arguments = make_job({**LEARNER, "controls": ["u"]}, Path("/data")).learner_arguments()
    assert (arguments["file"], arguments["controls"]) == ("/data/pump.csv", ["u"])


def test_files_that_are_no_jobs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no job file"):
        read_table(tmp_path / "none.toml")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text("kind = ")
    with pytest.raises(DataError, match="is not TOML"):
        read_table(bad)
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not TOML"):
        read_table(bad)
    bad.write_text('kind = "modul"')
    with pytest.raises(ParameterError, match="kind = 'modul'; write kind"):
        read_table(bad)
