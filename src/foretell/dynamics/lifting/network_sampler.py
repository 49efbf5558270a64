"""What samplers with networks share: building, batches, evaluation, weights."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foretell.core import ArtifactError, ParameterError
from foretell.dynamics.lifting.checks import check_training
from foretell.dynamics.lifting.learner import TransitionLearner
from foretell.dynamics.lifting.networks import BACKBONES, Design, build, check
from foretell.dynamics.lifting.phases import Phase, PhasedTask
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import Transitions
from foretell.dynamics.module_task import (
    ModuleTask,
    fill_module,
    module_arrays,
    one_thread,
    seeded,
)
from foretell.train import train

Array = NDArray[np.float64]
Floats = NDArray[np.float32]

_ROWS = 8192  # rows evaluated at a time
_AUTO = {"mlp": (128, 3), "conv1d": (32, 4), "unet": (32, 3)}


@dataclass
class Batch:
    """Transitions as tensors, in the units of a network.

    Attributes
    ----------
    past : tensor (N, h, n)
    context : tensor (N, K)
    target : tensor (N, n)
    """

    past: Tensor
    context: Tensor
    target: Tensor

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: slice | NDArray[np.int64]) -> Batch:
        """Some of the transitions."""
        return Batch(self.past[rows], self.context[rows], self.target[rows])

    def rows(self, generator: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Rows drawn for an update."""
        return generator.integers(len(self), size=size)

    def drawn(self, generator: np.random.Generator, size: int) -> Batch:
        """Transitions drawn for an update."""
        return self.take(self.rows(generator, size))


def evaluate(module: nn.Module, past: Array, context: Array, label: Floats) -> Array:
    """A network on numpy arrays, without gradients, some thousand rows at a time."""
    out: list[NDArray[Any]] = []
    with torch.inference_mode():
        for start in range(0, len(past), _ROWS):
            part = slice(start, start + _ROWS)
            given = (
                torch.from_numpy(np.asarray(a[part], dtype=np.float32))
                for a in (past, context, label)
            )
            out.append(module(*given).numpy())
    return np.concatenate(out).astype(np.float64)


def squared_error(found: Tensor, wanted: Tensor) -> Tensor:
    """Mean squared error over rows and numbers."""
    error: Tensor = ((found - wanted) ** 2).mean()
    return error


def no_label(n_rows: int) -> Floats:
    """The label of a network without one."""
    return np.zeros((n_rows, 0), dtype=np.float32)


class _Own(nn.Module):
    """A network of the caller; without a label it is given zeros."""

    def __init__(self, module: nn.Module, label_dim: int) -> None:
        super().__init__()
        self.module, self.label_dim = copy.deepcopy(module), label_dim

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        if not label.shape[1]:
            label = past.new_zeros(len(past), self.label_dim)
        out: Tensor = self.module(past, context, label)
        return out


class NetworkSampler(TransitionLearner):
    """Base of the samplers with networks."""

    def __init__(
        self,
        *,
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
        self.history = history
        self.backbone = backbone
        self.width = width
        self.depth = depth
        self.periodic = periodic
        self.increments = increments
        self.dt_feature = dt_feature
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.final_lr = final_lr
        self.weight_decay = weight_decay
        self.validation = validation
        self.random_state = random_state

    # ------------------------------------------------------------------ for the samplers
    @abstractmethod
    def _networks(self) -> dict[str, Design]:
        """The networks of a fitted model, by name."""

    def _facts(self) -> dict[str, Any]:
        return {}

    def _take_facts(self, facts: dict[str, Any]) -> None:
        pass

    # ------------------------------------------------------------------ building and training
    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        super()._check_parameters(shape)
        known = isinstance(self.backbone, str)
        if not known and not isinstance(self.backbone, nn.Module):
            raise ParameterError(
                f"backbone={self.backbone!r}; needed is one of {BACKBONES} or a torch module "
                "called as module(past (B, h, n), context (B, K), label (B, d)) -> (B, n)."
            )
        if known:
            check(self.backbone, shape)
        if not isinstance(self.periodic, bool):
            raise ParameterError(f"periodic={self.periodic!r}; needed is True or False.")
        check_training(self)

    def _n_channels(self, shape: tuple[int, ...]) -> int:
        flat = len(shape) == 1 and isinstance(self.backbone, str) and self.backbone != "mlp"
        return 1 if flat else shape[0]

    def _design(
        self, label_dim: int, *, n_frames: int = 0, n_outputs: int = 1, odd: bool = False
    ) -> Design:
        named = self.backbone if isinstance(self.backbone, str) else "mlp"
        width, depth = _AUTO[named]
        return Design(
            backbone=named,
            shape=self.shape_,
            n_frames=n_frames or int(self.history),
            n_context=self.scale_.context_mean.size,
            label_dim=label_dim,
            n_outputs=n_outputs,
            width=width if self.width == "auto" else int(self.width),
            depth=depth if self.depth == "auto" else int(self.depth),
            periodic=self.periodic,
            odd=odd,
        )

    def _build(self, design: Design, place: int) -> nn.Module:
        if isinstance(self.backbone, nn.Module):
            return _Own(self.backbone, getattr(self, "label_dim_", design.label_dim))
        return seeded(lambda: build(design), self._seed(place))

    def _seed(self, place: int) -> int:
        """A seed for one of the uses of chance in a training."""
        return int(np.random.SeedSequence([self.seed_, place]).generate_state(1)[0])

    def _task(self, module: nn.Module, loss: Any, n_steps: int, place: int) -> ModuleTask:
        return ModuleTask(
            module, loss, n_steps=n_steps, lr=float(self.lr), final_lr=float(self.final_lr),
            weight_decay=float(self.weight_decay), seed=self._seed(100 + place),
        )  # fmt: skip

    def _batch(self, found: Transitions) -> Batch:
        context = self.scale_.context(found.inputs, found.interval)
        arrays = self.scale_.seen(found.past), context, self._targets(found)
        return Batch(*(torch.from_numpy(a.astype(np.float32)) for a in arrays))

    def _run_phases(self, phases: Sequence[Phase], training: Training) -> PhasedTask:
        task = PhasedTask(phases)
        with one_thread() if self.backbone in ("mlp", "conv1d") else nullcontext():
            run = train(
                task, task.n_steps, on_step=training.on_step, checkpoint=training.checkpoint,
                resume=training.resume, identity=training.identity,
            )  # fmt: skip
        task.finish()
        self.fit_seconds_ = run.seconds
        return task

    # ------------------------------------------------------------------ weights
    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        if not isinstance(self.backbone, str):
            raise ArtifactError(
                "a backbone of your own cannot be rebuilt from a model folder, so nothing was "
                f"written. Use one of {BACKBONES}, or keep the network with torch."
            )
        arrays: dict[str, NDArray[Any]] = {}
        for name, module in self.networks_.items():
            arrays |= module_arrays(module, f"{name}.")
        return arrays, {"fit_seconds": self.fit_seconds_, **self._facts()}

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        self.fit_seconds_ = facts["fit_seconds"]
        self._take_facts(facts)
        self.networks_: dict[str, nn.Module] = {}
        for name, design in self._networks().items():
            module = seeded(lambda d=design: build(d), 0)  # type: ignore[misc]
            fill_module(module, arrays, f"{name}.")
            self.networks_[name] = module
