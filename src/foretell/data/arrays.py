"""Bring what a user passes to `Trajectories.from_arrays` into one shape, with kind refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class RawArrays:
    """Copies of the arrays given, one per recording, shapes checked and contents not."""

    times: list[Array]
    values: list[Array]
    mask: list[BoolArray]
    controls: list[Array] | None
    names: tuple[str, ...]
    control_names: tuple[str, ...]
    labels: tuple[str, ...]
    time_unit: str


def prepare(
    values: Any,
    times: Any,
    controls: Any,
    mask: Any,
    names: Sequence[str] | None,
    control_names: Sequence[str] | None,
    labels: Sequence[str] | None,
) -> RawArrays:
    """Check shapes and names; copy everything."""
    several = _is_several(values)
    values_list = [_matrix(v, "values", i, several) for i, v in enumerate(_items(values, several))]
    if not values_list:
        raise DataError(
            "values holds no recording; give an array of shape (T, N) or a list of them."
        )
    widths = [v.shape[1] for v in values_list]
    for i, width in enumerate(widths):
        if width != widths[0]:
            raise DataError(
                f"Recording {i} has {width} columns and recording 0 has {widths[0]}; all "
                "recordings need the same variables. Add the missing columns or leave them out."
            )
    if widths[0] == 0:
        raise DataError("values has no column; give an array of shape (T, N) with N >= 1.")
    lengths = [v.shape[0] for v in values_list]
    stamps, time_unit = _times(times, lengths, several)
    masks = [np.ones(v.shape, dtype=np.bool_) for v in values_list]
    if mask is not None:
        masks = [
            _mask(m, v.shape)
            for m, v in zip(_paired(mask, "mask", lengths, several), values_list, strict=True)
        ]
    blocks = None
    if controls is not None:
        blocks = [
            _matrix(u, "controls", i, several)
            for i, u in enumerate(_paired(controls, "controls", lengths, several))
        ]
        for i, (u, n) in enumerate(zip(blocks, lengths, strict=True)):
            if u.shape[0] != n or u.shape[1] != blocks[0].shape[1]:
                raise DataError(
                    f"controls of recording {i} have shape {u.shape}; needed is one row per "
                    f"sample and one width everywhere: ({n}, {blocks[0].shape[1]})."
                )
    n_controls = 0 if blocks is None else blocks[0].shape[1]
    variable_names = _names(names, widths[0], "names", "x")
    input_names = _names(control_names, n_controls, "control_names", "u")
    both = set(variable_names) & set(input_names)
    if both:
        raise DataError(f"{sorted(both)[0]!r} names a variable and a control; rename one of them.")
    return RawArrays(
        stamps,
        values_list,
        masks,
        blocks,
        variable_names,
        input_names,
        _names(labels, len(values_list), "labels", "recording "),
        time_unit,
    )


def _is_several(values: Any) -> bool:
    """A 3-D array or a list of arrays is several recordings; a list of numbers is one."""
    if isinstance(values, np.ndarray):
        return values.ndim == 3
    if isinstance(values, list | tuple):
        if any(isinstance(v, np.ndarray) and v.ndim >= 1 for v in values):
            return True
        first = values[0] if values else None
        return (
            isinstance(first, list | tuple)
            and bool(first)
            and isinstance(first[0], list | tuple | np.ndarray)
        )
    return False


def _items(given: Any, several: bool) -> list[Any]:
    return list(given) if several else [given]


def _paired(given: Any, what: str, lengths: list[int], several: bool) -> list[Any]:
    items = _items(given, several)
    if len(items) != len(lengths):
        raise DataError(
            f"{what} has {len(items)} entries and there are {len(lengths)} recordings; give a list "
            "with one array per recording."
        )
    return items


def _matrix(given: Any, what: str, i: int, several: bool) -> Array:
    place = f"{what}[{i}]" if several else what
    try:
        array = np.array(given)
        if array.dtype.kind == "c":
            raise DataError(f"{place} is complex; give real and imaginary part as two columns.")
        array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{place} is not a table of numbers ({error}). Give an array of shape (T, N) whose "
            "rows all have the same length."
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise DataError(
            f"{place} has shape {array.shape}; needed is (T, N), or (T,) for one variable."
        )
    return array


def _mask(given: Any, shape: tuple[int, ...]) -> BoolArray:
    array = np.array(given)
    if array.dtype != np.bool_:
        raise DataError(f"mask has dtype {array.dtype}; needed is bool: mask=np.isfinite(values).")
    if array.ndim == 1:
        array = array[:, None]
    if array.shape != shape:
        raise DataError(f"mask has shape {array.shape} and values {shape}; they must agree.")
    return array


def _times(times: Any, lengths: list[int], several: bool) -> tuple[list[Array], str]:
    if times is None:
        return [np.arange(n, dtype=np.float64) for n in lengths], ""
    shared = several and not isinstance(times, list | tuple) and np.ndim(times) == 1
    items = [times] * len(lengths) if shared else _paired(times, "times", lengths, several)
    try:
        arrays = [np.array(t) for t in items]
    except ValueError as error:
        raise DataError(f"times is not one number per row ({error}).") from error
    for i, (t, n) in enumerate(zip(arrays, lengths, strict=True)):
        where = f"[{i}]" if several else ""
        if t.ndim != 1:
            raise DataError(f"times{where} has shape {t.shape}; needed is ({n},).")
        if t.size != n:
            raise DataError(
                f"times{where} has {t.size} entries and values{where} has {n} rows; every row "
                "needs one time stamp. Cut the longer one where they stop to agree: "
                f"[:{min(t.size, n)}]."
            )
    if any(t.dtype.kind == "M" for t in arrays):
        return seconds_from_first(arrays), "s"
    try:
        return [t.astype(np.float64) for t in arrays], ""
    except (ValueError, TypeError) as error:
        raise DataError(f"times must be numbers or datetime64 ({error}).") from error


def seconds_from_first(stamps: Sequence[NDArray[Any]]) -> list[Array]:
    """datetime64 stamps as seconds from the earliest of all recordings; NaT becomes NaN."""
    ticks = [t.astype("datetime64[ns]") for t in stamps]
    known = [t[~np.isnat(t)] for t in ticks]
    first = min((t.min() for t in known if t.size), default=np.datetime64(0, "ns"))
    seconds = []
    for t in ticks:
        difference = (t - first).astype(np.int64) / 1e9
        difference[np.isnat(t)] = np.nan
        seconds.append(difference)
    return seconds


def _names(given: Sequence[str] | None, count: int, argument: str, stem: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{stem}{i}" for i in range(count))
    if isinstance(given, str) or len(given) != count:
        given_count = 1 if isinstance(given, str) else len(given)
        raise DataError(
            f"{argument}={given!r} has {given_count} entries; needed are {count}, one per "
            f"{'recording' if argument == 'labels' else 'column'}."
        )
    names = tuple(str(g) for g in given)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(f"{argument}[{i}] repeats {name!r}; give every one its own name.")
    return names
