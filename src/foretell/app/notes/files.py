"""Which files of a folder hold text, and what is in them.

A file that cannot be used is named with the reason and never ends the run. Hidden files and
folders are not looked at; links to folders are not followed.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from foretell.app.notes.passages import Passage, passages
from foretell.app.words import harmless
from foretell.core.errors import DataError

MARKED = frozenset({".md", ".markdown", ".mdx", ".rst", ".adoc", ".org"})
PLAIN = frozenset({".txt", ".text", ".log", ""})
PAGED = frozenset({".pdf"})
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class NoteFile:
    """A file as the folder lists it.

    Parameters
    ----------
    name : str
        Path within the folder, with ``/``.
    path : Path
        Where it is.
    size, modified : int
        Bytes, and nanoseconds since the epoch.
    """

    name: str
    path: Path
    size: int
    modified: int


@dataclass(frozen=True)
class Skipped:
    """A file that could not be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """What a folder holds.

    Parameters
    ----------
    files : list of NoteFile
        Of the kinds that are read, by name.
    skipped : list of Skipped
        What cannot even be looked at.
    others : Counter
        Files of other kinds, by suffix.
    """

    files: list[NoteFile]
    skipped: list[Skipped]
    others: Counter[str] = field(default_factory=Counter)


class UnusableFile(Exception):
    """A file holds no text that can be used; the message says why."""


def list_folder(folder: Path, apart: Path | None = None) -> Listing:
    """Look through a folder and all below it, except what is below ``apart``.

    Raises
    ------
    DataError
        When there is no such folder.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise DataError(f"The folder of notes {folder} {what}. Give one with --notes FOLDER.")
    found = Listing([], [])

    def complain(error: OSError) -> None:
        place = Path(error.filename or folder)
        found.skipped.append(Skipped(_name(place, folder) + "/", _reason(error)))

    for top, inner, names in os.walk(folder, onerror=complain):
        here = Path(top)
        inner[:] = sorted(n for n in inner if not n.startswith(".") and here / n != apart)
        for name in sorted(names):
            if not name.startswith("."):
                _look(here / name, folder, found)
    found.files.sort(key=lambda file: file.name)
    found.skipped.sort(key=lambda file: file.name)
    return found


def _look(path: Path, folder: Path, found: Listing) -> None:
    suffix = path.suffix.lower()
    if suffix not in MARKED | PLAIN | PAGED:
        found.others[_printable(suffix)] += 1
        return
    name = _name(path, folder)
    try:
        facts = path.stat()
    except OSError as error:
        found.skipped.append(Skipped(name, _reason(error)))
        return
    if not stat.S_ISREG(facts.st_mode):
        found.skipped.append(Skipped(name, "not a regular file"))
    elif facts.st_size > MOST_BYTES:
        size = f"{facts.st_size / 2**20:,.0f} MiB"
        found.skipped.append(
            Skipped(name, f"{size}, and files up to {MOST_BYTES >> 20} MiB are read: split it")
        )
    else:
        found.files.append(NoteFile(name, path, facts.st_size, facts.st_mtime_ns))


def read(file: NoteFile) -> bytes:
    """The content of a file; raises UnusableFile."""
    try:
        with file.path.open("rb") as handle:
            data = handle.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnusableFile(_reason(error)) from error
    if len(data) > MOST_BYTES:
        raise UnusableFile(f"grew beyond {MOST_BYTES >> 20} MiB while it was read")
    return data


def cut(file: NoteFile, data: bytes) -> list[Passage]:
    """The passages of a file; raises UnusableFile."""
    suffix, name = file.path.suffix.lower(), _printable(file.path.stem)
    if suffix in PAGED:
        return [
            passage
            for page, text in enumerate(_pages(data), 1)
            for passage in passages(text, marked=False, page=page, name=name)
        ]
    return passages(_text(data), marked=suffix in MARKED, name=name)


def _text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnusableFile("UTF-16, not UTF-8: save it as UTF-8")
    zero = data.find(b"\0")
    if zero >= 0:
        raise UnusableFile(f"binary: byte {zero} is zero")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnusableFile(
            f"not UTF-8 at line {line} (byte 0x{data[error.start]:02x}): save it as UTF-8"
        ) from error


def _pages(data: bytes) -> Iterator[str]:
    if find_spec("pypdf") is None:
        raise UnusableFile('PDF is read with the extra "text": pip install "foretell[text]"')
    from io import BytesIO

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports what is reported here
    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnusableFile("a PDF with a password")
        pages = [page.extract_text() for page in reader.pages]
    except UnusableFile:
        raise
    except Exception as error:  # a damaged PDF can make the parser fail in any way
        raise UnusableFile(
            f"a PDF that cannot be read ({type(error).__name__}: {error})"
        ) from error
    if not any(text.strip() for text in pages):
        raise UnusableFile("a PDF without text, perhaps of scanned pages")
    yield from pages


def _name(path: Path, folder: Path) -> str:
    return _printable(path.relative_to(folder).as_posix())


def _printable(name: str) -> str:
    """A name that can be stored and printed, also where its bytes are not UTF-8 or end a line."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return harmless(text.replace("\n", "\\n").replace("\t", "\\t"))


def _reason(error: OSError) -> str:
    return f"cannot be read: {(error.strerror or str(error)).lower()}"
