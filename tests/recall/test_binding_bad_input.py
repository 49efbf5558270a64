"""What no memory may accept: an exact error class, and a message with the value and the remedy."""

import numpy as np
import pytest

from foretell.core import DataError, ParameterError
from foretell.recall import (
    FHRRMemory,
    HRRMemory,
    KroneckerMAPMemory,
    MAPMemory,
    OSCMemory,
    TPRMemory,
    Vocabulary,
    plan,
)

ARGUMENTS = {
    "kept above dim": ({"dim": 8, "kept": 9}, r"kept=9.*1 to dim=8"),
    "kept of 0": ({"kept": 0}, r"kept=0"),
    "kept of half": ({"kept": 2.5}, r"kept=2\.5"),
    "order 1": ({"order": 1}, r"order=1.*>= 2"),
    "order true": ({"order": True}, r"order=True"),
    "dim of 0": ({"dim": 0}, r"dim=0"),
    "too many cells": ({"order": 4, "dim": 256}, r"17179869184 bytes.*at most 128"),
    "unknown regime": ({"regime": "exact"}, r"'exact'.*hashed.*blocks"),
    "unknown binding": ({"binding": "sum"}, r"'sum'.*embed.*carve"),
    "accuracy of 1": ({"accuracy": 1}, r"accuracy=1"),
    "capacity of 0": ({"capacity": 0}, r"capacity=0"),
    "unknown beyond": ({"beyond": "ignore"}, r"'ignore'.*refuse.*warn"),
    "half precision": ({"dtype": np.float16}, r"float32 nor float64.*precision"),
    "no type": ({"dtype": "number"}, r"float32 nor float64"),
    "negative seed": ({"seed": -1}, r"seed=-1"),
    "vocabulary of another shape": (
        {"vocabulary": Vocabulary("ab", order=3, dim=8)},
        r"3 components of 8.*2 of 24",
    ),
    "a symbol twice": ({"vocabulary": ["a", "b", "a"]}, r"'a'.*twice"),
}

PATHS = {
    "a number": (3, r"3.*sequence"),
    "bytes": (b"ab", r"(?s)b'ab'.*\(b'ab',\)"),
    "nothing": (None, r"None"),
    "a float role": (("a", 1.5), r"1\.5.*float.*'1\.5'"),
    "a boolean role": (("a", True), r"True.*bool"),
    "a role of None": (("a", None), r"None.*NoneType"),
    "a role of a list": (("a", [1]), r"\[1\].*list"),
    "a lone surrogate": (("\ud800",), r"Unicode.*bytes"),
    "two dots": ("a..b", r"'a\.\.b'.*position"),
    "an open bracket": ("a[1", r"position 1"),
    "a dot at the end": ("a.", r"position 1"),
    "no dot after a bracket": ("a[0]b", r"position 4"),
}

FILLERS = {
    "a set": ({1}, r"set"),
    "NaN": (float("nan"), r"NaN.*None"),
    "an array": (np.ones(2), r"ndarray"),
    "a tuple with a list": ((1, [2]), r"list"),
}


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_impossible_arguments(arguments, message):
    with pytest.raises(ParameterError, match=message):
        OSCMemory(**arguments)


@pytest.mark.parametrize(("path", "message"), PATHS.values(), ids=PATHS.keys())
def test_paths_that_cannot_be_hashed(path, message):
    memory = OSCMemory(vocabulary=["x"])
    with pytest.raises(ParameterError, match=message):
        memory.store(path, "x")
    with pytest.raises(ParameterError, match=message):
        memory.recall(path)
    assert len(memory) == 0


@pytest.mark.parametrize(("filler", "message"), FILLERS.values(), ids=FILLERS.keys())
def test_fillers_that_are_no_symbols(filler, message):
    memory = OSCMemory()
    with pytest.raises(DataError, match=message):
        memory.store("x", filler)
    assert len(memory) == 0
    assert len(memory.vocabulary) == 0


def test_a_filler_outside_a_closed_vocabulary():
    memory = OSCMemory(vocabulary=["tea", "coffee"])
    for act in (
        lambda: memory.store("drink", "water"),
        lambda: memory.store({"drink": ["tea", "water"]}),
        lambda: memory.recall("drink", candidates=["water"]),
        lambda: memory.contains("drink", "water"),
        lambda: memory.merge(_with("water")),
    ):
        with pytest.raises(DataError, match=r"'water'.*2 symbols.*'tea'"):
            act()
    assert len(memory) == 0


def _with(word):
    memory = OSCMemory()
    memory.store("x", word)
    return memory


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 0.0])
def test_weights_that_are_not_numbers(weight):
    memory = OSCMemory()
    with pytest.raises(ParameterError, match=r"weight .* of fact 0"):
        memory.store("x", "y", weight)
    with pytest.raises(ParameterError, match="weight"):
        memory.store({"x": "y"}, weight=weight)
    with pytest.raises(ParameterError, match=r"of fact 1"):
        memory.store_many(["a", "b"], ["x", "y"], [1.0, weight])
    assert len(memory) == 0


