"""Exact sums of gradients where they are made: the integers of ``exact`` as tensors of a device.

The same bits as on the CPU, since both round a product of two float64 to the even one of two whole
numbers, add in 64 bits and divide in float64. Only the words at the front go to the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import MissingExtraError
from foretell.train.stacked.exact import BEYOND, N_WORDS, NOT_FINITE, UnitSum

try:
    import torch
except ImportError as error:
    raise MissingExtraError("torch", "learn", "add up gradients on a device") from error

_AT_ONCE = 1 << 24  # values; as many float64 and int64 are in the memory of the device


class DeviceSum(UnitSum):
    """``UnitSum`` for gradients that are tensors of a device.

    Parameters
    ----------
    n_parameters : int
        Length of a gradient.
    device : torch.device
        Where gradients are.
    settings
        Those of ``UnitSum``.

    Examples
    --------
    >>> from foretell.train import Gradient
    >>> total = DeviceSum(2, torch.device("cpu"), n_units=2)
    >>> for x in (0.1, 0.2): _ = total.add(Gradient(0.0, torch.tensor([x, -x])))
    >>> mean = torch.empty(2)
    >>> total.tell(reform=False, stop=False, plan=0)
    >>> total.take([(0, total.buffer)], mean).weight, mean
    (2.0, tensor([ 0.1500, -0.1500]))
    """

    def __init__(self, n_parameters: int, device: torch.device, **settings: Any) -> None:
        self._device = device
        super().__init__(n_parameters, **settings)

    def _room(self, dtype: np.dtype[Any]) -> tuple[Any, NDArray[Any]]:
        words = np.zeros(N_WORDS, dtype=dtype)
        kind = torch.from_numpy(words).dtype
        return torch.zeros(N_WORDS + self._size, dtype=kind, device=self._device), words

    def _flat(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(values, device=self._device)

    def _add(self, values: Any, weight: float, fresh: bool) -> tuple[int, int]:
        limit = self.limit * self.scale if self.exact else float("inf")
        parts = zip(values.split(_AT_ONCE), self.buffer[N_WORDS:].split(_AT_ONCE), strict=True)
        for n, (given, total) in enumerate(parts):
            x = given.double() * (weight * self.scale) if self.exact else given.float() * weight
            bad = ~(x.abs() < limit)
            if bool(bad.any()):
                at = int(bad.to(torch.uint8).argmax())
                fault = BEYOND if bool(x[at].isfinite()) else NOT_FINITE
                return n * _AT_ONCE + at, fault
            whole = x.round_().to(torch.int64) if self.exact else x
            if fresh:
                total.copy_(whole)
            else:
                total.add_(whole)
        return -1, 0

    def _write_words(self) -> None:
        self.buffer[:N_WORDS].copy_(torch.from_numpy(self.words))

    def _words_of(self, total: Any) -> NDArray[Any]:
        found: NDArray[Any] = total[:N_WORDS].cpu().numpy()
        return found

    def _divide(self, values: Any, divisor: float, out: Any) -> None:
        for given, mean in zip(
            values.split(_AT_ONCE), out[: len(values)].split(_AT_ONCE), strict=True
        ):
            mean.copy_(given.double() / divisor)
