"""Rows arrive whole where the plan sends them, and what goes wrong on one rank reaches all."""

from itertools import chain

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'learn' (torch)")

from foretell.core import ControllerError, DataError, ParameterError  # noqa: E402
from foretell.train.coordinator import Coordinator  # noqa: E402
from foretell.train.graph import ParallelLayout, Workflow  # noqa: E402
from foretell.train.rl import DoubleBuffer, RowBatch, in_threads, run_workflow  # noqa: E402

LAYOUTS = [
    {},
    {"rollout": ParallelLayout(tp=2)},
    {"train": ParallelLayout(tp=2, pp=2)},
    {"rollout": ParallelLayout(tp=2), "train": ParallelLayout(tp=2)},
]


def rows_of(copy: int, *, count: int | None = None) -> RowBatch:
    """Rows whose columns can be told from their uid."""
    rng = np.random.default_rng(copy)
    k = int(rng.integers(0, 6)) if count is None and copy else count or 5
    n = torch.from_numpy(rng.integers(1, 30, k).astype(np.int64))
    uid = torch.arange(k) + 100 * copy
    per_token = uid.repeat_interleave(n)
    wide = torch.stack([per_token.float(), -per_token.float()], dim=1)
    return RowBatch(
        n, uid, {"ids": per_token, "wide": wide, "mask": per_token > 3}, {"r": uid.double()}
    )


def is_whole(rows: RowBatch) -> bool:
    per_token = rows.uid.repeat_interleave(rows.lengths)
    return (
        torch.equal(rows.tokens["ids"], per_token)
        and torch.equal(rows.tokens["wide"][:, 1], -per_token.float())
        and torch.equal(rows.tokens["mask"], per_token > 3)
        and torch.equal(rows.rows["r"], rows.uid.double())
    )


@pytest.mark.parametrize("layouts", LAYOUTS, ids=["dp", "tp rollout", "tp*pp train", "tp both"])
@pytest.mark.parametrize("policy", ["keep", "lpt_equal", "kk", "min_move"])
def test_every_row_arrives_once_and_whole(layouts, policy) -> None:
    def program(group):
        coordinator = Coordinator(group, layouts, balance=policy)
        rows = rows_of(coordinator.layout("rollout").copy_of(group.rank))
        found = coordinator.reshard(rows)
        assert is_whole(found)
        return found.uid.tolist(), coordinator.stats()

    found = in_threads(4, program, timeout_s=20)
    train = layouts.get("train", ParallelLayout()).over(4)
    copies = [found[train.owner(copy)][0] for copy in range(train.dp)]
    sent = [
        rows_of(c).uid.tolist() for c in range(layouts.get("rollout", ParallelLayout()).over(4).dp)
    ]
    assert sorted(chain(*copies)) == sorted(chain(*sent))
    for copy in range(train.dp):
        for member in train.members(copy):
            assert sorted(found[member][0]) == sorted(copies[copy])
    assert found[0][1].largest >= found[0][1].bound - 1e-9
    assert all((f[1].bytes_moved == found[0][1].bytes_moved).all() for f in found)


def test_nothing_moves_where_nothing_has_to() -> None:
    def program(group):
        coordinator, rows = Coordinator(group, balance="keep"), rows_of(group.rank, count=3)
        return coordinator.reshard(rows) is rows, coordinator.stats()

    for same, stats in in_threads(3, program, timeout_s=20):
        assert same
        assert (stats.local, stats.bytes_moved.sum()) == (1, 0)


