"""Workers are processes, really killed, stopped and cut off; every committed state is compared."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foretell.core import ArtifactError, ParameterError
from foretell.train.stacked import (
    Outcome,
    StackedLoop,
    Supervisor,
    WorkerSpec,
    placement_for,
    supervisor,
)
from foretell.train.stacked.links import listener
from foretell.train.stacked.nursery import Nursery
from foretell.train.stacked.states import digest
from tests.train.stacked.helper_tasks import Regression

HERE = Path(__file__).parent
STEPS = 30
SPEC = WorkerSpec(
    target="helper_tasks:regression", arguments={"pause": 0.004}, path=[str(HERE)], steps=STEPS,
    hashes=True, timeout_s=2.0, start_s=40.0, patience_s=12.0, fault_s=3.5,
)  # fmt: skip


class Shared(Nursery):
    """Imports once what the workers of all tests need; they are processes of their own as ever."""

    def close(self) -> None:
        """Stay for the next test."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Shared]:
    shared = Shared(SPEC, supervisor._environment(SPEC))
    yield shared
    Nursery.close(shared)


@pytest.fixture(autouse=True)
def _from_one_nursery(
    nursery: Shared, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "process_groups" not in request.node.name:  # which need one that has imported torch
        monkeypatch.setattr(supervisor, "Nursery", lambda spec, environment: nursery)


def expected() -> dict[int, str]:
    """The hash of every state of a training without failures, in this process."""
    task, found = Regression(), {}
    loop = StackedLoop(task, placement_for(1, 0))
    for step in loop.steps(STEPS):
        loop.advance(STEPS)
        found[step + 1] = digest(task.state(), step + 1)
    return found


def train(faults: str, n: int = 4, survive: int = 1, **settings: Any) -> Outcome:
    options = {k: settings.pop(k) for k in ("replace_dead", "fence_s", "folder", "on_event", "fork")
               if k in settings}  # fmt: skip
    spec = dataclasses.replace(SPEC, faults=faults, survive=survive, **settings)
    return Supervisor(spec, n, **{"replace_dead": False, **options}).run()


def assert_same(outcome: Outcome) -> None:
    truth = expected()
    assert outcome.status == "done", outcome.message
    assert outcome.sha256 == truth[STEPS]
    for step, found in outcome.hashes.items():
        assert found == {truth[step]}, step


def test_killed_in_the_sum_in_the_optimiser_and_while_others_recover() -> None:
    """The first dies when one other has the sum: that one commits, the others heal from it."""
    outcome = train("kill:1@5/reduce-late,kill:4@12/apply,kill:0@13/recover", n=7, survive=2)
    assert_same(outcome)
    assert outcome.failures == 3


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "compute", "reduce", "commit"])
def test_killed_at_every_place(place: str) -> None:
    assert_same(train(f"kill:1@6/{place}"))


def test_the_last_of_two_goes_on_and_a_new_worker_heals() -> None:
    """Its parent knows that the other one is dead; the replacement takes the state over."""
    seen: list[dict[str, Any]] = []
    outcome = train(
        "kill:0@4", n=2, replace_dead=True, arguments={"pause": 0.02},
        on_event=lambda event, members: seen.append(event),
    )  # fmt: skip
    assert_same(outcome)
    assert outcome.replaced == 1
    assert any(e["event"] == "healed" and e["life"] == 1 for e in seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "device"), [("gloo", None), ("torchft", "cpu"), ("torchft", "cuda")]
)
def test_the_same_over_process_groups(backend: str, device: str | None) -> None:
    """One dies in the sum; its replacement, and one that was cut off, heal and join again.

    By torchft also with sums of tensors, as on a GPU.
    """
    torch = pytest.importorskip("torch", reason="needs the extra learn")
    if backend == "torchft":
        pytest.importorskip("torchft", reason="needs the extra survive")
    if device == "cuda" and torch.cuda.device_count() < 4:
        pytest.skip("NCCL needs a GPU for each of the four workers")
    target, more = ("helper_device", {"device": device}) if device else ("helper_tasks", {})
    seen: list[dict[str, Any]] = []
    outcome = train(
        "kill:1@5/reduce,cut:2@8", n=4, survive=2, replace_dead=True, backend=backend,
        target=f"{target}:regression", path=[str(HERE), str(HERE.parents[2])],
        arguments={"pause": 0.06, **more}, fence_s=None, fault_s=3.0,
        on_event=lambda event, members: seen.append(event),
    )  # fmt: skip
    assert_same(outcome)
    assert any(e["event"] == "healed" and e["worker"] == 1 and e["life"] == 1 for e in seen)


def test_a_hang_is_left_behind_and_one_that_was_cut_off_commits_nothing_alone() -> None:
    seen: list[dict[str, Any]] = []
    outcome = train(
        "cut:2@6,stop:0@16", n=5, survive=2, arguments={"pause": 0.02}, fence_s=None,
        on_event=lambda event, members: seen.append(event),
        steps=STEPS,
    )  # fmt: skip
    assert_same(outcome)
    assert min(e["members"] for e in seen if e["event"] == "step") >= 3
    cut = next(e["t"] for e in seen if e["event"] == "fault" and "cut" in e["fault"])
    back = next((e["t"] for e in seen if e["event"] == "healed" and e["worker"] == 2), cut + 3.5)
    alone = [e for e in seen if e["event"] == "step" and e["worker"] == 2 and cut < e["t"] < back]
    assert all(e["members"] >= 3 for e in alone)


