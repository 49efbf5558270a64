"""Sums of gradients that do not depend on who computed what: fixed point in 64-bit integers.

A floating-point sum depends on its order, and the order on who is alive. Here every unit gradient g
of weight w is rounded once, to v = round(w g 2^b); integers are added, which is associative, and
the mean gradient is v / 2^b / (sum of weights). The quantum 2^-40 is about 1e-12. A unit may be as
large as 2^(62 - b) / units, beyond which the sum could leave 64 bits; larger ones are refused.

A buffer begins with a few words that are added up along with the gradient: how many units it
holds, their weight and loss, and what the workers want to tell each other at the end of a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.train.task import Gradient

Buffer = Any  # a NumPy array, or a tensor where gradients are added up on a device

_WEIGHT_BITS, _LOSS_BITS = 20, 24
_LARGEST_LOSS = 2.0**36
NOT_FINITE, BEYOND = 1, 2  # what is wrong with a value that cannot be added: a guard is exceeded
_BLOCK = 4096  # values that stay in the nearest memory between two looks at them
_SHIFT = 1.5 * 2.0**52  # adding it rounds to a whole number, which its last 51 bits then hold
_SHIFTED = int(np.float64(_SHIFT).view(np.int64))
_NEAR = 2.0**51


class Word(IntEnum):
    """The words at the front of a buffer."""

    UNITS = 0
    WEIGHT = 1
    LOSS = 2
    NOT_FINITE = 3
    BEYOND = 4
    REFORM = 5
    STOP = 6
    PLAN = 7


N_WORDS = len(Word)


@dataclass(frozen=True)
class StepSum:
    """What the workers added up in one step.

    Parameters
    ----------
    units, not_finite, beyond : int
        Units in the sum, those without a finite gradient, those above the guard.
    weight, loss : float
        Sum of the weights, and the mean loss.
    reform, stop : bool
        Whether some worker wants a new view, or the end.
    plan : int
        Sum of the checksums of everybody's plan.
    """

    units: int
    weight: float
    loss: float
    not_finite: int
    beyond: int
    reform: bool
    stop: bool
    plan: int


class UnitSum:
    """Adds up the units of a worker; exact, or in the floating-point type of the gradient.

    Parameters
    ----------
    n_parameters : int
        Length of a gradient.
    n_units : int
        Units of a whole step, of which the guard depends.
    scale_bits : int
        b.
    exact : bool
        Whether to add integers. Without it sums are those of float32, as in plain data-parallel
        training: half the traffic, and other bits after a failure.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.train import Gradient
    >>> one, two = (UnitSum(2, n_units=3) for _ in range(2))
    >>> g = [Gradient(0.0, np.array([x, -x])) for x in (0.1, 0.2, 0.3)]
    >>> for k in (0, 1, 2): _ = one.add(g[k])
    >>> for k in (2, 0, 1): _ = two.add(g[k])
    >>> bool((one.buffer == two.buffer).all()), one.mean(one.buffer)
    (True, array([ 0.2, -0.2]))
    """

    def __init__(
        self, n_parameters: int, *, n_units: int, scale_bits: int = 40, exact: bool = True
    ) -> None:
        if not 8 <= scale_bits <= 56:
            raise ParameterError(
                f"scale_bits={scale_bits!r}; needed is a whole number from 8 to 56, for instance "
                "scale_bits=40: gradients are then rounded to 2^-40."
            )
        self.exact, self.scale = exact, 2.0**scale_bits
        self.limit = 2.0 ** (62 - scale_bits) / max(n_units, 1)
        self._size, dtype = n_parameters, np.dtype(np.int64 if exact else np.float32)
        self.buffer, self.words = self._room(dtype)
        self._fresh = False  # whether the buffer still holds the values of the last step

    def clear(self) -> None:
        """Start a sum; the first unit overwrites what the last step has left."""
        self.words[:] = 0
        self._fresh = True

    def move_to(self, room: Buffer) -> None:
        """Add up in other memory from now on: an array as long as the buffer, of its type."""
        room[:] = self.buffer
        self.buffer, self.words = room, room[:N_WORDS]

    def add(self, gradient: Gradient) -> int:
        """Add one unit; returns -1, or the index of a value that could not be added."""
        words, values = self.words, self._flat(gradient.values)
        if tuple(values.shape) != (self._size,):
            raise ParameterError(
                f"a unit gave a gradient of shape {tuple(values.shape)}, and the parameters have "
                f"({self._size},). Every unit must give the derivative by every parameter."
            )
        weight = float(gradient.weight)
        if not (math.isfinite(weight) and weight > 0):
            raise ParameterError(
                f"a unit has the weight {gradient.weight!r}; needed is a finite number above 0."
            )
        words[Word.UNITS] += 1
        if not math.isfinite(gradient.loss):
            words[Word.NOT_FINITE] += 1
            return 0
        fresh, self._fresh = self._fresh, False
        at, fault = self._add(values, weight, fresh)
        if self.exact:
            words[Word.WEIGHT] += round(weight * 2**_WEIGHT_BITS)
            loss = min(max(weight * gradient.loss, -_LARGEST_LOSS), _LARGEST_LOSS)
            words[Word.LOSS] += round(loss * 2**_LOSS_BITS)
        else:
            words[Word.WEIGHT] += np.float32(weight)
            words[Word.LOSS] += np.float32(weight * gradient.loss)
        if fault:
            words[Word.BEYOND if fault == BEYOND else Word.NOT_FINITE] += 1
        return int(at)

    def tell(self, *, reform: bool, stop: bool, plan: int) -> None:
        """Write what this worker wants to say with its sum, which is then complete."""
        if self._fresh:  # no unit of this step is ours
            self.buffer[N_WORDS:] = 0
            self._fresh = False
        self.words[Word.REFORM], self.words[Word.STOP] = int(reform), int(stop)
        self.words[Word.PLAN] = plan
        self._write_words()

    def read(self, total: Buffer) -> StepSum:
        """The words of a sum over workers."""
        words = self._words_of(total)
        weight, loss = float(words[Word.WEIGHT]), float(words[Word.LOSS])
        if self.exact:
            weight, loss = weight / 2**_WEIGHT_BITS, loss / 2**_LOSS_BITS
        return StepSum(
            units=int(words[Word.UNITS]),
            weight=weight,
            loss=loss / weight if weight else math.nan,
            not_finite=int(words[Word.NOT_FINITE]),
            beyond=int(words[Word.BEYOND]),
            reform=bool(words[Word.REFORM]),
            stop=bool(words[Word.STOP]),
            plan=int(words[Word.PLAN]),
        )

    def mean(self, total: Buffer, dtype: Any = np.float64) -> NDArray[np.floating]:
        """The weighted mean gradient that a sum over workers stands for."""
        out = np.empty(self._size, dtype=dtype)
        if not self.take([(0, total)], out).weight:
            raise NumericalError("a step without units has no mean gradient.")
        return out

    def take(self, parts: Iterable[tuple[int, Buffer]], out: NDArray[np.floating]) -> StepSum:
        """Turn a sum over workers into the mean gradient while it arrives.

        Parameters
        ----------
        parts : iterable of (int, array)
            Places in the buffer and what comes there, in order; the words are in the first one.
        out : array of float (parameters,)
            Gets the mean; as it was where no unit has a weight.
        """
        found: StepSum | None = None
        for start, part in parts:
            values = part
            if found is None:
                found, values, start = self.read(part), part[N_WORDS:], N_WORDS
                divisor = found.weight * (self.scale if self.exact else 1.0)
            if divisor:
                self._divide(values, divisor, out[start - N_WORDS :])
        assert found is not None
        return found

    # What a sum that lives elsewhere does in its own way.
    def _room(self, dtype: np.dtype[Any]) -> tuple[Buffer, Buffer]:
        """The buffer, and the words at its front."""
        buffer = np.zeros(N_WORDS + self._size, dtype=dtype)
        return buffer, buffer[:N_WORDS]

    def _flat(self, values: Any) -> Any:
        return np.asarray(values)

    def _add(self, values: Any, weight: float, fresh: bool) -> tuple[int, int]:
        """Add values to the buffer; where they could not be, and which fault it is, or (-1, 0)."""
        total = self.buffer[N_WORDS:]
        if self.exact:
            factor, limit = weight * self.scale, self.limit * self.scale
            return _add_exactly(total, values, factor, limit, fresh)  # type: ignore[no-any-return]
        return _add_plainly(total, values, np.float32(weight), fresh)  # type: ignore[no-any-return]

    def _write_words(self) -> None:
        """Bring the words into the buffer, of which they are a part here."""

    def _words_of(self, total: Buffer) -> Buffer:
        return total[:N_WORDS]

    def _divide(self, values: Any, divisor: float, out: Any) -> None:
        _divided(values, divisor, out)


@njit(cache=True, nogil=True)
def _add_exactly(total, values, factor, limit, fresh):  # type: ignore[no-untyped-def]
    """Add round(factor * values) to integers; (index, kind) of the first value that cannot be.

    A block whose values are all moderate is added without a branch, by the usual trick: x + 1.5 *
    2^52 is rounded to a whole number, to the even one of two, and its bits count up from there.
    """
    near = min(limit, _NEAR)
    for start in range(0, values.size, _BLOCK):
        v, t = values[start : start + _BLOCK], total[start : start + _BLOCK]
        far = np.int64(0)
        for n in range(v.size):
            far += np.int64(not abs(np.float64(v[n]) * factor) < near)
        if far:
            if fresh:
                total[start:] = 0
                fresh = False
            for n in range(v.size):
                x = np.float64(v[n]) * factor
                if not abs(x) < limit:
                    return start + n, 2 if np.isfinite(x) else 1
                t[n] += np.int64(np.rint(x))
        elif fresh:
            for n in range(v.size):
                t[n] = np.float64(np.float64(v[n]) * factor + _SHIFT).view(np.int64) - _SHIFTED
        else:
            for n in range(v.size):
                t[n] += np.float64(np.float64(v[n]) * factor + _SHIFT).view(np.int64) - _SHIFTED
    return -1, 0


@njit(cache=True, nogil=True)
def _add_plainly(total, values, weight, fresh):  # type: ignore[no-untyped-def]
    if fresh:
        total[:] = 0
    for n in range(values.size):
        x = np.float32(values[n]) * weight
        if not np.isfinite(x):
            return n, 1
        total[n] += x
    return -1, 0


@njit(cache=True, nogil=True)
def _divided(total, divisor, out):  # type: ignore[no-untyped-def]
    for n in range(total.size):
        out[n] = total[n] / divisor
