"""Train the networks of a HybridLatentODE with the shared loop.

The length of the rollouts grows in equal shares of the updates. What is kept is the state with the
smallest error of long free runs on held-out recordings, never the one with the smallest loss.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import MissingExtraError
from foretell.dynamics.hybrid.latent_model import LatentModel, Shape, n_substeps
from foretell.dynamics.hybrid.losses import collapse_losses, head_loss, weighted_mean
from foretell.dynamics.hybrid.modules import HybridNetworks
from foretell.dynamics.hybrid.rollout import roll_out, roll_out_eagerly
from foretell.dynamics.hybrid.scoring import FreeRuns
from foretell.dynamics.hybrid.settings import Settings
from foretell.dynamics.hybrid.windows import Batch, WindowDrawer
from foretell.dynamics.module_task import ModuleTask, module_arrays, one_thread, seeded
from foretell.train.loop import OnStep, TrainRun, train

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a HybridLatentODE") from error

_EVERY = 3  # samples of a window of which one is autoencoded
_LOOKS_PER_HORIZON = 5
_WARM_SHARE = 0.2  # of the updates, where derivatives are given


class HybridLoss:
    """The loss of one update, as a function of the step and the generator of its batch."""

    def __init__(self, networks: HybridNetworks, drawer: WindowDrawer, settings: Settings) -> None:
        self.networks, self.drawer, self.settings = networks, drawer, settings
        self.warm_updates = 0

    def __call__(self, step: int, generator: np.random.Generator) -> Tensor:
        """Loss of a batch drawn by the generator."""
        s = self.settings
        batch = self.drawer.draw(s.horizon(step), s.batch_size, generator)
        if step < self.warm_updates and batch.xdot is not None:
            return self.warm_start(batch)
        return self.of_batch(batch)

    def of_batch(self, batch: Batch) -> Tensor:
        """All terms, weighted."""
        net, s, w = self.networks, self.settings, self.settings.weights
        x, seen, whole = _tensors(batch)
        dt = torch.from_numpy(batch.dt)
        u = None if batch.u is None else torch.from_numpy(batch.u)
        Z = net.encoder(x)
        roll: Any = roll_out if net.shape.field == "mlp" else roll_out_eagerly
        run = roll(net.field, Z[0], dt, u, n_substeps(batch.dt.max(axis=1), s.substeps))
        loss = torch.zeros(())
        if w["x"] or w["a"]:
            loss = loss + self._decoded(run, Z, x, seen, whole)
        if w["z"]:
            emphasis = 1.0 + (s.seam_weight - 1.0) * torch.from_numpy(batch.jump)
            apart = (run[1:] - Z[1:]).pow(2).mean(dim=-1) * emphasis
            loss = loss + w["z"] * weighted_mean(apart, whole[1:])
        if w["c"] or w["o"]:
            hinge, off = collapse_losses(Z[whole > 0], s.variance_floor)
            loss = loss + w["c"] * hinge + w["o"] * off
        if w["g"] or w["v"]:
            position, velocity = _seam_gaps(Z, dt, torch.from_numpy(batch.jump), whole)
            loss = loss + w["g"] * position + w["v"] * velocity
        return loss

    def _decoded(self, run: Tensor, Z: Tensor, x: Tensor, seen: Tensor, whole: Tensor) -> Tensor:
        """Rollout and autoencoding; of the latter a few samples of each window do."""
        w, spread = self.settings.weights, self.settings.spread
        T = len(run) - 1
        both, targets, cells = run[1:], x[1:], seen[1:]
        if w["a"]:
            both, targets, cells = (
                torch.cat([v, own[::_EVERY]])
                for v, own in ((both, Z), (targets, x), (cells, seen))
            )  # fmt: skip
        total = torch.zeros(())
        some = (cells[:T].sum(dim=-1) > 0).float()
        found = self.networks.decoder(both)
        for candidates, logits in found:
            losses = head_loss(candidates, logits, targets, cells, spread)
            total = total + w["x"] * weighted_mean(losses[:T], some)
            if w["a"]:
                total = total + w["a"] * weighted_mean(losses[T:], whole[::_EVERY])
        return total

    def warm_start(self, batch: Batch) -> Tensor:
        """Df(x) dx/dt = V(f(x)) away from jumps, with autoencoding; no integration."""
        net, s = self.networks, self.settings
        x, seen, whole = _tensors(batch)
        assert batch.xdot is not None
        xdot = torch.nan_to_num(torch.from_numpy(batch.xdot))
        Z, along = net.encoder.along(x, xdot)
        u = None if batch.u is None else torch.from_numpy(batch.u)
        quiet = whole[:-1] * (1.0 - torch.from_numpy(batch.jump))
        apart = (along[:-1] - net.field(Z[:-1], u)).pow(2).mean(dim=-1)
        loss = weighted_mean(apart, quiet)
        found = net.decoder(Z)
        for candidates, logits in found:
            losses = head_loss(candidates, logits, x, seen, s.spread)
            loss = loss + weighted_mean(losses, whole)
        hinge, off = collapse_losses(Z[whole > 0], s.variance_floor)
        return loss + s.weights["c"] * hinge + s.weights["o"] * off


@dataclass(frozen=True)
class Trained:
    """The best networks of a training."""

    arrays: dict[str, NDArray[np.generic]]
    head: int
    score: float
    run: TrainRun


def train_networks(
    shape: Shape,
    drawer: WindowDrawer,
    free_runs: FreeRuns,
    settings: Settings,
    *,
    on_step: OnStep | None,
    checkpoint: str | os.PathLike[str] | None,
    resume: bool,
    identity: str,
    warm: bool = False,
) -> Trained:
    """Fit networks of this shape and choose the number of heads by free runs."""
    networks: Any = seeded(lambda: HybridNetworks(shape), settings.seed)
    loss = HybridLoss(networks, drawer, settings)
    loss.warm_updates = round(_WARM_SHARE * settings.n_updates) if warm else 0
    task = ModuleTask(
        networks, loss, n_steps=settings.n_updates, lr=settings.lr, final_lr=settings.final_lr,
        clip=settings.grad_clip, seed=settings.seed,
    )  # fmt: skip

    def score() -> float:
        return -min(free_runs.errors(LatentModel(shape, module_arrays(networks))))

    with one_thread():
        run = train(
            task, settings.n_updates, score=score,
            n_scores=_LOOKS_PER_HORIZON * len(settings.horizons), on_step=on_step,
            checkpoint=checkpoint, resume=resume, identity=identity,
        )  # fmt: skip
    arrays = module_arrays(networks)
    errors = free_runs.errors(LatentModel(shape, arrays))
    head = int(np.argmin(errors))
    return Trained(arrays, head, -float(errors[head]), run)


def _tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Values with zeros where missing, which cells were seen, which samples are whole."""
    x = torch.from_numpy(batch.x)
    seen = torch.isfinite(x)
    return torch.nan_to_num(x), seen.float(), seen.all(dim=-1).float()


def _seam_gaps(Z: Tensor, dt: Tensor, jump: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """How far positions and velocities miss each other at the jumps inside the windows.

    Straight lines through the two encoded samples before a jump and the two after it are compared
    halfway between, so no field is needed that could hide a gap by being fast there.
    """
    if len(dt) < 3:
        return torch.zeros(()), torch.zeros(())
    speed = (Z[1:] - Z[:-1]) / dt[..., None]
    before, after, half = speed[:-2], speed[2:], 0.5 * dt[1:-1, :, None]
    position = Z[2:-1] - Z[1:-2] - half * (before + after)
    counts = jump[1:-1] * (1 - jump[:-2]) * (1 - jump[2:])
    counts = counts * whole[:-3] * whole[1:-2] * whole[2:-1] * whole[3:]
    return tuple(  # type: ignore[return-value]
        weighted_mean(gap.pow(2).mean(dim=-1), counts) for gap in (position, after - before)
    )
