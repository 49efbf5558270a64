"""Tasks that the workers of these tests train; imported by worker processes, by name."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.train import Gradient, shard_generator
from foretell.train.task import State


class Regression:
    """Least squares by momentum on random batches; shards of different weight."""

    def __init__(self, shards: int = 8, pause: float = 0.0, size: int = 5) -> None:
        self.shards, self.pause, self.size = shards, pause, size
        self.x, self.v = np.zeros(size), np.zeros(size)

    def parameters(self) -> NDArray[np.floating]:
        return self.x.copy()

    def n_shards(self, step: int) -> int:
        return self.shards

    def gradient(self, step: int, shard: int) -> Gradient:
        a = shard_generator(3, step, shard).normal(size=(4 + shard, self.size))
        rest = a @ (self.x - np.arange(self.size))
        time.sleep(self.pause)
        return Gradient(float(rest @ rest) / len(a), a.T @ rest / len(a), len(a))

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        self.v = 0.9 * self.v - 0.02 * gradient
        self.x = self.x + self.v

    def state(self) -> State:
        return {"x": self.x.copy(), "v": self.v.copy()}

    def restore(self, state: State) -> None:
        self.x, self.v = state["x"].astype(float), state["v"].astype(float)


class Wide(Regression):
    """Many parameters, each drawn to zero through noise: sums large enough to share memory."""

    def gradient(self, step: int, shard: int) -> Gradient:
        noise = shard_generator(3, step, shard).normal(size=self.size)
        time.sleep(self.pause)
        return Gradient(float(np.mean(self.x**2)), self.x + noise, 1.0 + shard)


class Impure(Regression):
    """A stream of chance that runs along."""

    stream = np.random.default_rng(0)

    def gradient(self, step: int, shard: int) -> Gradient:
        found = super().gradient(step, shard)
        return Gradient(found.loss, found.values + self.stream.normal(size=self.size))


class Bad(Regression):
    """Shard 2 gives something else from step 3 on."""

    value: float = np.nan

    def gradient(self, step: int, shard: int) -> Gradient:
        found = super().gradient(step, shard)
        if step >= 3 and shard == 2:
            found.values[1] = self.value
        return found

    def name_of(self, index: int) -> str:
        return f"weight[{index}]"


def regression(**settings: Any) -> Regression:
    return Regression(**settings)


def wide(**settings: Any) -> Wide:
    return Wide(**settings)


def never_starts(**settings: Any) -> Regression:
    """Worker 2 hangs before it has met anybody."""
    if '"me": 2' in os.environ.get("FORETELL_WORKER", ""):
        time.sleep(600)
    return Regression(**settings)


def other_start(**settings: Any) -> Regression:
    """Each process begins with other parameters."""
    task = Regression(**settings)
    task.x = task.x + os.getpid()
    return task


def returns_nothing() -> None:
    """Trains nothing, either."""
