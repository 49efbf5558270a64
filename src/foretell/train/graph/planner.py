"""The chain that each rank runs, and the ranks that each branch of a workflow gets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from foretell.core.errors import ParameterError
from foretell.train.graph.layout import ParallelLayout
from foretell.train.graph.workflow import Node, Workflow


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
