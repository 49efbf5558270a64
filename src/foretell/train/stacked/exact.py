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
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.train.task import Gradient

Buffer = NDArray[Any]

_WEIGHT_BITS, _LOSS_BITS = 20, 24
_LARGEST_LOSS = 2.0**36
_BEYOND = 2  # what a kernel says of a value above the guard; 1 stands for one that is not finite


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
        dtype: Any = np.int64 if exact else np.float32
        self.buffer: Buffer = np.zeros(N_WORDS + n_parameters, dtype=dtype)

    def clear(self) -> None:
        """Start a sum."""
        self.buffer.fill(0)

    def renew(self) -> None:
        """Start a sum in new memory, since the old one may still be read by a lost connection."""
        self.buffer = np.zeros_like(self.buffer)

    def add(self, gradient: Gradient) -> int:
        """Add one unit; returns -1, or the index of a value that could not be added."""
        words, values = self.buffer[:N_WORDS], np.asarray(gradient.values)
        if values.shape != (self.buffer.size - N_WORDS,):
            raise ParameterError(
                f"a unit gave a gradient of shape {values.shape}, and the parameters have "
                f"({self.buffer.size - N_WORDS},). Every unit must give the derivative by every "
                "parameter."
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
        if self.exact:
            at, fault = _add_exactly(
                self.buffer[N_WORDS:], values, weight * self.scale, self.limit * self.scale
            )
            words[Word.WEIGHT] += round(weight * 2**_WEIGHT_BITS)
            loss = min(max(weight * gradient.loss, -_LARGEST_LOSS), _LARGEST_LOSS)
            words[Word.LOSS] += round(loss * 2**_LOSS_BITS)
        else:
            at, fault = _add_plainly(self.buffer[N_WORDS:], values, np.float32(weight))
            words[Word.WEIGHT] += np.float32(weight)
            words[Word.LOSS] += np.float32(weight * gradient.loss)
        if fault:
            words[Word.BEYOND if fault == _BEYOND else Word.NOT_FINITE] += 1
        return int(at)

    def tell(self, *, reform: bool, stop: bool, plan: int) -> None:
        """Write what this worker wants to say with its sum."""
        self.buffer[Word.REFORM], self.buffer[Word.STOP] = int(reform), int(stop)
        self.buffer[Word.PLAN] = plan

    def read(self, total: Buffer) -> StepSum:
        """The words of a sum over workers."""
        words = total[:N_WORDS]
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
        found = self.read(total)
        if not found.weight:
            raise NumericalError("a step without units has no mean gradient.")
        out = np.empty(total.size - N_WORDS, dtype=dtype)
        divisor = found.weight * (self.scale if self.exact else 1.0)
        _divided(total[N_WORDS:], divisor, out)
        return out


@njit(cache=True, nogil=True)
def _add_exactly(total, values, factor, limit):  # type: ignore[no-untyped-def]
    """Add round(factor * values) to integers; (index, kind) of the first value that cannot be."""
    for n in range(values.size):
        x = np.float64(values[n]) * factor
        if not abs(x) < limit:
            return n, 2 if np.isfinite(x) else 1
        total[n] += np.int64(np.rint(x))
    return -1, 0


@njit(cache=True, nogil=True)
def _add_plainly(total, values, weight):  # type: ignore[no-untyped-def]
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
