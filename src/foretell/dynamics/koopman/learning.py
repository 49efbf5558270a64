"""Training of an encoder, with the matrix W as a function of it, as a weight, or in turns.

Legend: see `constraints`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import MissingExtraError
from foretell.dynamics.koopman.constraints import (
    Bounds,
    corrected,
    embedded,
    horizon_set,
    regression,
    residuals,
    rollout,
)
from foretell.dynamics.koopman.layer import ElasticQPLayer
from foretell.dynamics.koopman.lifts import Lift, NetworkLift
from foretell.dynamics.koopman.linear import Moments, features, rollout as numpy_rollout
from foretell.dynamics.koopman.network import LOOKS, Candidate
from foretell.dynamics.koopman.windows import States, Windows
from foretell.dynamics.module_task import ModuleTask, one_thread, seeded
from foretell.train import train
from foretell.train.loop import OnStep

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train this learner") from error

if TYPE_CHECKING:
    from foretell.dynamics.koopman.network import NetworkKoopman

Array = NDArray[np.float64]
Loss = Callable[[int, np.random.Generator], Tensor]

_BAD = 1e6  # stands for an error that is not finite
_LOOK_WINDOWS, _REFIT_WINDOWS = 200, 1000
_CLIP = 5.0
_APART = 1_000_003  # between the seeds of two restarts


class Encoder(nn.Module):
    """s to [s; network(s)] in double precision."""

    def __init__(self, n_inputs: int, hidden: tuple[int, ...], n_observables: int) -> None:
        super().__init__()
        widths = [n_inputs, *hidden, n_observables]
        self.layers = nn.ModuleList(
            nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)
        )

    def forward(self, s: Tensor) -> Tensor:
        """Lift states (.., F)."""
        h = s
        for i, layer in enumerate(self.layers):
            h = layer(h)
            if i < len(self.layers) - 1:
                h = torch.tanh(h)
        return torch.cat([s, h], dim=-1)

    def lift(self) -> NetworkLift:
        """The same function without torch."""
        arrays: dict[str, Array] = {}
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            arrays[f"w{i}"] = np.array(layer.weight.detach().numpy())
            arrays[f"b{i}"] = np.array(layer.bias.detach().numpy())
        return NetworkLift(arrays)


class JointModule(nn.Module):
    """Encoder and W as ordinary weights; W begins as the regression of the first encoder."""

    def __init__(self, encoder: Encoder, W: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.W = nn.Parameter(W)


class Learning:
    """Trains the candidates of one model on the same recordings."""

    def __init__(
        self, model: NetworkKoopman, states: States, judged: Windows, n_outputs: int, seed: int
    ) -> None:
        self.model, self.states, self.judged = model, states, judged
        self.n_outputs, self.seed = n_outputs, seed
        self._modules: dict[tuple[str, int], tuple[Encoder, nn.Module]] = {}
        s, u, starts = states.joined(int(model.horizon))
        self._s, self._u, self._starts = torch.from_numpy(s), torch.from_numpy(u), starts
        self._rows = np.arange(int(model.horizon) + 1)
        pairs = states.windows(1)
        self._pairs = (torch.from_numpy(pairs.s), torch.from_numpy(pairs.u))
        self.layer = ElasticQPLayer(getattr(model, "qp_backend", "active_set"))

    # ------------------------------------------------------------------ training
    def train(
        self,
        name: str,
        *,
        restart: int = 0,
        on_step: OnStep | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        identity: str = "",
    ) -> Candidate:
        """Train one candidate: a family of bounds or a baseline by its class name; a restart."""
        model, seed = self.model, self.seed + _APART * restart
        F = self._s.shape[1]
        encoder = seeded(lambda: Encoder(F, tuple(model.hidden), int(model.n_observables)), seed)
        assert isinstance(encoder, Encoder)
        module: nn.Module = encoder
        if name == "JointKoopman":
            module = JointModule(encoder, self._regressed(encoder))
        loss = self._loss(name, encoder, module)
        n_steps = int(model.max_steps)
        task = ModuleTask(module, loss, n_steps=n_steps, lr=float(model.lr), clip=_CLIP, seed=seed)

        def score() -> float:
            W, lift, _ = self._fitted(name, encoder, module, self.states, _LOOK_WINDOWS)
            return -self.error(W, lift)

        with one_thread():
            run = train(
                task, n_steps, score=score, n_scores=LOOKS, on_step=on_step, checkpoint=checkpoint,
                resume=resume, identity=identity,
            )  # fmt: skip
        W, lift, facts = self._fitted(name, encoder, module, self.states, _REFIT_WINDOWS)
        self._modules[name, restart] = encoder, module
        return Candidate(name, W, lift, self.error(W, lift), run, facts, restart)

    def refit(self, found: Candidate, states: States) -> tuple[Array, dict[str, Any]]:
        """W of a trained candidate from all recordings."""
        encoder, module = self._modules[found.name, found.restart]
        W, _, facts = self._fitted(found.name, encoder, module, states, _REFIT_WINDOWS)
        return W, facts

    def error(self, W: Array, lift: Lift) -> float:
        """Mean nRMSE over the horizon of forecasts of the windows that judge."""
        z0 = lift(self.judged.s[:, 0])
        with np.errstate(over="ignore", invalid="ignore"):
            z = numpy_rollout(W, z0, self.judged.u, self.model._bilinear)
            off = z[:, 1:, : self.n_outputs] - self.judged.s[:, 1:, : self.n_outputs]
            value = float(np.sqrt((off**2).mean(axis=(0, 2))).mean())
        return min(value, _BAD) if np.isfinite(value) else _BAD

    # ------------------------------------------------------------------ losses
    def _draw(self, generator: np.random.Generator) -> tuple[Tensor, Tensor]:
        start = self._starts[generator.integers(len(self._starts), size=int(self.model.batch_size))]
        rows = torch.from_numpy(start[:, None] + self._rows)
        return self._s[rows], self._u[rows[:, :-1]]

    def _loss(self, name: str, encoder: Encoder, module: nn.Module) -> Loss:
        bounds = self._bounds(name)

        def matrix(generator: np.random.Generator) -> Tensor:
            if isinstance(module, JointModule):
                return module.W
            if name == "AlternatingKoopman":
                return self._regressed(encoder)
            s, u = self._draw(generator)
            z = encoder(s)
            return embedded(z, u, bounds, self.layer, windows=(z, u))

        def loss(step: int, generator: np.random.Generator) -> Tensor:
            W = matrix(generator)
            s, u = self._draw(generator)
            z = encoder(s)
            run, _ = rollout(W, z[:, 0], u, bounds.bilinear)
            N = self.n_outputs
            value: Tensor = ((run[..., :N] - s[:, 1:, :N]) ** 2).mean()
            value = value + float(self.model.latent_weight) * ((run - z[:, 1:]) ** 2).mean()
            return value

        return loss

    def _regressed(self, encoder: Encoder) -> Tensor:
        """W by regression on all pairs of samples, as a constant."""
        with torch.no_grad():
            s, u = self._pairs
            return regression(encoder(s), u, self._bounds("none"))[0].detach().clone()

    def _bounds(self, name: str) -> Bounds:
        model = self.model
        known = ("gauss_newton", "prefix_sum", "rollout")
        return Bounds(
            family=name if name in known else "none",
            horizons=horizon_set(int(model.horizon)),
            n_outputs=self.n_outputs,
            bilinear=model._bilinear,
            ridge=float(model.ridge),
            mu=float(getattr(model, "slack_penalty", 1.0)),
            tolerance_ratio=float(getattr(model, "tolerance_ratio", 0.5)),
            damping=float(getattr(model, "damping", 1.0)),
        )

    # ------------------------------------------------------------------ W for a given encoder
    def _fitted(
        self, name: str, encoder: Encoder, module: nn.Module, states: States, most: int
    ) -> tuple[Array, Lift, dict[str, Any]]:
        lift, model = encoder.lift(), self.model
        if isinstance(module, JointModule):
            return np.array(module.W.detach().numpy()), lift, {}
        moments = []
        for s, u in zip(states.s, states.u, strict=True):
            z = lift(s)
            moments.append(Moments.of(features(z[:-1], u[:-1], model._bilinear), z[1:]))
        total = sum(moments[1:], moments[0])
        W0 = total.least_squares(float(model.ridge))
        bounds = self._bounds(name)
        if bounds.family == "none":
            return W0, lift, {}
        windows = states.windows(int(model.horizon), most=most)
        with torch.no_grad():
            z_BHZ, u_BHK = torch.from_numpy(lift(windows.s)), torch.from_numpy(windows.u)
            base, G = torch.from_numpy(W0), torch.from_numpy(total.gram(float(model.ridge)))
            W = corrected(base, G, z_BHZ, u_BHK, bounds, self.layer)
            before, _ = residuals(base, z_BHZ, u_BHK, bounds)
            after, _ = residuals(W, z_BHZ, u_BHK, bounds)
        facts: dict[str, Any] = {
            "bounds_mean_error_before": before.abs().mean().item(),
            "bounds_mean_error_after": after.abs().mean().item(),
        }
        if self.layer.last is not None:
            facts["active_fraction"] = float(self.layer.last.active.mean())
            facts["newton_iterations"] = self.layer.last.iterations
        return np.array(W.numpy()), lift, facts
