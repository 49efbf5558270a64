"""The loop of `scan` for many codes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def look_up(
    codes: NDArray[np.uint8], tables: NDArray[np.float32], scores: NDArray[np.float32]
) -> None:
    """Sum the table entry (B, 256) of every byte of a code (n, B), in float32."""
    n, n_bytes = codes.shape
    for i in range(n):
        total = np.float32(0.0)
        for b in range(n_bytes):
            total += tables[b, codes[i, b]]
        scores[i] = total
