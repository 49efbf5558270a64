"""A fitted learner of sequences as an artefact, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from foretell.core import Artifact
from foretell.data import Scaler
from foretell.dynamics.fitting import Layout
from foretell.dynamics.training_state import History

if TYPE_CHECKING:
    from foretell.dynamics.sequence_learner import SequenceLearner


def described(model: SequenceLearner) -> Artifact:
    """Everything that a fitted model needs to come back."""
    fields = {
        "names": list(model.names_),
        "control_names": list(model.control_names_),
        "control_units": list(model.control_units_),
        "time_name": model.time_name_,
        "time_unit": model.time_unit_,
        "time_scale": model.time_scale_,
        "forcing_interval": model.forcing_interval_,
        "best_step": model.best_step_,
        "validation_score": repr(float(model.validation_score_)),
        "fit_seconds": model.fit_seconds_,
        "scaler": model.scaler_.to_dict(),
        "history": model.history_.to_dict(),
        "layout": asdict(model.layout_),
    }
    return Artifact(
        model_class=type(model).__name__,
        arrays={"theta": model.theta_},
        parameters=model.get_params(),
        fields=fields,
        units=dict(zip(model.names_, model.units_, strict=True)),
        data_fingerprint=model.fingerprint_,
        citations=model.citations,
    )


def restore(model: SequenceLearner, artifact: Artifact) -> None:
    """Fill an unfitted model with what ``described`` kept."""
    fields: dict[str, Any] = dict(artifact.fields)
    model.names_ = tuple(fields["names"])
    model.units_ = tuple(artifact.units[name] for name in model.names_)
    model.control_names_ = tuple(fields["control_names"])
    model.control_units_ = tuple(fields["control_units"])
    model.time_name_, model.time_unit_ = fields["time_name"], fields["time_unit"]
    model.time_scale_ = fields["time_scale"]
    model.forcing_interval_ = fields["forcing_interval"]
    model.best_step_ = fields["best_step"]
    model.validation_score_ = float(fields["validation_score"])
    model.fit_seconds_ = fields["fit_seconds"]
    model.scaler_ = Scaler.from_dict(fields["scaler"])
    model.history_ = History.from_dict(fields["history"])
    model.fingerprint_ = artifact.data_fingerprint
    model.adopt(Layout(**fields["layout"]), artifact.arrays["theta"])
