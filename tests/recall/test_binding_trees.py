"""Nested objects go in and come out; parts are added, replaced and forgotten."""

import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import CapacityError, DataError
from foretell.recall import OSCMemory, decode_tree, encode_tree
from foretell.recall.role_paths import parse_path

BOOKING = {
    "user": {"name": "Ada", "likes": ["tea", "chess"], "age": 36, "member": True},
    "trip": {"from": "London", "legs": [{"by": "train", "to": "Paris"}, {"by": "foot"}]},
    "empty": {},
    "none": None,
    "nothing": [],
}

keys = st.text(alphabet="abcdef.[0]", min_size=1, max_size=3)
leaves = st.one_of(st.integers(-9, 9), st.booleans(), st.none(), st.sampled_from(["x", "y", "zz"]))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(keys, inner, min_size=0, max_size=3)
    ),
    max_leaves=8,
)


def test_a_nested_object_comes_back_as_it_was():
    memory = OSCMemory()
    added = memory.store(BOOKING)
    tree = memory.tree()
    assert tree.value == BOOKING
    assert tree.found
    assert not tree.doubtful
    assert tree.worst_p_value < 1e-6
    assert added == len(memory) == 19
    assert memory.recall("trip.legs[0].to").filler == "Paris"
    assert memory.tree("trip.legs[1]").value == {"by": "foot"}
    assert memory.tree("trip.hotel").found is False


@settings(max_examples=40)
@given(trees)
def test_any_small_object_comes_back(obj):
    memory = OSCMemory(dim=96)
    memory.store("here", obj) if not isinstance(obj, (dict, list)) else memory.store(("here",), obj)
    assert memory.tree("here").value == obj


def test_parts_are_added_to_what_is_there():
    memory = OSCMemory()
    memory.store({"user": {"name": "Ada"}})
    assert memory.store({"user": {"city": "London"}, "seen": 1}) == 2
    assert memory.tree().value == {"user": {"name": "Ada", "city": "London"}, "seen": 1}
    memory.store("user", {"pets": ["cat"]})
    assert memory.tree("user").value == {"name": "Ada", "city": "London", "pets": ["cat"]}


def test_parts_are_forgotten_and_replaced():
    memory = OSCMemory()
    memory.store(BOOKING)
    assert memory.forget("trip.legs") == 6
    assert memory.tree("trip").value == {"from": "London"}
    assert not memory.tree("trip").doubtful
    memory.replace("user", {"name": "Grace"})
    memory.replace("none", "something")
    expected = {**BOOKING, "user": {"name": "Grace"}, "trip": {"from": "London"}}
    assert memory.tree().value == {**expected, "none": "something"}
    memory.forget("user.name", "Grace")
    assert memory.tree("user").value == {}
    memory.forget(())
    assert len(memory) == 0
    assert not memory.tree().found


def test_merged_trees_are_the_union():
    one, two = OSCMemory(), OSCMemory()
    one.store({"user": {"name": "Ada"}})
    two.store({"user": {"city": "London"}})
    assert one.merge(two).tree().value == {"user": {"name": "Ada", "city": "London"}}


def test_a_schema_narrows_what_is_looked_for():
    memory = OSCMemory()
    memory.store({"a": 1, "b": 2})
    found = decode_tree(memory, schema=["a"])
    assert found.value == {"a": 1}
    assert found.doubtful == ("(root)",)
    assert "doubtful at (root)" in repr(found)


def test_an_object_that_does_not_fit_leaves_the_memory_as_it_was():
    memory = OSCMemory(capacity=5)
    memory.store("x", 1)
    with pytest.raises(CapacityError):
        memory.store({"a": [1, 2, 3, 4]})
    assert len(memory) == 1
    assert not memory.known_keys
    blocks = OSCMemory(regime="blocks", dim=16, kept=8)
    with pytest.raises(CapacityError, match="4 places"):
        blocks.store({"a": [1, 2, 3]})
    assert len(blocks) == 0


def test_blocks_hold_trees_exactly():
    memory = OSCMemory(regime="blocks", dim=64, kept=8)
    memory.store(BOOKING)
    assert memory.tree().value == BOOKING


def test_an_object_inside_itself_is_refused():
    knot: dict[str, object] = {}
    knot["self"] = knot
    with pytest.raises(DataError, match="contain itself"):
        OSCMemory().store(knot)


def test_encoding_names_leaves_and_nodes():
    found_leaves, nodes = encode_tree({"a": [1, {"b": 2}]}, "top")
    assert [leaf.path for leaf in found_leaves] == [("top", "a", 0), ("top", "a", 1, "b")]
    assert [node.kind for node in nodes] == ["dict", "list", "dict"]


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("", ()),
        ("user", ("user",)),
        ("user.name", ("user", "name")),
        ("orders[0].item", ("orders", 0, "item")),
        ("[2][3]", (2, 3)),
        ("a b.ü", ("a b", "ü")),
        ((b"x", ("t", 1)), (b"x", ("t", 1))),
    ],
)
def test_paths_are_read(text, roles):
    assert parse_path(text) == roles
