"""Scores of packed codes by table look-up.

A score is a sum over the bits of a code, sum_j w_j b_j with b_j = +1 or -1. All 256 patterns of a
byte are summed once for each query, and a code then costs one look-up for each byte.

    n   codes    m   bits    B   bytes of a code
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core import DataError

Codes = NDArray[np.uint8]
Array = NDArray[np.float64]
Single = NDArray[np.float32]


def byte_tables(weights: Array, bit_order: str = "little") -> Single:
    """Sums (B, 256) of the signed weights for every value of every byte.

    Parameters
    ----------
    weights : array (m,)
        Weight of each bit; missing bits of the last byte weigh nothing.
    bit_order : {"little", "big"}
        Which bit of a byte comes first.

    Examples
    --------
    >>> import numpy as np
    >>> byte_tables(np.array([1.0, 10.0]))[0, :4].tolist()
    [-11.0, -9.0, 9.0, 11.0]
    """
    n_bytes = -(-weights.size // 8)
    padded = np.zeros(n_bytes * 8)
    padded[: weights.size] = weights
    values = np.arange(256, dtype=np.uint8)[:, None]
    signs = np.unpackbits(values, axis=1, bitorder=bit_order) * 2.0 - 1.0  # type: ignore[call-overload]
    tables: Single = (padded.reshape(n_bytes, 8) @ signs.T).astype(np.float32)
    return tables


def weighted_votes(codes: Codes, weights: Array, bit_order: str = "little") -> Single:
    """Sum_j w_j b_j of every code, by byte tables.

    Parameters
    ----------
    codes : array (n, B), uint8
    weights : array (m,)
    bit_order : {"little", "big"}

    Returns
    -------
    array (n,), float32

    Raises
    ------
    DataError
        When the codes are not packed bytes of that many bits.

    Examples
    --------
    >>> import numpy as np
    >>> codes = np.array([[0b01], [0b11]], dtype=np.uint8)
    >>> weighted_votes(codes, np.array([1.0, 10.0])).tolist()
    [-9.0, 11.0]
    """
    checked = checked_codes(codes, weights.size)
    scores = np.empty(checked.shape[0], np.float32)
    _look_up(checked, byte_tables(weights, bit_order), scores)
    return scores


def checked_codes(codes: Codes, n_bits: int) -> Codes:
    """The codes as a contiguous (n, B) array of bytes, or an error that says what is wrong."""
    array = np.asarray(codes)
    width = -(-n_bits // 8)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
        raise DataError(
            f"The codes have type {array.dtype} and shape {array.shape}; {n_bits} bits need uint8 "
            f"and (n, {width}). Pack signs with numpy.packbits(signs, axis=1, bitorder='little')."
        )
    return np.ascontiguousarray(array)


@njit(cache=True, nogil=True)
def _look_up(codes: Codes, tables: Single, scores: Single) -> None:
    n, n_bytes = codes.shape
    for i in range(n):
        total = np.float32(0.0)
        for b in range(n_bytes):
            total += tables[b, codes[i, b]]
        scores[i] = total
