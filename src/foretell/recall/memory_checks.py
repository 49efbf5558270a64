"""What every memory refuses at once: impossible arguments, weights and vocabularies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.recall.vocabulary import Symbol, Vocabulary

Array = NDArray[np.float64]
Beyond = Literal["refuse", "warn"]


def as_vocabulary(
    given: Vocabulary | Iterable[Symbol] | None, order: int, dim: int, seed: int, tied: bool
) -> Vocabulary:
    """The vocabulary of a memory: learned as it goes, made from symbols, or taken as it is."""
    if given is None:
        return Vocabulary(order=order, dim=dim, seed=seed, tied=tied, growing=True)
    if not isinstance(given, Vocabulary):
        return Vocabulary(given, order=order, dim=dim, seed=seed, tied=tied)
    if (given.order, given.dim) != (order, dim):
        raise ParameterError(
            f"The vocabulary has {given.order} components of {given.dim} numbers; needed are "
            f"{order} of {dim}. Make it with Vocabulary(symbols, order={order}, dim={dim})."
        )
    return given


def checked_weights(weights: Sequence[float]) -> Array:
    """Weights as an array, if all are finite and none is 0."""
    array = np.asarray(weights, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(array) | (array == 0))
    if bad.size:
        raise ParameterError(
            f"weight {array[bad[0]]} of fact {bad[0]} is not a finite number other than 0. "
            "Leave the fact out, or give it weight 1."
        )
    return array


def check_common(accuracy: float, capacity: int | None, beyond: str, dtype: Any, seed: int) -> None:
    """Refuse arguments that no memory can have."""
    if not (isinstance(accuracy, (int, float)) and 0 < accuracy < 1):
        raise ParameterError(f"accuracy={accuracy!r} is not between 0 and 1. Write accuracy=0.99.")
    whole = isinstance(capacity, (int, np.integer)) and not isinstance(capacity, bool)
    if capacity is not None and (not whole or capacity < 1):
        raise ParameterError(f"capacity={capacity!r} is not a whole number >= 1 or None.")
    if beyond not in ("refuse", "warn"):
        raise ParameterError(f'beyond={beyond!r} is neither "refuse" nor "warn".')
    try:
        usable = np.dtype(dtype) in (np.dtype(np.float32), np.dtype(np.float64))
    except TypeError:
        usable = False
    if not usable:
        raise ParameterError(
            f"dtype={dtype!r} is neither float32 nor float64: sums of many facts lose the small "
            'ones in fewer bits. To ship a smaller copy, write save(path, precision="float16").'
        )
    whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**64:
        raise ParameterError(f"seed={seed!r} is not a whole number from 0 to 2**64 - 1.")
