"""Fitted regulators as folders: the model's parameters, the limit, and one row for each user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import Artifact, ArtifactError
from foretell.trust import diversify
from foretell.trust._guards import Guard
from foretell.trust.excitation import ExcitationModel
from foretell.trust.mark_scores import Gate
from foretell.trust.risk_cells import SaturationCells
from foretell.trust.saturation import SaturationState

if TYPE_CHECKING:
    from foretell.trust.exposure import ExposureRegulator

_DIVERSIFIERS = ("MMR", "SteckCalibration", "DPP", "CategoryCap")
_MODEL = (
    "baseline_", "prior_", "excitation_", "standard_errors_", "state_", "counts_", "counted_",
    "exposure_", "engagements_",
)  # fmt: skip
_PLAIN = (
    "mode", "target_violation", "delta", "rho", "risk", "caution", "step", "start_weight", "pool",
    "exploration", "cold_start", "allow_infeasible",
)  # fmt: skip


def saved(regulator: ExposureRegulator, path: str | os.PathLike[str]) -> Path:
    """Write everything that ``opened`` needs to go on exactly here."""
    model, state = regulator.model_, regulator.state_
    rule = regulator.diversifier
    if rule is not None and type(rule).__name__ not in _DIVERSIFIERS:
        raise ArtifactError(
            f"the diversifier {rule!r} is a class of yours, which a folder cannot name. Save with "
            "one of MMR, SteckCalibration, DPP, CategoryCap or None."
        )
    arrays = _packed_model("model", model)
    arrays |= {"S": state.S_, "mu": state.mu_, "limit": regulator.limit_}
    arrays |= {"weight": regulator.weight_, "engagement_bound": regulator.engagement_bound_}
    bound = regulator.cells_.bound
    arrays |= {"cells.n": bound.n, "cells.total": bound.total, "cells.spread": bound.spread}
    fields: dict[str, Any] = {
        "facts": _facts(model),
        "guards": [_facts(guard.state.model) for guard in regulator.guards_],
        "guard_limits": [guard.common_limit for guard in regulator.guards_],
        "common_limit": regulator.common_limit_,
        "model": {**model.get_params(), "random_state": None},
        "diversifier": None if rule is None else {"class": type(rule).__name__, **vars(rule)},
        "limit": dict(regulator.limit) if isinstance(regulator.limit, dict) else regulator.limit,
    }
    for n, guard in enumerate(regulator.guards_):
        arrays |= _packed_model(f"guard{n}", guard.state.model)
        arrays |= {f"guard{n}.S": guard.state.S_, f"guard{n}.limit": guard.limit}
    for name, labels in (("users", state.labels_), ("model.users", model.users_)):
        _pack_labels(name, labels, arrays, fields)
    return Artifact(
        model_class="ExposureRegulator",
        arrays=arrays,
        parameters={name: getattr(regulator, name) for name in _PLAIN}
        | {"also_decays": list(regulator.also_decays)},
        fields=fields,
        citations=("coral",),
    ).save(path)


def opened(path: str | os.PathLike[str]) -> ExposureRegulator:
    """The regulator that ``saved`` wrote, in the same state."""
    from foretell.trust.exposure import ExposureRegulator

    artifact = Artifact.open(path, classes=["ExposureRegulator"])
    arrays, fields = artifact.arrays, artifact.fields
    model = _opened_model("model", artifact, fields["facts"])
    rule = None
    if fields["diversifier"] is not None:
        settings = dict(fields["diversifier"])
        rule = getattr(diversify, _known(settings.pop("class"), path))(**settings)
    regulator = ExposureRegulator(
        model, limit=fields["limit"], diversifier=rule, **artifact.parameters
    )
    state = SaturationState(model, rho=regulator.rho, users=_labels("users", artifact))
    state.S_, state.mu_ = arrays["S"], arrays["mu"]
    regulator.model_, regulator.state_ = model, state
    regulator.limit_, regulator.weight_ = arrays["limit"], arrays["weight"]
    regulator.common_limit_ = fields["common_limit"]
    regulator.engagement_bound_ = arrays["engagement_bound"]
    regulator.cells_ = SaturationCells(model.prior_.size, delta=regulator.delta)
    bound = regulator.cells_.bound
    bound.n, bound.total = arrays["cells.n"], arrays["cells.total"]
    bound.spread = arrays["cells.spread"]
    regulator.guards_ = []
    for n, (facts, common) in enumerate(zip(fields["guards"], fields["guard_limits"], strict=True)):
        other = SaturationState(
            _opened_model(f"guard{n}", artifact, facts), rho=regulator.rho, users=state.labels_
        )
        other.S_ = arrays[f"guard{n}.S"]
        regulator.guards_.append(Guard(other, arrays[f"guard{n}.limit"], common))
    regulator._excitation = model.excitation_ + regulator.caution * model.standard_errors_
    return regulator


def _packed_model(prefix: str, model: ExcitationModel) -> dict[str, Any]:
    return {f"{prefix}.{name}": getattr(model, name) for name in _MODEL}


def _facts(model: ExcitationModel) -> dict[str, Any]:
    return {
        "gate": vars(model.gate_),
        "decay": model.decay_,
        "prior_strength": model.prior_strength_,
    }


def _opened_model(prefix: str, artifact: Artifact, facts: dict[str, Any]) -> ExcitationModel:
    model = ExcitationModel(**artifact.fields["model"])
    for name in _MODEL:
        setattr(model, name, artifact.arrays[f"{prefix}.{name}"])
    model.decay_, model.prior_strength_ = facts["decay"], facts["prior_strength"]
    model.gate_ = Gate(**facts["gate"])
    model.users_, model.groups_ = _labels("model.users", artifact), None
    return model


def _known(name: str, path: str | os.PathLike[str]) -> str:
    if name not in _DIVERSIFIERS:
        raise ArtifactError(
            f"{path} names the diversifier {name!r}, which is not known here (known: "
            f"{', '.join(_DIVERSIFIERS)}). Update with: pip install --upgrade foretell"
        )
    return name


def _pack_labels(
    name: str, labels: NDArray[Any], arrays: dict[str, Any], fields: dict[str, Any]
) -> None:
    if labels.dtype.kind in "iuf":
        arrays[name] = labels
    else:
        fields[name] = [str(label) for label in labels]


def _labels(name: str, artifact: Artifact) -> NDArray[Any]:
    if name in artifact.arrays:
        return artifact.arrays[name]
    return np.array(artifact.fields[name])
