"""Calendar stamps as numbers: dates that look like numbers, and the unit to count them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError

Array = NDArray[np.float64]

NANOSECONDS = {"s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_FEWEST = 10  # rows; fewer numbers may be dates by accident
_FROM, _TO = 946_684_800, 4_102_444_800  # seconds since 1970 of the years 2000 and 2100


def dates_in_numbers(stamps: Array | None) -> NDArray[np.int64] | None:
    """Nanoseconds since 1970 of dates written as numbers.

    Known are 20240531, 202405311345 and that with seconds, and seconds, milliseconds, microseconds
    or nanoseconds since 1970 where all are between the years 2000 and 2100. None where the numbers
    are no such dates.

    Examples
    --------
    >>> days = dates_in_numbers(20240520.0 + np.arange(12))
    >>> (days - days[0]) / NANOSECONDS["d"]
    array([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.])
    >>> dates_in_numbers(20240525.0 + np.arange(12)) is None
    True
    """
    if stamps is None or stamps.size < _FEWEST or not np.isfinite(stamps).all():
        return None
    found = _written(stamps)
    return _since_1970(stamps) if found is None else found


def _since_1970(stamps: Array) -> NDArray[np.int64] | None:
    for scale in (10**9, 10**6, 10**3, 1):
        if (stamps >= _FROM * (10**9 // scale)).all() and (stamps < _TO * (10**9 // scale)).all():
            whole = np.floor(stamps)
            rest = np.rint((stamps - whole) * scale)
            return whole.astype(np.int64) * scale + rest.astype(np.int64)
    return None


def _written(stamps: Array) -> NDArray[np.int64] | None:
    for digits in (8, 12, 14):
        if (stamps >= 17 * 10 ** (digits - 2)).all() and (stamps < 23 * 10 ** (digits - 2)).all():
            break
    else:
        return None
    texts = stamps.astype(np.int64).astype(f"U{digits}")
    if (stamps % 1 != 0).any():
        return None
    pieces = [(0, 4, ""), (4, 6, "-"), (6, 8, "-"), (8, 10, "T"), (10, 12, ":"), (12, 14, ":")]
    written = _joined(texts, pieces[: 3 + (digits - 8) // 2])
    try:
        return written.astype("datetime64[ns]").astype(np.int64)
    except ValueError:  # month 13, 31 February
        return None


def _joined(texts: NDArray[Any], pieces: Sequence[tuple[int, int, str]]) -> NDArray[Any]:
    """Digits ``start`` to ``stop`` of each text, a sign before each piece."""
    letters = texts.view("U1").reshape(texts.size, -1)
    whole = np.full(texts.size, "", dtype="U19")
    for start, stop, sign in pieces:
        part = np.ascontiguousarray(letters[:, start:stop]).view(f"U{stop - start}").ravel()
        whole = np.char.add(np.char.add(whole, sign), part)
    return whole


def calendar_unit(ticks: Sequence[NDArray[np.int64]], asked: str) -> str:
    """The unit in which calendar stamps are counted.

    Parameters
    ----------
    ticks : sequence of (T,) int arrays
        Nanoseconds, one array for each recording.
    asked : str
        ``s``, ``min``, ``h`` or ``d``; ``auto`` takes the largest that is at most twice the
        median interval.

    Raises
    ------
    DataError
        Another unit.
    """
    if asked in NANOSECONDS:
        return asked
    if asked != "auto":
        raise DataError(
            f"calendar_unit is {asked!r}; calendar stamps are counted in s, min, h or d, or with "
            "'auto' in the one that suits the median interval."
        )
    steps = np.concatenate([np.diff(np.sort(t)) for t in ticks])
    median = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    fitting = [unit for unit, length in NANOSECONDS.items() if length <= 2 * median]
    return fitting[-1] if fitting else "s"
