"""What one step of reinforcement learning does, as a graph, and the chain that each rank runs.

A `Workflow` is a graph of named nodes; a `Planner` checks it and cuts it into one linear chain for
every rank. Nodes of equal depth get an order, so that all ranks of a branch meet each other at the
same places; branches that share nothing get ranks of their own. The plan is a pure function of the
workflow, the layouts and the number of ranks: every rank makes it for itself, and a hash of it is
compared before the first step.

Source: Wang et al. 2026, "DistFlow" (arXiv 2507.13833). Differences: several successors receive
data; leftover ranks are dealt out by largest remainders; a node that needs whole groups is refused
behind an edge that splits them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foretell.core.errors import ParameterError

KINDS = ("rollout", "compute", "forward", "train")


@dataclass(frozen=True)
class ParallelLayout:
    """How the ranks of a stage are cut: rank = (dp * pp_size + pp) * tp_size + tp.

    Parameters
    ----------
    tp, pp : int
        Ranks that share one copy of the model, by tensor and by pipeline.
    dp : int, optional
        Copies of the model; by default as many as the ranks allow.

    Examples
    --------
    >>> layout = ParallelLayout(tp=2).over(8)
    >>> layout.dp, layout.copy_of(5), layout.members(2), layout.owner(2)
    (4, 2, (4, 5), 4)
    """

    tp: int = 1
    pp: int = 1
    dp: int | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ParameterError(f"{name}={value!r}; needed is a whole number of at least 1.")

    def over(self, n_ranks: int) -> ParallelLayout:
        """The same layout with dp filled in.

        Raises
        ------
        ParameterError
            When the ranks cannot be cut so.
        """
        size = self.tp * self.pp
        if n_ranks % size or (self.dp is not None and self.dp * size != n_ranks):
            raise ParameterError(
                f"{n_ranks} ranks cannot be cut into copies of tp*pp = {self.tp}*{self.pp} = {size}"
                f"{'' if self.dp is None else f', dp = {self.dp}'}. Use a multiple of {size} "
                "ranks, or a layout whose tp*pp divides them: ParallelLayout(tp=1)."
            )
        return replace(self, dp=n_ranks // size)

    def copy_of(self, rank: int) -> int:
        """The copy of the model (dp index) to which a rank belongs."""
        return rank // (self.tp * self.pp)

    def members(self, copy: int) -> tuple[int, ...]:
        """The ranks of a copy."""
        size = self.tp * self.pp
        return tuple(range(copy * size, (copy + 1) * size))

    def owner(self, copy: int) -> int:
        """The rank that hands out the rows of a copy: tp = 0, last pp."""
        return copy * self.tp * self.pp + (self.pp - 1) * self.tp


@dataclass(frozen=True)
class Node:
    """One stage of a step.

    Parameters
    ----------
    name : str
    run : callable, optional
        From rows (a ``RowBatch``) to rows; built-in nodes get theirs from the trainer.
    kind : {"rollout", "compute", "forward", "train"}
        Generates rows; a plain function; a model without, or with, an update.
    deps : tuple of str
        Nodes whose rows it reads.
    layout : str
        Key of the layout in which it runs; rows are moved where the key changes.
    whole_groups : bool
        It needs all samples of a prompt on one rank.
    collective : bool
        It communicates by itself, so that all ranks agree first that none has failed.
    """

    name: str
    run: Callable[[Any], Any] | None = None
    kind: str = "compute"
    deps: tuple[str, ...] = ()
    layout: str = "rollout"
    whole_groups: bool = False
    collective: bool = False

    def __repr__(self) -> str:
        behind = f" after {', '.join(self.deps)}" if self.deps else ""
        return f"Node({self.name}: {self.kind} in {self.layout}{behind})"


class Workflow:
    """A graph of stages.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> flow = Workflow("mine").add("rollout", kind="rollout")
    >>> flow = flow.add("length", lambda rows: rows, deps=["rollout"])
    >>> [node.name for node in Planner(flow).linearize().chain(0)]
    ['rollout', 'length']
    >>> print(Workflow.grpo())
    grpo: rollout -> reward -> advantage -> old_logp -> ref_logp -> actor_train
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []

    def add(
        self,
        name: str,
        run: Callable[[Any], Any] | None = None,
        *,
        kind: str = "compute",
        deps: Sequence[str] = (),
        layout: str | None = None,
        whole_groups: bool = False,
        collective: bool = False,
    ) -> Workflow:
        """Add a node; returns the workflow. See `Node` for the arguments.

        Raises
        ------
        ParameterError
            Two nodes of one name, or a kind that does not exist.
        """
        if any(node.name == name for node in self.nodes):
            raise ParameterError(
                f"The workflow {self.name!r} has two nodes named {name!r}. Give each its own name."
            )
        if kind not in KINDS:
            raise ParameterError(
                f"Node {name!r} has kind={kind!r}; needed is one of {', '.join(KINDS)}."
            )
        if isinstance(deps, str):
            deps = [deps]
        layout = layout or ("train" if kind in ("forward", "train") else "rollout")
        self.nodes.append(Node(name, run, kind, tuple(deps), layout, whole_groups, collective))
        return self

    def bind(self, **functions: Callable[[Any], Any]) -> Workflow:
        """The same graph with functions for the named nodes.

        Raises
        ------
        ParameterError
            A name that no node has.
        """
        unknown = sorted(set(functions) - {node.name for node in self.nodes})
        if unknown:
            raise ParameterError(
                f"The workflow {self.name!r} has no node {unknown[0]!r}. Its nodes: "
                f"{', '.join(node.name for node in self.nodes)}."
            )
        bound = Workflow(self.name)
        bound.nodes = [replace(n, run=functions.get(n.name, n.run)) for n in self.nodes]
        return bound

    def without(self, name: str) -> Workflow:
        """The same graph without a node; what read its rows reads those of its dependencies."""
        gone = next(node for node in self.nodes if node.name == name)
        kept = Workflow(self.name)
        for node in self.nodes:
            if node.name != name:
                deps = [d for dep in node.deps for d in (gone.deps if dep == name else (dep,))]
                kept.nodes.append(replace(node, deps=tuple(dict.fromkeys(deps))))
        return kept

    @classmethod
    def grpo(cls) -> Workflow:
        """Group-relative policy optimisation."""
        return (
            cls("grpo")
            .add("rollout", kind="rollout")
            .add("reward", deps=["rollout"])
            .add("advantage", deps=["reward"], whole_groups=True)
            .add("old_logp", kind="forward", deps=["advantage"])
            .add("ref_logp", kind="forward", deps=["old_logp"])
            .add("actor_train", kind="train", deps=["ref_logp"], collective=True)
        )

    @classmethod
    def dapo(cls) -> Workflow:
        """The same with prompts whose samples all have one reward dropped and replaced."""
        return (
            cls("dapo")
            .add("rollout", kind="rollout")
            .add("reward", deps=["rollout"])
            .add("dynamic_sampling", deps=["reward"], whole_groups=True)
            .add("advantage", deps=["dynamic_sampling"], whole_groups=True)
            .add("old_logp", kind="forward", deps=["advantage"])
            .add("ref_logp", kind="forward", deps=["old_logp"])
            .add("actor_train", kind="train", deps=["ref_logp"], collective=True)
        )

    @classmethod
    def ppo(cls) -> Workflow:
        """Proximal policy optimisation with a critic."""
        return (
            cls("ppo")
            .add("rollout", kind="rollout")
            .add("reward", deps=["rollout"])
            .add("value", kind="forward", deps=["reward"])
            .add("advantage", deps=["value"], layout="train")
            .add("old_logp", kind="forward", deps=["advantage"])
            .add("ref_logp", kind="forward", deps=["old_logp"])
            .add("actor_train", kind="train", deps=["ref_logp"], collective=True)
            .add("critic_train", kind="train", deps=["actor_train"], collective=True)
        )

    def ordered(self) -> list[Node]:
        """The nodes by depth, within a depth in the order in which they were added.

        Raises
        ------
        ParameterError
            A dependency that does not exist, a cycle, or no node at all.
        """
        if not self.nodes:
            raise ParameterError(
                f"The workflow {self.name!r} has no nodes. Add one: "
                'workflow.add("rollout", function, kind="rollout").'
            )
        names = [node.name for node in self.nodes]
        for node in self.nodes:
            for dep in node.deps:
                if dep not in names:
                    raise ParameterError(
                        f"Node {node.name!r} depends on {dep!r}, which the workflow "
                        f"{self.name!r} does not have. Its nodes: {', '.join(names)}."
                    )
        depth: dict[str, int] = {}
        left = list(self.nodes)
        while left:
            ready = [node for node in left if all(dep in depth for dep in node.deps)]
            if not ready:
                stuck = ", ".join(node.name for node in left)
                raise ParameterError(
                    f"The workflow {self.name!r} has a cycle among {stuck}. Remove one of their "
                    "dependencies."
                )
            for node in ready:
                depth[node.name] = 1 + max((depth[dep] for dep in node.deps), default=-1)
            left = [node for node in left if node.name not in depth]
        return sorted(self.nodes, key=lambda node: depth[node.name])

    def successors(self, name: str) -> list[Node]:
        """The nodes that read the rows of one."""
        return [node for node in self.nodes if name in node.deps]

    def branches(self) -> list[list[Node]]:
        """The nodes of each part that shares nothing with the others, each in order."""
        root = {node.name: node.name for node in self.nodes}

        def top(name: str) -> str:
            while root[name] != name:
                name = root[name]
            return name

        for node in self.nodes:
            for dep in node.deps:
                root[top(node.name)] = top(dep)
        groups: dict[str, list[Node]] = {}
        for node in self.ordered():
            groups.setdefault(top(node.name), []).append(node)
        return list(groups.values())

    def mermaid(self) -> str:
        """The graph as text that Mermaid draws."""
        lines = ["graph LR"]
        for node in self.nodes:
            lines.append(f'  {node.name}["{node.name}<br/>{node.kind}, {node.layout}"]')
            lines += [f"  {dep} --> {node.name}" for dep in node.deps]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.name}: {' -> '.join(node.name for node in self.ordered())}"


