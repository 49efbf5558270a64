"""Conditional flow matching: noise is carried to the next state along a learned velocity."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foretell.dynamics.lifting.checks import check_whole
from foretell.dynamics.lifting.law_sampler import LawSampler
from foretell.dynamics.lifting.network_sampler import Batch, Floats, evaluate, squared_error
from foretell.dynamics.lifting.networks import Design

Array = NDArray[np.float64]

_WAVES = 4


class FlowMatchingTransition(LawSampler):
    """Next states by flow matching on the increment, given the state: many evaluations a step.

    It stands for samplers that refine in many evaluations, such as conditional diffusion.

    Parameters
    ----------
    n_evaluations : int
        Euler steps from noise to a draw.
    history, backbone, width, depth, periodic, increments, dt_feature, max_steps, batch_size, lr,
    final_lr, weight_decay, validation, random_state
        As in ``StochasticLifting``. The parameters with the best held-out loss are kept.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> model = FlowMatchingTransition(n_evaluations=5, width=16, max_steps=100, random_state=0)
    >>> _ = model.fit_transitions(x, 0.5 * x + 0.1 * rng.normal(size=x.shape), np.arange(500))
    >>> model.sample_next([1.0], 500, 0).shape
    (1, 500, 1)
    """

    citations: ClassVar[tuple[str, ...]] = ("flow-matching",)
    network: ClassVar[str] = "velocity"

    def __init__(
        self,
        *,
        n_evaluations: int = 20,
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
        self.n_evaluations = n_evaluations

    @property
    def evaluations_per_step(self) -> int:
        """Network evaluations for one step of a run."""
        return int(self.n_evaluations)

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        super()._check_parameters(shape)
        check_whole(self, "n_evaluations", 1)

    def _law(self) -> Design:
        return self._design(2 * _WAVES, n_frames=int(self.history) + 1)

    def _loss(self, network: nn.Module, batch: Batch, rng: np.random.Generator) -> Tensor:
        end = batch.target
        begin = torch.from_numpy(rng.standard_normal(end.shape, dtype=np.float32))
        t = rng.random((len(batch), 1), dtype=np.float32)
        share = torch.from_numpy(t)
        between = (1 - share) * begin + share * end
        frames = torch.cat([batch.past, between[:, None]], dim=1)
        found = network(frames, batch.context, torch.from_numpy(_waves(t)))
        return squared_error(found, end - begin)

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        R, _, n = past.shape
        z, steps = rng.standard_normal((R, n)), int(self.n_evaluations)
        for k in range(steps):
            label = np.repeat(_waves(np.full((1, 1), k / steps, dtype=np.float32)), R, axis=0)
            frames = np.concatenate([past, z[:, None]], axis=1)
            z = z + evaluate(self.networks_["velocity"], frames, context, label) / steps
        return z


def _waves(t: Floats) -> Floats:
    """Time in [0, 1] as sines and cosines of rising frequency, (B, 8)."""
    angle = t * (np.pi * 2.0 ** np.arange(_WAVES, dtype=np.float32) / 2.0)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
