"""A folder of notes as an index that goes on where it was stopped.

    DIR/notes.sqlite   where the notes are, files with their checksums, passages with their text
    DIR/.building      the lock of the one process that writes
    DIR/index/         a `SketchIndex`: codes and vectors of the passages, by the same ids

A batch of passages goes to the index first and then, in one transaction, to the database. What
the index alone knows was never finished: it is not shown, and the next writer removes it. So after
Ctrl-C, ``kill -9`` or a power cut there is nothing to repair, and nothing is embedded twice but one
batch.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from foretell.app.notes import files
from foretell.app.notes.files import Listing, NoteFile, Skipped
from foretell.app.notes.passages import Passage
from foretell.core.errors import ArtifactError, DataError
from foretell.core.files import resolved
from foretell.recall import SketchIndex
from foretell.recall.store import Verify

Ids = NDArray[np.int64]

SCHEMA = 1
DATABASE, INDEX, LOCK = "notes.sqlite", "index", ".building"
BATCH = 64  # passages of one commit
_QUICK = 1 << 27  # bytes of vectors that are checked in a tenth of a second
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
    name TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, sha256 TEXT NOT NULL
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, file TEXT NOT NULL, number INTEGER NOT NULL, title TEXT NOT NULL,
    first_line INTEGER NOT NULL, last_line INTEGER NOT NULL, page INTEGER, text TEXT NOT NULL
);
CREATE INDEX passages_of_file ON passages (file);
"""
_FOUND = "id, file, title, text, first_line, last_line, page"


