"""A workflow is checked and cut into the same chain on every rank."""

import pytest

from foretell.core import ParameterError
from foretell.train.graph import ParallelLayout, Planner, Workflow, apportion, place


def test_nodes_of_one_depth_get_an_order() -> None:
    flow = (
        Workflow("fork")
        .add("draw", kind="rollout")
        .add("b", deps=["draw"])
        .add("a", deps=["draw"])
        .add("join", deps=["a", "b"])
    )
    chain = Planner(flow, n_ranks=3).linearize().chain(2)
    assert [node.name for node in chain] == ["draw", "b", "a", "join"]
    assert {n.name for n in flow.successors("draw")} == {"a", "b"}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f: f.add("a", deps=["b"]).add("b", deps=["a"]), "cycle among a, b"),
        (lambda f: f.add("a", deps=["nobody"]), "'a' depends on 'nobody'"),
        (lambda f: f.add("a").add("a"), "two nodes named 'a'"),
        (lambda f: f.add("a", kind="magic"), "'a' has kind='magic'"),
        (lambda f: f, "has no nodes"),
    ],
)
def test_faults_are_named(build, message) -> None:
    with pytest.raises(ParameterError, match=message):
        Planner(build(Workflow("w"))).linearize()


def test_a_function_for_a_node_that_is_not_there() -> None:
    with pytest.raises(ParameterError, match="no node 'reword'"):
        Workflow.grpo().bind(reword=lambda rows: rows)


def test_ranks_that_cannot_be_cut() -> None:
    with pytest.raises(ParameterError, match=r"6 ranks cannot be cut .* 2\*2 = 4"):
        Planner(Workflow.grpo(), {"rollout": ParallelLayout(tp=2, pp=2)}, 6).linearize()
    with pytest.raises(ParameterError, match="tp=0"):
        ParallelLayout(tp=0)


def test_whole_groups_behind_an_edge_that_splits_them() -> None:
    flow = Workflow("late").add("draw", kind="rollout").add("logp", kind="forward", deps=["draw"])
    flow.add("advantage", deps=["logp"], layout="train", whole_groups=True)
    with pytest.raises(ParameterError, match=r"'advantage' needs all samples .* draw -> logp"):
        Planner(flow, n_ranks=2).linearize()
    Planner(flow, n_ranks=2, splits_groups=False).linearize()


@pytest.mark.parametrize("build", [Workflow.grpo, Workflow.ppo, Workflow.dapo])
def test_built_in_chains(build) -> None:
    flow = build()
    plan = Planner(flow, n_ranks=4).linearize()
    assert plan.signature == Planner(build(), n_ranks=4).linearize().signature
    assert plan.signature != Planner(build(), n_ranks=2).linearize().signature
    assert plan.chain(0)[0].kind == "rollout"
    assert plan.chain(3)[-1].kind == "train"
    assert "actor_train" in flow.mermaid()
    shorter = flow.without("ref_logp")
    assert next(n for n in shorter.nodes if n.name == "actor_train").deps == ("old_logp",)


def test_branches_get_ranks_of_their_own() -> None:
    flow = Workflow("two policies").add("a", kind="rollout").add("b", kind="rollout")
    flow.add("c", deps=["b"])
    plan = Planner(flow, n_ranks=5, weights=[1.0, 3.0], hosts=[0, 0, 0, 0, 1]).linearize()
    assert [(len(b.ranks), [n.name for n in b.nodes]) for b in plan.branches] == [
        (1, ["a"]),
        (4, ["b", "c"]),
    ]
    assert plan.branches[1].ranks == (0, 1, 2, 3)  # one host


def test_leftover_ranks_go_by_largest_remainder() -> None:
    assert apportion([5, 3, 2], 10) == [5, 3, 2]
    assert sum(apportion([0.6, 0.2, 0.2], 7)) == 7
    assert apportion([100, 1], 2) == [1, 1]
    with pytest.raises(ParameterError, match="3 branches need at least 3 ranks"):
        apportion([1, 1, 1], 2)
    assert place([1, 1], [0, 1]) == [(0,), (1,)]
