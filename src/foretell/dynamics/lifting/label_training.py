"""The trainings of StochasticLifting: the mean, the lifted part, and a distilled centre."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from foretell.dynamics.lifting.labels import stored_labels
from foretell.dynamics.lifting.local_scale import fit_local_scale, local_scale
from foretell.dynamics.lifting.network_sampler import Batch, Floats, NetworkSampler, squared_error
from foretell.dynamics.lifting.phases import Look, Phase
from foretell.dynamics.lifting.transitions import Transitions
from foretell.dynamics.module_task import Loss

Array = NDArray[np.float64]

DRAWS = 16
_FEWEST = 100  # held-out transitions from which a width at each state is fitted
_LOOKED_AT = 500  # transitions in a look at the training
_TABLE = 20_000_000  # label entries kept in memory


class LabelTraining(NetworkSampler):
    """Base of StochasticLifting: what is trained, one phase after the other."""

    residual: bool
    calibrate: bool
    local_scale: bool
    mean_steps: int
    interp_tol: float

    def _mean_phase(self, data: Batch, judged: Batch) -> Phase:
        module = self._build(self._design(0), 0)
        self.networks_["mean"] = module
        steps, loss = int(self.mean_steps), self._regression(module, data)
        seen = (judged if len(judged) else data).take(slice(0, _LOOKED_AT))

        def look() -> Look:
            with torch.inference_mode():
                return Look(-float(_plain_error(module, seen)))

        return Phase("mean", steps, lambda: self._task(module, loss, steps, 0), look,
                     keep_best=len(judged) > 0)  # fmt: skip

    def _label_phase(
        self, module: nn.Module, d: int, ids: NDArray[np.int64], lifted: Transitions,
        held: Transitions, place: int,
    ) -> Phase:  # fmt: skip
        size, steps, targets = int(self.batch_size), int(self.max_steps), self._batch(lifted)
        table: Floats | None = None
        if len(ids) * d <= _TABLE:
            table = stored_labels(self.seed_, ids, d)
        variance = [1.0]

        def labels(rows: NDArray[np.int64], generator: np.random.Generator) -> Tensor:
            return torch.from_numpy(self._training_labels(rows, ids, d, table, generator))

        def begin() -> Any:
            left = self._targets(lifted)
            if self.residual:
                self._measure_local_scale(held)
                left = (left - self._mean_of(lifted)) / self._local_of(lifted)
            targets.target = torch.from_numpy(left.astype(np.float32))
            variance[0] = float(left.var(axis=0).mean())
            return self._task(module, loss, steps, place)

        def loss(_: int, generator: np.random.Generator) -> Tensor:
            rows = targets.rows(generator, size)
            part = targets.take(rows)
            found = module(part.past, part.context, labels(rows, generator))
            return squared_error(found, part.target)

        def look() -> Look:
            generator = np.random.default_rng(self._seed(70))
            rows = np.arange(min(len(targets), _LOOKED_AT))
            seen, few = targets.take(rows), targets.take(rows[:200])
            fresh = generator.standard_normal((2, len(few), d), dtype=np.float32)
            with torch.inference_mode():
                found = module(seen.past, seen.context, labels(rows, generator))
                error = squared_error(found, seen.target)
                one, two = (module(few.past, few.context, torch.from_numpy(f)) for f in fresh)
                spread = 0.5 * float(((one - two) ** 2).mean())
            ratio = float(error) / max(variance[0], 1e-300)
            return Look(-ratio, (float(np.sqrt(spread / max(variance[0], 1e-300))),))

        return Phase(f"label-{d}", steps, begin, look, stop_at=-float(self.interp_tol))

    def _training_labels(
        self, rows: NDArray[np.int64], ids: NDArray[np.int64], d: int, table: Floats | None,
        generator: np.random.Generator,
    ) -> Floats:  # fmt: skip
        """The labels of a batch: those of its transitions, whenever they are asked for."""
        return stored_labels(self.seed_, ids[rows], d) if table is None else table[rows]

    def _centre_phase(
        self, candidates: dict[int, nn.Module], fitted: Transitions, held: Transitions
    ) -> Phase:
        module = self._build(self._design(0), 60)
        self._centred = module
        data = self._batch(fitted)
        steps, loss = int(self.mean_steps), self._regression(module, data)

        def begin() -> Any:
            self._choose(candidates, held)
            drift = np.zeros_like(self._targets(fitted))
            rng = np.random.default_rng(self._seed(61))
            for _ in range(DRAWS):
                drift += self._lifted(fitted, rng, 1)[:, 0] / DRAWS
            target = self._mean_of(fitted) - self._tau * self._local_of(fitted) * drift
            data.target = torch.from_numpy(target.astype(np.float32))
            module.load_state_dict(self.networks_["mean"].state_dict())
            return self._task(module, loss, steps, 60)

        return Phase("centre", steps, begin)

    def _regression(self, module: nn.Module, data: Batch) -> Loss:
        """The loss of a network without a label."""
        size = int(self.batch_size)
        return lambda _, generator: _plain_error(module, data.drawn(generator, size))

    def _measure_local_scale(self, held: Transitions) -> None:
        if not (self.local_scale and self.calibrate and len(held) >= _FEWEST):
            return
        residual = self._targets(held) - self._mean_of(held)
        states = self.scale_.seen(held.past)[:, -1].reshape(len(held), -1)
        context = self.scale_.context(held.inputs, held.interval)
        C = self._n_channels(self.shape_)
        self.scale_coefficients_ = fit_local_scale(states, residual, C, context)

    def _local(self, past: Array, context: Array) -> Array:
        """Widths (R, n), or (n,) where they are the same everywhere, in scaled units."""
        n = int(np.prod(self.shape_))
        return local_scale(past[:, -1].reshape(len(past), n), self.scale_coefficients_, context)

    def _local_of(self, found: Transitions) -> Array:
        return self._local(
            self.scale_.seen(found.past), self.scale_.context(found.inputs, found.interval)
        )

    @abstractmethod
    def _choose(self, candidates: dict[int, nn.Module], held: Transitions) -> None:
        """Decide between label dimensions and set the temperature."""

    @property
    @abstractmethod
    def _tau(self) -> Array:
        """Temperature of every number."""

    @abstractmethod
    def _mean_of(self, found: Transitions) -> Array:
        """The mean network on transitions."""

    @abstractmethod
    def _lifted(self, found: Transitions, rng: np.random.Generator, n_draws: int) -> Array:
        """The label network alone, (N, draws, n)."""


def _plain_error(module: nn.Module, batch: Batch) -> Tensor:
    """Squared error of a network without a label."""
    return squared_error(
        module(batch.past, batch.context, torch.zeros(len(batch), 0)), batch.target
    )
