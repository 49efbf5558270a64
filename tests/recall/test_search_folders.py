"""SketchIndex in folders: kill -9, damage, several processes and threads."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from foretell.core import (
    ArtifactError,
    DataError,
    ParameterError,
)
from foretell.recall import CosineDecoder, SketchIndex
from foretell.recall.backends import GraphBackend
from foretell.recall.store import FolderTable
from tests.recall.vectors import recall, true_top, unit

# Folders ------------------------------------------------------------------------------------------


def test_an_index_in_a_folder_comes_back(X, Q, sketch, backend, tmp_path) -> None:
    with SketchIndex(sketch, CosineDecoder("linear"), backend, tmp_path / "i") as index:
        index.add(X)
        index.remove([3, 4])
        before = index.search(Q, k=5, budget=300)
        assert index.path == tmp_path / "i"
    again = SketchIndex.load(tmp_path / "i")
    assert (again.backend.name, again.decoder.method, len(again)) == (backend, "linear", 5998)
    after = again.search(Q, k=5, budget=300)
    if backend == "hnsw":
        assert recall(after.ids, before.ids) > 0.9
    else:
        assert np.array_equal(after.ids, before.ids)
    assert again.add(X[:1]).tolist() == [6000]
    assert "5999 vectors, 32 bits" in repr(again)


def test_save_writes_a_folder_that_search_the_same(X, Q, sketch, backend, tmp_path) -> None:
    index = SketchIndex(sketch, backend=backend)
    index.add(X)
    index.remove(np.arange(0, 6000, 7))
    before = index.search(Q, k=5, budget=300)
    assert index.save(tmp_path / "i") == tmp_path / "i"
    index.save(tmp_path / "i")  # again, in the place of the first
    assert [p.name for p in tmp_path.iterdir()] == ["i"]
    again = SketchIndex.load(tmp_path / "i")
    assert len(again) == len(index)
    assert np.array_equal(again.search(Q, k=5, budget=300).ids, before.ids)
    other = SketchIndex.load(tmp_path / "i", backend="numpy")
    assert recall(other.search(Q, k=5, budget=300).ids, before.ids) > 0.9
    rows = FolderTable.open(tmp_path / "i").view().n
    assert rows == (6000 if backend == "hnsw" else len(index))


def test_a_saved_graph_is_not_built_again(X, Q, sketch, tmp_path, monkeypatch) -> None:
    index = SketchIndex(sketch, backend="hnsw", store=tmp_path / "i")
    index.add(X)
    index.save()
    index.add(X[:10], ids=np.arange(10) + 10**4)
    index.close()
    inserted = []
    real = GraphBackend.extend

    def counting(self: GraphBackend, view: object) -> object:
        before = self.graph.links().n
        out = real(self, view)
        inserted.append(out.n - before)
        return out

    monkeypatch.setattr(GraphBackend, "extend", counting)
    again = SketchIndex.load(tmp_path / "i")
    assert inserted == [10]
    assert recall(again.search(Q, k=5, budget=300).ids, true_top(X, Q, 5)) > 0.7


def test_other_processes_see_what_was_added_when_they_look(X, sketch, tmp_path) -> None:
    writer = SketchIndex(sketch, store=tmp_path / "i")
    writer.add(X[:50])
    reader = SketchIndex.load(tmp_path / "i")
    writer.add(X[50:80])
    writer.remove([60])
    assert len(reader) == 50
    reader.refresh()
    assert len(reader) == 79
    with pytest.raises(ArtifactError, match="being written by another"):
        reader.add(X[:1])
    writer.close()
    assert reader.add(X[80:81]).tolist() == [80]


WRITER = """
import os
import sys
import numpy as np
from foretell.recall import SketchIndex, SignSketch
from tests.recall.vectors import clustered

X = clustered(6000)
sketch = SignSketch(n_bits=32, random_state=0).fit(X)

def say(what):
    sys.stdout.write(f"{what}\\n")
    sys.stdout.flush()

def write(store, backend, target=None):
    say(os.getpid())
    index = SketchIndex(sketch, backend=backend, store=store)
    if target:
        index.add(X[:1000])
        index.save(target)
    for start in range(0, 6000, 100):
        if target:
            index.save(target)
        else:
            index.add(X[start:start + 100])
        say(start + 100)
    os._exit(0)

for line in sys.stdin:  # one process imports everything, and forks one to be killed
    if os.fork() == 0:
        write(*line.rstrip().split("|"))
    os.wait()
    say("ended")