def test_facts_that_do_not_belong_together():
    with pytest.raises(ParameterError, match="2 paths, 1 fillers"):
        OSCMemory().store_many(["a", "b"], ["x"])
    assert OSCMemory().store_many([], []) == 0


def test_a_missing_filler():
    with pytest.raises(ParameterError, match=r"store\('user.name'\) has no filler"):
        OSCMemory().store("user.name")


def test_an_empty_vocabulary_has_no_answer():
    for ask in ("recall", "recall_all"):
        with pytest.raises(DataError, match=r"vocabulary is empty.*Store a fact first"):
            getattr(OSCMemory(), ask)("x")
    assert OSCMemory().tree().found is False
    assert OSCMemory().forget("x") == 0


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_number_of_candidates_that_is_none(k):
    with pytest.raises(ParameterError, match="k="):
        OSCMemory(vocabulary=["x"]).recall("a", k)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: OSCMemory(seed=1), r"seed \(0 and 1\)"),
        (lambda: OSCMemory(dim=32), r"dim \(64 and 32\)"),
        (lambda: OSCMemory(kept=8), r"kept \(24 and 8\)"),
        (lambda: OSCMemory(regime="blocks"), r"regime \('hashed' and 'blocks'\)"),
        (lambda: OSCMemory(binding="carve"), r"binding"),
        (lambda: OSCMemory(tied=True), r"tied"),
        (lambda: MAPMemory(), r"class \('OSCMemory' and 'MAPMemory'\)"),
        (lambda: "a memory", r"class"),
    ],
)
def test_memories_of_another_make_are_not_merged(other, message):
    with pytest.raises(ParameterError, match=f"(?s){message}.*same arguments"):
        OSCMemory().merge(other())


@pytest.mark.parametrize("factor", [0, -1, 1.1, float("nan"), "half"])
def test_decay_by_an_impossible_factor(factor):
    with pytest.raises(ParameterError, match="factor="):
        OSCMemory().decay(factor)


def test_components_without_direction():
    rows = np.ones((2, 3, 4))
    rows[1, 2] = 0
    with pytest.raises(DataError, match="Component 1 of symbol 2 has the length 0"):
        Vocabulary("abc", order=2, dim=4, components=rows)
    with pytest.raises(DataError, match="nan"):
        Vocabulary("abc", order=2, dim=4, components=np.where(rows == 0, np.nan, rows))
    with pytest.raises(ParameterError, match=r"\(2, 3, 4\).*\(2, 4, 4\)"):
        Vocabulary("abcd", order=2, dim=4, components=rows)


def test_a_carved_component_that_vanishes():
    words = Vocabulary("ab", order=2, dim=2, components=np.ones((2, 2, 2)))
    memory = OSCMemory(dim=2, kept=1, binding="carve", regime="blocks", vocabulary=words)
    memory.store(("p",), "a")
    across = np.stack([frame[:, 1] for frame in memory._rotations])[:, None]
    memory.vocabulary = Vocabulary("a", order=2, dim=2, components=across)
    with pytest.raises(DataError, match="no part in the kept subspace"):
        memory.recall("p")


def test_jobs_that_no_plan_can_do():
    with pytest.raises(ParameterError, match=r"268435456 cells.*Ask for fewer facts"):
        plan(10**8, 1000)
    for arguments in ((0, 10), (10, 0), (10, 10, 1.0), (2.5, 10)):
        with pytest.raises(ParameterError):
            plan(*arguments)
    with pytest.raises(ParameterError, match="order=1"):
        plan(10, 10, order=1)
    with pytest.raises(ParameterError, match="binding='x'"):
        plan(10, 10, binding="x")


def test_reference_memories_refuse_impossible_sizes():
    for kind in (MAPMemory, HRRMemory, FHRRMemory):
        with pytest.raises(ParameterError, match="cells=0"):
            kind(cells=0)
    with pytest.raises(ParameterError, match="cells=7 is odd"):
        FHRRMemory(cells=7)
    with pytest.raises(ParameterError, match="dim=0"):
        KroneckerMAPMemory(dim=0)
    with pytest.raises(ParameterError, match=r"depth=5 needs 64\^5.*which is depth 3"):
        TPRMemory(depth=5)
    memory = TPRMemory(role_dim=8, depth=2)
    with pytest.raises(ParameterError, match=r"a\.b\.c has 3 roles.*depth 2"):
        memory.store("a.b.c", 1)


def test_predictions_of_impossible_loads():
    with pytest.raises(ParameterError, match="n=-1"):
        OSCMemory().predicted_accuracy(-1)
    with pytest.raises(ParameterError, match="weight=0"):
        OSCMemory().predicted_accuracy(1, weight=0)
