"""Where an index keeps its rows: in memory, or in a folder that survives ``kill -9``.

    index.json       header: schema, fields, number of committed rows, and for every file its size
                     and CRC-32 checksums; the header carries a checksum of itself
    codes.bin ...    one file per column, little-endian rows one after the other, only appended to
    NAME-7.bin       blobs (projection, marks of removed rows, graph): whole files, never changed;
                     a new one gets the next number

A commit first appends the rows and forces them to the disk, then replaces the header in one step.
So at any moment, also after ``kill -9`` or a power cut, the header describes complete rows; what
lies behind them in a file was never committed and is cut off by the next writer. A file that is
shorter than the header says, or differs from its checksums, is refused.

Columns are checked in pieces of 16 MiB, so that an append does not read the file again.
One writer at a time holds the lock of the folder; readers need none, in any number of processes.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ArtifactError, ParameterError
from foretell.core.files import (
    recover_folder,
    resolved,
    sync_folder,
    write_and_sync,
    write_bytes_atomic,
    writing,
)
from foretell.recall.rows import Rows
from foretell.recall.store_header import (
    HEADER,
    REMEDY,
    Header,
    check_column,
    extended,
    read_blobs,
    read_header,
)
from foretell.recall.table import Column, TableView, checked_rows

LOCK = ".writer.lock"
BLOB_NAME = re.compile(r"[a-z]+-\d+\.bin")
COLUMN_NAME = re.compile(r"[a-z]+\.bin")
PARTIAL_NAME = re.compile(r"\.index\.json\.[0-9a-f]+\.partial")

Verify = Literal["all", "codes", "none"]


class FolderTable:
    """A table in a folder; see the head of the module for the files.

    Use :meth:`create` or :meth:`open`.

    Examples
    --------
    >>> import tempfile
    >>> from foretell.recall.table import Column
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = FolderTable.create(f"{folder}/i", {"ids": Column("<i8", 1)})
    ...     _ = table.commit({"ids": np.array([[7], [9]])})
    ...     table.close()
    ...     view = FolderTable.open(f"{folder}/i").view()
    >>> view.n, view.columns["ids"].take(np.array([1]))
    (2, array([[9]]))
    """

    def __init__(self, folder: Path, header: Header, blobs: Mapping[str, bytes]) -> None:
        self.folder = folder
        self._header = header
        self._lock: int | None = None
        self._writing = threading.Lock()
        self._view = self._map(header, blobs)

    # Opening -------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Mapping[str, Column],
        *,
        blobs: Mapping[str, bytes] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> FolderTable:
        """Make an empty table in a new or empty folder, and hold it for writing.

        Raises
        ------
        ArtifactError
            When the folder holds anything already, or cannot be written.
        """
        folder = resolved(path)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not _only_begun(folder, columns, blobs or {}):
            what = "an index" if (folder / HEADER).exists() else "other files"
            raise ArtifactError(
                f"{folder} already holds {what}. Open an index with SketchIndex.load(path), or "
                "give a new folder."
            )
        header = Header(0, 0, dict(columns), {name: () for name in columns}, {})
        table = cls(folder, header, {})
        try:
            table._acquire()
            for name in columns:
                with writing(folder):
                    write_and_sync(table._file(name), b"")
            table.commit(blobs=blobs, fields=fields)
        except BaseException:
            table.close()
            raise
        return table

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: Verify = "all") -> FolderTable:
        """Map a folder and check it; other processes may go on appending.

        Parameters
        ----------
        path : path
            The folder.
        verify : {"all", "codes", "none"}
            Which checksums are computed: of every file; of all but the column ``vectors``, which
            is by far the largest; or only of the header. Sizes are always checked.

        Raises
        ------
        ArtifactError
            Names the file that is missing, cut off or changed, and the remedy.
        """
        if verify not in ("all", "codes", "none"):
            raise ParameterError(f'verify={verify!r} is not one of "all", "codes", "none".')
        folder = _found(resolved(path))
        while True:
            header = read_header(folder)
            try:
                blobs = read_blobs(folder, header)
                break
            except FileNotFoundError as error:
                # A writer replaced the blob between the two reads; else the file is missing.
                if read_header(folder).generation == header.generation:
                    raise ArtifactError(f"{error.filename} is missing. {REMEDY}") from error
        for name, column in header.columns.items():
            skip = verify == "none" or (verify == "codes" and name == "vectors")
            check_column(folder / f"{name}.bin", column, header, name, content=not skip)
        return cls(folder, header, blobs)

    def _file(self, column: str) -> Path:
        return self.folder / f"{column}.bin"

    def _map(self, header: Header, blobs: Mapping[str, bytes]) -> TableView:
        columns = {
            name: self._rows(name, column, header.n) for name, column in header.columns.items()
        }
        return TableView(
            header.n,
            MappingProxyType(columns),
            MappingProxyType(dict(blobs)),
            MappingProxyType(header.fields),
        )

    def _rows(self, name: str, column: Column, n: int) -> Rows:
        if n == 0:
            return Rows.of(np.empty((0, column.width), column.dtype))
        mapped = np.memmap(self._file(name), column.dtype, "r", shape=(n, column.width))
        return Rows.of(mapped)

    # Using ---------------------------------------------------------------------------------------

    def view(self) -> TableView:
        """The last commit of this object, or what :meth:`refresh` found."""
        return self._view

    @property
    def generation(self) -> int:
        """Number of commits so far."""
        return self._header.generation

    def refresh(self) -> TableView:
        """See what another process has committed since."""
        if self._lock is None and read_header(self.folder).generation != self.generation:
            newer = FolderTable.open(self.folder, verify="none")
            self._header, self._view = newer._header, newer._view
        return self._view

    def commit(
        self,
        rows: Mapping[str, NDArray[Any]] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> TableView:
        """Append rows, replace blobs and update fields: all of it or nothing, on the disk.

        Raises
        ------
        ArtifactError
            When another writer holds the folder, or the disk is full: then nothing has changed.
        """
        with self._writing:
            self._acquire()
            old = self._header
            count = 0 if rows is None else checked_rows(rows, old.columns)
            checksums = dict(old.checksums)
            try:
                with writing(self.folder):
                    for name, values in (rows or {}).items():
                        checksums[name] = self._append(name, values)
                    placed = {
                        name: self._place(name, data, old.generation + 1)
                        for name, data in (blobs or {}).items()
                    }
                    if placed:
                        sync_folder(self.folder)
                    header = Header(
                        old.generation + 1,
                        old.n + count,
                        old.columns,
                        checksums,
                        {**old.blobs, **placed},
                        {**old.fields, **(fields or {})},
                    )
                    write_bytes_atomic(self.folder / HEADER, header.encode())
            finally:  # the header on the disk says whether the commit took place
                found = read_header(self.folder) if (self.folder / HEADER).exists() else old
                if found.generation == old.generation + 1:
                    self._header = found
                    self._view = self._map(self._header, {**self._view.blobs, **(blobs or {})})
                self._sweep()
            return self._view

    def close(self) -> None:
        """Give up the right to write; mapped rows stay readable."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Writing -------------------------------------------------------------------------------------

    def _acquire(self) -> None:
        """Hold the folder; the operating system lets go when the process ends, however it ends."""
        if self._lock is not None:
            return
        with writing(self.folder):
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, self.folder)
            if (self.folder / HEADER).exists():
                found = read_header(self.folder).generation
                if found != self._header.generation:
                    raise ArtifactError(
                        f"{self.folder} was changed by another process since it was opened "
                        f"({found - self._header.generation} commits). Load it again, then add."
                    )
        except BaseException:
            os.close(handle)
            raise
        self._lock = handle
        if (self.folder / HEADER).exists():
            self._sweep()

    def _sweep(self) -> None:
        """Remove blobs that no header names: replaced, or left by a commit that was cut short."""
        named = {blob["file"] for blob in self._header.blobs.values()}
        for path in self.folder.iterdir():
            stray = BLOB_NAME.fullmatch(path.name) and path.name not in named
            if stray or PARTIAL_NAME.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()

    def _append(self, name: str, values: NDArray[Any]) -> tuple[int, ...]:
        """Write rows behind the committed ones, cutting off what was never committed."""
        header = self._header
        column = header.columns[name]
        start = header.n * column.row_bytes
        plain = np.ascontiguousarray(values, dtype=column.dtype)
        data = plain.reshape(-1).view(np.uint8).data
        with self._file(name).open("r+b") as handle:
            handle.truncate(start)
            handle.seek(start)
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        return extended(header.checksums[name], start, data)

    def _place(self, name: str, data: bytes, generation: int) -> dict[str, Any]:
        file = f"{name}-{generation}.bin"
        write_and_sync(self.folder / file, data)
        return {"file": file, "bytes": len(data), "crc32": f"{zlib.crc32(data):08x}"}


