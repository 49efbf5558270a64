"""Files and folders that are either the old one or the new one, never half of each.

The bytes go to a file beside the target, are forced to the disk, and then take the target's name
in one step. A full disk, a closed folder or Ctrl-C leaves the old file as it was. A folder takes
two steps, and `recover_folder` completes them after a power cut between the two.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foretell.core.errors import ArtifactError


def write_bytes_atomic(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write bytes to a file, or leave the old file untouched.

    Parameters
    ----------
    path : path
        Where to write; missing folders above it are made.
    data : bytes
        The whole new content.

    Returns
    -------
    pathlib.Path
        The path written.

    Raises
    ------
    ArtifactError
        When the disk is full or the place cannot be written; names the place and the reason.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bytes_atomic(f"{folder}/a/state.bin", b"abc").read_bytes()
    b'abc'
    """
    target = resolved(path)
    temporary = beside(target)
    with writing(target):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_and_sync(temporary, data)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(target.parent)
    return target


def write_text_atomic(path: str | os.PathLike[str], text: str) -> Path:
    """Write text as UTF-8 to a file, or leave the old file untouched.

    Same rules and errors as :func:`write_bytes_atomic`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text_atomic(f"{folder}/report.html", "<p>µ</p>").read_text(encoding="utf-8")
    '<p>µ</p>'
    """
    return write_bytes_atomic(path, text.encode("utf-8"))


def resolved(path: str | os.PathLike[str]) -> Path:
    """The absolute path with symbolic links followed, so that a link stays a link."""
    try:
        return Path(path).expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"{path} is not a usable path: {error}.") from error


def beside(target: Path, kind: str = "partial") -> Path:
    """A hidden, unused name in the same folder as the target (so that a rename is one step)."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.{kind}"


def write_and_sync(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename durable, where the operating system can do so for folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def put_in_place(fresh: Path, target: Path, *, ours: Callable[[str], bool]) -> None:
    """Give a finished folder the name of the target, and remove the older folder of that name.

    Parameters
    ----------
    fresh : Path
        Written, beside the target.
    target : Path
        A folder, or nothing.
    ours : callable
        Whether a name in the older folder was written by us. Files of others move along.
    """
    recover_folder(target)
    previous = _previous(target)
    if not target.exists():
        os.rename(fresh, target)
        sync_folder(target.parent)
        return
    _move_along(previous, target, ours)
    os.rename(target, previous)
    try:
        os.rename(fresh, target)
    except BaseException:
        os.rename(previous, target)
        raise
    sync_folder(target.parent)
    _move_along(previous, target, ours)


def recover_folder(target: Path) -> None:
    """Give the older folder its name back, where `put_in_place` was cut off between two renames."""
    previous = _previous(target)
    if previous.is_dir() and not target.exists():
        with suppress(OSError):
            os.rename(previous, target)


def _previous(target: Path) -> Path:
    return target.parent / f".{target.name}.previous"


def _move_along(previous: Path, target: Path, ours: Callable[[str], bool]) -> None:
    """Take the files of others from an older folder, and remove it; nothing if there is none."""
    if not previous.is_dir():
        return
    for kept in previous.iterdir():
        if not ours(kept.name) and not (target / kept.name).exists():
            os.rename(kept, target / kept.name)
    shutil.rmtree(previous, ignore_errors=True)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn any failure to write into an ArtifactError that names the place, reason and remedy."""
    try:
        yield
    except ArtifactError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Free some space" if full else "Choose another place"
        raise ArtifactError(
            f"{target} was not written: {reason[:1].lower()}{reason[1:]}. What was there before is "
            f"unchanged. {remedy} and save again."
        ) from error