"""


@pytest.fixture(scope="module")
def writers() -> Iterator[subprocess.Popen[str]]:
    parent = subprocess.Popen(
        [sys.executable, "-c", WRITER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with parent:
        yield parent


def killed_after(writers: subprocess.Popen[str], lines: int, *arguments: object) -> int:
    """Let one write, kill it after some lines; the last line it wrote."""
    assert writers.stdin is not None
    assert writers.stdout is not None
    writers.stdin.write("|".join(map(str, arguments)) + "\n")
    writers.stdin.flush()
    child = int(writers.stdout.readline())
    seen = [writers.stdout.readline() for _ in range(lines)]
    os.kill(child, signal.SIGKILL)
    while (line := writers.stdout.readline()) != "ended\n":
        seen.append(line)
    return int(seen[-1])


@pytest.mark.parametrize("lines", [1, 4])
def test_kill_minus_nine_while_adding_keeps_every_committed_vector(
    X, writers, tmp_path, lines
) -> None:
    added = killed_after(writers, lines, tmp_path / "i", "hnsw")
    index = SketchIndex.load(tmp_path / "i")
    assert len(index) >= added
    rows = np.arange(0, added, 9)
    ids, _, _ = index.search(unit(X[rows]), k=1, budget=100)
    assert (ids[:, 0] == rows).mean() > 0.98
    exact = index.search(unit(X[rows]), k=1, budget=len(index))
    assert (exact.ids[:, 0] == rows).all()
    assert np.allclose(exact.cosines, 1, atol=1e-6)
    assert index.add(X[-5:]).tolist() == list(range(len(index) - 5, len(index)))


@pytest.mark.parametrize("lines", [1, 3])
def test_kill_minus_nine_while_saving_leaves_the_old_or_the_new(
    X, writers, tmp_path, lines
) -> None:
    killed_after(writers, lines, tmp_path / "own", "numpy", tmp_path / "copy")
    copy = SketchIndex.load(tmp_path / "copy")
    assert len(copy) == 1000
    ids, _, _ = copy.search(unit(X[:50]), k=1, budget=1000)
    assert ids.ravel().tolist() == list(range(50))
    assert len(SketchIndex.load(tmp_path / "own")) == 1000


@pytest.mark.parametrize("name", ["codes.bin", "vectors.bin", "ids.bin", "index.json", "sketch"])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_files_are_refused(X, sketch, tmp_path, name, damage) -> None:
    SketchIndex(sketch, store=tmp_path / "i").add(X[:500])
    (path,) = (tmp_path / "i").glob(f"{name}*")
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 4
    else:
        del data[-len(data) // 3 :]
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=f"{name}.*checksum"):
        SketchIndex.load(tmp_path / "i")


def test_only_indexes_are_replaced_or_loaded(X, sketch, tmp_path) -> None:
    index = SketchIndex(sketch)
    index.add(X[:10])
    with pytest.raises(ParameterError, match=r"index.save\(path\)"):
        index.save()
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ArtifactError, match="not an index that could be replaced"):
        index.save(tmp_path)
    with pytest.raises(ArtifactError, match="is a file"):
        index.save(tmp_path / "thesis.tex")
    with pytest.raises(ArtifactError, match="already holds other files"):
        SketchIndex(sketch, store=tmp_path)
    with pytest.raises(ArtifactError, match="is not an index"):
        SketchIndex.load(tmp_path)
    FolderTable.create(tmp_path / "table", {}).close()
    with pytest.raises(ArtifactError, match="not a whole index of sketches"):
        SketchIndex.load(tmp_path / "table")


# Several threads ----------------------------------------------------------------------------------


def test_files_of_others_move_along_when_an_index_is_replaced(X, sketch, tmp_path) -> None:
    index = SketchIndex(sketch)
    index.add(X[:20])
    index.save(tmp_path / "i")
    (tmp_path / "i" / "README.md").write_text("whose vectors these are")
    (tmp_path / "i" / "more").mkdir()
    index.add(X[20:30])
    index.save(tmp_path / "i")
    assert len(SketchIndex.load(tmp_path / "i")) == 30
    assert (tmp_path / "i" / "README.md").read_text() == "whose vectors these are"
    assert (tmp_path / "i" / "more").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


def test_a_save_that_was_cut_between_its_renames_is_completed(X, sketch, tmp_path) -> None:
    index = SketchIndex(sketch)
    index.add(X[:20])
    index.save(tmp_path / "i")
    (tmp_path / "i" / "mine.txt").write_text("mine")
    (tmp_path / "i").rename(tmp_path / ".i.previous")
    index.add(X[20:30])
    index.save(tmp_path / "i")  # without a load in between
    assert len(SketchIndex.load(tmp_path / "i")) == 30
    assert (tmp_path / "i" / "mine.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


def test_removing_twice_and_removing_everything(X, Q, sketch, backend, tmp_path) -> None:
    index = SketchIndex(sketch, backend=backend, store=tmp_path / "i")
    index.add(X[:30])
    index.remove([3, 4])
    with pytest.raises(DataError, match=r"The id 4 is not in the index \(1 of 2 ids are not\)"):
        index.remove([5, 4])
    assert len(index) == 28
    index.remove(np.setdiff1d(np.arange(30), [3, 4]))
    with pytest.raises(DataError, match="The index is empty"):
        index.search(Q, k=1)
    index.close()
    again = SketchIndex.load(tmp_path / "i")
    assert len(again) == 0
    assert again.add(X[:5]).tolist() == [30, 31, 32, 33, 34]  # numbers are not used twice
    assert again.search(Q, k=5).ids.min() >= 30


def test_readers_while_one_writer_adds(X, Q, sketch, backend, tmp_path) -> None:
    index = SketchIndex(sketch, backend=backend, store=tmp_path / "i")
    index.add(X[:1000])
    truth = X[:1000]
    products = unit(truth[:20]) @ unit(X).T
    done, failures = threading.Event(), []

    def read() -> None:
        try:
            last = 0
            while not done.is_set() or last == 0:
                n = len(index)
                ids, cosines, _ = index.search(unit(truth[:20]), k=3, budget=50)
                assert n >= last
                assert ids.max() < 6000
                exact = np.take_along_axis(products, ids, 1)
                assert np.allclose(cosines, exact, atol=1e-5)
                assert (ids[:, 0] == np.arange(20)).mean() > 0.8
                last = n
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for start in range(1000, 6000, 250):
        index.add(X[start : start + 250])
    done.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert len(index) == 6000
