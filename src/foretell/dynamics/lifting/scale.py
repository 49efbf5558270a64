"""Units of the networks: states, increments, inputs and intervals of about unit size."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError
from foretell.dynamics.lifting.transitions import Transitions

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scale:
    """How states become the numbers of a network, and how its answers become states.

    Attributes
    ----------
    mean, spread : arrays (n,)
        Of a state, the same for all cells of a channel.
    shift, step : arrays (n,)
        Of what is learned: the increment (shift 0) or the next state.
    low, high : arrays (n,)
        Range of the states that were seen, of the whole channel.
    context_mean, context_spread : arrays (K,) or (K + 1,)
        Of the inputs, and of the interval where it is one of them.
    """

    mean: Array
    spread: Array
    shift: Array
    step: Array
    low: Array
    high: Array
    context_mean: Array
    context_spread: Array

    def states(self, values: Array) -> Array:
        """States in standard deviations."""
        return np.asarray((values - self.mean) / self.spread)

    def seen(self, values: Array) -> Array:
        """States in standard deviations, held at the edges of what was recorded.

        Networks know nothing beyond; their answer at the edge keeps a run from being driven away
        by what they make up there.
        """
        return self.states(np.clip(values, self.low, self.high))

    def context(self, inputs: Array, interval: Array) -> Array:
        """Inputs, and the interval where the model knows it, in standard deviations."""
        with_interval = self.context_mean.size > inputs.shape[1]
        raw = np.column_stack([inputs, interval]) if with_interval else inputs
        return np.asarray((raw - self.context_mean) / self.context_spread)

    def arrays(self) -> dict[str, Array]:
        """All numbers, for a saved model."""
        return {f"scale.{f.name}": getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Scale:
        """Read what ``arrays`` gave."""
        return cls(**{f.name: arrays[f"scale.{f.name}"] for f in fields(cls)})


def measure(
    found: Transitions, n_channels: int, *, increments: bool, interval: bool, names: tuple[str, ...]
) -> Scale:
    """Measure the scale of transitions, channel by channel.

    Raises
    ------
    DataError
        A channel is constant.
    """
    n = found.following.shape[1]
    states = np.concatenate([found.past[:, -1], found.following])
    mean, spread = _moments(states, n_channels)
    flat = spread <= 1e-12 * np.abs(mean)
    if flat.any():
        which = names[int(flat.argmax())] if n_channels == n else int(flat.argmax())
        raise DataError(
            f"the {'column' if n_channels == n else 'channel'} {which!r} is constant, so there is "
            "nothing to learn from it. Leave it out."
        )
    shift, step = np.zeros(n_channels), spread
    if increments:
        _, step = _moments(found.following - found.past[:, -1], n_channels)
        step = np.where(step > 1e-12 * spread, step, spread)
    else:
        shift = mean
    raw = np.column_stack([found.inputs, found.interval]) if interval else found.inputs
    context_spread = raw.std(axis=0)
    per_cell = n // n_channels
    by_channel = states.reshape(len(states), n_channels, -1)
    return Scale(
        mean=np.repeat(mean, per_cell),
        spread=np.repeat(spread, per_cell),
        shift=np.repeat(shift, per_cell),
        step=np.repeat(step, per_cell),
        low=np.repeat(by_channel.min(axis=(0, 2)), per_cell),
        high=np.repeat(by_channel.max(axis=(0, 2)), per_cell),
        context_mean=raw.mean(axis=0),
        context_spread=np.where(
            context_spread > 1e-12 * np.abs(raw.mean(axis=0)), context_spread, 1.0
        ),
    )


def _moments(values: Array, n_channels: int) -> tuple[Array, Array]:
    by_channel = values.reshape(len(values), n_channels, -1)
    return by_channel.mean(axis=(0, 2)), by_channel.std(axis=(0, 2))
