"""A graph of named stages, checked, in an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foretell.core.errors import ParameterError

KINDS = ("rollout", "compute", "forward", "train")


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
    >>> [node.name for node in flow.ordered()]
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
