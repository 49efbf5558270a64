"""Peers of HybridLatentODE: the neural ODE in the state space, and its parameter count.

It has the field, the curriculum, the optimiser, the free-run selection and the compiled rollout of
ours; it lacks encoder and decoder. The rollout agrees with torchdiffeq's to rounding
(hybrid_speed.py); torchdiffeq itself would only be slower.
"""

from typing import Any

import numpy as np
import torch

from foretell.dynamics.hybrid.latent_model import LatentModel, Shape, n_substeps
from foretell.dynamics.hybrid.losses import weighted_mean
from foretell.dynamics.hybrid.modules import NetworkField
from foretell.dynamics.hybrid.rollout import roll_out
from foretell.dynamics.module_task import ModuleTask, module_arrays, seeded
from foretell.train import train

torch.set_num_threads(1)


class FieldModel(LatentModel):
    """A field whose latent space is the state space."""

    def __init__(self, shape: Shape, arrays: dict[str, Any]) -> None:
        from foretell.dynamics.hybrid.latent_model import _layers

        self.shape, self.head = shape, 0
        self._field = _layers(arrays, "", shape.n_layers)

    def encode(self, x):
        return x

    def decode(self, z):
        return z

    def with_head(self, head: int):
        return self


def neural_ode(prepared: Any, settings: Any, hidden: int) -> FieldModel:
    """Fit the field of the standardised columns to the windows of ``prepared``."""
    n = prepared.low.size
    shape = Shape(n, n, 0, hidden, 2, (1,))
    field: Any = seeded(lambda: NetworkField(shape), settings.seed)

    def loss(step: int, generator: np.random.Generator):
        batch = prepared.drawer.draw(settings.horizon(step), settings.batch_size, generator)
        x = torch.from_numpy(batch.x)
        seen = torch.isfinite(x).float()
        x = torch.nan_to_num(x)
        run = roll_out(field, x[0], torch.from_numpy(batch.dt), None,
                       n_substeps(batch.dt.max(axis=1), settings.substeps))  # fmt: skip
        return weighted_mean((run[1:] - x[1:]) ** 2, seen[1:])

    task = ModuleTask(
        field, loss, n_steps=settings.n_updates, lr=settings.lr, final_lr=settings.final_lr,
        clip=settings.grad_clip, seed=settings.seed,
    )  # fmt: skip

    def score() -> float:
        return -prepared.free_runs.errors(FieldModel(shape, module_arrays(field)))[0]

    train(task, settings.n_updates, score=score, n_scores=20)
    return FieldModel(shape, module_arrays(field))


def n_parameters(arrays: dict[str, Any]) -> int:
    return int(sum(np.size(a) for a in arrays.values()))


def width_for(n_columns: int, n_inputs: int, parameters: int) -> int:
    """Width of a field with two hidden layers that has about so many parameters."""
    widths = np.arange(8, 600)
    counts = widths * (n_columns + n_inputs + 1) + widths * (widths + 1) + (widths + 1) * n_columns
    return int(widths[np.abs(counts - parameters).argmin()])
