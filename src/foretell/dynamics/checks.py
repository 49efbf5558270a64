"""What may go into a learner: recordings, constructor arguments, questions.

Errors about recordings are DataError, about arguments and questions ParameterError.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ForetellWarning, ParameterError
from foretell.data import Trajectories

Array = NDArray[np.float64]

_WIDE_GAP = 50  # median intervals


def as_trajectories(X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> Trajectories:
    """Recordings from what a user has: Trajectories, an array (T, N), or a list of arrays."""
    if isinstance(X, Trajectories):
        if times is not None:
            raise ParameterError(
                "times were given beside Trajectories, which carry their own. Leave times out."
            )
        return X
    column = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype != object
    if column or (isinstance(X, (list, tuple)) and len(X) > 0 and np.isscalar(X[0])):
        raise DataError(
            "X is one column of values, and one variable seldom determines what comes next. Give "
            "delayed copies beside it: delay_embed(Trajectories.from_arrays(X, times), "
            "dimension=3). If the one column is enough, write np.asarray(X)[:, None]."
        )
    return Trajectories.from_arrays(X, times)


def whole(value: Any, least: int, most: float = np.inf) -> bool:
    """Whether a value is a whole number in a range."""
    return isinstance(value, Integral) and bool(least <= int(value) <= most)


def positive(value: Any) -> bool:
    """Whether a value is a finite number above zero."""
    return isinstance(value, Real) and bool(0 < float(value) < np.inf)


def check_seed(learner: Any) -> None:
    """Refuse a random_state that a saved model could not name."""
    seed = learner.random_state
    if seed is not None and not whole(seed, 0):
        raise ParameterError(
            f"random_state={seed!r}; needed is a whole number >= 0, which a saved model can name, "
            "or None."
        )


def check_validation(learner: Any) -> None:
    """Refuse a share to hold back that is none."""
    share = learner.validation
    if isinstance(share, bool) or not (isinstance(share, Real) and 0 <= float(share) < 1):
        raise ParameterError(f"validation={share!r}; needed is a share in [0, 1).")


def check_arguments(learner: Any, trajectories: Trajectories) -> None:
    """Refuse impossible constructor arguments, alone and beside these recordings."""
    name, N = type(learner).__name__, trajectories.n_variables
    for key in ("latent_dim", "n_relu", "sequence_length", "batch_size", "max_updates"):
        value, least = getattr(learner, key), 0 if key == "n_relu" else 1
        if not whole(value, least):
            raise ParameterError(f"{key}={value!r}; needed is a whole number >= {least}.")
    if learner.latent_dim < N:
        raise ParameterError(
            f"{name} has latent_dim={learner.latent_dim} units for {N} observed variables; "
            f"needed are at least {N}. Write latent_dim={max(2 * N, 20)}."
        )
    if learner.n_relu > learner.latent_dim:
        raise ParameterError(
            f"{name} has n_relu={learner.n_relu}; it must lie between 0 and "
            f"latent_dim={learner.latent_dim}."
        )
    if learner.forcing not in ("stf", "gtf"):
        raise ParameterError(f'forcing={learner.forcing!r} is not known; use "stf" or "gtf".')
    interval, length = learner.forcing_interval, learner.sequence_length
    if interval != "auto" and not whole(interval, 1, length):
        raise ParameterError(
            f"forcing_interval={interval!r}; needed is a whole number from 1 to "
            f'sequence_length={length}, or "auto".'
        )
    if not whole(learner.warm_up, 0, length - 1):
        raise ParameterError(
            f"warm_up={learner.warm_up!r}; needed is a whole number from 0 to {length - 1}, so "
            f"that some of the sequence_length={length} samples count."
        )
    if learner.time_scale != "auto" and not positive(learner.time_scale):
        raise ParameterError(
            f"time_scale={learner.time_scale!r}; needed is a positive time in data units, or "
            f'"auto" for the median sampling interval ({trajectories.median_interval:.6g}).'
        )
    for key in ("lr", "final_lr", "grad_clip"):
        if not positive(getattr(learner, key)):
            raise ParameterError(f"{key}={getattr(learner, key)!r}; needed is a positive number.")
    if not (isinstance(learner.noise, Real) and 0 <= float(learner.noise) < np.inf):
        raise ParameterError(f"noise={learner.noise!r}; needed is a number >= 0.")
    check_validation(learner)
    check_seed(learner)


def check_length(trajectories: Trajectories, length: int) -> None:
    """Refuse recordings that are all shorter than a training sequence."""
    longest = max(len(t) for t in trajectories.times)
    if longest < length + 1:
        raise DataError(
            f"the longest recording has {longest} samples; sequence_length={length} needs "
            f"{length + 1}. Write sequence_length={max(longest // 2, 1)}."
        )


def point_out_gaps(trajectories: Trajectories) -> None:
    """Warn of a gap much wider than the usual interval."""
    gap = max(float(np.diff(t).max()) for t in trajectories.times if len(t) > 1)
    median = trajectories.median_interval
    if gap > _WIDE_GAP * median:
        warnings.warn(
            f"the longest gap ({gap:.6g}) is {gap / median:.0f} times the median sampling "
            "interval; what happens inside it is not seen. Consider cutting the recording there "
            "(one recording for each side).",
            ForetellWarning,
            stacklevel=4,
        )


def checked_starts(x0: ArrayLike | Trajectories, names: tuple[str, ...]) -> Array:
    """Starts of shape (B, N) for a model of these variables; the last rows of recordings."""
    N = len(names)
    if isinstance(x0, Trajectories):
        x0 = last_rows(x0, 1)[:, 0]
    starts = np.atleast_2d(np.asarray(x0, dtype=np.float64))
    if starts.ndim != 2 or starts.shape[1] != N:
        raise ParameterError(
            f"x0 has shape {np.shape(x0)}; needed is ({N},) or (number of starts, {N}) for "
            f"{', '.join(names)}."
        )
    if not np.isfinite(starts).all():
        raise ParameterError("x0 has entries that are not finite; a start must be complete.")
    return starts


def last_rows(recordings: Trajectories, n: int) -> Array:
    """The last n rows (B, n, N) of every recording; refused where one is shorter."""
    for label, rows in zip(recordings.labels, recordings.values, strict=True):
        if len(rows) < n:
            raise ParameterError(
                f"recording {label!r} has {len(rows)} rows; this model starts from the last {n}, "
                "one sample apart."
            )
    return np.stack([rows[-n:] for rows in recordings.values])


def checked_times(times: ArrayLike) -> Array:
    """At least two increasing stamps, shape (T,)."""
    stamps = np.asarray(times, dtype=np.float64)
    if stamps.ndim != 1 or stamps.size < 2 or not np.isfinite(stamps).all():
        raise ParameterError(
            f"times have shape {stamps.shape}; needed are at least two finite stamps, "
            "for instance np.linspace(0, 10, 101)."
        )
    steps = np.diff(stamps)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise ParameterError(
            f"times must increase; times[{row}]={stamps[row]:.6g} follows "
            f"times[{row - 1}]={stamps[row - 1]:.6g}."
        )
    return stamps


def checked_controls(
    controls: ArrayLike | None, n_times: int, names: tuple[str, ...]
) -> Array | None:
    """Inputs of shape (T, K) in data units, or None for a model without inputs."""
    K = len(names)
    if controls is None:
        if K:
            raise ParameterError(
                f"this model was fitted with the controls {', '.join(names)}; "
                f"give controls=array of shape ({n_times}, {K})."
            )
        return None
    if K == 0:
        raise ParameterError("this model was fitted without controls; leave controls out.")
    u = np.asarray(controls, dtype=np.float64)
    u = u[:, None] if u.ndim == 1 else u
    if u.shape != (n_times, K) or not np.isfinite(u).all():
        raise ParameterError(
            f"controls have shape {u.shape}; needed are finite numbers of shape "
            f"({n_times}, {K}), one row for each time."
        )
    return u
