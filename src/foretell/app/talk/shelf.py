"""Vectors of the sentences of passages: made once, kept, and made ahead of the questions.

Embedding the sentences of one passage takes a tenth of a second, and an answer needs five of them.
So they are made in three ways, each giving way to the one before: for an answer; for a passage that
was looked up while a question is still asked; and for all others, while nobody asks anything.
They are kept in a file, so that this is done once, not with every start.

    INDEX/sentences.sqlite                       of an index of notes
    ~/.cache/foretell/sentences/FOLDER.sqlite    of a large folder of notes, by its digest

Such a file has half-precision vectors by the digest of the passage's text, and no text.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.converse.answer import SentenceModel, Source, sentences
from foretell.core.files import resolved

Vectors = NDArray[np.float32]

STORE = "sentences.sqlite"
MOST_BYTES = 256 << 20  # of vectors in memory; a sentence takes 768
_PATIENCE_S = 0.1  # that reading for a question that is still asked waits for its turn
_REST_S = 0.5  # without answers before the rest of the notes is read
_WORTH_KEEPING = 500  # passages: below, they are made in a minute
_AT_ONCE = 4  # passages of the rest that are read in one go


class Shelf:
    """Vectors by passage.

    Parameters
    ----------
    model : SentenceModel
    store : Path, optional
        The file that keeps them; one that cannot be written or read is done without.
    name : str
        Of the model: what another one made is not used.
    most_bytes : int
        Kept in memory; what was used longest ago goes first.

    Examples
    --------
    >>> class Model:
    ...     def encode(self, texts):
    ...         return np.ones((len(texts), 1), np.float32)
    >>> shelf = Shelf(Model())
    >>> [found.shape for found in shelf.take([Source("1", "Pull the cord. It starts.")])]
    [(2, 1)]
    """

    def __init__(
        self,
        model: SentenceModel,
        *,
        store: Path | None = None,
        name: str = "",
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.model, self._most_bytes = model, most_bytes
        self._kept: OrderedDict[str, NDArray[np.float16]] = OrderedDict()
        self._bytes = 0
        self._lock, self._ahead, self._idle = threading.Lock(), threading.Lock(), threading.Event()
        self._answers, self._busy_until = 0, 0.0
        self._closed = False
        self._reader: threading.Thread | None = None
        self._file = None if store is None else _open(store, name)

    def take(self, sources: Sequence[Source]) -> list[Vectors]:
        """The vectors of passages for an answer; those that are missing are made together."""
        with self._answering():
            return self._made(sources)

    def prepare(self, source: Source) -> None:
        """Make those of a passage that may be needed, unless answers are being made."""
        if source.id in self._kept or self._answers or not self._ahead.acquire(timeout=_PATIENCE_S):
            return
        try:
            if not self._answers:
                self._made([source])
        finally:
            self._ahead.release()
            self._busy_until = time.monotonic() + _REST_S

    def read(self, sources: Callable[[], Iterable[Source]], total: int) -> None:
        """Make all others in a thread of its own, while nobody asks anything."""
        if self._reader is None and total:
            self._reader = threading.Thread(
                target=self._read, args=(sources,), name="foretell-reader", daemon=True
            )
            self._reader.start()

    @property
    def bytes(self) -> int:
        """Of all vectors in memory."""
        return self._bytes

    def __len__(self) -> int:
        """Passages in memory."""
        return len(self._kept)

    def close(self) -> None:
        """Read no more, and let go of the file."""
        self._closed = True
        self._idle.set()
        if self._reader is not None:
            self._reader.join(2.0)
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    # Private -------------------------------------------------------------------------------------

    @contextmanager
    def _answering(self) -> Iterator[None]:
        with self._lock:
            self._answers += 1
        try:
            yield
        finally:
            with self._lock:
                self._answers -= 1
                self._busy_until = time.monotonic() + _REST_S

    def _made(self, sources: Sequence[Source]) -> list[Vectors]:
        found = {source.id: self._get(source) for source in sources}
        todo = [source for source in sources if found[source.id] is None]
        if todo:
            texts = [[sentence.text for sentence in sentences(source)] for source in todo]
            flat = [text for some in texts for text in some]
            made = self.model.encode(flat) if flat else np.zeros((0, 1), np.float32)
            ends = np.cumsum([len(some) for some in texts])
            for source, part in zip(todo, np.split(made, ends[:-1]), strict=True):
                found[source.id] = small = part.astype(np.float16)
                self._keep(source, small, new=True)
        return [np.asarray(found[source.id], np.float32) for source in sources]

    def _get(self, source: Source) -> NDArray[np.float16] | None:
        with self._lock:
            there = self._kept.get(source.id)
            if there is not None:
                self._kept.move_to_end(source.id)
                return there
        stored = self._stored(source)
        if stored is not None:
            self._keep(source, stored, new=False)
        return stored

    def _keep(self, source: Source, vectors: NDArray[np.float16], *, new: bool) -> None:
        with self._lock:
            before = self._kept.pop(source.id, None)
            self._bytes += vectors.nbytes - (before.nbytes if before is not None else 0)
            self._kept[source.id] = vectors
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
            if new and self._file is not None:
                with suppress(sqlite3.Error), self._file:
                    row = (_digest(source), vectors.shape[1], vectors.tobytes())
                    self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)

    def _stored(self, source: Source) -> NDArray[np.float16] | None:
        with self._lock:
            if self._file is None:
                return None
            with suppress(sqlite3.Error):
                ask = "SELECT units, numbers FROM vectors WHERE passage = ?"
                row = self._file.execute(ask, [_digest(source)]).fetchone()
                if row is not None:
                    found = np.frombuffer(row[1], np.float16).reshape(-1, row[0])
                    return found if len(found) == len(sentences(source)) else None
        return None

    def _read(self, sources: Callable[[], Iterable[Source]]) -> None:
        batch: list[Source] = []
        for source in sources():
            if source.id in self._kept:
                continue
            batch.append(source)
            if len(batch) == _AT_ONCE:
                if not self._read_some(batch):
                    return
                batch = []
        self._read_some(batch)

    def _read_some(self, batch: Sequence[Source]) -> bool:
        """Whether to go on."""
        while not self._closed and (self._answers or time.monotonic() < self._busy_until):
            self._idle.wait(0.1)
        if self._closed or self._bytes > self._most_bytes - (1 << 20):
            return False
        try:
            self._made(batch)
        except Exception:  # of one text; it will be said where that passage is asked for
            return not self._closed
        return True


def store_of(folder: Path, passages: int) -> Path | None:
    """Where the vectors of a folder of notes are kept; None where making them takes seconds."""
    if passages < _WORTH_KEEPING:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    name = hashlib.sha256(str(resolved(folder)).encode("utf-8", "replace")).hexdigest()[:24]
    return cache / "foretell" / "sentences" / f"{name}.sqlite"


def _digest(source: Source) -> bytes:
    return hashlib.sha256(source.text.encode("utf-8", "replace")).digest()[:16]


def _open(path: Path, name: str) -> sqlite3.Connection | None:
    """The file, begun anew where another model wrote it; None where it cannot be used."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = sqlite3.connect(path, timeout=1.0, check_same_thread=False)
    except (OSError, sqlite3.Error):
        return None
    try:
        with base:
            base.execute("PRAGMA synchronous = OFF")
            base.execute("CREATE TABLE IF NOT EXISTS made (name TEXT)")
            base.execute(
                "CREATE TABLE IF NOT EXISTS vectors "
                "(passage BLOB PRIMARY KEY, units INTEGER, numbers BLOB)"
            )
            with closing(base.execute("SELECT name FROM made")) as rows:
                row = rows.fetchone()
            if row is None or row[0] != name:
                base.execute("DELETE FROM made")
                base.execute("DELETE FROM vectors")
                base.execute("INSERT INTO made VALUES (?)", [name])
    except sqlite3.Error:
        base.close()
        return None
    return base