def test_groups_stay_together() -> None:
    def program(group):
        rows = RowBatch(torch.full((8,), 10) if group.rank else torch.full((8,), 100),
                        torch.arange(8) + 8 * group.rank)  # fmt: skip
        return Coordinator(group, balance="lpt_equal", unit=4).reshard(rows).uid.tolist()

    for uids in in_threads(2, program, timeout_s=20):
        assert all(uids.count(u) == 1 for u in uids)
        assert len({u // 4 for u in uids}) * 4 == len(uids)


def test_two_edges_of_a_step_do_not_share_rows_but_may_share_a_plan() -> None:
    def program(group):
        coordinator = Coordinator(group)
        a = rows_of(group.rank, count=5)
        b = a.with_rows(r=a.rows["r"] + 0.5)
        first = coordinator.reshard(a, plan_key=(0, "node"))
        second = coordinator.reshard(b, plan_key=(0, "node"))
        assert first.uid.tolist() == second.uid.tolist()
        return torch.equal(second.rows["r"], first.rows["r"] + 0.5)

    assert all(in_threads(3, program, timeout_s=20))


def test_an_error_of_one_rank_is_one_of_all() -> None:
    def program(group):
        error = DataError("no tokens") if group.rank == 1 else None
        kind = DataError if group.rank == 1 else ControllerError
        message = "no tokens" if group.rank == 1 else "Rank 1 failed before score: DataError: no"
        with pytest.raises(kind, match=message):
            Coordinator(group).agree("score", error=error)

    in_threads(3, program, timeout_s=20)


def test_ranks_at_different_places_are_named() -> None:
    def program(group):
        with pytest.raises(ControllerError, match=r"ranks 0, 1: reward .* rank 2: actor_train"):
            Coordinator(group).agree("actor_train" if group.rank == 2 else "reward")

    in_threads(3, program, timeout_s=20)


def test_a_rank_with_another_plan_is_shown_both() -> None:
    def program(group):
        flow = Workflow("w").add("a" if group.rank else "b", lambda x: x)
        run_workflow(flow, lambda step: step, 1, group=group)

    with pytest.raises(ControllerError, match=r'plan .*"b".* rank 1: plan .*"a"'):
        in_threads(2, program, timeout_s=20)


def test_a_rank_that_stopped_ends_the_wait() -> None:
    def program(group):
        if group.rank == 0:
            raise KeyError("gone")
        Coordinator(group).agree("reward")

    with pytest.raises(KeyError, match="gone"):
        in_threads(2, program, timeout_s=20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rank: rows_of(0, count=2), "uid 0 is on the ranks 0 and 1"),
        (lambda rank: RowBatch.without_rows(), "No rank has a row at reshard"),
        (
            lambda rank: RowBatch(torch.tensor([1]), torch.tensor([rank]),
                                  rows={f"r{rank}": torch.ones(1)}),
            "different columns at reshard",
        ),
    ],
    ids=["uid twice", "no rows", "other columns"],
)  # fmt: skip
def test_rows_that_do_not_fit_together(make, message) -> None:
    def program(group):
        with pytest.raises(DataError, match=message):
            Coordinator(group).reshard(make(group.rank))

    in_threads(2, program, timeout_s=20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n, u: RowBatch(n, u, {"ids": torch.zeros(4)}), "'ids' has 4 entries .* sum to 3"),
        (lambda n, u: RowBatch(n, u, rows={"r": torch.zeros(3)}), "'r' has 3 entries for 2 rows"),
        (lambda n, u: RowBatch(n, u * 0), "uid 0 occurs more than once"),
        (lambda n, u: RowBatch(n - 1, u), "row with uid 1 has no tokens"),
        (lambda n, u: RowBatch(n, u[:1]), "1 uid for 2 lengths"),
        (lambda n, u: RowBatch(n.float(), u), "lengths is torch.float32"),
        (lambda n, u: RowBatch(n, u).need("mask"), "no token column 'mask'"),
    ],
)
def test_bad_rows(make, message) -> None:
    with pytest.raises(DataError, match=message):
        make(torch.tensor([2, 1]), torch.tensor([0, 1]))


def test_a_buffer_refuses_rows_of_another_epoch() -> None:
    buffer = DoubleBuffer(slots=1, timeout_s=0.01)
    buffer.put("edge", 3, "rows")
    with pytest.raises(ControllerError, match="holds no rows of epoch 4, only of 3"):
        buffer.get("edge", 4)
    with pytest.raises(ControllerError, match="already holds rows of epoch 3"):
        buffer.put("edge", 3, "rows")
    with pytest.raises(ControllerError, match="epoch 4 does not fit"):
        buffer.put("edge", 4, "rows")
    buffer.swap(3)
    buffer.put("edge", 4, "rows")
    assert len(buffer) == 1


def test_a_graph_that_forks_and_joins_on_four_ranks_in_two_branches() -> None:
    def draw(step):
        return RowBatch(torch.tensor([2, 3]), torch.arange(2) + 2 * step, rows={"x": torch.ones(2)})

    def column(name):
        return lambda rows: rows.with_rows(**{name: rows.rows["x"] * 2})

    flow = Workflow("w").add("draw", lambda base: draw(base), kind="rollout")
    flow.add("left", column("l"), deps=["draw"]).add("right", column("r"), deps=["draw"])
    flow.add("both", lambda rows: rows, kind="forward", deps=["left", "right"])
    flow.add("other", lambda base: draw(base), kind="rollout")

    def program(group):
        out = run_workflow(flow, lambda step: 4 * step + group.rank, 2, group=group, weights=[3, 1])
        if "other" in out[0]:
            return 0
        return sum(float(step["both"].rows[k].sum()) for step in out for k in "lr")

    assert sum(in_threads(4, program, timeout_s=20)) == 2 * 3 * 2 * 2 * 2


def test_a_node_without_a_function_and_rows_that_differ() -> None:
    with pytest.raises(ParameterError, match="Node 'a' has no function"):
        run_workflow(Workflow("w").add("a"), lambda step: step, 1)
    flow = (
        Workflow("w").add("a", lambda _: rows_of(0)).add("b", lambda r: r.select([0]), deps=["a"])
    )
    flow.add("c", lambda r: r, deps=["a", "b"])
    with pytest.raises(DataError, match="dependencies of node 'c' hold different rows: 5 and 1"):
        run_workflow(flow, lambda step: step, 1)
