"""Nested objects in a memory: which facts to add, and which to take out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretell.recall.memory_checks import checked_weights
from foretell.recall.tree_codec import (
    LENGTH,
    Leaf,
    Node,
    Roles,
    decode_tree,
    encode_tree,
    size_symbol,
)
from foretell.recall.vocabulary import Symbol

if TYPE_CHECKING:
    from foretell.recall.fact_memory import FactMemory

_ALPHA = 1e-3
Sizes = list[tuple[Roles, Symbol]]


def store_tree(memory: FactMemory, path: Roles, obj: Any, weight: float) -> int:
    """Add the facts of a nested object, all of them or none; returns how many."""
    leaves, nodes = encode_tree(obj, path)
    fillers = [leaf.filler for leaf in leaves]
    checked_weights([weight])
    unknown = memory.vocabulary.unknown(fillers)
    if unknown and not memory.vocabulary.growing:
        memory.vocabulary.index(unknown[0])
    outdated, sizes = _new_sizes(memory, nodes)
    more = len(leaves) + len(sizes) - len(outdated)
    memory._check_room(
        memory._power + more * weight**2,
        max(memory._peak, abs(weight)),
        f"storing {more} more",
    )
    places = [leaf.path for leaf in leaves] + [place for place, _ in sizes]
    memory._admit(memory._keys(places))
    for place, symbol in outdated:
        memory._take(place, symbol, None, memory._sizes)
    _store(memory, leaves, weight)
    if sizes:
        marks = [symbol for _, symbol in sizes]
        memory._store([place for place, _ in sizes], marks, [weight] * len(sizes), memory._sizes)
    for node in nodes:
        if node.kind == "dict":
            memory._known_keys |= dict.fromkeys(node.children)
    return more


def forget_tree(memory: FactMemory, path: Roles, *, shrink: bool = True) -> int:
    """Take out everything that is found at and below a path; returns how many facts."""
    tree = decode_tree(memory, None, path, alpha=_ALPHA)
    taken = 0
    if len(memory.vocabulary):
        for place in dict.fromkeys([path, *(leaf.path for leaf in tree.leaves)]):
            for candidate in memory.recall_all(place, alpha=_ALPHA):
                memory._take(place, candidate.filler, None, memory.vocabulary)
                taken += 1
    for node in tree.nodes:
        found = memory.container_at(node.path, alpha=_ALPHA)
        if found is not None:
            place, mark = (*node.path, LENGTH), size_symbol(*found[:2])
            memory._take(place, mark, None, memory._sizes)
            taken += 1
    if taken and shrink:
        shrink_parent(memory, path)
    return taken


def shrink_parent(memory: FactMemory, path: Roles) -> None:
    """Correct the recorded length of the dictionary above a path that has become empty."""
    if not path or not len(memory) or memory.evidence([path])[0] <= _ALPHA:
        return
    parent = path[:-1]
    found = memory.container_at(parent, alpha=_ALPHA)
    if found is None or found[0] != "dict" or found[1] == 0:
        return
    place = (*parent, LENGTH)
    memory._take(place, size_symbol("dict", found[1]), None, memory._sizes)
    memory._store([place], [size_symbol("dict", found[1] - 1)], None, memory._sizes)


def _new_sizes(memory: FactMemory, nodes: list[Node]) -> tuple[Sizes, Sizes]:
    """Lengths that are no longer true, and the lengths to store."""
    outdated: Sizes = []
    sizes: Sizes = []
    for node in nodes:
        place, size = (*node.path, LENGTH), len(node.children)
        known = memory.container_at(node.path, alpha=_ALPHA) if len(memory) else None
        if known is not None and known[0] == node.kind == "dict":
            p_values = memory.evidence([(*node.path, child) for child in node.children])
            fresh = int((p_values > _ALPHA).sum())
            if not fresh:
                continue
            outdated.append((place, size_symbol("dict", known[1])))
            size = known[1] + fresh
        sizes.append((place, size_symbol(node.kind, size)))
    return outdated, sizes


def _store(memory: FactMemory, leaves: list[Leaf], weight: float) -> None:
    if leaves:
        memory._store(
            [leaf.path for leaf in leaves],
            [leaf.filler for leaf in leaves],
            [weight] * len(leaves),
            memory.vocabulary,
        )
