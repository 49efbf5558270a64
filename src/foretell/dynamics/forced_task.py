"""Teacher forcing as a task of ``foretell.train``: batches, gradient, RAdam.

Sparse teacher forcing moves the observed units to the data every ``forcing_interval`` samples;
generalised forcing moves them part of the way at every sample, by a share that decays.

Sources: Mikhaeil et al., NeurIPS 2022 (sparse forcing); Hess et al., ICML 2023 (generalised);
Braendle et al., ICML 2026 (settings).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.optimise import RAdam
from foretell.dynamics.sequences import WindowSampler
from foretell.train import Gradient
from foretell.train.task import State

Array = NDArray[np.float64]
Batch = tuple[Array, Array | None, Array]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train; the learners' constructor arguments, resolved.

    ``slack`` is the share of the best score by which another one may be worse without a meaning.
    Where a free run is compared with the data that it was trained on, as there are no others, it
    is not zero: a later look, with its smaller steps, is preferred unless it is clearly worse.
    """

    forcing: str
    forcing_interval: int
    sequence_length: int
    batch_size: int
    max_updates: int
    lr: float
    final_lr: float
    noise: float
    grad_clip: float
    n_scores: int = 20
    slack: float = 0.0


def forcing_share(settings: Settings, step: int) -> tuple[int, float]:
    """(forcing interval, share alpha) of an update."""
    if settings.forcing == "stf":
        return settings.forcing_interval, 1.0
    return 1, 0.05 ** (step / settings.max_updates)


class Batches:
    """The batches of a training by their number, drawn from one stream of chance.

    Batch k is what the stream gives after k others: a function of the first state of the stream
    and of k, whoever asks and how often. Asking for them in order draws each one once; an earlier
    one is found by beginning again.
    """

    def __init__(self, sampler: WindowSampler, rng: np.random.Generator) -> None:
        self._sampler, self._rng = sampler, rng
        self._first: dict[str, Any] = dict(rng.bit_generator.state)
        self._drawn = 0
        self._last: Batch | None = None

    def __getitem__(self, step: int) -> Batch:
        """The batch of a step."""
        if self._last is not None and step == self._drawn - 1:
            return self._last
        if step < self._drawn:
            self._rng.bit_generator.state, self._drawn = self._first, 0
        while self._drawn <= step:
            self._last = self._sampler.draw(self._rng)
            self._drawn += 1
        assert self._last is not None
        return self._last

    def state(self) -> NDArray[np.uint8]:
        """Where the stream began and where it is."""
        text = json.dumps([self._first, dict(self._rng.bit_generator.state), self._drawn])
        return np.frombuffer(text.encode(), dtype=np.uint8).copy()

    def restore(self, state: NDArray[np.generic]) -> None:
        """Take over what ``state`` returned."""
        first, now, self._drawn = json.loads(np.asarray(state, dtype=np.uint8).tobytes())
        self._first, self._rng.bit_generator.state, self._last = first, now, None


class ForcedTask:
    """The parameters of a learner under teacher forcing, as a ``TrainTask`` of one shard.

    Parameters
    ----------
    kernel : SequenceKernel
    layout : Layout
    theta : array (P,)
        Where to begin; copied.
    sampler : WindowSampler
    settings : Settings
    rng : Generator
        The stream of chance of the batches.
    """

    def __init__(
        self,
        kernel: SequenceKernel,
        layout: Layout,
        theta: Array,
        sampler: WindowSampler,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self.kernel, self.layout, self.settings = kernel, layout, settings
        self.theta = theta.copy()
        self.optimiser = RAdam(theta.size)
        self.batches = Batches(sampler, rng)
        self.looked_at: list[Array] = []  # the parameters at every score

    def parameters(self) -> NDArray[np.floating]:
        """All parameters as one flat array, a copy."""
        return self.theta.copy()

    def n_shards(self, step: int) -> int:
        """One: the whole batch."""
        return 1

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of the batch of that step; NaN where its length is not a number."""
        return self.gradient_of(step, self.batches[step])

    def gradient_of(self, step: int, batch: Batch) -> Gradient:
        """Gradient of these windows, at the settings of that step."""
        x, u, dt = batch
        interval, alpha = forcing_share(self.settings, step)
        result = self.kernel.loss_and_gradient(
            *self.layout.views(self.theta), x, u, dt, forcing_interval=interval, alpha=alpha
        )
        values = np.concatenate(
            [g.ravel() for g in (result.dA, result.dW, result.dh, result.dC, result.dL)]
        )
        with np.errstate(over="ignore", invalid="ignore"):
            too_long = not np.isfinite(values @ values)
        if too_long:
            values[:] = np.nan
        return Gradient(float(result.loss), values)

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        """One step of RAdam along the clipped gradient."""
        s = self.settings
        norm = float(np.sqrt(gradient @ gradient))
        share = step / max(s.max_updates - 1, 1)
        rate = s.lr * (s.final_lr / s.lr) ** share
        if norm > s.grad_clip:
            gradient = gradient * (s.grad_clip / norm)
        self.optimiser.update(self.theta, np.asarray(gradient, np.float64), learning_rate=rate)

    def state(self) -> State:
        """Parameters, moments, the stream of batches, and the parameters at every score."""
        return {
            "theta": self.theta.copy(),
            "mean": self.optimiser.mean.copy(),
            "square": self.optimiser.square.copy(),
            "optimiser_step": np.array([self.optimiser.step]),
            "looked_at": np.reshape(self.looked_at, (-1, self.theta.size)),
            "batches": self.batches.state(),
        }

    def restore(self, state: State) -> None:
        """Take over what ``state`` returned; parameters alone begin with moments of zero."""
        self.theta = np.array(state["theta"], dtype=np.float64)
        self.optimiser = RAdam(self.theta.size)
        if "optimiser_step" in state:
            self.optimiser.mean = np.array(state["mean"], dtype=np.float64)
            self.optimiser.square = np.array(state["square"], dtype=np.float64)
            self.optimiser.step = int(np.asarray(state["optimiser_step"], dtype=np.int64)[0])
        if "looked_at" in state:
            self.looked_at = list(np.array(state["looked_at"], dtype=np.float64))
        if "batches" in state:
            self.batches.restore(state["batches"])