class Embedder(Protocol):
    """What makes vectors of texts."""

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors (n, d)."""
        ...


@dataclass(frozen=True)
class Found:
    """A passage and where it is.

    Parameters
    ----------
    id : int
        In the index.
    file : str
        Within the folder of notes.
    passage : Passage
        What stands there.
    """

    id: int
    file: str
    passage: Passage

    @property
    def source(self) -> str:
        """``file:line``, or the page where there are pages."""
        if self.passage.page is not None:
            return f"{self.file}, page {self.passage.page}"
        return f"{self.file}:{self.passage.first_line}"


@dataclass
class BuildCounts:
    """What a build did; files and passages."""

    new: int = 0
    changed: int = 0
    same: int = 0
    gone: int = 0
    embedded: int = 0
    read_bytes: int = 0
    skipped: list[Skipped] = field(default_factory=list)


@dataclass
class _Batch:
    """What goes into the next commit: passages by file and number, and the files they complete."""

    passages: list[tuple[str, int, Passage]] = field(default_factory=list)
    complete: list[tuple[NoteFile, str, str]] = field(default_factory=list)


class Library:
    """The folder of an index of notes; use :meth:`create` or :meth:`open`, and close it.

    Parameters
    ----------
    folder : Path
        DIR.
    base : sqlite3.Connection
        To its database.
    index : SketchIndex
        Of its passages.
    """

    def __init__(self, folder: Path, base: sqlite3.Connection, index: SketchIndex) -> None:
        self.folder, self.index = folder, index
        self._base = base

    @classmethod
    def create(cls, path: Path, notes: Path, bits: int, model: str, dimensions: int) -> Self:
        """A new library, or the one that is there if it was begun with the same choices."""
        folder = resolved(path)
        from foretell.recall import SignSketch

        sketch = SignSketch(n_bits=bits, random_state=0).fit(np.eye(1, dimensions))
        if not (folder / DATABASE).exists():
            _refuse_other(folder)
            folder.mkdir(parents=True, exist_ok=True)
            facts = {
                "format": "foretell-notes",
                "schema": str(SCHEMA),
                "notes": str(resolved(notes)),
                "bits": str(bits),
                "model": model,
            }
            _make_database(folder, facts)
        if not (folder / INDEX / "index.json").exists():
            SketchIndex(sketch, store=folder / INDEX).close()
        return cls.open(folder)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The library in a folder; its files are checked, vectors as long as that is quick.

        Raises
        ------
        ArtifactError
            When the folder is none, or is damaged.
        """
        folder = resolved(path)
        if not (folder / DATABASE).is_file():
            raise ArtifactError(
                f"{folder} is not an index of notes: it has no {DATABASE}. Make one with: "
                f"foretell find build {path} --notes FOLDER"
            )
        base = sqlite3.connect(folder / DATABASE, timeout=30)
        try:
            with _database(folder):
                facts = dict(base.execute("SELECT name, value FROM facts"))
                kind, schema = facts.get("format"), int(facts.get("schema", "0"))
            if kind != "foretell-notes":
                raise ArtifactError(f"{folder / DATABASE} was not written by foretell.")
            if schema > SCHEMA:
                raise ArtifactError(
                    f"{folder / DATABASE} has schema {schema} and comes from a newer foretell; "
                    f"this one reads up to {SCHEMA}. Update: pip install --upgrade foretell"
                )
            if not (folder / INDEX / "index.json").is_file():
                raise ArtifactError(
                    f"{folder} was begun and never filled. Go on with: foretell find build {path}"
                )
            vectors = folder / INDEX / "vectors.bin"
            large = vectors.is_file() and vectors.stat().st_size > _QUICK
            verify: Verify = "codes" if large else "all"
            return cls(folder, base, SketchIndex.load(folder / INDEX, verify=verify))
        except BaseException:
            base.close()
            raise

    def close(self) -> None:
        """Let go of both files."""
        self._base.close()
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Passages."""
        return int(self._one("SELECT count(*) FROM passages"))

    def fact(self, name: str) -> str:
        """Something that was decided when the library was made: notes, bits or model."""
        return str(self._one("SELECT value FROM facts WHERE name = ?", name))

    @classmethod
    def recorded(cls, folder: Path, name: str) -> str:
        """A fact of a library that has no index yet."""
        with _database(folder), closing(sqlite3.connect(folder / DATABASE)) as base:
            row = base.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
            return str(row[0])

    def move(self, notes: Path) -> None:
        """Remember that the same notes are now in another folder."""
        with _database(self.folder), self._base:
            self._base.execute(
                "UPDATE facts SET value = ? WHERE name = 'notes'", [str(resolved(notes))]
            )

    @property
    def notes(self) -> Path:
        """The folder of notes."""
        return Path(self.fact("notes"))

    @property
    def n_files(self) -> int:
        """Files with all of their passages."""
        return int(self._one("SELECT count(*) FROM files"))

    # Reading -------------------------------------------------------------------------------------

    def get(self, ids: Iterable[int]) -> dict[int, Found]:
        """The passages of ids; those that were never finished are left out."""
        found: dict[int, Found] = {}
        for number in ids:
            rows = self._rows(f"SELECT {_FOUND} FROM passages WHERE id = ?", int(number))
            found |= {row[0]: _found(row) for row in rows}
        return found

    def everything(self) -> list[Found]:
        """All passages, file by file."""
        return [
            _found(r) for r in self._rows(f"SELECT {_FOUND} FROM passages ORDER BY file, number")
        ]

    # Writing -------------------------------------------------------------------------------------

    def build(
        self,
        listing: Listing,
        embedder: Embedder,
        on_step: Callable[[BuildCounts], None] = lambda counts: None,
        counts: BuildCounts | None = None,
    ) -> BuildCounts:
        """Make the index say what the folder says; only new and changed files are embedded.

        Parameters
        ----------
        listing : Listing
            Of the folder of notes.
        embedder : Embedder
            The model.
        on_step : callable
            Called after each file that was looked at, and after each commit.
        counts : BuildCounts, optional
            Updated on the way, so that it is right also after an interruption.

        Raises
        ------
        DataError
            When the folder holds no readable file any more, which rather is a disk that is not
            there than a wish to forget everything.
        """
        counts = counts if counts is not None else BuildCounts()
        counts.skipped += listing.skipped
        with self._sole_writer():
            self._reconcile()
            self._update(listing, embedder, on_step, counts)
        return counts

    def _update(
        self,
        listing: Listing,
        embedder: Embedder,
        on_step: Callable[[BuildCounts], None],
        counts: BuildCounts,
    ) -> None:
        rows = self._rows("SELECT name, size, modified, sha256 FROM files")
        known = {name: (size, modified, sha256) for name, size, modified, sha256 in rows}
        begun = {name for (name,) in self._rows("SELECT DISTINCT file FROM passages")}
        if (known or begun) and not listing.files:
            raise DataError(
                f"{self.notes} holds no file that can be read, and the index knows "
                f"{len(known | dict.fromkeys(begun))}. Nothing was removed. Is the disk there? To "
                "begin anew, give a new folder."
            )
        gone = (known.keys() | begun) - {file.name for file in listing.files}
        self._forget(sorted(gone))
        counts.gone = len(gone)
        batch = _Batch()
        for file in listing.files:
            before = known.get(file.name)
            try:
                if before is not None and before[:2] == (file.size, file.modified):
                    counts.same += 1
                    continue
                self._take(file, before, batch, lambda: self._flush(batch, embedder, counts))
            except files.UnusableFile as error:
                self._forget([file.name])
                counts.skipped.append(Skipped(file.name, str(error)))
            counts.read_bytes += file.size
            on_step(counts)
        self._flush(batch, embedder, counts)
        on_step(counts)

    def _take(
        self,
        file: NoteFile,
        before: tuple[int, int, str] | None,
        batch: _Batch,
        flush: Callable[[], None],
    ) -> None:
        """Put what is new in a file into batches."""
        data = files.read(file)
        sha256 = hashlib.sha256(data).hexdigest()
        if before is not None and before[2] == sha256:
            batch.complete.append((file, sha256, "same"))
            return
        found = files.cut(file, data)
        if before is not None:
            self._forget([file.name])
        there = self._begun(file, found)
        for number, passage in enumerate(found[there:], there):
            batch.passages.append((file.name, number, passage))
            if len(batch.passages) == BATCH:
                flush()
        batch.complete.append((file, sha256, "new" if before is None else "changed"))

    def _flush(self, batch: _Batch, embedder: Embedder, counts: BuildCounts) -> None:
        """Embed a batch, and make it and the files that it completes part of the library."""
        ids: list[int] = []
        if batch.passages:
            vectors = embedder.encode([passage.embedded for _, _, passage in batch.passages])
            ids = self.index.add(vectors).tolist()
        texts = [
            (i, name, number, p.title, p.first_line, p.last_line, p.page, p.text)
            for i, (name, number, p) in zip(ids, batch.passages, strict=True)
        ]
        done = [(file.name, file.size, file.modified, sha) for file, sha, _ in batch.complete]
        with _database(self.folder), self._base:
            self._base.executemany("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", texts)
            self._base.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", done)
        counts.embedded += len(texts)
        for _, _, how in batch.complete:
            setattr(counts, how, getattr(counts, how) + 1)
        batch.passages.clear()
        batch.complete.clear()

    def _begun(self, file: NoteFile, found: list[Passage]) -> int:
        """How many passages are there from a build that was stopped; drops those that differ."""
        rows = self._rows(
            f"SELECT {_FOUND} FROM passages WHERE file = ? ORDER BY number", file.name
        )
        before = [_found(row).passage for row in rows]
        if before == found[: len(before)]:
            return len(before)
        self._forget([file.name])
        return 0

    def _forget(self, names: list[str], lost: Collection[int] = ()) -> None:
        """Drop files: from the database, then from the index, which may lack some of the ids."""
        ids: list[int] = []
        with _database(self.folder), self._base:
            for name in names:
                rows = self._base.execute("SELECT id FROM passages WHERE file = ?", [name])
                ids += [i for (i,) in rows if i not in lost]
                self._base.execute("DELETE FROM passages WHERE file = ?", [name])
                self._base.execute("DELETE FROM files WHERE name = ?", [name])
        if ids:
            self.index.remove(np.array(ids))

    @contextmanager
    def _sole_writer(self) -> Iterator[None]:
        """Hold a lock that the operating system lets go of when the process ends, however."""
        with closing(sqlite3.connect(self.folder / LOCK, timeout=0)) as lock:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                raise ArtifactError(
                    f"{self.folder} is being built by another process, or cannot be written "
                    f"({error}). Wait for the other one, and build again."
                ) from error
            self.index.refresh()
            yield

    def _reconcile(self) -> None:
        """Bring database and index to the same state."""
        with_text = np.array([i for (i,) in self._rows("SELECT id FROM passages")], np.int64)
        view, alive = self.index.view()
        ids = view.columns["ids"].all().ravel()
        ids = ids if alive is None else ids[alive]
        orphans = np.setdiff1d(ids, with_text)
        if len(orphans):
            self.index.remove(orphans)
        lost = self.get(np.setdiff1d(with_text, ids))
        self._forget(sorted({found.file for found in lost.values()}), set(lost))

    def _one(self, query: str, *values: object) -> Any:
        return self._rows(query, *values)[0][0]

    def _rows(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        with _database(self.folder):
            return self._base.execute(query, values).fetchall()


def _found(row: tuple) -> Found:  # type: ignore[type-arg]
    number, file, *rest = row
    return Found(number, file, Passage(*rest))


def _refuse_other(folder: Path) -> None:
    """Never fill a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise ArtifactError(f"{folder} is a file. Give a new folder for the index.")
    if folder.is_dir() and any(folder.iterdir()):
        raise ArtifactError(
            f"{folder} holds files that are not an index of notes; nothing was touched. Give a new "
            "folder."
        )


def _make_database(folder: Path, facts: dict[str, str]) -> None:
    """All tables and facts, or no file."""
    made = folder / f".{DATABASE}.partial"
    made.unlink(missing_ok=True)
    with _database(folder):
        with closing(sqlite3.connect(made)) as base, base:
            base.executescript(_TABLES)
            base.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
    os.replace(made, folder / DATABASE)


@contextmanager
def _database(folder: Path) -> Iterator[None]:
    """Name the file and the remedy when the database fails."""
    try:
        yield
    except (sqlite3.Error, ValueError) as error:
        busy = "locked" in str(error)
        remedy = (
            "Another build is writing: wait for it."
            if busy
            else "Free some space if the disk is full; else build again into a new folder."
        )
        raise ArtifactError(f"{folder / DATABASE} cannot be used: {error}. {remedy}") from error
