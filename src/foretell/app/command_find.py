"""``foretell find build`` and ``ask``: a folder of notes as an index, and questions to it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from foretell.app.notes.files import Listing, Skipped, list_folder
from foretell.app.notes.library import DATABASE, INDEX, BuildCounts, Found, Library
from foretell.app.notes.sentence_vectors import DIMENSIONS, SentenceVectors, fingerprint
from foretell.app.words import number, seconds
from foretell.core.errors import ArtifactError, DataError, ParameterError
from foretell.core.files import resolved

BITS = 384
SHOWN = 20  # skipped files that are named on the terminal
DOUBTFUL = 2.0  # standard errors


@dataclass(frozen=True)
class Built:
    """What ``build`` left behind."""

    folder: Path
    notes: Path
    files: int
    passages: int
    bits: int
    code_bytes: int
    vector_bytes: int
    counts: BuildCounts = field(repr=False)
    others: dict[str, int] = field(repr=False)
    seconds: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A passage that answers.

    Parameters
    ----------
    found : Found
        The passage and its place.
    cosine : float
        With the question: exact after a re-rank, else NaN.
    estimate, standard_error : float
        What the bits alone say.
    """

    found: Found
    cosine: float
    estimate: float
    standard_error: float


@dataclass(frozen=True)
class Answers:
    """All answers to one question, best first.

    Parameters
    ----------
    question : str
        As asked.
    answers : tuple of Answer
        At most k.
    reads : int
        Vectors that were compared exactly.
    total : int
        Passages in the index.
    margin : float
        By how many standard errors the bits of the best passage that was not read would have to
        be wrong for it to belong among the answers; infinite if all were read.
    """

    question: str
    answers: tuple[Answer, ...]
    reads: int
    total: int
    margin: float


# build -------------------------------------------------------------------------------------------


def build(folder: Path, notes: Path | None, *, bits: int | None, as_json: bool = False) -> Built:
    """Index a folder of notes, or bring the index up to date, and say what was done."""
    began = time.monotonic()
    model = fingerprint()
    with _library(folder, notes, bits, model) as library:
        source = library.notes
        listing = list_folder(source, apart=library.folder)
        counts = BuildCounts()
        total = sum(file.size for file in listing.files)
        with BuildView(total) as view:
            try:
                library.build(listing, LazyModel(), view.step, counts)
            except KeyboardInterrupt as error:
                raise KeyboardInterrupt(
                    f"Stopped. {_many(len(library), 'passage')} of "
                    f"{_many(library.n_files, 'file')} are kept. Go on with: foretell find build "
                    f"{folder}"
                ) from error
        sizes = library.index.nbytes
        built = Built(
            folder=folder,
            notes=source,
            files=library.n_files,
            passages=len(library),
            bits=library.index.sketch.n_bits,
            code_bytes=sizes["codes"],
            vector_bytes=sizes["vectors"],
            counts=counts,
            others=dict(listing.others.most_common()),
            seconds=time.monotonic() - began,
        )
    if as_json:
        typer.echo(json.dumps(_built_json(built), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_built_lines(built, listing)))
    if not built.passages:
        raise DataError(
            f"{source} holds no text that can be indexed. Files that are read: .md, .rst, .txt, "
            ".adoc, .org, .log, .pdf and those without a suffix."
        )
    return built


class LazyModel:
    """The model, read from the disk when the first text is there."""

    def __init__(self) -> None:
        self._model: SentenceVectors | None = None

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors (n, 384)."""
        if self._model is None:
            self._model = SentenceVectors()
        return self._model.encode(texts)


class BuildView:
    """Progress on stderr: a bar on a terminal, else a line each tenth of the way."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._total, self._began, self._tenth = max(total, 1), time.monotonic(), 0
        self._status = None if not self._console.is_terminal else self._console.status("Reading")

    def __enter__(self) -> BuildView:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, counts: BuildCounts) -> None:
        """Show how far it is."""
        share = min(1.0, counts.read_bytes / self._total)
        if not counts.embedded or not share:
            return
        left = (time.monotonic() - self._began) * (1 - share) / share
        files = counts.new + counts.changed + counts.same
        text = (
            f"{100 * share:3.0f} %  {_many(files, 'file')}  "
            f"{_many(counts.embedded, 'passage')} embedded  {seconds(left)} left"
        )
        if self._status is not None:
            self._status.update(text)
        elif int(10 * share) > self._tenth:
            self._tenth = int(10 * share)
            self._console.print(f"  {text}", markup=False)


