"""Arguments of samplers and questions to them; errors are ParameterError."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import (
    check_seed,
    check_validation,
    last_rows,
    positive,
    whole,
)

Array = NDArray[np.float64]


def check_common(learner: Any) -> None:
    """Arguments that every sampler has."""
    check_whole(learner, "history", 1)
    for key in ("increments", "dt_feature"):
        value = getattr(learner, key)
        if not (isinstance(value, bool) or (key == "dt_feature" and value == "auto")):
            also = ' or "auto"' if key == "dt_feature" else ""
            raise ParameterError(f"{key}={value!r}; needed is True or False{also}.")
    check_validation(learner)
    check_seed(learner)


def check_training(learner: Any) -> None:
    """Arguments of every sampler with a network."""
    for key in ("width", "depth", "batch_size", "max_steps"):
        if not (key in ("width", "depth") and getattr(learner, key) == "auto"):
            check_whole(learner, key, 1)
    for key in ("lr", "final_lr"):
        if not positive(getattr(learner, key)):
            raise ParameterError(f"{key}={getattr(learner, key)!r}; needed is a positive number.")
    decay = learner.weight_decay
    if not (isinstance(decay, Real) and 0 <= float(decay) < np.inf):
        raise ParameterError(f"weight_decay={decay!r}; needed is a number >= 0.")


def check_lifting(learner: Any) -> None:
    """Arguments that only StochasticLifting has."""
    if learner.label_dim != "auto":
        check_whole(learner, "label_dim", 1)
    for key in ("mean_steps", "max_labelled"):
        check_whole(learner, key, 1)
    for key in ("residual", "calibrate", "local_scale"):
        if not isinstance(getattr(learner, key), bool):
            raise ParameterError(f"{key}={getattr(learner, key)!r}; needed is True or False.")
    if learner.centre not in ("pairs", "odd", "distil", None):
        raise ParameterError(
            f'centre={learner.centre!r}; needed is "pairs", "odd", "distil" or None.'
        )
    if learner.centre == "odd" and learner.residual and learner.backbone not in ("mlp", "conv1d"):
        raise ParameterError(
            f'centre="odd" with backbone={learner.backbone!r}; odd networks are "mlp" and '
            '"conv1d". Write centre="pairs".'
        )
    if learner.label_scope not in ("transition", "trajectory"):
        raise ParameterError(
            f'label_scope={learner.label_scope!r}; needed is "transition" or "trajectory".'
        )
    tol = learner.interp_tol
    if isinstance(tol, (bool, str)) or not 0 <= float(tol) < 1:
        raise ParameterError(f"interp_tol={tol!r}; needed is a share in [0, 1).")
    if not learner.residual and learner.calibrate:
        raise ParameterError(
            "the temperature acts on the residual part; with residual=False write "
            "calibrate=False (the published method)."
        )
    if (learner.calibrate or learner.label_dim == "auto") and not learner.validation:
        raise ParameterError(
            "validation=0 leaves nothing to calibrate on. Write validation=0.2, or "
            "calibrate=False with a number for label_dim."
        )


def check_whole(learner: Any, key: str, least: int) -> None:
    """One argument that must be a whole number."""
    value = getattr(learner, key)
    if isinstance(value, bool) or not whole(value, least):
        raise ParameterError(f"{key}={value!r}; needed is a whole number >= {least}.")


def checked_past(
    x0: ArrayLike | Trajectories, shape: tuple[int, ...], history: int, names: tuple[str, ...] = ()
) -> Array:
    """Starts with their past, (B, h, n); a start alone is repeated."""
    if isinstance(x0, Trajectories):
        x0 = last_rows(x0, history).reshape(len(x0), history, *shape)
    x = np.asarray(x0, dtype=np.float64)
    n = int(np.prod(shape))
    if not np.isfinite(x).all():
        raise ParameterError("x0 has entries that are not finite; a start must be complete.")
    if x.shape == shape or (len(shape) > 1 and x.shape == (n,)):
        x = x[None]
    if x.shape[1:] == shape or (len(shape) > 1 and x.ndim == 2 and x.shape[1] == n):
        return np.repeat(x.reshape(len(x), 1, n), history, axis=1)
    if x.shape[1:] == (history, *shape):
        return x.reshape(len(x), history, n)
    said = f" for {', '.join(names[:8])}" if names and len(shape) == 1 else ""
    past = f", or with history (number of starts, {history}, ...)" if history > 1 else ""
    shown = ", ".join(map(str, shape))
    raise ParameterError(
        f"x0 has shape {x.shape}; needed is ({shown}{',' * (len(shape) == 1)}) or (number of "
        f"starts, {shown}){said}{past}."
    )


def checked_inputs(controls: ArrayLike | None, n_steps: int, names: tuple[str, ...]) -> Array:
    """Inputs of every step, (n_steps, K)."""
    K = len(names)
    if controls is None:
        if K:
            raise ParameterError(
                f"this model was fitted with the controls {', '.join(names)}; give "
                f"controls=array of shape ({n_steps}, {K})."
            )
        return np.zeros((n_steps, 0))
    if K == 0:
        raise ParameterError("this model was fitted without controls; leave controls out.")
    u = np.asarray(controls, dtype=np.float64)
    u = np.tile(u, (n_steps, 1)) if u.shape == (K,) else u
    if u.shape != (n_steps, K) or not np.isfinite(u).all():
        raise ParameterError(
            f"controls have shape {np.shape(controls)}; needed are finite numbers of shape "
            f"({n_steps}, {K}), one row for each step, or ({K},) for all."
        )
    return u