@pytest.mark.slow
def test_two_of_three_hang_and_the_last_one_goes_on() -> None:
    """The second is in the view when it hangs: its parent has to end it."""
    seen: list[dict[str, Any]] = []
    outcome = train(
        "stop:1@2/before,stop:2@7/compute", n=3, survive=2, fence_s=3.0, timeout_s=1.0,
        on_event=lambda event, members: seen.append(event),
    )  # fmt: skip
    assert_same(outcome)
    assert sum(e["event"] == "killed" for e in seen) == 2
    assert outcome.seconds < 30


def test_a_wipe_out_leaves_a_checkpoint_and_the_resumed_run_ends_the_same(tmp_path: Path) -> None:
    """Also by another number of workers: the result depends on the units alone."""
    outcome = train("kill:0@9/before,kill:1@9/before", n=5, folder=tmp_path)
    assert (outcome.status, outcome.step) == ("wiped out", 9)
    assert "Restart" in outcome.message
    assert [p.name for p in sorted(tmp_path.glob("checkpoints/step-*"))] == ["step-00000009"]
    again = train("", n=2, folder=tmp_path, resume=True)
    assert again.sha256 == expected()[STEPS]
    assert min(again.hashes) == 10


def test_a_minority_stops_and_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    """Half of four is no majority where nobody knows that the others are dead."""

    class Unknowing(Supervisor):
        def _tell(self, order: dict[str, Any]) -> None:
            if "bury" not in order:
                super()._tell(order)

    refused: list[str] = []

    def second(event: dict[str, Any], members: object) -> None:
        if event["event"] == "step" and not refused:
            with pytest.raises(ArtifactError, match="another training is running") as caught:
                Supervisor(SPEC, 2, folder=tmp_path).run()
            refused.append(str(caught.value))

    spec = dataclasses.replace(
        SPEC, survive=2, patience_s=1.5, faults="kill:0@9/before,kill:2@9/before"
    )
    outcome = Unknowing(spec, 4, folder=tmp_path, replace_dead=False, on_event=second).run()
    assert (outcome.status, outcome.step) == ("minority", 9)
    assert max(outcome.hashes) == 9
    assert refused


def test_a_worker_that_never_starts_is_done_without() -> None:
    outcome = train("", n=3, target="helper_tasks:never_starts", start_s=4.0, fence_s=None)
    assert_same(outcome)


def test_workers_that_are_started_anew_in_place_of_forked() -> None:
    assert_same(train("kill:0@5", n=3, fork=False))


def test_a_port_in_use_is_named() -> None:
    taken = listener("127.0.0.1")
    port = taken.getsockname()[1]
    with pytest.raises(ParameterError, match=f"nothing can listen on 127.0.0.1:{port}"):
        Supervisor(SPEC, 1, port=port).run()
    taken.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target": "not_there:main"}, "the module 'not_there' of target"),
        ({"target": "helper_tasks:main"}, "helper_tasks has no 'main'; it has"),
        ({"target": "helper_tasks:returns_nothing"}, "returned NoneType, and trained nothing"),
        ({"target": "helper_tasks:Impure"}, "computed twice and gave two gradients"),
    ],
)
def test_what_cannot_be_trained_is_said(settings: dict[str, Any], said: str) -> None:
    outcome = train("", n=1, survive=0, **{"arguments": {}, **settings})
    assert outcome.status == "failed"
    assert said in outcome.message


def test_workers_that_begin_differently_are_refused() -> None:
    outcome = train("", n=2, target="helper_tasks:other_start")
    assert outcome.status == "failed"
    assert "first parameters" in outcome.message


def test_when_the_parent_dies_the_workers_stop_with_a_checkpoint(tmp_path: Path) -> None:
    """The supervisor is killed in a process of its own; its workers find out and end."""
    import subprocess
    import sys
    import time

    code = (
        "import sys, dataclasses; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from foretell.train.stacked import Supervisor, WorkerSpec\n"
        "spec = WorkerSpec(target='helper_tasks:regression', arguments={'pause': 0.01},"
        " path=[sys.argv[2]], steps=100000, timeout_s=2.0)\n"
        "Supervisor(spec, 2, folder=Path(sys.argv[1])).run()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(HERE)])
    record, end = tmp_path / "events.jsonl", time.monotonic() + 60
    while time.monotonic() < end and not (record.exists() and '"step", ' in record.read_text()):
        time.sleep(0.05)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    while time.monotonic() < end and not list(tmp_path.glob("checkpoints/step-*/model.json")):
        time.sleep(0.05)
    assert list(tmp_path.glob("checkpoints/step-*/model.json"))


def test_a_worker_that_nobody_supervises_ends_even_where_it_is_stuck() -> None:
    import subprocess
    import sys

    code = (
        "import socket, time\n"
        "from foretell.train.stacked.worker import Worker, WorkerSpec\n"
        "ours, theirs = socket.socketpair()\n"
        "Worker(WorkerSpec(channel_fd=theirs.detach(), orphan_s=0.2))\n"
        "ours.close()\n"
        "time.sleep(60)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 1
