"""What can be trained: the ``TrainTask`` protocol and its purity rule.

A task holds parameters and the state of its optimiser, and gives the gradient of one shard of one
step. **Purity rule**: that gradient depends on nothing but (parameters, step, shard). Randomness
comes from a seed made of them (``shard_generator``), never from a stream that runs along. Then a
step can be computed again, elsewhere or in another order, and comes out the same: a training can
be resumed, and the work of a lost machine can be done by another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
State = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Gradient:
    """Gradient of the mean loss of one shard.

    Parameters
    ----------
    loss : float
        Mean loss of the shard.
    values : array (P,)
        The derivative by every parameter, in the order of ``TrainTask.parameters``.
    weight : float
        How much the shard counts in the mean over shards, its number of samples for instance.

    Examples
    --------
    >>> import numpy as np
    >>> Gradient(0.5, np.zeros(3))
    Gradient(3 parameters, loss 0.5)
    """

    loss: float
    values: NDArray[np.floating]
    weight: float = 1.0

    def __repr__(self) -> str:
        return f"Gradient({len(self.values)} parameters, loss {self.loss:.3g})"


@runtime_checkable
class TrainTask(Protocol):
    """Anything that learns by gradients."""

    def parameters(self) -> NDArray[np.floating]:
        """All parameters as one flat array, a copy."""
        ...

    def n_shards(self, step: int) -> int:
        """Into how many shards the batch of that step is cut."""
        ...

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of a shard; a pure function of (parameters, step, shard)."""
        ...

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        """Follow the mean gradient of a step."""
        ...

    def state(self) -> State:
        """Parameters and optimiser, as arrays, copies."""
        ...

    def restore(self, state: State) -> None:
        """Take over what ``state`` returned."""
        ...


def shard_generator(seed: int, step: int, shard: int = 0) -> np.random.Generator:
    """The generator that belongs to (seed, step, shard), the same on every machine.

    Examples
    --------
    >>> a, b = shard_generator(0, 5, 1), shard_generator(0, 5, 1)
    >>> bool(a.random() == b.random())
    True
    >>> bool(shard_generator(0, 5, 1).random() == shard_generator(0, 6, 1).random())
    False
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, step, shard])))


def mean_gradient(task: TrainTask, step: int) -> Gradient:
    """Weighted mean over the shards of a step, summed in the order of the shards."""
    shards = [task.gradient(step, shard) for shard in range(task.n_shards(step))]
    if len(shards) == 1:
        return shards[0]
    total = sum(g.weight for g in shards)
    values = np.zeros_like(shards[0].values)
    for g in shards:
        values += (g.weight / total) * g.values
    return Gradient(sum(g.weight * g.loss for g in shards) / total, values, total)