@dataclass(frozen=True)
class Branch:
    """A part of the plan: its nodes in the order of their execution, and its ranks."""

    nodes: tuple[Node, ...]
    ranks: tuple[int, ...]
    layouts: Mapping[str, ParallelLayout] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Branch({' -> '.join(n.name for n in self.nodes)} on {len(self.ranks)} ranks)"


@dataclass(frozen=True)
class Plan:
    """What every rank runs."""

    branches: tuple[Branch, ...]

    def branch(self, rank: int) -> Branch:
        """The branch of a rank."""
        return next(branch for branch in self.branches if rank in branch.ranks)

    def chain(self, rank: int) -> tuple[Node, ...]:
        """The nodes that a rank runs, in order."""
        return self.branch(rank).nodes

    def text(self) -> str:
        """The whole plan as JSON; the same on every rank."""
        content = [
            {
                "ranks": branch.ranks,
                "layouts": {k: (v.dp, v.pp, v.tp) for k, v in sorted(branch.layouts.items())},
                "nodes": [(n.name, n.kind, n.deps, n.layout) for n in branch.nodes],
            }
            for branch in self.branches
        ]
        return json.dumps(content, separators=(",", ":"))

    @property
    def signature(self) -> int:
        """63 bits that differ where the plans do."""
        return signature(self.text())