def _library(folder: Path, notes: Path | None, bits: int | None, model: str) -> Library:
    """The library to write to, after the request was compared with what is there."""
    place = resolved(folder)
    if not (place / DATABASE).exists():
        if notes is None:
            raise ParameterError(
                f"{folder} is no index yet, so it is not known what to read. Add --notes FOLDER."
            )
        if resolved(notes) == place or place in resolved(notes).parents:
            raise ParameterError(
                f"--notes {notes} lies inside {folder}, the folder of the index. Give the index a "
                "folder of its own."
            )
        list_folder(notes)  # refuses a wrong folder before anything is made
        return Library.create(folder, notes, bits or BITS, model, DIMENSIONS)
    if not (place / INDEX / "index.json").exists():  # was stopped before anything was indexed
        with_bits = Library.recorded(place, "bits")
        library = Library.create(folder, place, int(with_bits), model, DIMENSIONS)
    else:
        library = Library.open(folder)
    try:
        _refuse_another(library, folder, notes, bits, model)
    except BaseException:
        library.close()
        raise
    return library


def _refuse_another(
    library: Library, folder: Path, notes: Path | None, bits: int | None, model: str
) -> None:
    before = library.fact("bits")
    if bits is not None and str(bits) != before:
        raise ParameterError(
            f"{folder} was built with --bits {before}, not {bits}. Leave --bits out, or give a new "
            "folder."
        )
    refuse_other_model(library, model)
    if notes is not None and resolved(notes) != library.notes:
        if library.notes.exists():
            raise ParameterError(
                f"{folder} is the index of {library.notes}, not of {notes}. Leave --notes out, or "
                "give a new folder."
            )
        list_folder(notes)
        library.move(notes)


def refuse_other_model(library: Library, model: str) -> None:
    """Vectors of two models cannot be compared."""
    if library.fact("model") != model:
        raise ArtifactError(
            f"{library.folder} was made with {library.fact('model')}, and installed is {model}: "
            "their vectors cannot be compared. Build again into a new folder."
        )


def _built_lines(built: Built, listing: Listing) -> list[str]:
    counts = built.counts
    done = [
        f"{number(float(n), 9)} {word}"
        for n, word in (
            (counts.new, "new"),
            (counts.changed, "changed"),
            (counts.same, "as before"),
            (counts.gone, "gone"),
        )
        if n
    ]
    lines = [
        f"Notes    {built.notes}: {', '.join(done) or 'no files'}",
        f"Index    {built.folder}: {_many(built.passages, 'passage')} of "
        f"{_many(built.files, 'file')}, {_many(counts.embedded, 'passage')} embedded in "
        f"{seconds(built.seconds)}",
        f"         {built.bits} bits a passage: {_size(built.code_bytes)} are scanned for a "
        f"question; {_size(built.vector_bytes)} of vectors stay on the disk",
    ]
    if counts.skipped:
        lines.append(f"Skipped  {_many(len(counts.skipped), 'file')}")
        lines += [
            f"         {skipped.name}: {skipped.reason}" for skipped in counts.skipped[:SHOWN]
        ]
        if len(counts.skipped) > SHOWN:
            more = len(counts.skipped) - SHOWN
            lines.append(
                f"         and {number(float(more), 9)} more; all of them: foretell find build "
                f"{built.folder} --json"
            )
    if listing.others:
        kinds = ", ".join(f"{n} {suffix}" for suffix, n in listing.others.most_common(8))
        rest = len(listing.others) - 8
        kinds += f" and {rest} other kinds" if rest > 0 else ""
        lines.append(f"Not read {_many(listing.others.total(), 'file')} of other kinds: {kinds}")
    if built.passages:
        lines.append(f'Ask      foretell find ask {built.folder} "your question"')
    return lines


def _built_json(built: Built) -> dict[str, Any]:
    counts = asdict(built.counts)
    skipped: list[Skipped] = built.counts.skipped
    counts.pop("skipped"), counts.pop("read_bytes")
    return {
        "index": str(built.folder),
        "notes": str(built.notes),
        "files": built.files,
        "passages": built.passages,
        "bits": built.bits,
        "code_bytes": built.code_bytes,
        "vector_bytes": built.vector_bytes,
        **counts,
        "skipped": [{"file": s.name, "reason": s.reason} for s in skipped],
        "other_kinds": built.others,
        "seconds": round(built.seconds, 3),
    }


# ask ---------------------------------------------------------------------------------------------


