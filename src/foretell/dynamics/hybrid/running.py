"""Free runs of a fitted HybridLatentODE: encode once, flow in the latent space, decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import checked_controls, checked_starts, checked_times, whole
from foretell.dynamics.hybrid.columns import Columns, column_trajectories
from foretell.dynamics.hybrid.preparation import as_sequences
from foretell.dynamics.reachability import SteeredRuns
from foretell.dynamics.sequences import Sequences

if TYPE_CHECKING:
    from foretell.dynamics.hybrid.latent_model import LatentModel, Shape

Array = NDArray[np.float64]

OUT_OF_RANGE = 1e6  # of a latent coordinate


class HybridRuns(SteeredRuns):
    """Encoding, decoding and runs of a fitted model."""

    when_lost_at_once = "Start within the range of the recordings, or train longer."
    when_lost = "Train longer, or with longer horizons."

    columns_: Columns
    model_: LatentModel
    shape_: Shape
    low_: Array
    high_: Array
    n_features_in_: int
    substeps: int

    def predict(
        self,
        X0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        reencode_every: int | None = None,
    ) -> Array:
        """Values (B, T, N) of free runs from X0 (B, N); NaN where a run escaped.

        ``reencode_every`` encodes what was decoded every so many samples. A run encodes once and
        never again without it: beside a jump a decoded state may land on the wrong side.
        """
        if reencode_every is not None and not whole(reencode_every, 1):
            raise ParameterError(
                f"reencode_every={reencode_every!r}; needed is a whole number >= 1, or None."
            )
        return self._free_runs(X0, times, controls, reencode_every)[2]

    def encode(self, X: ArrayLike) -> Array:
        """Latent states (..., m) of observed states (..., N) in data units."""
        self._check_fitted()
        values = np.asarray(X, dtype=np.float64)
        if values.shape[-1:] != (self.n_features_in_,):
            raise ParameterError(
                f"X has shape {values.shape}; needed is (..., {self.n_features_in_})."
            )
        flat = values.reshape(-1, self.n_features_in_)
        signed = np.concatenate([self.columns_.aligned(row[None]) for row in flat])
        z = self.model_.encode(self.scaler_.transform_values(self.columns_.spread(signed)))
        return z.reshape(*values.shape[:-1], -1)

    def decode(self, z: ArrayLike, *, return_heads: bool = False) -> Array | tuple[Array, Array]:
        """Observed states (..., N) of latent states (..., m).

        With ``return_heads`` also the candidates (..., J, N) of all heads come back: first the
        state of the best head, then the candidates.
        """
        self._check_fitted()
        latent = np.asarray(z, dtype=np.float64)
        best = self._to_data(self.model_.decode(latent))
        if not return_heads:
            return best
        return best, self._to_data(self.model_.heads(latent)[0])

    def vector_field(self, states: ArrayLike, control: ArrayLike | None = None) -> Array:
        """Velocity (..., m) at latent states (..., m), per data time.

        ``control`` (K,) is in data units; without it the mean input acts.
        """
        self._check_fitted()
        z = np.asarray(states, dtype=np.float64)
        u = None
        if self.shape_.n_controls:
            mean = np.zeros(self.shape_.n_controls)
            u = mean if control is None else self.scaler_.transform_controls(control)
            u = np.broadcast_to(u, (*z.shape[:-1], mean.size))
        return self.model_.velocity(z, u) / self.time_scale_

    def sequences(self, recordings: Trajectories) -> Sequences:
        """Recordings as the networks see them: standardised columns in model time."""
        self._check_fitted()
        self._check_columns(recordings)
        scaled = self.scaler_.transform(column_trajectories(recordings, self.columns_))
        return as_sequences(scaled, self.time_scale_)

    def _free_runs(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        controls: ArrayLike | None,
        reencode_every: int | None = None,
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and values (B, T, N) in data units, NaN from an escape."""
        self._check_fitted()
        stamps = checked_times(times)
        starts = checked_starts(x0, self.names_)
        u = checked_controls(controls, stamps.size, self.control_names_)
        z = self._latent_runs(starts, stamps, u, reencode_every)
        outside = np.asarray(~(np.abs(z) < OUT_OF_RANGE).all(axis=2))
        values = self._to_data(self.model_.decode(np.where(outside[..., None], 0.0, z)))
        for b, start in enumerate(starts):
            values[b] = self.columns_.aligned(values[b], start)
        values[np.logical_or.accumulate(outside, axis=1)] = np.nan
        values[:, 0] = starts
        return stamps, u, values

    def _latent_runs(
        self, starts: Array, stamps: Array, u: Array | None, reencode_every: int | None = None
    ) -> Array:
        """Latent states (B, T, m) of free runs, not finite after an escape."""
        T = stamps.size - 1
        dt = np.broadcast_to(np.diff(stamps) / self.time_scale_, (len(starts), T))
        held = None
        if u is not None:
            scaled = self.scaler_.transform_controls(u)[:-1]
            held = np.broadcast_to(scaled, (len(starts), *scaled.shape))
        z = np.empty((len(starts), T + 1, self.shape_.n_latent))
        z[:, 0] = self.encode(starts)
        block = T if reencode_every is None else int(reencode_every)
        for begin in range(0, T, block):
            part = slice(begin, min(begin + block, T))
            start = z[:, begin]
            if begin:
                start = self.model_.encode(self._clipped(self.model_.decode(start)))
            run = self.model_.roll_out(
                start, dt[:, part], None if held is None else held[:, part], int(self.substeps)
            )
            z[:, begin + 1 : part.stop + 1] = run[:, 1:]
        return z

    def _typical(self) -> tuple[Array, Array]:
        mean = self.columns_.gather(self.scaler_.mean[None])[0]
        width = dict(zip(self.columns_.column_names, self.scaler_.scale, strict=True))
        return mean, np.array([width.get(name, 1.0) for name in self.names_])  # angles: radians

    def _clipped(self, columns: Array) -> Array:
        return np.clip(columns, self.low_, self.high_)

    def _to_data(self, columns: Array) -> Array:
        """Observed values of standardised columns, clipped to the range of the recordings."""
        return self.columns_.gather(self.scaler_.inverse_values(self._clipped(columns)))
