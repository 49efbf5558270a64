"""A network for mean and width of the next state, every number on its own: the plain choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foretell.dynamics.lifting.network_sampler import Batches, NetworkSampler, evaluate, no_label
from foretell.dynamics.lifting.networks import Design
from foretell.dynamics.lifting.phases import Look, Phase
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import Transitions

Array = NDArray[np.float64]

_LEAST = -7.0  # log of the smallest standard deviation


class GaussianTransition(NetworkSampler):
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

    def _networks(self) -> dict[str, Design]:
        return {"law": self._design(0, n_outputs=2)}

    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        module = self._build(self._networks()["law"], 0)
        data, size = self._batches(fitted), int(self.batch_size)
        judged = self._batches(held) if len(held) else data

        def likelihood(batch: Batches, rows: Any) -> Tensor:
            n = batch.target.shape[1]
            out = module(batch.past[rows], batch.context[rows], torch.zeros(len(rows), 0))
            mean, log_width = out[:, :n], torch.clamp(out[:, n:], _LEAST)
            away = (batch.target[rows] - mean) * (-log_width).exp()
            loss: Tensor = (log_width + 0.5 * away**2).mean()
            return loss

        def look() -> Look:
            with torch.no_grad():
                return Look(-float(likelihood(judged, np.arange(min(len(judged), 1000)))))

        def begin() -> Any:
            return self._task(module, lambda _, g: likelihood(data, data.rows(g, size)),
                              int(self.max_steps), 0)  # fmt: skip

        phase = Phase("law", int(self.max_steps), begin, look, keep_best=bool(len(held)))
        self._run_phases([phase], training)
        self.networks_ = {"law": module}

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        out = evaluate(self.networks_["law"], past, context, no_label(len(past)))
        n = out.shape[1] // 2
        width = np.exp(np.maximum(out[:, n:], _LEAST))
        return np.asarray(out[:, :n] + width * rng.standard_normal((len(out), n)))
