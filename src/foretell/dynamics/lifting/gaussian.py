"""A network for mean and width of the next state, every number on its own: the plain choice."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foretell.dynamics.lifting.law_sampler import LawSampler
from foretell.dynamics.lifting.network_sampler import Batch, evaluate, no_label
from foretell.dynamics.lifting.networks import Design

Array = NDArray[np.float64]

_LEAST = -7.0  # log of the smallest standard deviation


class GaussianTransition(LawSampler):
    """Next states from a Gaussian with learned mean and diagonal width (maximum likelihood).

    The best choice for a few variables with small steps, where one step of a diffusion is
    Gaussian; on fields its noise has no correlation in space.

    Parameters
    ----------
    history, backbone, width, depth, periodic, increments, dt_feature, max_steps, batch_size, lr,
    final_lr, weight_decay, validation, random_state
        As in ``StochasticLifting``. The parameters with the best held-out likelihood are kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> model = GaussianTransition(width=16, max_steps=400, random_state=0)
    >>> _ = model.fit_transitions(x, 0.5 * x + 0.1 * rng.normal(size=x.shape), np.arange(500))
    >>> bool(abs(model.sample_next([1.0], 500, 0).std() - 0.1) < 0.05)
    True
    """

    looked_at: ClassVar[int] = 1000
    looks: ClassVar[int] = 1

    def _law(self) -> Design:
        return self._design(0, n_outputs=2)

    def _loss(self, network: nn.Module, batch: Batch, rng: np.random.Generator) -> Tensor:
        n = batch.target.shape[1]
        out = network(batch.past, batch.context, torch.zeros(len(batch), 0))
        mean, log_width = out[:, :n], torch.clamp(out[:, n:], _LEAST)
        away = (batch.target - mean) * (-log_width).exp()
        loss: Tensor = (log_width + 0.5 * away**2).mean()
        return loss

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        out = evaluate(self.networks_["law"], past, context, no_label(len(past)))
        n = out.shape[1] // 2
        width = np.exp(np.maximum(out[:, n:], _LEAST))
        return np.asarray(out[:, :n] + width * rng.standard_normal((len(out), n)))
