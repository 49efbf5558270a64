"""What the samplers with a single network share: one loss, one training, the best look kept."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from foretell.dynamics.lifting.network_sampler import Batch, NetworkSampler
from foretell.dynamics.lifting.networks import Design
from foretell.dynamics.lifting.phases import Look, Phase
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import Transitions


class LawSampler(NetworkSampler):
    """Base of GaussianTransition, EngressionTransition and FlowMatchingTransition."""

    network: ClassVar[str] = "law"
    looked_at: ClassVar[int] = 400  # held-out transitions in a look at the training
    looks: ClassVar[int] = 2  # draws of chance in one

    @abstractmethod
    def _law(self) -> Design:
        """The network."""

    @abstractmethod
    def _loss(self, network: nn.Module, batch: Batch, rng: np.random.Generator) -> Tensor:
        """What is made small."""

    def _networks(self) -> dict[str, Design]:
        return {self.network: self._law()}

    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        design = self._law()
        if design.label_dim:
            self.label_dim_ = design.label_dim
        module, steps = self._build(design, 0), int(self.max_steps)
        data, size = self._batch(fitted), int(self.batch_size)
        judged = (self._batch(held) if len(held) else data).take(slice(0, self.looked_at))

        def look() -> Look:
            generator = np.random.default_rng(self._seed(50))
            with torch.no_grad():
                values = [float(self._loss(module, judged, generator)) for _ in range(self.looks)]
            return Look(-float(np.mean(values)))

        def loss(_: int, generator: np.random.Generator) -> Tensor:
            return self._loss(module, data.drawn(generator, size), generator)

        phase = Phase(self.network, steps, lambda: self._task(module, loss, steps, 0), look,
                      keep_best=bool(len(held)))  # fmt: skip
        self._run_phases([phase], training)
        self.networks_ = {self.network: module}
