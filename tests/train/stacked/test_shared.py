"""Sums through shared memory: two ends in two threads, and workers that are killed."""

from __future__ import annotations

import dataclasses
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foretell.train.stacked import StackedLoop, Supervisor, placement_for
from foretell.train.stacked.collective import ViewLostError
from foretell.train.stacked.membership import View
from foretell.train.stacked.shared import SharedCollective, one_machine
from foretell.train.stacked.states import digest
from tests.train.stacked.helper_tasks import Wide
from tests.train.stacked.test_real_processes import SPEC

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shares memory on Linux")
VIEW = View(1, {0: 0, 1: 0, 2: 0}, source=0, step=0)
SIZE, STEPS = 20_000, 12


class Ends:
    """What three collectives ask of their links; data links are socket pairs."""

    def __init__(self) -> None:
        self.details: dict[int, Any] = {}
        self._pairs: dict[tuple[int, int], tuple[socket.socket, socket.socket]] = {}

    def links(self, me: int) -> Any:
        return SimpleNamespace(
            me=me, timeout_s=10.0, pulse=0, own_details={}, details=self.details, cut_off=False,
            stands=lambda epoch: True, data_link=lambda view, peer, deadline: self._one(me, peer),
        )  # fmt: skip

    def _one(self, me: int, peer: int) -> socket.socket:
        a, b = sorted((me, peer))
        if (a, b) not in self._pairs:
            made = socket.socketpair()
            for one in made:
                one.setblocking(False)
            self._pairs[a, b] = made
        return self._pairs[a, b][me == b]


def together(work: Any) -> list[Any]:
    """Open three collectives, and do something with each at the same time."""
    ends = Ends()
    links = [ends.links(k) for k in range(3)]
    made = [SharedCollective(one) for one in links]
    ends.details.update({k: one.own_details for k, one in enumerate(links)})
    for a, b in ((0, 1), (0, 2), (1, 2)):
        ends._one(a, b)

    def run(me: int) -> Any:
        made[me].open(VIEW)
        return work(me, made[me])

    with ThreadPoolExecutor(3) as pool:
        return [future.result(30) for future in [pool.submit(run, me) for me in range(3)]]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_parts_come_in_order_and_make_the_whole(dtype: Any) -> None:
    given = [np.arange(SIZE).astype(dtype) * (k + 1) for k in range(3)]

    def work(me: int, collective: Any) -> list[tuple[list[int], np.ndarray]]:
        assert collective._together
        found = []
        for _ in range(3):
            parts = [(start, part.copy()) for start, part in collective.sums(given[me])]
            found.append(([s for s, _ in parts], np.concatenate([p for _, p in parts])))
        small = [part.copy() for _, part in collective.sums(np.ones(9))]
        assert (np.concatenate(small) == 3).all()
        collective.close()
        return found

    for found in together(work):
        for starts, values in found:
            assert starts == [0, SIZE // 3, 2 * SIZE // 3]
            assert (values == sum(given)).all()


def test_a_part_that_was_overwritten_while_it_was_read_does_not_count() -> None:
    """As for a worker that was stopped there, and wakes up when the others have gone on."""
    buffers = [np.ones(SIZE) for _ in range(3)]

    def work(me: int, collective: Any) -> str:
        parts = collective.sums(buffers[me])
        next(parts)
        if me == 1:
            collective._regions[1].stamps[1] += 1  # of a new view
            collective._tell(first_alone=False)
        else:
            collective._tell(first_alone=False)
            with pytest.raises(ViewLostError, match="gone on in another view"):
                list(parts)
        collective.close()
        return "done"

    assert together(work) == ["done"] * 3


def test_what_was_given_and_changed_before_all_had_added_it_is_not_told_on() -> None:
    """One leaves while another one adds, and computes more units into its buffer."""
    gone = threading.Event()

    def work(me: int, collective: Any) -> str:
        buffer = np.ones(SIZE)

        def point(place: str) -> None:
            if me == 1:
                gone.set()
                raise ViewLostError("somebody died")
            gone.wait(10)
            time.sleep(0.05)

        collective._point = point
        with pytest.raises(ViewLostError):
            list(collective.sums(buffer))
        collective.close()
        return "done"

    assert together(work) == ["done"] * 3


def test_a_buffer_that_lives_in_shared_memory_is_not_copied() -> None:
    def work(me: int, collective: Any) -> bool:
        buffer = collective.room_for(np.zeros(SIZE))
        buffer[:] = me + 1
        total = np.concatenate([part.copy() for _, part in collective.sums(buffer)])
        kept = bool((buffer == me + 1).all())
        collective.close()
        return kept and bool((total == 6).all())

    assert all(together(work))


def test_memory_of_somebody_else_is_not_taken() -> None:
    """A process number that was given out again: everybody goes over the sockets."""
    ends = Ends()
    links = [ends.links(k) for k in range(3)]
    made = [SharedCollective(one) for one in links]
    told = {k: dict(one.own_details) for k, one in enumerate(links)}
    told[2]["name"] = "00" * 32
    ends.details.update(told)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        ends._one(a, b)

    def run(me: int) -> bool:
        made[me].open(VIEW)
        total = np.concatenate([p.copy() for _, p in made[me].sums(np.ones(SIZE))])
        alone = not made[me]._together
        made[me].close()
        return bool((total == 3).all()) and alone

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(run, range(3)))


def test_only_workers_of_one_address_share() -> None:
    assert one_machine(["127.0.0.1", "127.0.0.1"])
    assert not one_machine(["10.0.0.1", "10.0.0.2"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    ["kill:1@3/reduce,kill:3@7/reduce-late", "stop:0@4/reduce", "pause:2@4/reduce,kill:1@9/apply"],
)
def test_every_state_is_that_of_the_failure_free_run(faults: str) -> None:
    task, truth = Wide(size=SIZE), {}
    loop = StackedLoop(task, placement_for(1, 0))
    for step in loop.steps(STEPS):
        loop.advance(STEPS)
        truth[step + 1] = digest(task.state(), step + 1)
    spec = dataclasses.replace(
        SPEC,
        target="helper_tasks:wide",
        faults=faults,
        survive=2,
        steps=STEPS,
        arguments={"size": SIZE, "pause": 0.01},
    )
    outcome = Supervisor(spec, 5, replace_dead=False).run()
    assert outcome.status == "done", outcome.message
    assert outcome.sha256 == truth[STEPS]
    for step, found in outcome.hashes.items():
        assert found == {truth[step]}, step
