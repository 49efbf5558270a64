"""What a user measured, as standardised states with delays and inputs of a lifted model."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ForetellWarning, ParameterError
from foretell.data import Scaler, Trajectories
from foretell.dynamics.checks import (
    as_trajectories,
    checked_controls,
    checked_starts,
    last_rows,
)
from foretell.dynamics.learner import Learner

Array = NDArray[np.float64]


def measured(X: Trajectories | ArrayLike, times: ArrayLike | None) -> Trajectories:
    """Recordings to learn from; whole numbers are taken as measurements, with a warning."""
    data = as_trajectories(X, times)
    parts = X if isinstance(X, (list, tuple)) else [X]
    if any(np.issubdtype(getattr(x, "dtype", float), np.integer) for x in parts):
        warnings.warn(
            "X has whole numbers, which are taken as measurements in floating point. If that is "
            "meant, write X.astype(float); if they are codes of classes, leave their column out.",
            ForetellWarning,
            stacklevel=3,
        )
    return data


class MeasuredStates(Learner):
    """Starts and inputs of questions, checked and brought to standard units."""

    n_delays: int
    scaler_: Scaler

    def _states(self, x: ArrayLike | Trajectories, past_controls: ArrayLike | None) -> Array:
        """Standardised states with delays (B, F) from what a user measured."""
        d, N, K = int(self.n_delays), len(self.names_), len(self.control_names_)
        if d == 0:
            return self.scaler_.transform_values(checked_starts(x, self.names_))
        if isinstance(x, Trajectories):
            if x.controls is not None and past_controls is None:
                past_controls = np.stack([u[-d - 1 : -1] for u in x.controls])
            x = last_rows(x, d + 1)
        rows = np.asarray(x, dtype=np.float64)
        rows = rows[None] if rows.ndim == 2 else rows
        if rows.ndim != 3 or rows.shape[1:] != (d + 1, N) or not np.isfinite(rows).all():
            raise ParameterError(
                f"x0 has shape {np.shape(x)}; a model with n_delays={d} starts from the last "
                f"{d + 1} rows: finite numbers of shape ({d + 1}, {N}), oldest first."
            )
        past = np.zeros((len(rows), d, 0))
        if K:
            given = np.asarray(np.nan if past_controls is None else past_controls, float)
            past = given[None] if given.ndim == 2 else given
            if past.shape[-2:] != (d, K) or not np.isfinite(past).all():
                raise ParameterError(
                    f"past_controls has shape {given.shape}; a model with n_delays={d} needs the "
                    f"inputs between its {d + 1} rows: shape ({d}, {K}), oldest first."
                )
            past = np.broadcast_to(past, (len(rows), d, K))
            past = self.scaler_.transform_controls(past)
        scaled = self.scaler_.transform_values(rows)
        return np.concatenate(
            [scaled[:, ::-1].reshape(len(rows), -1), past[:, ::-1].reshape(len(rows), -1)], axis=1
        )

    def _at_rest(self, x: Array, u: Array) -> Array:
        """The state with delays (1, F) of standing still at x (N,) with inputs u (K,)."""
        d = int(self.n_delays)
        return np.concatenate([np.tile(x, d + 1), np.tile(u, d)])[None]

    def _controls(self, controls: ArrayLike | None, n_times: int, n_starts: int) -> Array:
        """Standardised inputs (B, T, K)."""
        K = len(self.control_names_)
        if controls is not None and np.ndim(controls) == 3:
            u = np.asarray(controls, dtype=np.float64)
            if u.shape != (n_starts, n_times, K) or not np.isfinite(u).all():
                raise ParameterError(
                    f"controls have shape {u.shape}; needed are finite numbers of shape "
                    f"({n_starts}, {n_times}, {K})."
                )
            return self.scaler_.transform_controls(u)
        checked = checked_controls(controls, n_times, self.control_names_)
        if checked is None:
            return np.zeros((n_starts, n_times, 0))
        return np.broadcast_to(self.scaler_.transform_controls(checked), (n_starts, n_times, K))
