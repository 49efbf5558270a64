"""Our graph against hnswlib: same links, same results; our own links, the same recall."""

from pathlib import Path

import numpy as np
import pytest

from foretell.core import ArtifactError
from foretell.recall import SignSketch, SketchIndex
from foretell.recall.backends import GraphBackend
from foretell.recall.graph import Graph
from foretell.recall.rows import Rows
from tests.recall.vectors import D, clustered, recall, true_top, unit

hnswlib = pytest.importorskip("hnswlib", reason="hnswlib is not installed")
pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return unit(clustered(4000)).astype(np.float32)


@pytest.fixture(scope="module")
def Q(X: np.ndarray) -> np.ndarray:
    return unit(X[:100] + 0.05).astype(np.float32)


@pytest.fixture(scope="module")
def index(X: np.ndarray) -> "hnswlib.Index":
    index = hnswlib.Index("ip", D)
    index.init_index(len(X) + 100, M=8, ef_construction=60, random_seed=1)
    index.set_num_threads(1)
    index.add_items(X, np.arange(len(X)) * 3)
    return index


@pytest.mark.parametrize("ef", [5, 20, 80])
def test_its_graph_walked_by_us_gives_its_results(index, X, Q, ef) -> None:
    index.set_ef(ef)
    theirs, _ = index.knn_query(Q, 5)
    ours, scores, scored = Graph.from_hnswlib(index).links().search_vectors(Rows.of(X), Q, ef, 5)
    assert (3 * ours == theirs.astype(np.int64)).mean() > 0.99
    assert np.allclose(scores, np.take_along_axis(Q @ X.T, ours, 1), atol=1e-5)
    assert scored.min() > ef


@pytest.mark.parametrize("ef", [10, 40])
def test_our_graph_is_as_good_as_its(index, X, Q, ef) -> None:
    graph = Graph(m=8, ef_construction=60, random_state=0)
    graph.extend(Rows.of(X), 1000)
    graph.extend(Rows.of(X), 4000)
    index.set_ef(ef)
    theirs, _ = index.knn_query(Q, 5)
    ours, _, _ = graph.links().search_vectors(Rows.of(X), Q, ef, 5)
    truth = true_top(X, Q, 5)
    assert recall(ours, truth) > recall(theirs.astype(np.int64) // 3, truth) - 0.02


def test_its_file_is_read_and_walked_with_codes(index, X, Q, tmp_path: Path) -> None:
    index.save_index(str(tmp_path / "old.bin"))
    sketch = SignSketch(n_bits=32, random_state=0).fit(X)
    backend = GraphBackend(graph=Graph.from_hnswlib(tmp_path / "old.bin"))
    ours = SketchIndex(sketch, backend=backend)
    ours.add(X)
    assert backend.graph.links().n == len(X)
    assert recall(ours.search(Q, k=5, budget=300).ids, true_top(X, Q, 5)) > 0.8


def test_files_of_something_else_are_refused(index, tmp_path: Path) -> None:
    index.save_index(str(tmp_path / "old.bin"))
    whole = (tmp_path / "old.bin").read_bytes()
    for data in (b"", b"\0" * 200, whole[: len(whole) // 2], whole[:-3], whole[8:]):
        (tmp_path / "bad.bin").write_bytes(data)
        with pytest.raises(ArtifactError, match="not an index file of hnswlib"):
            Graph.from_hnswlib(tmp_path / "bad.bin")
