"""Views under cuts, deaths, late messages: never two at once that can commit, one in the end.

The network is simulated: links keep their order, messages take random times, and everything in
flight on a link is lost when the link is. No clocks, no processes.
"""

from __future__ import annotations

import heapq
import itertools

import numpy as np
import pytest

from foretell.train.stacked.membership import STABLE, Membership, Standing, View

N = 5


class Network:
    """Workers, links between them, and who is cut off from whom."""

    def __init__(self, n: int, seed: int, start: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.now, self.order = 0.0, itertools.count()
        self.queue: list[tuple[float, int, int, int, int, dict]] = []
        self.link: dict[tuple[int, int], int] = {}  # ordered pair -> generation
        self.after: dict[tuple[int, int], float] = {}
        self.island = dict.fromkeys(range(n), 0)
        self.workers = {i: self.fresh(i, 0, n) for i in range(n if start is None else start)}
        self.installed: list[View] = []
        self.n = n

    @staticmethod
    def fresh(i: int, incarnation: int, n: int) -> Membership:
        return Membership(
            Standing(i, incarnation, "same", 0 if incarnation == 0 else -1, 0),
            n, start_s=5.0, window_s=2.0,
        )  # fmt: skip

    def reaches(self, a: int, b: int) -> bool:
        return a in self.workers and b in self.workers and self.island[a] == self.island[b]

    def rewire(self) -> None:
        """Links come and go as the islands say."""
        for a, b in itertools.permutations(range(self.n), 2):
            up = (a, b) in self.link
            if self.reaches(a, b) and not up and self.reaches(b, a):
                self.link[a, b] = self.link[b, a] = next(self.order)
                for x, y in ((a, b), (b, a)):
                    self.workers[x].connected(y, self.now)
            elif up and not self.reaches(a, b):
                for x, y in ((a, b), (b, a)):
                    self.link.pop((x, y), None)
                    if x in self.workers:
                        self.workers[x].lost(y, self.now)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.flush()
            if self.queue and self.queue[0][0] <= self.now + 0.1:
                self.now, _, a, b, generation, message = heapq.heappop(self.queue)
                if self.link.get((a, b)) == generation and b in self.workers:
                    self.workers[b].received(a, message, self.now)
            else:
                self.now += 0.1
                for worker in list(self.workers.values()):
                    worker.tick(self.now)
        self.flush()

    def flush(self) -> None:
        for a, worker in self.workers.items():
            if worker.view is not None and worker.view not in self.installed:
                self.installed.append(worker.view)
            for b, message in worker.outbox:
                if (a, b) in self.link:
                    when = max(self.now + self.rng.exponential(0.05), self.after.get((a, b), 0))
                    self.after[a, b] = when
                    item = (when, next(self.order), a, b, self.link[a, b], message)
                    heapq.heappush(self.queue, item)
            worker.outbox.clear()

    def able(self) -> list[frozenset[int]]:
        """Views in which a step could be committed now: all members are in it, undisturbed."""
        found = set()
        for worker in self.workers.values():
            view = worker.view
            if view is None or worker.state != STABLE:
                continue
            if all(p in self.workers and self.workers[p].stands(view.epoch) for p in view.members):
                found.add(frozenset(view.members))
        return list(found)


def test_all_workers_form_the_first_view() -> None:
    network = Network(N, 0)
    network.rewire()
    network.run(2)
    assert network.able() == [frozenset(range(N))]


def test_a_worker_that_never_starts_is_waited_for_then_left_out() -> None:
    network = Network(N, 1, start=4)
    network.rewire()
    network.run(4.5)
    assert network.able() == []
    network.run(2)
    assert network.able() == [frozenset(range(4))]


def test_a_minority_never_forms_and_the_majority_does() -> None:
    network = Network(N, 2)
    network.rewire()
    network.run(2)
    network.island.update({3: 1, 4: 1})
    network.rewire()
    network.run(20)
    assert network.able() == [frozenset({0, 1, 2})]
    assert not network.workers[3].stands(network.workers[3].view.epoch)  # type: ignore[union-attr]
    network.island.update({3: 0, 4: 0})
    network.rewire()
    network.run(3)
    assert network.workers[0].admit
    for worker in network.workers.values():
        if worker.state == STABLE:
            worker.form(network.now)
    network.run(3)
    assert network.able() == [frozenset(range(N))]


def test_one_after_the_other_may_go_but_half_at_once_may_not() -> None:
    network = Network(4, 3)
    network.rewire()
    network.run(2)
    for victim, left in ((1, {0, 2, 3}), (0, {2, 3})):
        del network.workers[victim]
        network.rewire()
        network.run(5)
        assert network.able() == [frozenset(left)]
    del network.workers[3]
    network.rewire()
    network.run(5)
    assert network.able() == []
    network.workers[2].bury(3, 0, network.now)  # its parent collected it: certainly dead
    network.run(1)
    assert network.able() == [frozenset({2})]


def test_one_that_was_started_again_heals_and_has_no_vote_of_its_old_life() -> None:
    network = Network(3, 4)
    network.rewire()
    network.run(2)
    view = network.workers[0].view
    assert view is not None
    for worker in network.workers.values():
        assert worker.commit(view.epoch, 7)
    del network.workers[1]
    network.rewire()
    network.run(5)
    del network.workers[2]
    network.rewire()
    network.workers[1] = Network.fresh(1, 1, 3)
    network.rewire()
    network.run(10)
    assert network.able() == []  # 0 alone remembers a view of two
    network.workers[2] = Network.fresh(2, 1, 3)
    network.rewire()
    for worker in network.workers.values():
        worker.bury(2, 0, network.now)
    network.run(10)
    assert network.able() == [frozenset({0, 1, 2})]
    view = network.workers[0].view
    assert view is not None
    assert (view.source, view.stale, view.step) == (0, (1, 2), 7)


@pytest.mark.parametrize("seed", range(60))
def test_two_views_can_never_commit_at_once(seed: int) -> None:
    """Random cuts, deaths and returns; whatever happens, at most one view can commit."""
    network = Network(N, seed)
    network.rewire()
    rng = np.random.default_rng(seed + 1000)
    incarnation = dict.fromkeys(range(N), 0)
    network.run(rng.uniform(0, 2))
    for _ in range(25):
        i, what = int(rng.integers(N)), rng.random()
        if what < 0.5:
            network.island[i] = int(rng.integers(2))
        elif what < 0.65 and i in network.workers:
            del network.workers[i]
        elif what < 0.85 and i not in network.workers:
            incarnation[i] += 1
            network.workers[i] = Network.fresh(i, incarnation[i], N)
        elif i in network.workers:
            network.workers[i].form(network.now)
        network.rewire()
        network.run(rng.exponential(0.4))
        assert len(network.able()) <= 1
    lines = {view.epoch: view for view in network.installed}
    assert len(lines) == len({(v.epoch, *sorted(v.members.items())) for v in network.installed})


@pytest.mark.parametrize("seed", range(10))
def test_when_the_network_calms_down_a_majority_goes_on(seed: int) -> None:
    network = Network(N, seed)
    network.rewire()
    network.run(2)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        network.island[int(rng.integers(N))] = int(rng.integers(2))
        network.rewire()
        network.run(rng.exponential(0.3))
    network.island.update(dict.fromkeys(range(N), 0))
    network.rewire()
    for _ in range(4):
        network.run(6)
        for worker in network.workers.values():
            if worker.admit:
                worker.form(network.now)
    network.run(6)
    assert network.able() == [frozenset(range(N))]


def test_another_training_is_refused_by_name() -> None:
    network = Network(3, 0)
    network.workers[2].standing.fingerprint = "units 16; torch 2.6"
    for i in (0, 1):
        network.workers[i].standing.fingerprint = "units 16; torch 2.13"
    network.rewire()
    network.run(2)
    assert "worker 2" in network.workers[0].error
    assert "torch 2.6, not torch 2.13" in network.workers[0].error
