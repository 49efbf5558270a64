"""A language detector as a folder: the head, the rule, and the name of the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foretell.converse.language.classifier import ConvexReLUClassifier
from foretell.converse.language.encoders import known_encoder
from foretell.core.artifact import Artifact
from foretell.core.errors import ArtifactError

if TYPE_CHECKING:
    from foretell.converse.language.detector import ConvexLanguageDetector

_RULE = ("threshold_", "risk_bound_", "n_tested_", "n_decided_", "n_wrong_")
_NOT_SAVED = ("encoder", "head", "random_state")


def describe(detector: ConvexLanguageDetector) -> Artifact:
    """The folder's content, or an ArtifactError where head or encoder cannot be described."""
    head, encoder = detector.head_, detector.encoder_
    if type(head) is not ConvexReLUClassifier:
        raise ArtifactError(
            f"Only a head of type ConvexReLUClassifier is saved; this is {type(head).__name__}."
        )
    name = getattr(encoder, "name", None)
    if not isinstance(name, str):
        raise ArtifactError(
            f"The encoder {encoder!r} has no `name`, so that `load` could not check it. "
            'Give it one: encoder.name = "whisper-tiny".'
        )
    rule = {key: getattr(detector, key) for key in _RULE}
    finite = {key: value if np.isfinite(value) else None for key, value in rule.items()}
    settings = detector.get_params(deep=False)
    return Artifact(
        model_class=type(detector).__name__,
        arrays=head._saved_arrays(),
        parameters={key: value for key, value in settings.items() if key not in _NOT_SAVED},
        fields={
            "encoder": name,
            "sample_rate": encoder.sample_rate,
            "rule": finite,
            "head": {**head.get_params(), "random_state": None},
            "head_fields": head._saved_fields(),
        },
        citations=("cld",),
    )


def right_encoder(artifact: Artifact, encoder: Any, path: Path) -> Any:
    """The encoder that was given or is known, if it has the name in the folder."""
    name = artifact.fields.get("encoder")
    found = known_encoder(str(name)) if encoder is None else encoder
    if found is None or getattr(found, "name", None) != name:
        what = "none was given" if found is None else f"{found!r} is another"
        raise ArtifactError(
            f"{path} was fitted with the encoder {name!r}, and {what}. Write "
            "ConvexLanguageDetector.load(path, encoder=...)."
        )
    return found


def restore(detector: ConvexLanguageDetector, artifact: Artifact, path: Path) -> None:
    """Head and rule from the folder."""
    head = Artifact(
        model_class=ConvexReLUClassifier.__name__,
        arrays=artifact.arrays,
        parameters=artifact.fields["head"],
        fields=artifact.fields["head_fields"],
    )
    detector.head_ = ConvexReLUClassifier._from_artifact(head, path)
    detector.classes_ = detector.head_.classes_
    missing = {"threshold_": float("inf"), "risk_bound_": float("nan")}
    for key in _RULE:
        value = artifact.fields["rule"][key]
        setattr(detector, key, missing[key] if value is None else value)
