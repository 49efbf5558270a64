"""Scores of packed codes by table look-up.

A score is a sum over the bits of a code, sum_j w_j b_j with b_j = +1 or -1. All 256 patterns of a
byte are summed once for each query, and a code then costs one look-up for each byte.

    n   codes    m   bits    B   bytes of a code
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError

Codes = NDArray[np.uint8]
Array = NDArray[np.float64]
Single = NDArray[np.float32]
T = TypeVar("T", bound=np.generic)

_LITTLE = 1 << 16  # bytes to look up that are not worth loading compiled code for
_MOST = 32767


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
    tables = byte_tables(weights, bit_order)
    if checked.size <= _LITTLE:
        return table_sums(tables, checked, np.float32)
    from foretell.recall._look_up_kernel import look_up

    scores = np.empty(checked.shape[0], np.float32)
    look_up(checked, tables, scores)
    return scores


def table_sums(tables: NDArray[Any], codes: Codes, dtype: type[T]) -> NDArray[T]:
    """Sum (n,) of the table entries (B, 256) of each code (n, B), added byte by byte."""
    sums = np.zeros(len(codes), dtype)
    for table, column in zip(tables, codes.T, strict=True):
        sums += table[column]
    return sums


def rounded_tables(weights: Single, big: bool) -> tuple[NDArray[np.int16], Single]:
    """16-bit tables (q, B, 256) of weights (q, 8 B), and the steps (q,) that they are rounded to.

    The largest entry of a byte is the sum of its absolute weights, so the step is known before.
    """
    q = len(weights)
    parts = np.asarray(weights, np.float32).reshape(q, -1, 8)
    parts = parts[..., ::-1] if big else parts
    largest = np.abs(parts).sum(axis=2).max(axis=1, initial=0.0)
    steps = np.where(largest > 0, largest / np.float32(_MOST), np.float32(1)).astype(np.float32)
    scaled = parts / steps[:, None, None]
    sums = np.empty((*parts.shape[:2], 256), np.float32)
    sums[..., 0] = -scaled.sum(axis=2)
    for j in range(8):  # all patterns of the bits so far, then the same with bit j set
        size = 1 << j
        np.add(sums[..., :size], 2 * scaled[..., j, None], out=sums[..., size : 2 * size])
    return np.clip(np.rint(sums, out=sums), -_MOST, _MOST, out=sums).astype(np.int16), steps


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
