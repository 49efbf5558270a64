"""index.json: what the folder of an index holds, its sizes and checksums, and whether it is so."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell import __version__
from foretell.core.errors import ArtifactError
from foretell.recall.table import Column

FORMAT = "foretell-index"
SCHEMA = 1
HEADER = "index.json"
PIECE = 1 << 24  # bytes under one checksum
REMEDY = "Copy the folder again with all of its files, or build the index again."


@dataclass(frozen=True)
class Header:
    """What index.json says."""

    generation: int
    n: int
    columns: dict[str, Column]
    checksums: dict[str, tuple[int, ...]]  # CRC-32 of each piece of a column
    blobs: dict[str, dict[str, Any]]  # file, bytes, crc32
    fields: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The content of index.json, with a checksum of itself."""
        content = {
            "format": FORMAT,
            "schema": SCHEMA,
            "foretell": __version__,
            "generation": self.generation,
            "rows": self.n,
            "columns": {
                name: {
                    "dtype": c.dtype,
                    "width": c.width,
                    "crc32": [f"{crc:08x}" for crc in self.checksums[name]],
                }
                for name, c in self.columns.items()
            },
            "piece_bytes": PIECE,
            "blobs": self.blobs,
            "fields": self.fields,
        }
        content["crc32"] = f"{zlib.crc32(canonical(content)):08x}"
        return (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode()


def extended(checksums: tuple[int, ...], start: int, data: memoryview) -> tuple[int, ...]:
    """Checksums of the pieces of a file after ``data`` was written at byte ``start``, its end."""
    out = list(checksums)
    done = 0
    while done < len(data):
        room = PIECE - (start + done) % PIECE
        chunk = data[done : done + room]
        if room == PIECE:
            out.append(zlib.crc32(chunk))
        else:
            out[-1] = zlib.crc32(chunk, out[-1])
        done += len(chunk)
    return tuple(out)


def canonical(content: Mapping[str, Any]) -> bytes:
    """What the checksum of a header is computed from."""
    plain = {key: value for key, value in content.items() if key != "crc32"}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def read_header(folder: Path) -> Header:
    """What index.json says, checked."""
    path = folder / HEADER
    damaged = f"{path} does not match its checksum: it was changed or cut off. {REMEDY}"
    try:
        content = json.loads(path.read_bytes())
        matches = content["crc32"] == f"{zlib.crc32(canonical(content)):08x}"
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(damaged) from error
    if not matches:
        raise ArtifactError(damaged)
    if content.get("format") != FORMAT:
        raise ArtifactError(f"{path} was not written by foretell. Give the folder of an index.")
    if content["schema"] > SCHEMA:
        raise ArtifactError(
            f"{path} has schema {content['schema']} and comes from a newer foretell "
            f"({content['foretell']}); this one reads up to schema {SCHEMA}. "
            "Update with: pip install --upgrade foretell"
        )
    columns = content["columns"]
    return Header(
        content["generation"],
        content["rows"],
        {name: Column(c["dtype"], c["width"]) for name, c in columns.items()},
        {name: tuple(int(crc, 16) for crc in c["crc32"]) for name, c in columns.items()},
        content["blobs"],
        content["fields"],
    )


def read_blobs(folder: Path, header: Header) -> dict[str, bytes]:
    """Every blob, checked; raises FileNotFoundError where one is missing."""
    out = {}
    for name, expected in header.blobs.items():
        path = folder / expected["file"]
        data = path.read_bytes()
        if len(data) != expected["bytes"]:
            raise ArtifactError(_cut(path, len(data), expected["bytes"]))
        if f"{zlib.crc32(data):08x}" != expected["crc32"]:
            raise ArtifactError(_changed(path, 0, len(data)))
        out[name] = data
    return out


def check_column(path: Path, column: Column, header: Header, name: str, content: bool) -> None:
    """Compare a column with its size and, if wanted, with the checksums of its pieces."""
    size = header.n * column.row_bytes
    try:
        there = path.stat().st_size
        if there < size:
            raise ArtifactError(_cut(path, there, size))
        if not content:
            return
        with path.open("rb") as handle:
            for number, expected in enumerate(header.checksums[name]):
                start = number * PIECE
                data = handle.read(min(PIECE, size - start))
                if zlib.crc32(data) != expected:
                    raise ArtifactError(_changed(path, start, start + len(data)))
    except ArtifactError:
        raise
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing. {REMEDY}") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error


def _cut(path: Path, there: int, size: int) -> str:
    return (
        f"{path} has {there} bytes where {HEADER} and its checksums cover {size}: it was cut off. "
        f"{REMEDY}"
    )


def _changed(path: Path, start: int, stop: int) -> str:
    return (
        f"{path} does not match its checksum in {HEADER} (bytes {start} to {stop}): it was changed "
        f"after it was written. {REMEDY}"
    )