# Reading ------------------------------------------------------------------------------------------


def _found(folder: Path) -> Path:
    recover_folder(folder)
    if not (folder / HEADER).is_file():
        there = "has no " + HEADER if folder.is_dir() else "is not a folder"
        raise ArtifactError(
            f"{folder} {there}, so it is not an index. Give the folder that SketchIndex(store=...) "
            "or save(...) wrote."
        )
    return folder


def _only_begun(folder: Path, columns: Collection[str], blobs: Collection[str]) -> bool:
    """Whether a folder holds nothing but what a creation leaves that was killed."""
    empty = {f"{name}.bin" for name in columns}
    ours = {LOCK, *empty, *(f"{name}-1.bin" for name in blobs)}
    return all(
        (path.name in ours or PARTIAL_NAME.fullmatch(path.name) is not None)
        and (path.name not in empty or path.stat().st_size == 0)
        for path in folder.iterdir()
    )


def is_ours(name: str) -> bool:
    """Whether a name in the folder of an index is that of one of its files."""
    patterns = (BLOB_NAME, COLUMN_NAME, PARTIAL_NAME)
    return name in (HEADER, LOCK) or any(pattern.fullmatch(name) for pattern in patterns)


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this operating system
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ArtifactError(
            f"{folder} is being written by another process or another SketchIndex. Close that one "
            "first; reading is possible meanwhile."
        ) from error
