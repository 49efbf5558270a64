"""Bring every variable to zero mean and unit variance, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError

if TYPE_CHECKING:
    from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaler:
    """The mean and the standard deviation of every variable and every control.

    Attributes
    ----------
    mean, scale : arrays of shape (N,)
        In data units; ``scale`` is positive.
    control_mean, control_scale : arrays of shape (K,)
        The same for controls, empty without controls; a constant control has scale 1.

    Examples
    --------
    >>> from foretell.data import Trajectories
    >>> scaled, scaler = Trajectories.from_arrays([[1.0], [3.0]]).standardise()
    >>> scaled.values[0].ravel()
    array([-1.,  1.])
    >>> scaler.inverse(scaled).values[0].ravel()
    array([1., 3.])
    """

    mean: Array
    scale: Array
    control_mean: Array
    control_scale: Array

    def __post_init__(self) -> None:
        for name in ("mean", "scale", "control_mean", "control_scale"):
            array = np.array(getattr(self, name), dtype=np.float64).reshape(-1)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def fit(cls, trajectories: Trajectories) -> Scaler:
        """Measure mean and standard deviation over all observed cells of all recordings.

        Raises
        ------
        DataError
            A variable is constant; the message names it.
        """
        mean, scale = _moments(trajectories.values)
        constant = scale <= 1e-12 * np.abs(mean)
        if constant.any():
            n = int(constant.argmax())
            others = [x for x, c in zip(trajectories.names, constant, strict=True) if not c]
            raise DataError(
                f"The column {trajectories.names[n]!r} is constant ({mean[n]:.6g} everywhere), so "
                "there is nothing to learn from it. Leave it out: "
                + (f"columns={others!r}." if others else "no other column is left to learn.")
            )
        if trajectories.controls is None:
            return cls(mean, scale, np.zeros(0), np.ones(0))
        control_mean, control_scale = _moments(trajectories.controls)
        constant = control_scale <= 1e-12 * np.abs(control_mean)
        return cls(mean, scale, control_mean, np.where(constant, 1.0, control_scale))

    def transform(self, trajectories: Trajectories) -> Trajectories:
        """Data units to standard units."""
        return self._map(
            trajectories,
            lambda x: (x - self.mean) / self.scale,
            lambda u: (u - self.control_mean) / self.control_scale,
        )

    def inverse(self, trajectories: Trajectories) -> Trajectories:
        """Standard units to data units."""
        return self._map(
            trajectories,
            lambda x: x * self.scale + self.mean,
            lambda u: u * self.control_scale + self.control_mean,
        )

    def transform_values(self, values: ArrayLike) -> Array:
        """Data units to standard units, for an array of shape (..., N)."""
        return np.asarray((np.asarray(values, dtype=np.float64) - self.mean) / self.scale)

    def inverse_values(self, values: ArrayLike) -> Array:
        """Standard units to data units, for an array of shape (..., N)."""
        return np.asarray(np.asarray(values, dtype=np.float64) * self.scale + self.mean)

    def transform_controls(self, controls: ArrayLike) -> Array:
        """Data units to standard units, for an array of shape (..., K)."""
        u = np.asarray(controls, dtype=np.float64)
        return np.asarray((u - self.control_mean) / self.control_scale)

    def to_dict(self) -> dict[str, list[float]]:
        """Return plain lists of numbers, for JSON."""
        return {
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "control_mean": self.control_mean.tolist(),
            "control_scale": self.control_scale.tolist(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Scaler:
        """Read what `to_dict` wrote, exactly."""
        return cls(
            content["mean"], content["scale"], content["control_mean"], content["control_scale"]
        )

    def _map(self, trajectories: Trajectories, value_map: Any, control_map: Any) -> Trajectories:
        if (trajectories.n_variables, trajectories.n_controls) != (
            self.mean.size,
            self.control_mean.size,
        ):
            raise DataError(
                f"The recordings have {trajectories.n_variables} variables and "
                f"{trajectories.n_controls} controls; this scaler was measured on "
                f"{self.mean.size} and {self.control_mean.size}. Give the same columns."
            )
        controls = trajectories.controls
        return replace(
            trajectories,
            values=tuple(value_map(x) for x in trajectories.values),
            controls=None if controls is None else tuple(control_map(u) for u in controls),
        )


def _moments(blocks: tuple[Array, ...]) -> tuple[Array, Array]:
    """Mean and standard deviation over rows of all blocks, NaN left out, in two passes."""
    count = sum(np.isfinite(b).sum(axis=0) for b in blocks)
    count = np.maximum(count, 1)
    mean = sum(np.nansum(b, axis=0) for b in blocks) / count
    variance = sum(np.nansum((b - mean) ** 2, axis=0) for b in blocks) / count
    return np.asarray(mean), np.sqrt(np.asarray(variance))