class Planner:
    """Checks a workflow and gives each rank its chain.

    Parameters
    ----------
    workflow : Workflow
    layouts : mapping of str to ParallelLayout, optional
        Layout for each key that nodes name; missing ones have one rank for each copy.
    n_ranks : int
    hosts : sequence of int, optional
        Host of each rank; by default all on one.
    weights : sequence of float, optional
        How the ranks are apportioned to branches that share nothing, for instance the numbers of
        their parameters; by default evenly.
    splits_groups : bool
        Whether the samples of one prompt may go to different ranks where the layout changes.

    Examples
    --------
    >>> plan = Planner(Workflow.grpo(), {"rollout": ParallelLayout(tp=2)}, n_ranks=4).linearize()
    >>> plan.branch(0).layouts["rollout"].dp, plan.branch(0).layouts["train"].dp
    (2, 4)
    """

    def __init__(
        self,
        workflow: Workflow,
        layouts: Mapping[str, ParallelLayout] | None = None,
        n_ranks: int = 1,
        *,
        hosts: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        splits_groups: bool = True,
    ) -> None:
        self.workflow, self.layouts, self.n_ranks = workflow, dict(layouts or {}), n_ranks
        self.hosts, self.weights, self.splits_groups = hosts, weights, splits_groups

    def linearize(self) -> Plan:
        """The plan.

        Raises
        ------
        ParameterError
            The graph has a fault (`Workflow.ordered`), a layout does not fit the ranks, or a node
            that needs whole groups comes behind an edge that splits them.
        """
        self._check_groups()
        branches = self.workflow.branches()
        weights = list(self.weights or [1.0] * len(branches))
        if len(weights) != len(branches):
            raise ParameterError(
                f"{len(weights)} weights for {len(branches)} branches; needed is one for each."
            )
        placed = place(apportion(weights, self.n_ranks), self.hosts or [0] * self.n_ranks)
        return Plan(
            tuple(
                Branch(tuple(nodes), ranks, self._layouts(nodes, len(ranks)))
                for nodes, ranks in zip(branches, placed, strict=True)
            )
        )

    def _layouts(self, nodes: Sequence[Node], size: int) -> dict[str, ParallelLayout]:
        keys = sorted({node.layout for node in nodes})
        return {key: self.layouts.get(key, ParallelLayout()).over(size) for key in keys}

    def _check_groups(self) -> None:
        if not self.splits_groups:
            self.workflow.ordered()
            return
        split: dict[str, str] = {}  # node -> the edge at which its rows were split
        by_name = {node.name: node for node in self.workflow.nodes}
        for node in self.workflow.ordered():
            for dep in node.deps:
                if by_name[dep].layout != node.layout:
                    split[node.name] = f"{dep} -> {node.name}"
                elif dep in split:
                    split[node.name] = split[dep]
            if node.whole_groups and node.name in split:
                raise ParameterError(
                    f"Node {node.name!r} needs all samples of a prompt on one rank, but the edge "
                    f"{split[node.name]} before it splits them. Run {node.name!r} before the "
                    f"layout changes, or move whole groups: Planner(..., splits_groups=False)."
                )


