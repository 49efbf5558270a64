"""Errors, randomness, time, artefacts and citations: what every other part may use."""

from foretell.core.artifact import Artifact
from foretell.core.citations import CITATIONS, citation
from foretell.core.clock import Clock, MonotonicClock, VirtualClock
from foretell.core.errors import (
    ArtifactError,
    CapacityError,
    ControllerError,
    DataError,
    ForetellError,
    ForetellWarning,
    MissingExtraError,
    NotFittedError,
    NumericalError,
    ParameterError,
    ProgramError,
    WipeoutError,
)
from foretell.core.files import write_bytes_atomic, write_text_atomic
from foretell.core.process import Process, Transition
from foretell.core.progress import Progress
from foretell.core.random import as_generator
from foretell.core.timeline import Event, Timeline, TimelineWriter, replay

__all__ = [
    "CITATIONS",
    "Artifact",
    "ArtifactError",
    "CapacityError",
    "Clock",
    "ControllerError",
    "DataError",
    "Event",
    "ForetellError",
    "ForetellWarning",
    "MissingExtraError",
    "MonotonicClock",
    "NotFittedError",
    "NumericalError",
    "ParameterError",
    "Process",
    "ProgramError",
    "Progress",
    "Timeline",
    "TimelineWriter",
    "Transition",
    "VirtualClock",
    "WipeoutError",
    "as_generator",
    "citation",
    "replay",
    "write_bytes_atomic",
    "write_text_atomic",
]
