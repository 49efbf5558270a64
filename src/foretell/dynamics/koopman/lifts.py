"""Liftings z = [s; f(s)]: a trained network, or a dictionary of fixed functions. NumPy only.

A model that was trained with torch is used without it: its network is a handful of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError

Array = NDArray[np.float64]


class Lift(Protocol):
    """s (.., F) to [s; f(s)] (.., Z); its arrays are what a model folder keeps."""

    @property
    def arrays(self) -> dict[str, Array]:
        """What a model folder keeps."""
        ...

    def __call__(self, s: Array) -> Array:
        """Lift states."""
        ...


@dataclass(frozen=True)
class NetworkLift:
    """Layers of tanh with a linear one at the end: arrays w0, b0, w1, b1, .., in torch's layout."""

    arrays: dict[str, Array] = field(repr=False)

    def __call__(self, s: Array) -> Array:
        """Lift states s (.., F)."""
        n_layers = len(self.arrays) // 2
        h = s
        for i in range(n_layers):
            h = h @ self.arrays[f"w{i}"].T + self.arrays[f"b{i}"]
            if i < n_layers - 1:
                h = np.tanh(h)
        return np.concatenate([s, h], axis=-1)


@dataclass(frozen=True)
class DictionaryLift:
    """Monomials s^e for rows e of ``exponents``, and thin-plate splines |s - c|^2 ln |s - c|.

    Examples
    --------
    >>> lift = DictionaryLift.make(np.zeros((3, 1)), degree=3, n_centres=0)
    >>> lift(np.array([2.0]))
    array([2., 4., 8.])
    """

    arrays: dict[str, Array] = field(repr=False)

    @classmethod
    def make(
        cls, s: Array, *, degree: int, n_centres: int, rng: np.random.Generator | None = None
    ) -> DictionaryLift:
        """A dictionary for states like s (n, F): centres are drawn from their box."""
        F = s.shape[1]
        rows = [
            np.bincount(c, minlength=F)
            for n in range(2, degree + 1)
            for c in combinations_with_replacement(range(F), n)
        ]
        exponents = np.array(rows, dtype=np.float64).reshape(-1, F)
        draw = np.random.default_rng(0) if rng is None else rng
        centres = draw.uniform(s.min(axis=0), s.max(axis=0), size=(n_centres, F))
        return cls({"exponents": exponents, "centres": centres})

    def __call__(self, s: Array) -> Array:
        """Lift states s (.., F)."""
        parts = [s]
        exponents, centres = self.arrays["exponents"], self.arrays["centres"]
        if len(exponents):
            parts.append(np.prod(s[..., None, :] ** exponents, axis=-1))
        if len(centres):
            square = ((s[..., None, :] - centres) ** 2).sum(axis=-1)
            parts.append(0.5 * square * np.log(np.maximum(square, 1e-300)))
        return np.concatenate(parts, axis=-1)


LIFTS: dict[str, type[NetworkLift] | type[DictionaryLift]] = {
    "network": NetworkLift,
    "dictionary": DictionaryLift,
}


def lift_from(kind: str, arrays: Mapping[str, Any]) -> Lift:
    """The lifting that a model folder describes."""
    if kind not in LIFTS:
        raise ParameterError(f"there is no lifting {kind!r}; known are {', '.join(LIFTS)}.")
    return LIFTS[kind]({k: np.asarray(v) for k, v in arrays.items()})


def kind_of(lift: Lift) -> str:
    """The name under which `lift_from` knows a lifting."""
    return next(name for name, made in LIFTS.items() if isinstance(lift, made))
