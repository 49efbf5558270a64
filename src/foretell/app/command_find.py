"""``foretell find build``: a folder of notes as an index."""

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
from foretell.app.notes.library import DATABASE, INDEX, BuildCounts, Library
from foretell.app.notes.sentence_vectors import DIMENSIONS, SentenceVectors, fingerprint
from foretell.app.words import number, seconds
from foretell.core.errors import ArtifactError, DataError, ParameterError
from foretell.core.files import resolved

BITS = 384
SHOWN = 20  # skipped files that are named on the terminal


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
                    f"Stopped. {many(len(library), 'passage')} of "
                    f"{many(library.n_files, 'file')} are kept. Go on with: foretell find build "
                    f"{folder}"
                ) from error
        sizes = library.index.nbytes
        built = Built(
            folder=folder,
            notes=source,
            files=library.n_files,
            passages=len(library),
            bits=library.index.coding.n_bits,
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
            f"{100 * share:3.0f} %  {many(files, 'file')}  "
            f"{many(counts.embedded, 'passage')} embedded  {seconds(left)} left"
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
        f"Index    {built.folder}: {many(built.passages, 'passage')} of "
        f"{many(built.files, 'file')}, {many(counts.embedded, 'passage')} embedded in "
        f"{seconds(built.seconds)}",
        f"         {built.bits} bits a passage: {_size(built.code_bytes)} are scanned for a "
        f"question; {_size(built.vector_bytes)} of vectors stay on the disk",
    ]
    if counts.skipped:
        lines.append(f"Skipped  {many(len(counts.skipped), 'file')}")
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
        lines.append(f"Not read {many(listing.others.total(), 'file')} of other kinds: {kinds}")
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


def many(n: int, noun: str) -> str:
    """A count with its noun."""
    return f"{number(float(n), 9)} {noun}{'' if n == 1 else 's'}"


def _size(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n} bytes"
