"""A job file runs by one process and by two, with the same weights; faults are named."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'learn' (torch)")

from foretell.core import ControllerError, DataError, ParameterError, Progress  # noqa: E402
from foretell.train import rl_job  # noqa: E402
from foretell.train.rl import join  # noqa: E402


@pytest.fixture
def table(tmp_path: Path) -> dict:
    lines = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(5) for b in range(5)]
    path = tmp_path / "sums.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return {
        "kind": "rl",
        "steps": 2,
        "prompts": str(path),
        "held_out": str(path),
        "reward": "exact_match",
        "model": {"alphabet": "0123456789+=", "width": 16, "n_layers": 1, "n_heads": 1,
                  "longest": 8, "max_new_tokens": 2},
        "trainer": {"group_size": 4, "prompts_per_step": 6, "exactness": "bitwise", "lr": 0.01,
                    "clip_range": [0.2, 0.28]},
    }  # fmt: skip


def test_two_processes_give_the_weights_of_one(table, tmp_path) -> None:
    reports: list[Progress] = []
    alone = rl_job.run(table, workers=1, out=tmp_path / "one")
    pair = rl_job.run(table, workers=2, out=tmp_path / "two", on_step=reports.append)
    assert (alone.steps, pair.workers, [r.step for r in reports]) == (2, 2, [1, 2])
    a, b = (rl_job.load_policy(tmp_path / name / "policy") for name in ("one", "two"))
    for x, y in zip(a.module.parameters(), b.module.parameters(), strict=True):
        assert torch.equal(x, y)
    assert len((tmp_path / "two" / "history.jsonl").read_text().splitlines()) == 2
    again = rl_job.run({**table, "steps": 3, "resume": True}, out=tmp_path / "two")
    assert again.steps == 3


def test_what_a_process_says_last_is_raised(tmp_path) -> None:
    from foretell.train.rl.workers import _raise

    errors = [tmp_path / "0.err", tmp_path / "1.err"]
    errors[0].write_text("Traceback\nControllerError: lost the others")
    errors[1].write_text('a warning\n{"kind": "DataError", "text": "uid 3 is nan"}\n')
    with pytest.raises(DataError, match="uid 3 is nan"):
        _raise({0: 1, 1: 2}, errors)
    errors[1].write_text("")
    with pytest.raises(ControllerError, match="Rank 1 ended with code -9: it said nothing"):
        _raise({0: 1, 1: -9}, errors)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"stepz": 3}, ParameterError, "a key 'stepz'"),
        ({"steps": 0}, ParameterError, "steps = 0"),
        ({"algorithm": "sarsa"}, ParameterError, "algorithm = 'sarsa'"),
        ({"reward": "fame"}, ParameterError, "reward = 'fame'"),
        ({"model": {}}, ParameterError, r"\[model\] needs either folder"),
        ({"model": {"folder": "/nowhere"}}, DataError, "no folder /nowhere"),
        ({"model": {"alphabet": "01", "depth": 3}}, ParameterError, "unknown setting 'depth'"),
        ({"trainer": {"speed": 3}}, ParameterError, "setting that is not known.*speed"),
        ({"prompts": "nowhere.jsonl"}, DataError, "nowhere.jsonl cannot be read"),
    ],
)
def test_faults_of_a_table(table, tmp_path, change, error, message) -> None:
    with pytest.raises(error, match=message):
        rl_job.run({**table, **change}, out=tmp_path / "out")


def test_faults_of_prompts(tmp_path) -> None:
    path = tmp_path / "p.jsonl"
    for text, message in [
        ('{"prompt": "1"}\n{', "line 2 is not JSON"),
        ('{"text": "1"}', 'line 1 has no "prompt"'),
        ("\n", "has no prompts"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            rl_job.read_prompts(path)


def test_a_rank_that_does_not_come_is_named(monkeypatch) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    meeting = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in meeting.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ControllerError, match="ranks 1, 2 of 3 did not come"):
        join(timeout_s=0.2)
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(ParameterError, match="WORLD_SIZE='many'"):
        join()
    assert os.environ["RANK"] == "0"
