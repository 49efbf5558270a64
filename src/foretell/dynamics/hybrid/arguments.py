"""What may go into a HybridLatentODE: arguments, jump index, derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ForetellWarning, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import check_seed, check_validation, positive, whole
from foretell.dynamics.hybrid.columns import Columns

Array = NDArray[np.float64]

DEFAULT_WEIGHTS = {"x": 1.0, "z": 1.0, "a": 1.0, "c": 0.1, "o": 0.01, "g": 5.0, "v": 0.0}


def merged_weights(given: Mapping[str, float] | None) -> dict[str, float]:
    """The weights of the losses, those left out at their default."""
    return {**DEFAULT_WEIGHTS, **{k: float(v) for k, v in (given or {}).items()}}


def check_arguments(learner: Any) -> None:
    """Refuse impossible constructor arguments."""
    for key in ("hidden", "n_layers", "updates_per_horizon", "batch_size", "substeps"):
        if not whole(getattr(learner, key), 1):
            raise ParameterError(f"{key}={getattr(learner, key)!r}; needed is a whole number >= 1.")
    for key in ("lr", "final_lr", "grad_clip", "head_spread", "seam_weight"):
        if not positive(getattr(learner, key)):
            raise ParameterError(f"{key}={getattr(learner, key)!r}; needed is a positive number.")
    horizons = learner.horizons
    fine = not isinstance(horizons, str) and hasattr(horizons, "__len__") and len(horizons) > 0
    if not fine or not all(whole(h, 1) for h in horizons):
        raise ParameterError(
            f"horizons={horizons!r}; needed are whole numbers >= 1, for instance (4, 8, 16, 25)."
        )
    if learner.activation not in ("silu", "sin_last"):
        raise ParameterError(
            f'activation={learner.activation!r} is not known; use "silu" or "sin_last".'
        )
    if learner.field not in ("mlp", "pwl"):
        raise ParameterError(f'field={learner.field!r} is not known; use "mlp" or "pwl".')
    if learner.decoder_heads != "auto" and not whole(learner.decoder_heads, 1):
        raise ParameterError(
            f'decoder_heads={learner.decoder_heads!r}; needed is a whole number >= 1, or "auto".'
        )
    for key in ("time_scale", "jump_threshold"):
        value = getattr(learner, key)
        if value != "auto" and not positive(value):
            raise ParameterError(f'{key}={value!r}; needed is a positive number, or "auto".')
    if not (isinstance(learner.variance_floor, Real) and 0 <= float(learner.variance_floor)):
        raise ParameterError(f"variance_floor={learner.variance_floor!r}; needed is a number >= 0.")
    check_validation(learner)
    check_seed(learner)
    _check_weights(learner.weights)


def _check_weights(given: Any) -> None:
    if given is None:
        return
    known = ", ".join(DEFAULT_WEIGHTS)
    if not isinstance(given, Mapping) or not given.keys() <= DEFAULT_WEIGHTS.keys():
        raise ParameterError(f"weights={given!r}; needed is a mapping with some of {known}.")
    for key, value in given.items():
        if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
            raise ParameterError(f"weights[{key!r}]={value!r}; needed is a number >= 0.")
    w = merged_weights(given)
    if not w["x"] and not w["a"]:
        raise ParameterError(
            "weights x and a are both 0, and a constant encoder would then be perfect. Keep one "
            'of them, for instance weights={"a": 1.0}.'
        )


def check_latent_dim(learner: Any, columns: Columns) -> int:
    """The latent dimension m; it warns where the embedding theorem makes no promise."""
    n, flow, least = columns.n_columns, columns.flow_dimension, 2 * columns.flow_dimension + 1
    if learner.latent_dim is None:
        latent = max(least, n)
    elif whole(learner.latent_dim, 1):
        latent = int(learner.latent_dim)
    else:
        raise ParameterError(
            f"latent_dim={learner.latent_dim!r}; needed is a whole number >= {n}, or None for "
            f"2 n + 1 = {least}."
        )
    if latent < n:
        raise ParameterError(
            f"latent_dim={latent} is less than the {n} columns ({', '.join(columns.column_names)}) "
            f"that are encoded. Write latent_dim={max(least, n)}."
        )
    if latent < least:
        warnings.warn(
            f"latent_dim={latent}: for a flow of {flow} dimensions almost every encoder embeds the "
            f"glued states when latent_dim > {2 * flow}; with less an embedding need not exist. "
            f"Write latent_dim={least} unless you know that it does.",
            ForetellWarning,
            stacklevel=3,
        )
    P = learner.n_relu
    if P is not None and not whole(P, 0, latent):
        raise ParameterError(
            f"n_relu={P!r}; needed is a whole number from 0 to latent_dim={latent}."
        )
    return latent


def check_jump_index(
    given: Sequence[ArrayLike] | None, recordings: Trajectories
) -> list[NDArray[np.int64]] | None:
    """One array of samples for each recording, each with a sample after it."""
    if given is None:
        return None
    if len(given) != recordings.n_recordings:
        raise ParameterError(
            f"jump_index has {len(given)} entries; needed is one array of sample numbers for each "
            f"of the {recordings.n_recordings} recordings, empty where it does not jump."
        )
    found = []
    for n, (one, t) in enumerate(zip(given, recordings.times, strict=True)):
        index = np.asarray(one).reshape(-1)
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise ParameterError(
                f"jump_index[{n}] holds {index.dtype} numbers; needed are whole numbers of samples."
            )
        wrong = (index < 0) | (index > t.size - 2)
        if wrong.any():
            raise ParameterError(
                f"jump_index[{n}] holds {index[wrong][0]}; a jump after sample k needs "
                f"0 <= k <= {t.size - 2} in a recording of {t.size} samples."
            )
        found.append(index.astype(np.int64))
    return found


def check_derivatives(given: Any, recordings: Trajectories) -> tuple[Array, ...] | None:
    """Time derivatives in data units, shaped like the values."""
    if given is None:
        return None
    alone = isinstance(given, np.ndarray) and given.ndim == 2
    arrays = tuple(np.asarray(d, dtype=np.float64) for d in ([given] if alone else given))
    shapes = [v.shape for v in recordings.values]
    if [d.shape for d in arrays] != shapes:
        raise DataError(
            f"derivatives have shapes {[d.shape for d in arrays][:3]}; needed are those of the "
            f"values, {shapes[:3]}, one array for each recording."
        )
    return arrays
