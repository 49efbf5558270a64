"""Standard normal numbers that are a pure function of a key: the same on every machine, for ever.

NumPy promises the raw stream of a bit generator, and not what ``standard_normal`` makes of it; a
saved memory must be readable by a later NumPy. So: raw Philox words, and Box-Muller on top.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def hashed_normals(keys: Sequence[int], stream: int, count: int) -> Array:
    """Normal numbers for each key.

    Parameters
    ----------
    keys : sequence of int
        64-bit keys.
    stream : int
        Different streams of one key are independent.
    count : int
        Numbers for each key.

    Returns
    -------
    array of shape (len(keys), count)

    Examples
    --------
    >>> hashed_normals([5], 0, 2).round(4)
    array([[-0.663 , -0.4238]])
    """
    half = (count + 1) // 2
    raw = np.empty((len(keys), 2 * half), dtype=np.uint64)
    generator = np.random.Philox(key=np.array([0, stream], dtype=np.uint64))
    fresh = generator.state
    for row, key in enumerate(keys):
        fresh["state"]["key"][0] = key
        generator.state = fresh
        raw[row] = generator.random_raw(2 * half)
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:, :half]))
    angle = 2.0 * np.pi * uniform[:, half:]
    return np.hstack([radius * np.cos(angle), radius * np.sin(angle)])[:, :count]


def hash_key(seed: int, purpose: bytes, content: bytes) -> int:
    """A 64-bit key from a seed and some bytes."""
    start = seed.to_bytes(8, "little") + len(purpose).to_bytes(1, "little") + purpose
    return int.from_bytes(hashlib.blake2b(start + content).digest()[:8], "little")
