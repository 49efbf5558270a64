"""Errors, randomness, artefacts and citations: what every other part may use."""

from foretell.core.artifact import Artifact
from foretell.core.citations import CITATIONS, citation
from foretell.core.errors import (
    ArtifactError,
    CapacityError,
    DataError,
    ForetellError,
    ForetellWarning,
    MissingExtraError,
    NotFittedError,
    NumericalError,
    ParameterError,
    WipeoutError,
)
from foretell.core.files import write_bytes_atomic, write_text_atomic
from foretell.core.process import Process, Transition
from foretell.core.progress import Progress
from foretell.core.random import as_generator

__all__ = [
    "CITATIONS",
    "Artifact",
    "ArtifactError",
    "CapacityError",
    "DataError",
    "ForetellError",
    "ForetellWarning",
    "MissingExtraError",
    "NotFittedError",
    "NumericalError",
    "ParameterError",
    "Process",
    "Progress",
    "Transition",
    "WipeoutError",
    "as_generator",
    "citation",
    "write_bytes_atomic",
    "write_text_atomic",
]
