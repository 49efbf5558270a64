"""SketchIndex refuses what it cannot use, and says what to write instead."""

import sys

import numpy as np
import pytest

from foretell.core import (
    ArtifactError,
    DataError,
    ForetellWarning,
    MissingExtraError,
    ParameterError,
)
from foretell.recall import SignSketch, SketchIndex
from foretell.recall.backends import GraphBackend, ScanBackend, as_backend
from foretell.recall.sign_coding import SignCoding
from tests.recall.vectors import D, unit

# Bad input ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(X, sketch) -> SketchIndex:
    index = SketchIndex(sketch)
    index.add(X[:50])
    return index


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 51, "budget": 60}, r"k=51, and the index holds 50 vectors. Write k=50"),
        ({"k": 10, "budget": 9}, r"budget=9 is below k=10.*Write budget=100"),
        ({"gate": -1.0}, r"gate=-1.0 is not a number >= 0"),
        ({"gate": float("nan")}, r"gate=nan is not a number >= 0"),
        ({"gate": 1.0, "rerank": False}, "A gate decides what is re-ranked"),
        ({"k": 0}, "k=0 is not a whole number from 1 on"),
        ({"k": 2.5}, "k=2.5 is not a whole number"),
        ({"budget": True}, "budget=True is not a whole number"),
    ],
)
def test_impossible_searches(small, Q, arguments, message) -> None:
    with pytest.raises(ParameterError, match=message):
        small.search(Q, **arguments)


def test_impossible_queries(small, X, sketch) -> None:
    with pytest.raises(DataError, match="Queries 0 contain NaN"):
        small.search(np.full(D, np.nan))
    with pytest.raises(DataError, match="norm zero"):
        small.search(np.zeros(D))
    with pytest.raises(DataError, match="dimensions"):
        small.search(np.ones(D + 1))
    with pytest.warns(ForetellWarning, match="normalised"):
        result = small.search(3 * X[:1], k=1)
    assert result.ids[0, 0] == 0
    with pytest.raises(DataError, match=r"The index is empty.*index.add\(X\)"):
        SketchIndex(sketch).search(X[0])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.r_[np.ones((2, D)), np.zeros((1, D))], "Row 2 has norm zero; nothing was added"),
        (np.r_[np.ones((1, D)), np.full((2, D), np.inf)], r"Row 1 has NaN or inf, and 1 more"),
        (np.ones((2, D + 1)), rf"shape \(2, {D + 1}\).*numbers \(n, {D}\)"),
        (np.ones(D), r"x\[None\]"),
        (np.array([["a"] * D]), "type <U1"),
    ],
)
def test_impossible_vectors(small, rows, message) -> None:
    with pytest.raises(DataError, match=message):
        small.add(rows)
    assert len(small) == 50


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 100], r"The id 1 is in use \(1 of 2 ids are\)"),
        ([100, 100], "The id 100 occurs 2 times"),
        ([100], r"ids have shape \(1,\)"),
        ([100.0, 101.0], "type float64"),
        ([-1, 5], "The id -1 is negative"),
    ],
)
def test_impossible_ids(small, X, ids, message) -> None:
    with pytest.raises(DataError, match=message):
        small.add(X[:2], ids=ids)
    assert len(small) == 50


def test_impossible_constructions(X, sketch) -> None:
    with pytest.raises(ParameterError, match=r"backend='gpu' is unknown. Use one of 'numpy'"):
        SketchIndex(sketch, backend="gpu")
    with pytest.raises(ParameterError, match=r'vectors=.int8. is unknown. Use "float32"'):
        SketchIndex(sketch, vectors="int8")
    with pytest.raises(ParameterError, match="ef_construction at least m"):
        GraphBackend(m=32, ef_construction=8)
    with pytest.raises(Exception, match="not fitted"):
        SketchIndex(SignSketch())
    centred = SignSketch(n_bits=32, center="mean").fit(X)
    with pytest.raises(ParameterError, match=r'centred.*backend="numpy"'):
        SketchIndex(centred, backend="hnsw")
    index = SketchIndex(sketch, vectors=None)
    index.add(X[:5])
    with pytest.raises(ParameterError, match="nothing can be re-ranked"):
        index.search(unit(X[0]), k=1)
    with pytest.raises(DataError, match="uint8"):
        index.add_codes(np.zeros((2, 3), np.uint8))
    with pytest.raises(DataError, match="uint8"):
        index.add_codes(np.zeros((2, 4), np.int64))


def test_codes_of_another_sketch_are_refused(X, sketch, tmp_path, monkeypatch) -> None:
    SketchIndex(sketch, store=tmp_path / "i").add(X[:5])
    other = SignSketch(n_bits=64, random_state=0).fit(X)
    monkeypatch.setattr(SignCoding, "from_arrays", lambda *_: other)
    with pytest.raises(ArtifactError, match="codes have 4 bytes a row, and the sketch makes 8"):
        SketchIndex.load(tmp_path / "i")


def test_faiss_that_is_not_installed_is_named(sketch, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r'pip install "foretell\[find\]"'):
        SketchIndex(sketch, backend="fastscan")


def test_a_back_end_of_ones_own(X, sketch, tmp_path) -> None:
    class Mine(ScanBackend):
        name = "mine"

    assert as_backend(Mine()).name == "mine"
    SketchIndex(sketch, backend=Mine(), store=tmp_path / "i").add(X[:5])
    with pytest.raises(ArtifactError, match=r"back end 'mine'.*backend=\"numpy\""):
        SketchIndex.load(tmp_path / "i")
    assert len(SketchIndex.load(tmp_path / "i", backend="numpy")) == 5
