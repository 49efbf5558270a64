"""Runs the chain of a rank: input, node, output, and one way for errors to reach all ranks.

An error is not raised at once, since the other ranks would wait for this one. It is carried to the
next place where ranks meet, and raised there on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foretell.core.errors import DataError, ParameterError
from foretell.train.coordinator import Coordinator
from foretell.train.graph import Node, ParallelLayout, Planner, Workflow
from foretell.train.rl.group import Alone, Group
from foretell.train.rl.rows import RowBatch


@dataclass
class Runner:
    """Runs nodes of one rank.

    Parameters
    ----------
    coordinator : Coordinator
    stages : mapping of str to str
        Layout of each node of the branch.
    barriers : bool
        Meet the other ranks after every node, not only where something is communicated.
    """

    coordinator: Coordinator
    stages: Mapping[str, str]
    barriers: bool = False
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def run(
        self,
        nodes: Sequence[Node],
        given: Mapping[str, Any],
        epoch: Hashable,
        *,
        error: BaseException | None = None,
    ) -> tuple[dict[str, Any], BaseException | None]:
        """Run some nodes in order.

        Parameters
        ----------
        nodes : sequence of Node
        given : mapping of str to object
            What nodes that already ran, or the source for those without dependencies (by
            their own name), have given.
        epoch : hashable
            Names the rows in buffers and errors.
        error : exception, optional
            What went wrong on this rank before.

        Returns
        -------
        outputs : dict
            By node.
        error : exception or None
            What is still to be told to the others.
        """
        outputs = dict(given)
        for node in nodes:
            place = f"step {epoch}, {node.name}"
            rows, error = self._input(node, outputs, epoch, place, error)
            if node.collective:
                self.coordinator.agree(place, error=error)
            if error is None:
                began = time.perf_counter()
                try:
                    if node.run is None:
                        raise ParameterError(
                            f"Node {node.name!r} has no function. Give it one: "
                            f"workflow.bind({node.name}=function)."
                        )
                    outputs[node.name] = node.run(rows)
                except BaseException as raised:
                    if node.collective or not isinstance(raised, Exception):
                        raise
                    error = raised
                span = began, time.perf_counter()
                self.seconds.setdefault(node.name, []).append(span)
            if self.barriers:
                self.coordinator.agree(f"{place}, after", error=error)
        return outputs, error

    def _input(
        self,
        node: Node,
        outputs: Mapping[str, Any],
        epoch: Hashable,
        place: str,
        error: BaseException | None,
    ) -> tuple[Any, BaseException | None]:
        """The rows of all dependencies, moved where the layout changes."""
        if not node.deps:
            return outputs.get(node.name), error
        by_layout: dict[str, list[Any]] = {}
        for dep in node.deps:
            by_layout.setdefault(self.stages[dep], []).append(outputs.get(dep))
        found: list[RowBatch] = []
        for layout, parts in by_layout.items():
            have = [part for part in parts if part is not None]
            try:
                rows = joined(node.name, have) if have else RowBatch.without_rows()
            except DataError as raised:
                rows, error = RowBatch.without_rows(), error or raised
            if layout != node.layout:
                rows = self.coordinator.reshard(
                    rows, layout, node.layout, place=place, plan_key=(epoch, node.name), error=error
                )
            found.append(rows)
        edge = f"{'+'.join(node.deps)} -> {node.name}"
        if error is not None:
            return None, error
        try:
            self.coordinator.put(edge, epoch, joined(node.name, found))
        except DataError as raised:
            return None, raised
        return self.coordinator.get(edge, epoch), None


def joined(name: str, parts: Sequence[RowBatch]) -> RowBatch:
    """Rows with the columns of several batches of the same rows; the first one wins.

    Raises
    ------
    DataError
        The batches hold different rows.
    """
    first = parts[0]
    for part in parts[1:]:
        if part is first:
            continue
        ordered = part.by_uid()
        first = first.by_uid()
        if ordered.uid.tolist() != first.uid.tolist():
            raise DataError(
                f"The dependencies of node {name!r} hold different rows: {len(first)} and "
                f"{len(part)}. Drop rows before the graph forks."
            )
        first = RowBatch(
            first.lengths, first.uid, {**ordered.tokens, **first.tokens},
            {**ordered.rows, **first.rows},
        )  # fmt: skip
    return first


def run_workflow(
    workflow: Workflow,
    source: Callable[[int], Any],
    n_steps: int,
    *,
    group: Group | None = None,
    layouts: Mapping[str, ParallelLayout] | None = None,
    balance: str = "min_move",
    unit: int = 1,
    hosts: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Run any workflow: every rank calls this, with the same arguments.

    Parameters
    ----------
    workflow : Workflow
        Its nodes have functions from rows to rows.
    source : callable
        From the number of a step to what the nodes without dependencies are given.
    n_steps : int
    group : Group, optional
    layouts, balance, unit
        See `Coordinator`.
    hosts, weights
        See `Planner`.

    Returns
    -------
    list of dict
        The output of each node of this rank's branch, step by step.

    Examples
    --------
    >>> import torch
    >>> flow = Workflow("lengths").add("draw", lambda step: RowBatch(
    ...     torch.tensor([3]), torch.tensor([step]), rows={"x": torch.tensor([2.0])}))
    >>> flow = flow.add("double", lambda r: r.with_rows(x=2 * r.rows["x"]), deps=["draw"])
    >>> [out["double"].rows["x"].item() for out in run_workflow(flow, lambda step: step, 2)]
    [4.0, 4.0]
    """
    group = group or Alone()
    plan = Planner(
        workflow, layouts, group.size, hosts=hosts, weights=weights, splits_groups=unit == 1
    ).linearize()
    Coordinator(group).agree("plan", detail=plan.text())
    mine: Group | None = group
    if len(plan.branches) > 1:
        mine = None
        for branch in plan.branches:
            mine = group.subset(branch.ranks) or mine
    branch = plan.branch(group.rank)
    coordinator = Coordinator(mine, branch.layouts, balance=balance, unit=unit)
    runner = Runner(coordinator, {node.name: node.layout for node in branch.nodes})
    found = []
    for step in range(n_steps):
        given = {node.name: source(step) for node in branch.nodes if not node.deps}
        outputs, error = runner.run(branch.nodes, given, step)
        coordinator.agree(f"step {step}, end", error=error)
        coordinator.swap(step)
        found.append(outputs)
    return found
