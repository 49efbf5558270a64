"""Read the graphs of hnswlib and faiss as arrays; file layouts after their own documentation.

hnswlib stores, after a header of sizes, one record per element (count and links of the ground
floor, the vector, the label) and then, per element, the links of its upper floors.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import ArtifactError

_HEADER = struct.Struct("<QQQQQQiIQQQdQ")
_COUNT = 4  # bytes of the number of links, of which two hold it


def read_hnswlib(data: bytes) -> dict[str, NDArray[Any]]:
    """Arrays for `Graph.from_arrays` from the bytes of an hnswlib file.

    Raises
    ------
    ArtifactError
        When sizes in the header do not fit the file.
    """
    if len(data) < _HEADER.size:
        raise ArtifactError(_REFUSED)
    (
        _, _, n, record, _, _, top, entry, m_upper, m_base, _, _, ef,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    floors = _HEADER.size + n * record
    if not (2 <= m_upper <= 512 and m_base == 2 * m_upper and record >= _COUNT * (1 + m_base)):
        raise ArtifactError(_REFUSED)
    if floors > len(data) or (n and entry >= n):
        raise ArtifactError(_REFUSED)
    records = np.frombuffer(data, np.uint8, n * record, _HEADER.size).reshape(n, record)
    size = _COUNT * (1 + m_base)
    base = _links(np.ascontiguousarray(records[:, :size]), m_base)
    starts, uppers, used, at = np.full(n, -1, np.int64), [], 0, floors
    line = _COUNT * (1 + m_upper)
    for node in range(n):
        if at + 4 > len(data):
            raise ArtifactError(_REFUSED)
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        if length % line or at + length > len(data):
            raise ArtifactError(_REFUSED)
        if length:
            block = np.frombuffer(data, np.uint8, length, at).reshape(-1, line)
            uppers.append(_links(block, m_upper))
            starts[node] = used
            used += block.shape[0]
            at += length
    upper = np.concatenate(uppers) if uppers else np.empty((0, m_upper), np.int32)
    return _arrays(base, upper, starts, n, entry if n else -1, max(top, 0), m_upper, ef)


def read_faiss(index: Any) -> dict[str, NDArray[Any]]:
    """Arrays for `Graph.from_arrays` from a faiss ``IndexHNSW``."""
    import faiss

    hnsw = index.hnsw
    n = index.ntotal
    levels = faiss.vector_to_array(hnsw.levels).astype(np.int64)
    offsets = faiss.vector_to_array(hnsw.offsets).astype(np.int64)
    neighbours = faiss.vector_to_array(hnsw.neighbors)
    per_floor = faiss.vector_to_array(hnsw.cum_nneighbor_per_level).astype(np.int64)
    m_base, m_upper = int(per_floor[1]), int(per_floor[2] - per_floor[1])
    base = neighbours[offsets[:n, None] + np.arange(m_base)].astype(np.int32)
    starts, uppers, used = np.full(n, -1, np.int64), [], 0
    for node in np.flatnonzero(levels[:n] > 1):
        first = offsets[node] + m_base
        floors = int(levels[node]) - 1
        uppers.append(neighbours[first : first + floors * m_upper].reshape(floors, m_upper))
        starts[node], used = used, used + floors
    upper = np.concatenate(uppers) if uppers else np.empty((0, m_upper), np.int32)
    return _arrays(
        base, upper.astype(np.int32), starts, n, int(hnsw.entry_point), int(hnsw.max_level),
        m_upper, max(int(hnsw.efConstruction), m_upper),
    )  # fmt: skip


def _links(block: NDArray[np.uint8], size: int) -> NDArray[np.int32]:
    """Links (rows, size) from lists that begin with their length."""
    words = np.ascontiguousarray(block).view(np.int32).reshape(block.shape[0], 1 + size)
    count = (words[:, 0] & 0xFFFF)[:, None]
    return np.where(np.arange(size) < count, words[:, 1:], -1).astype(np.int32)


def _arrays(
    base: NDArray[np.int32], upper: NDArray[np.int32], starts: NDArray[np.int64],
    n: int, entry: int, top: int, m: int, ef: int,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    numbers = np.array([n, entry, top, m, max(ef, m)], np.int64)
    return {"base": base, "upper": upper, "upper_start": starts, "numbers": numbers}


_REFUSED = (
    "This is not an index file of hnswlib 0.5 to 0.8, or it was cut off. Give the file that "
    "index.save_index(path) wrote, or the index itself."
)
