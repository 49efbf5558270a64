"""Errors, randomness, artefacts and citations: what every other part may use."""

from foretell.core.errors import (
    ArtifactError,
    DataError,
    ForetellError,
    ForetellWarning,
    MissingExtraError,
    NotFittedError,
    NumericalError,
    ParameterError,
)

__all__ = [
    "ArtifactError",
    "DataError",
    "ForetellError",
    "ForetellWarning",
    "MissingExtraError",
    "NotFittedError",
    "NumericalError",
    "ParameterError",
]
