"""The folder of an index: commits are all or nothing, and damage is named before it is used."""

import errno
import json
import os
import signal
import subprocess
import sys
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foretell.core.errors import ArtifactError, ParameterError
from foretell.recall import store, store_header
from foretell.recall.rows import GrowingRows, Rows
from foretell.recall.store import FolderTable
from foretell.recall.table import Column, MemoryTable, TableView

COLUMNS = {"codes": Column("|u1", 3), "ids": Column("<i8", 1), "vectors": Column("<f4", 2)}


def rows(start: int, count: int) -> dict[str, np.ndarray]:
    ids = np.arange(start, start + count)[:, None]
    return {
        "codes": (ids * [1, 3, 5] % 256).astype(np.uint8),
        "ids": ids,
        "vectors": (ids * [0.5, -2.0]).astype(np.float32),
    }


def same(view: TableView, n: int) -> bool:
    expected = rows(0, n)
    return view.n == n and all(
        np.array_equal(view.columns[name].all(), expected[name]) for name in COLUMNS
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = FolderTable.create(tmp_path / "index", COLUMNS, blobs={"matrix": bytes(range(99))})
    table.commit(rows(0, 4))
    table.commit(rows(4, 3), fields={"seed": 1})
    table.close()
    return tmp_path / "index"


# Rows ---------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 3))
def test_growing_rows_are_the_rows_appended_and_views_stay(counts: list[int], shift: int) -> None:
    growing = GrowingRows(2, np.int32, shift=shift)
    parts, views = [np.empty((0, 2), np.int32)], [growing.view()]
    for k, count in enumerate(counts):
        parts.append(np.full((count, 2), k, np.int32))
        growing.append(parts[-1])
        views.append(growing.view())
    for k, view in enumerate(views):
        whole = np.concatenate(parts[: k + 1])
        assert len(view) == len(whole)
        assert np.array_equal(view.all(), whole)
        order = np.random.default_rng(0).permutation(len(whole))
        assert np.array_equal(view.take(order), whole[order])
        pieces = [np.empty((0, 2), np.int32), *(piece for _, piece in view.pieces())]
        assert np.array_equal(np.concatenate(pieces), whole)
        if len(whole) > 2:
            inner = [piece for _, piece in view.pieces(1, len(whole) - 1)]
            assert np.array_equal(np.concatenate(inner), whole[1:-1])


def test_addresses_point_at_the_blocks() -> None:
    view = Rows.of(np.arange(6.0).reshape(3, 2))
    assert view.addresses.tolist() == [view.blocks[0].ctypes.data]


# Commits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", ["all", "codes", "none"])
def test_what_was_committed_comes_back(folder: Path, verify: store.Verify) -> None:
    view = FolderTable.open(folder, verify=verify).view()
    assert same(view, 7)
    assert view.blobs == {"matrix": bytes(range(99))}
    assert view.fields == {"seed": 1}


def test_a_view_does_not_change_when_more_is_committed(folder: Path) -> None:
    table = FolderTable.open(folder)
    before = table.view()
    table.commit(rows(7, 5), {"matrix": b"new"})
    assert same(before, 7)
    assert before.blobs["matrix"] == bytes(range(99))
    assert same(table.view(), 12)
    assert [p.name for p in folder.glob("matrix-*.bin")] == ["matrix-4.bin"]


def test_empty_commits_and_the_memory_table() -> None:
    table = MemoryTable(COLUMNS)
    assert same(table.commit(rows(0, 0)), 0)
    assert same(table.commit(rows(0, 2), {"a": b"1"}, {"b": 2}), 2)
    assert (table.view().blobs, table.view().fields) == ({"a": b"1"}, {"b": 2})
    table.close()


def test_checksums_do_not_depend_on_how_the_rows_were_split(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store_header, "PIECE", 16)
    headers = []
    for number, parts in enumerate([[11], [1, 9, 1], [4, 4, 3]]):
        table = FolderTable.create(tmp_path / str(number), COLUMNS)
        start = 0
        for count in parts:
            table.commit(rows(start, count))
            start += count
        table.close()
        assert same(FolderTable.open(tmp_path / str(number)).view(), 11)
        headers.append(json.loads((tmp_path / str(number) / "index.json").read_text())["columns"])
    assert headers[0] == headers[1] == headers[2]
    assert len(headers[0]["vectors"]["crc32"]) == 6  # 88 bytes in pieces of 16


def test_a_tail_that_was_never_committed_is_ignored_and_cut_off(folder: Path) -> None:
    with (folder / "codes.bin").open("ab") as handle:
        handle.write(b"half a commit")
    table = FolderTable.open(folder)
    assert same(table.view(), 7)
    table.commit(rows(7, 1))
    table.close()
    assert (folder / "codes.bin").stat().st_size == 8 * 3
    assert same(FolderTable.open(folder).view(), 8)


@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_full_disk_or_ctrl_c_is_one_whole_commit_or_none(
    folder, monkeypatch, call, failure
) -> None:
    table = FolderTable.open(folder)
    real, calls = os.fsync, []

    def failing(handle: int) -> None:
        calls.append(handle)
        if len(calls) == call:
            raise failure
        real(handle)

    monkeypatch.setattr(os, "fsync", failing)
    full = isinstance(failure, OSError)
    # Three columns, a blob and its folder, the header and its folder; folders sync if they can.
    raised = call <= 7 and not (full and call in (5, 7))
    expected = pytest.raises(ArtifactError if full else KeyboardInterrupt)
    with expected if raised else nullcontext():
        table.commit(rows(7, 2), {"more": b"x"})
    monkeypatch.undo()
    n = table.view().n
    happened = not raised or call == 7
    assert n == (9 if happened else 7)
    again = FolderTable.open(folder).view()
    assert same(again, n)
    assert ("more" in again.blobs) == happened
    assert len(list(folder.glob("more-*.bin"))) == happened
    assert not list(folder.glob("*.partial"))
    table.commit(rows(n, 2))
    table.close()
    assert same(FolderTable.open(folder).view(), n + 2)


WRITER = """
import sys
from tests.recall.test_store import COLUMNS, rows
from foretell.recall.store import FolderTable

table = FolderTable.create(sys.argv[1], COLUMNS)
n = 0
while True:
    table.commit(rows(n, 1 + n % 7), {"removed": bytes([n % 256]) * n})
    n += 1 + n % 7
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("commits", [1, 2, 5, 17])
def test_kill_minus_nine_loses_nothing_that_was_committed(tmp_path: Path, commits: int) -> None:
    path = tmp_path / "index"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    for _ in range(commits):
        committed = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)  # in the middle of one of the next commits
    rest = child.stdout.read().split()
    child.stdout.close()
    child.wait()
    committed = max([committed, *map(int, rest)])
    view = FolderTable.open(path).view()
    assert view.n >= committed
    assert same(view, view.n)
    table = FolderTable.open(path)  # the lock of the dead process is gone
    table.commit(rows(view.n, 3))
    table.close()
    assert same(FolderTable.open(path).view(), view.n + 3)


# Damage -------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_refused(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        bits = range(8 * len(whole))
        if (
            path.name == "index.json"
        ):  # every bit of one byte in five; the end of line is not content
            bits = [bit for bit in bits if bit // 8 % 5 == 0 and bit // 8 < len(whole) - 1]
        for bit in bits:
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(ArtifactError, match="checksum"):
                FolderTable.open(folder)
        path.write_bytes(whole)
    assert same(FolderTable.open(folder).view(), 7)


def test_every_truncation_is_refused(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for size in range(max(len(whole) - 1, 0)):
            path.write_bytes(whole[:size])
            with pytest.raises(ArtifactError, match="checksum"):
                FolderTable.open(folder)
        path.write_bytes(whole)


@pytest.mark.parametrize("verify", ["codes", "none"])
def test_sizes_are_checked_always_and_vectors_only_when_asked(folder, verify) -> None:
    path = folder / "vectors.bin"
    whole = path.read_bytes()
    path.write_bytes(bytes(len(whole)))
    assert FolderTable.open(folder, verify=verify).view().n == 7
    path.write_bytes(whole[:-1])
    with pytest.raises(ArtifactError, match=r"vectors.bin has 55 bytes .* cut off"):
        FolderTable.open(folder, verify=verify)


@pytest.mark.parametrize("name", ["codes.bin", "matrix-1.bin"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing"):
        FolderTable.open(folder)


def rewrite(folder: Path, **change: object) -> None:
    path = folder / "index.json"
    content = json.loads(path.read_text()) | change
    content["crc32"] = f"{zlib.crc32(store_header.canonical(content)):08x}"
    path.write_text(json.dumps(content))


def test_newer_foreign_and_absent_indexes_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    rewrite(folder, schema=9, foretell="7.0")
    with pytest.raises(ArtifactError, match=r"schema 9 .* newer foretell \(7.0\)"):
        FolderTable.open(folder)
    rewrite(folder, schema=1, format="something else")
    with pytest.raises(ArtifactError, match="not written by foretell"):
        FolderTable.open(folder)
    with pytest.raises(ArtifactError, match="is not a folder"):
        FolderTable.open(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"has no index\.json"):
        FolderTable.open(tmp_path)
    with pytest.raises(ParameterError, match=r'verify=.*"all"'):
        FolderTable.open(folder, verify="some")  # type: ignore[arg-type]


# Several users ------------------------------------------------------------------------------------


def test_one_writer_at_a_time_and_readers_meanwhile(folder: Path) -> None:
    first, second = FolderTable.open(folder), FolderTable.open(folder)
    first.commit(rows(7, 1))
    with pytest.raises(ArtifactError, match="being written by another"):
        second.commit(rows(7, 1))
    assert same(second.view(), 7)
    assert same(second.refresh(), 8)
    assert second.refresh() is second.view()
    first.commit(rows(8, 1))
    first.close()
    with pytest.raises(ArtifactError, match=r"changed by another process .* \(1 commits\)"):
        second.commit(rows(8, 1))
    second.refresh()
    assert same(second.commit(rows(9, 1)), 10)
    second.close()


def test_other_contents_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"already holds an index.*SketchIndex.load"):
        FolderTable.create(folder, COLUMNS)
    with pytest.raises(ArtifactError, match="already holds other files"):
        FolderTable.create(tmp_path, COLUMNS)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="was not written"):
        FolderTable.create(tmp_path / "file", COLUMNS)


def test_a_creation_that_was_killed_can_be_made_again(tmp_path: Path, monkeypatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "write_bytes_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        FolderTable.create(tmp_path / "i", COLUMNS, blobs={"matrix": b"1"})
    (tmp_path / "i" / "matrix-1.bin").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"has no index\.json"):
        FolderTable.open(tmp_path / "i")
    monkeypatch.undo()
    FolderTable.create(tmp_path / "i", COLUMNS, blobs={"matrix": b"1"}).close()
    assert FolderTable.open(tmp_path / "i").view().blobs == {"matrix": b"1"}


@pytest.mark.parametrize(
    "change",
    [
        {"codes": np.zeros((2, 4), np.uint8)},
        {"codes": np.zeros((1, 3), np.uint8)},
        {"ids": np.zeros(2, np.int64)},
    ],
)
def test_rows_of_another_shape_are_refused(folder: Path, change: dict[str, np.ndarray]) -> None:
    table = FolderTable.open(folder)
    with pytest.raises(ParameterError, match="Every column needs the same rows"):
        table.commit(rows(7, 2) | change)
    with pytest.raises(ParameterError, match="The columns are"):
        table.commit({"codes": np.zeros((1, 3), np.uint8)})
    table.close()
    assert same(FolderTable.open(folder).view(), 7)


def test_rows_without_their_header_are_not_overwritten(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "index.json").rename(folder.parent / "index.json")
    with pytest.raises(ArtifactError, match="already holds other files"):
        FolderTable.create(folder, COLUMNS)
    (folder.parent / "index.json").rename(folder / "index.json")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert same(FolderTable.open(folder).view(), 7)


def test_a_blob_replaced_while_it_is_read_is_read_again(folder: Path, monkeypatch) -> None:
    writer = FolderTable.open(folder)
    real, calls = store.read_blobs, []

    def late(where: Path, header: object) -> dict[str, bytes]:
        if not calls:
            calls.append(1)
            writer.commit(blobs={"matrix": b"newer"})
        return real(where, header)

    monkeypatch.setattr(store, "read_blobs", late)
    assert FolderTable.open(folder).view().blobs["matrix"] == b"newer"
    writer.close()
