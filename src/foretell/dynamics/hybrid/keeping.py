"""A HybridLatentODE as arrays and JSON values, and the settings of its training."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.data import Scaler
from foretell.dynamics.history import History
from foretell.dynamics.hybrid.arguments import merged_weights
from foretell.dynamics.hybrid.columns import Columns
from foretell.dynamics.hybrid.latent_model import Shape
from foretell.dynamics.hybrid.seams import LatentRank, SeamGaps
from foretell.dynamics.hybrid.settings import Settings
from foretell.dynamics.hybrid.windows import Jumps

_SEQUENCES = ("horizons", "angle_columns", "quaternion_columns")
_PLAIN = ("time_scale", "best_step", "fit_seconds")


def settings_of(learner: Any) -> Settings:
    """The settings of a training from the constructor's arguments."""
    seed = learner.random_state
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return Settings(
        horizons=tuple(int(h) for h in learner.horizons),
        updates_per_horizon=int(learner.updates_per_horizon),
        batch_size=int(learner.batch_size),
        lr=float(learner.lr),
        final_lr=float(learner.final_lr),
        grad_clip=float(learner.grad_clip),
        weights=merged_weights(learner.weights),
        seam_weight=float(learner.seam_weight),
        spread=float(learner.head_spread),
        variance_floor=float(learner.variance_floor),
        substeps=int(learner.substeps),
        seed=int(seed),
    )


def kept(model: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and JSON values of a fitted model."""
    fields: dict[str, Any] = {name: getattr(model, f"{name}_") for name in _PLAIN}
    fields |= {
        "validation_score": repr(float(model.validation_score_)),
        "scaler": model.scaler_.to_dict(),
        "history": model.history_.to_dict(),
        "shape": asdict(model.shape_),
        "head": model.head_,
        "columns": model.columns_.to_dict(),
        "jump_threshold": model.jumps_.threshold,
        "seams": model.seams_.to_dict(),
        "latent_rank": model.latent_rank_.to_dict(),
    }
    arrays = {f"networks.{name}": array for name, array in model.arrays_.items()}
    arrays |= {"low": model.low_, "high": model.high_}
    arrays |= {f"seam.{name}": array for name, array in model.seam_pairs_.items()}
    arrays["jump_counts"] = np.array([f.size for f in model.jumps_.flags], dtype=np.int64)
    arrays["jump_flags"] = np.concatenate(model.jumps_.flags).astype(np.uint8)
    arrays["jump_residuals"] = np.concatenate(model.jumps_.residuals)
    return arrays, fields


def arguments(parameters: Any) -> dict[str, Any]:
    """Constructor arguments from their JSON form."""
    return {k: _tuples(v) if k in _SEQUENCES else v for k, v in parameters.items()}


def take_over(model: Any, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
    """Fill an unfitted model with what ``kept`` gave."""
    for name in _PLAIN:
        setattr(model, f"{name}_", fields[name])
    model.validation_score_ = float(fields["validation_score"])
    model.scaler_ = Scaler.from_dict(fields["scaler"])
    model.history_ = History.from_dict(fields["history"])
    model.columns_ = Columns.from_dict(fields["columns"])
    model.seams_ = SeamGaps.from_dict(fields["seams"])
    model.latent_rank_ = LatentRank.from_dict(fields["latent_rank"])
    model.low_, model.high_ = arrays["low"], arrays["high"]
    model.seam_pairs_ = _under(arrays, "seam.")
    ends = np.cumsum(arrays["jump_counts"])[:-1]
    model.jumps_ = Jumps(
        tuple(np.split(arrays["jump_flags"].astype(bool), ends)), fields["jump_threshold"],
        tuple(np.split(arrays["jump_residuals"], ends)),
    )  # fmt: skip
    shape = {**fields["shape"], "heads": tuple(fields["shape"]["heads"])}
    model._adopt(Shape(**shape), _under(arrays, "networks."), fields["head"])


def _under(arrays: Any, prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
