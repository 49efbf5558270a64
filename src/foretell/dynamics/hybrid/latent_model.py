"""The fitted networks in double precision, without torch: encode, flow, decode.

Legend: n columns, m latent, K inputs, J heads, B starts, T intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from foretell.core import ArtifactError

Array = NDArray[np.float64]

OMEGA = 30.0  # frequencies of a sine layer
_USUAL = 1.5  # sampling intervals that one step may cross


@dataclass(frozen=True)
class Shape:
    """Sizes and kinds of the networks.

    Parameters
    ----------
    n_columns, n_latent, n_controls, hidden, n_layers : int
        n, m, K, and the width and number of hidden layers.
    heads : tuple of int
        Numbers of heads for which the decoder has outputs.
    activation : str
        "silu", or "sin_last" for a sine in the last hidden layer of encoder and decoder.
    field : str
        "mlp" or "pwl".
    n_relu : int
        Rectified units of a piecewise-linear field.
    """

    n_columns: int
    n_latent: int
    n_controls: int
    hidden: int
    n_layers: int
    heads: tuple[int, ...]
    activation: str = "silu"
    field: str = "mlp"
    n_relu: int = 0

    @property
    def sine(self) -> bool:
        """Whether encoder and decoder end in a sine layer."""
        return self.activation == "sin_last"


class LatentModel:
    """Encoder, field and decoders as plain functions of arrays.

    Parameters
    ----------
    shape : Shape
        What the weights belong to.
    arrays : mapping of str to array
        Weights by the names that the torch modules give them.
    head : int
        Which of the numbers of heads is used.
    """

    def __init__(self, shape: Shape, arrays: Mapping[str, NDArray[Any]], head: int = 0) -> None:
        self.shape, self.head = shape, head
        try:
            self._encoder = _layers(arrays, "encoder.network.", shape.n_layers)
            self._decoder = _layers(arrays, "decoder.network.", shape.n_layers)
            if shape.field == "pwl":
                self.A, self.W, self.h, self.C = (
                    np.asarray(arrays[f"field.{name}"], dtype=np.float64) for name in "AWhC"
                )
            else:
                self._field = _layers(arrays, "field.", shape.n_layers)
        except KeyError as error:
            raise ArtifactError(
                f"the weights lack {error}, which the parameters ask for. Fit and save the model "
                "again."
            ) from error

    def with_head(self, head: int) -> LatentModel:
        """The same model with another number of heads."""
        other = object.__new__(LatentModel)
        other.__dict__ = {**self.__dict__, "head": head}
        return other

    @property
    def n_heads(self) -> int:
        """J in use."""
        return self.shape.heads[self.head]

    def encode(self, x: Array) -> Array:
        """Latent states (..., m) of columns (..., n)."""
        z = _network(self._encoder, x, self.shape.sine)
        z[..., : self.shape.n_columns] += x
        return z

    def velocity(self, z: Array, u: Array | None = None) -> Array:
        """dz/dt (..., m), per model time."""
        if self.shape.field == "pwl":
            phi, first = z.copy(), self.shape.n_latent - self.shape.n_relu
            phi[..., first:] = np.maximum(phi[..., first:], 0.0)
            drive = self.h if u is None else self.h + u @ self.C.T
            return np.asarray(self.A * z + phi @ self.W.T + drive)
        return _network(self._field, z if u is None else np.concatenate([z, u], axis=-1), False)

    def heads(self, z: Array) -> tuple[Array, Array]:
        """Candidates (..., J, n) and logits (..., J) of the heads in use."""
        n, J = self.shape.n_columns, self.n_heads
        first = sum(h * n + (h if h > 1 else 0) for h in self.shape.heads[: self.head])
        out = _network(self._decoder, z, self.shape.sine)[..., first:]
        candidates = out[..., : J * n].reshape(*z.shape[:-1], J, n) + z[..., None, :n]
        logits = out[..., J * n : J * n + J] if J > 1 else np.zeros((*z.shape[:-1], 1))
        return candidates, logits

    def decode(self, z: Array) -> Array:
        """Columns (..., n): the candidate with the largest logit."""
        candidates, logits = self.heads(z)
        best = logits.argmax(axis=-1)
        return np.asarray(np.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :])

    def step(self, z: Array, dt: Array, u: Array | None = None, substeps: int = 1) -> Array:
        """States (B,m) after intervals dt (B,), in ``substeps`` Runge-Kutta steps."""
        d = np.asarray(dt, dtype=np.float64)[:, None] / substeps
        for _ in range(substeps):
            k1 = self.velocity(z, u)
            k2 = self.velocity(z + 0.5 * d * k1, u)
            k3 = self.velocity(z + 0.5 * d * k2, u)
            k4 = self.velocity(z + d * k3, u)
            z = z + d / 6 * (k1 + 2 * (k2 + k3) + k4)
        return z

    def roll_out(self, z0: Array, dt: Array, u: Array | None = None, substeps: int = 1) -> Array:
        """States (B,T+1,m) from z0 (B,m) over intervals dt (B,T) with inputs (B,T,K).

        Longer intervals than usual get more than ``substeps`` steps.
        """
        states = np.empty((len(z0), dt.shape[1] + 1, z0.shape[1]))
        states[:, 0] = z = z0
        each = n_substeps(dt.max(axis=0, initial=0.0), substeps)
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(dt.shape[1]):
                z = self.step(z, dt[:, t], None if u is None else u[:, t], int(each[t]))
                states[:, t + 1] = z
        return states


def n_substeps(longest: Array, substeps: int) -> NDArray[np.int64]:
    """Runge-Kutta steps in each of some intervals (T,) in model time.

    An interval of usual length gets ``substeps``; longer ones in proportion.
    """
    return np.asarray(substeps * np.maximum(np.ceil(longest / _USUAL), 1).astype(np.int64))


def _layers(
    arrays: Mapping[str, NDArray[Any]], prefix: str, n_layers: int
) -> list[tuple[Array, Array]]:
    return [
        (
            np.asarray(arrays[f"{prefix}layers.{k}.weight"], dtype=np.float64).T.copy(),
            np.asarray(arrays[f"{prefix}layers.{k}.bias"], dtype=np.float64),
        )
        for k in range(n_layers + 1)
    ]


def _network(layers: list[tuple[Array, Array]], x: Array, sine: bool) -> Array:
    for k, (W, b) in enumerate(layers[:-1]):
        a = x @ W + b
        x = np.sin(OMEGA * a) if sine and k == len(layers) - 2 else a * expit(a)
    W, b = layers[-1]
    return np.asarray(x @ W + b)
