"""Sums by process groups in many parts, between two collectives in two threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from foretell.train.stacked.collective import ViewLostError
from foretell.train.stacked.membership import View

pytest.importorskip("torch", reason="needs the extra learn")
from foretell.train.stacked import groups

VIEW = View(1, {0: 0, 1: 0}, source=0, step=0)


def links(me: int) -> Any:
    """What a collective asks of its links."""
    return SimpleNamespace(
        me=me, timeout_s=10.0, stuck_s=10.0, pulse=0, own_details={}, details={},
        addresses=[("127.0.0.1", 0)] * 2, stands=lambda epoch: True,
    )  # fmt: skip


@pytest.fixture(params=["gloo", "torchft"])
def kind(request: Any) -> Any:
    """Each kind of process group."""
    if request.param == "torchft":
        pytest.importorskip("torchft", reason="needs the extra survive")
    return {"gloo": groups.GlooCollective, "torchft": groups.TorchftCollective}[request.param]


def both(kind: Any, work: Any) -> list[Any]:
    """Open two collectives, and do something with each at the same time."""
    ends = [links(0), links(1)]
    made = [kind(end) for end in ends]
    for end in ends:
        end.details = {k: e.own_details for k, e in enumerate(ends)}

    def run(me: int) -> Any:
        made[me].open(VIEW)
        return work(me, made[me], ends[me])

    with ThreadPoolExecutor(2) as pool:
        return [future.result(30) for future in [pool.submit(run, me) for me in (0, 1)]]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_parts_come_in_order_and_make_the_whole(monkeypatch: Any, kind: Any, dtype: Any) -> None:
    monkeypatch.setattr(groups, "_PART", 300)
    given = [np.arange(1000, dtype=dtype), 5 * np.ones(1000, dtype=dtype)]

    def work(me: int, collective: Any, end: Any) -> tuple[list[int], np.ndarray, np.ndarray]:
        starts, values = [], []
        for start, part in collective.sums(given[me]):
            starts.append(start)
            values.append(part.copy())
        again = np.concatenate([part.copy() for _, part in collective.sums(given[me])])
        collective.close()
        return starts, np.concatenate(values), again

    for starts, values, again in both(kind, work):
        assert starts == [0, 300, 600, 900]
        assert (values == given[0] + given[1]).all()
        assert (again == values).all()
    assert (given[0] == np.arange(1000)).all()


def test_a_sum_is_left_behind_when_the_view_ends(monkeypatch: Any, kind: Any) -> None:
    monkeypatch.setattr(groups, "_PART", 300)

    def work(me: int, collective: Any, end: Any) -> None:
        if me == 0:
            end.stands = lambda epoch: False
            with pytest.raises(ViewLostError, match="the view ended"):
                list(collective.sums(np.ones(1000)))
        collective.close()
        assert collective._rooms == []

    both(kind, work)
