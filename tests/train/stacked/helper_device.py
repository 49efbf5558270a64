"""A task whose gradients are tensors and are added up where they are, as on a GPU."""

from __future__ import annotations

from typing import Any

import torch

from foretell.train import Gradient
from foretell.train.stacked.on_device import DeviceSum
from tests.train.stacked.helper_tasks import Regression


class OnDevice(Regression):
    """The regression of the other tests; its states must have the same bits."""

    def __init__(self, device: str = "cpu", **settings: Any) -> None:
        super().__init__(**settings)
        self.device = torch.device(device)
        self.gradient_room = torch.zeros(self.size, dtype=torch.float64, device=self.device)

    def unit_sum(self, n_parameters: int, **settings: Any) -> DeviceSum:
        return DeviceSum(n_parameters, self.device, **settings)

    def gradient(self, step: int, shard: int) -> Gradient:
        found = super().gradient(step, shard)
        values: Any = torch.from_numpy(found.values).to(self.device)
        return Gradient(found.loss, values, found.weight)

    def apply(self, step: int, gradient: Any) -> None:
        assert gradient is self.gradient_room
        super().apply(step, gradient.cpu().numpy().copy())


def regression(**settings: Any) -> OnDevice:
    return OnDevice(**settings)