def ask(
    folder: Path,
    question: str,
    *,
    k: int = 5,
    budget: int = 100,
    rerank: bool = True,
    as_json: bool = False,
) -> Answers:
    """Find the passages that are nearest to a question, and print them."""
    if not question.strip():
        raise ParameterError("The question is empty. Write it in quotes after the folder.")
    with Library.open(folder) as library:
        refuse_other_model(library, fingerprint())
        found = answers(library, SentenceVectors(), question, k=k, budget=budget, rerank=rerank)
    if as_json:
        typer.echo(json.dumps(_answers_json(found), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join(_answer_lines(found)))
    return found


def answers(
    library: Library,
    model: SentenceVectors,
    question: str,
    *,
    k: int = 5,
    budget: int = 100,
    rerank: bool = True,
) -> Answers:
    """The passages nearest to a question.

    Parameters
    ----------
    library : Library
        With passages.
    model : SentenceVectors
        That of the library.
    question : str
        Any text.
    k : int
        Answers wanted.
    budget : int
        Passages whose vectors are read, at least k.
    rerank : bool
        Whether to read vectors at all; without, cosines are what the bits say.
    """
    index = library.index
    if not len(library):
        raise DataError(
            f"{library.folder} holds no passages. Fill it with: foretell find build "
            f"{library.folder}"
        )
    for name, value in (("k", k), ("budget", budget)):
        if value < 1:
            raise ParameterError(f"--{name} {value} is below 1. Write --{name} 10.")
    if budget < k:
        raise ParameterError(
            f"--budget {budget} is below --k {k}, and answers come from the candidates. Write "
            f"--budget {10 * k}."
        )
    q = model.encode([question])
    total, budget = len(index), min(budget, len(index))
    if not rerank:
        result = index.search(q, k=min(k, total), budget=budget, rerank=False)
        texts = library.get(result.ids[0])
        rows = zip(result.ids[0], result.cosines[0], result.standard_errors[0], strict=True)
        some = [
            Answer(texts[i], float("nan"), float(c), float(e)) for i, c, e in rows if i in texts
        ]
        return Answers(question, tuple(some), 0, len(library), float("nan"))
    exact, estimate, error, ids = (part[0] for part in index.second_stage(q, budget))
    order = np.argsort(-exact, kind="stable")
    texts = library.get(ids[order])  # what a build that was stopped left is not in it
    best = [n for n in order if int(ids[n]) in texts][:k]
    some = [
        Answer(texts[int(ids[n])], float(exact[n]), float(estimate[n]), float(error[n]))
        for n in best
    ]
    margin = float("inf")
    if budget < total and best:
        margin = float((exact[best[-1]] - estimate[-1]) / error[-1])
    return Answers(question, tuple(some), len(exact), len(library), margin)


def _answer_lines(found: Answers) -> list[str]:
    lines = []
    for place, answer in enumerate(found.answers, 1):
        bits = f"{answer.estimate:.2f} ± {answer.standard_error:.2f}"
        cosine = f"bits {bits}" if np.isnan(answer.cosine) else f"{answer.cosine:.3f}  bits {bits}"
        lines.append(f"{place}  {cosine}  {answer.found.source}")
        passage = answer.found.passage
        if passage.title:
            lines.append(f"   {passage.title}")
        lines += [f"   | {line}" for line in passage.text.split("\n")]
        lines.append("")
    return [*lines, _read_words(found)]


def _read_words(found: Answers) -> str:
    total = _many(found.total, "passage")
    if not found.reads:
        return f"By the bits of {total} alone; no vector was read."
    if np.isinf(found.margin):
        return f"All {total} were compared exactly."
    said = (
        f"{number(float(found.reads), 9)} of {total} were compared exactly. The next one by its "
        f"bits would have to be {max(found.margin, 0.0):.1f} standard errors better than they say "
        "to be among these."
    )
    if found.margin < DOUBTFUL:
        said += f" That is little: ask again with --budget {4 * found.reads}."
    return said


def _answers_json(found: Answers) -> dict[str, Any]:
    def plain(value: float) -> float | None:
        return round(value, 6) if np.isfinite(value) else None

    return {
        "question": found.question,
        "answers": [
            {
                "source": answer.found.source,
                "file": answer.found.file,
                "line": answer.found.passage.first_line,
                "last_line": answer.found.passage.last_line,
                "page": answer.found.passage.page,
                "title": answer.found.passage.title,
                "text": answer.found.passage.text,
                "cosine": plain(answer.cosine),
                "estimate": plain(answer.estimate),
                "standard_error": plain(answer.standard_error),
            }
            for answer in found.answers
        ],
        "reads": found.reads,
        "passages": found.total,
        "margin": plain(found.margin),
    }


def _many(n: int, noun: str) -> str:
    return f"{number(float(n), 9)} {noun}{'' if n == 1 else 's'}"


def _size(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"
