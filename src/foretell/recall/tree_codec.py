"""Nested dictionaries and lists as facts (path, filler), and back.

A leaf is a fact at its path. Every dictionary and list adds one fact under the role ``LENGTH``: how
many children it has. Decoding starts at the root and walks only to children that are there: list
positions are known from the length, dictionary keys are tried from a schema or from the keys that
the memory has met.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foretell.core.errors import DataError
from foretell.recall.role_paths import Path, Role, parse_path, path_text
from foretell.recall.vocabulary import Symbol

if TYPE_CHECKING:
    from foretell.recall.fact_recall import FactRecall

LENGTH: Role = ("foretell", "length")
Roles = tuple[Role, ...]
_DEEPEST = 100


@dataclass(frozen=True)
class Leaf:
    """A filler at a path."""

    path: Roles
    filler: Symbol


@dataclass(frozen=True)
class Node:
    """A dictionary or list at a path: its kind and the keys or positions below it."""

    path: Roles
    kind: str
    children: tuple[Role, ...]


@dataclass(frozen=True)
class DecodedTree:
    """A nested object read back from a memory.

    Parameters
    ----------
    value : object
        Dictionaries, lists and fillers; None where nothing is stored at the root.
    found : bool
        Whether something is stored at the root.
    doubtful : tuple of str
        Paths where fewer children were found than the recorded length: something is missing.
    worst_p_value : float
        The largest p-value among the facts that were accepted.

    Examples
    --------
    >>> DecodedTree({"a": 1}, True, (), 1e-9)
    DecodedTree({'a': 1}, worst p 1e-09)
    """

    value: Any
    found: bool
    doubtful: tuple[str, ...]
    worst_p_value: float
    leaves: tuple[Leaf, ...] = field(default=(), repr=False)
    nodes: tuple[Node, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        doubt = f", doubtful at {', '.join(self.doubtful)}" if self.doubtful else ""
        return f"DecodedTree({self.value!r}, worst p {self.worst_p_value:.2g}{doubt})"


def encode_tree(obj: Any, path: Path = ()) -> tuple[list[Leaf], list[Node]]:
    """The leaves and inner nodes of a nested object.

    Parameters
    ----------
    obj : dict, list or symbol
        Dictionary keys are roles (text, whole numbers, bytes, tuples of these).
    path : path
        Where the object hangs.

    Raises
    ------
    DataError
        For a container inside itself, or deeper than 100 levels.

    Examples
    --------
    >>> leaves, nodes = encode_tree({"name": "Ada", "likes": ["tea"]})
    >>> [(leaf.path, leaf.filler) for leaf in leaves]
    [(('name',), 'Ada'), (('likes', 0), 'tea')]
    >>> [(node.path, node.children) for node in nodes]
    [((), ('name', 'likes')), (('likes',), (0,))]
    """
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    root = parse_path(path)
    waiting: list[tuple[Roles, Any]] = [(root, obj)]
    while waiting:
        at, value = waiting.pop(0)
        if len(at) - len(root) > _DEEPEST:
            raise DataError(
                f"The object is deeper than {_DEEPEST} levels at {path_text(at)[:60]}...; "
                "does it contain itself? Store flat facts with store(path, filler) instead."
            )
        if isinstance(value, Mapping):
            nodes.append(Node(at, "dict", tuple(value)))
        elif isinstance(value, list):
            nodes.append(Node(at, "list", tuple(range(len(value)))))
        else:
            leaves.append(Leaf(at, value))
            continue
        waiting += [((*at, *parse_path((child,))), value[child]) for child in nodes[-1].children]
    return leaves, nodes


def size_symbol(kind: str, size: int) -> Symbol:
    """The filler that records the kind and length of a container."""
    return (kind, size)


def decode_tree(
    memory: FactRecall,
    schema: Iterable[Role] | None = None,
    path: Path = (),
    *,
    alpha: float = 1e-3,
) -> DecodedTree:
    """Read a nested object back from a memory.

    Parameters
    ----------
    memory : FactRecall
        Any of the memories.
    schema : iterable of roles, optional
        Dictionary keys to try; by default those that the memory has met.
    path : path
        Where to start.
    alpha : float
        Level at which a fact is accepted.

    Examples
    --------
    >>> from foretell.recall import OSCMemory
    >>> memory = OSCMemory()
    >>> memory.store({"user": {"name": "Ada", "likes": ["tea", "chess"]}})
    6
    >>> decode_tree(memory).value
    {'user': {'name': 'Ada', 'likes': ['tea', 'chess']}}
    """
    keys = tuple(memory.known_keys if schema is None else schema)
    reader = _Reader(memory, keys, alpha)
    found, value = reader.read(parse_path(path))
    return DecodedTree(
        value=value,
        found=found,
        doubtful=tuple(reader.doubtful),
        worst_p_value=reader.worst,
        leaves=tuple(reader.leaves),
        nodes=tuple(reader.nodes),
    )


class _Reader:
    """One walk through a memory."""

    def __init__(self, memory: FactRecall, keys: tuple[Role, ...], alpha: float) -> None:
        self.memory, self.keys, self.alpha = memory, keys, alpha
        self.worst = 0.0
        self.doubtful: list[str] = []
        self.leaves: list[Leaf] = []
        self.nodes: list[Node] = []

    def read(self, at: Roles) -> tuple[bool, Any]:
        """Whether something is at the path, and what."""
        if len(at) > _DEEPEST:
            return False, None
        container = self.memory.container_at(at, alpha=self.alpha)
        if container is not None:
            kind, size, p_value = container
            self.worst = max(self.worst, p_value)
            return True, self._children(at, kind, size)
        if not self.memory.vocabulary:
            return False, None
        answer = self.memory.recall(at, alpha=self.alpha)
        if not answer.found:
            return False, None
        self.worst = max(self.worst, answer.p_value)
        self.leaves.append(Leaf(at, answer.filler))
        return True, answer.filler

    def _children(self, at: Roles, kind: str, size: int) -> Any:
        place = len(self.nodes)
        roles = tuple(range(size)) if kind == "list" else self._present(at)
        found: dict[Role, Any] = {}
        for role in roles:
            there, value = self.read((*at, role))
            if there:
                found[role] = value
        if len(found) < size:
            self.doubtful.append(path_text(at))
        self.nodes.insert(place, Node(at, kind, tuple(found)))
        return found if kind == "dict" else [found.get(n) for n in range(size)]

    def _present(self, at: Roles) -> tuple[Role, ...]:
        """The keys with something below them, at a level shared by all keys that are tried."""
        p_values = self.memory.evidence([(*at, key) for key in self.keys])
        return tuple(
            key
            for key, p_value in zip(self.keys, p_values, strict=True)
            if p_value * len(self.keys) <= self.alpha
        )
