"""A network with noise as input, trained by the energy score (Shen and Meinshausen)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foretell.dynamics.lifting.checks import check_whole
from foretell.dynamics.lifting.law_sampler import LawSampler
from foretell.dynamics.lifting.network_sampler import Batch, evaluate
from foretell.dynamics.lifting.networks import Design

Array = NDArray[np.float64]


class EngressionTransition(LawSampler):
    """Next states from a network of state and fresh noise, trained by a proper score.

    Like lifting it needs one evaluation for a step. Unlike it, the noise is drawn anew for every
    update and the loss is the energy score of two draws, so that with enough data it finds the
    conditional law, two-peaked ones included; an update costs two passes.

    Parameters
    ----------
    noise_dim : int
        Numbers of noise.
    history, backbone, width, depth, periodic, increments, dt_feature, max_steps, batch_size, lr,
    final_lr, weight_decay, validation, random_state
        As in ``StochasticLifting``. The parameters with the best held-out energy score are kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> model = EngressionTransition(noise_dim=4, width=16, max_steps=200, random_state=0)
    >>> _ = model.fit_transitions(x, 0.5 * x + 0.1 * rng.normal(size=x.shape), np.arange(500))
    >>> model.sample_next([1.0], 500, 0).shape
    (1, 500, 1)
    """

    citations: ClassVar[tuple[str, ...]] = ("engression",)

    def __init__(
        self,
        *,
        noise_dim: int = 16,
        history: int = 1,
        backbone: Any = "mlp",
        width: int | str = "auto",
        depth: int | str = "auto",
        periodic: bool = True,
        increments: bool = True,
        dt_feature: bool | str = "auto",
        max_steps: int = 1500,
        batch_size: int = 64,
        lr: float = 1e-3,
        final_lr: float = 1e-5,
        weight_decay: float = 1e-4,
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            history=history, backbone=backbone, width=width, depth=depth, periodic=periodic,
            increments=increments, dt_feature=dt_feature, max_steps=max_steps,
            batch_size=batch_size, lr=lr, final_lr=final_lr, weight_decay=weight_decay,
            validation=validation, random_state=random_state,
        )  # fmt: skip
        self.noise_dim = noise_dim

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        super()._check_parameters(shape)
        check_whole(self, "noise_dim", 1)

    def _law(self) -> Design:
        return self._design(int(self.noise_dim))

    def _loss(self, network: nn.Module, batch: Batch, rng: np.random.Generator) -> Tensor:
        shape = 2 * len(batch), int(self.noise_dim)
        noise = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
        past, context = (torch.cat([x, x]) for x in (batch.past, batch.context))
        one, two = network(past, context, noise).tensor_split(2)
        near = _length(one - batch.target) + _length(two - batch.target)
        return 0.5 * (near - _length(one - two)).mean()

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        noise = rng.standard_normal((len(past), int(self.noise_dim)), dtype=np.float32)
        return evaluate(self.networks_["law"], past, context, noise)


def _length(x: Tensor) -> Tensor:
    return torch.sqrt((x**2).sum(dim=1) + 1e-12)