def apportion(weights: Sequence[float], n_ranks: int) -> list[int]:
    """Whole numbers of ranks in proportion to weights, by largest remainders, none below one.

    Examples
    --------
    >>> apportion([7, 2, 1], 8), apportion([1, 1], 3)
    ([5, 2, 1], [2, 1])
    """
    if len(weights) > n_ranks:
        raise ParameterError(
            f"{len(weights)} branches need at least {len(weights)} ranks, and there are {n_ranks}."
        )
    if not all(weight > 0 for weight in weights):
        raise ParameterError(f"weights={list(weights)}; needed are positive numbers.")
    spare, total = n_ranks - len(weights), sum(weights)
    shares = [max(n_ranks * weight / total - 1, 0.0) for weight in weights]
    scale = spare / sum(shares) if sum(shares) else 0.0
    counts = [1 + int(share * scale + 1e-9) for share in shares]
    rest = [share * scale - (count - 1) for share, count in zip(shares, counts, strict=True)]
    for k in sorted(range(len(weights)), key=lambda k: (-rest[k], k))[: n_ranks - sum(counts)]:
        counts[k] += 1
    return counts


def place(counts: Sequence[int], hosts: Sequence[int]) -> list[tuple[int, ...]]:
    """Ranks for branches of given sizes, the largest first, each on as few hosts as possible.

    A branch takes the rank whose host it is on already, then that of the host with most free
    ranks, then the lowest.

    Examples
    --------
    >>> place([2, 4], hosts=[0, 0, 0, 0, 1, 1])
    [(4, 5), (0, 1, 2, 3)]
    """
    free = set(range(len(hosts)))
    taken: dict[int, tuple[int, ...]] = {}
    for k in sorted(range(len(counts)), key=lambda k: (-counts[k], k)):
        mine: list[int] = []
        for _ in range(counts[k]):
            room = {h: sum(hosts[r] == h for r in free) for h in set(hosts)}
            used = {hosts[r] for r in mine}
            best = min(free, key=lambda r: (hosts[r] not in used, -room[hosts[r]], r))
            mine.append(best)
            free.remove(best)
        taken[k] = tuple(sorted(mine))
    return [taken[k] for k in range(len(counts))]


def signature(text: str) -> int:
    """63 bits of a text, the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
