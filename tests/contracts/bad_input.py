"""What no learner may accept: each entry is an input, the exact error and a part of its message."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from foretell.core import DataError, ParameterError

Array = np.ndarray[Any, np.dtype[np.float64]]


def wave(n_samples: int = 120) -> Array:
    """Two smooth columns, shape (n_samples, 2)."""
    t = 0.2 * np.arange(n_samples)
    return np.column_stack([np.sin(t) + 0.1 * np.sin(3 * t), np.cos(t)])


def _with(row: int, column: int, value: float) -> Array:
    values = wave()
    values[row, column] = value
    return values


def _swap_times() -> Array:
    times = np.arange(120.0)
    times[[7, 8]] = times[[8, 7]]
    return times


def _repeat_time() -> Array:
    times = np.arange(120.0)
    times[9] = times[8]
    return times


def _constant_column() -> Array:
    return np.column_stack([wave()[:, 0], np.full(120, 4.0)])


# Recordings: arguments of fit, made fresh by a function; DataError.
RECORDINGS: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "an infinite value": (lambda: (_with(7, 1, np.inf),), r"(?s)inf.*7|7.*inf"),
    "a missing value without mask": (lambda: (_with(7, 1, np.nan),), r"(?is)nan|missing"),
    "times that run backwards": (lambda: (wave(), _swap_times()), r"(?i)increas|backward"),
    "a repeated time": (lambda: (wave(), _repeat_time()), "merge_duplicates"),
    "an infinite time": (lambda: (wave(), np.append(np.arange(119.0), np.inf)), "(?i)inf|finite"),
    "too few times": (lambda: (wave(), np.arange(119.0)), r"(?s)119.*120|120.*119"),
    "one column as a vector": (lambda: (wave()[:, 0],), "delay_embed"),
    "a constant column": (lambda: (_constant_column(),), "(?i)constant"),
    "one row": (lambda: (wave(1),), r"(?i)\b1\b|one"),
    "no row": (lambda: (np.empty((0, 2)),), r"(?i)\b0\b|no |empty"),
    "no recording": (lambda: ([],), r"(?i)no recording|empty|\b0\b"),
    "columns of text": (lambda: (np.array([["a", "b"]] * 120),), r"(?i)number|text|'a'"),
    "recordings with different columns": (lambda: ([wave(), wave()[:, :1]],), r"(?s)2.*1|1.*2"),
    "fewer samples than a sequence": (lambda: (wave(15),), "sequence_length|horizons"),
}

# Hyper-parameters: constructor arguments that `fit` must refuse; ParameterError.
PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"latent_dim": 1, "n_relu": 1}, "latent_dim"),
    ({"latent_dim": 2.5}, "latent_dim"),
    ({"n_relu": -1}, "n_relu"),
    ({"n_relu": 99}, "n_relu"),
    ({"forcing": "hard"}, "stf"),
    ({"forcing_interval": 0}, "forcing_interval"),
    ({"forcing_interval": 21}, "forcing_interval"),
    ({"forcing_interval": "often"}, "forcing_interval"),
    ({"sequence_length": 0}, "sequence_length"),
    ({"batch_size": 0}, "batch_size"),
    ({"max_updates": 0}, "max_updates"),
    ({"lr": 0.0}, "lr"),
    ({"lr": float("nan")}, "lr"),
    ({"final_lr": -1.0}, "final_lr"),
    ({"noise": -0.1}, "noise"),
    ({"grad_clip": 0.0}, "grad_clip"),
    ({"validation": 1.0}, "validation"),
    ({"validation": -0.1}, "validation"),
    ({"time_scale": 0.0}, "time_scale"),
    ({"time_scale": -1.0}, "time_scale"),
    ({"time_scale": "fast"}, "time_scale"),
    ({"random_state": -1}, "random_state"),
]

# Questions to a fitted model of two columns and no controls; ParameterError.
QUESTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a start of the wrong size": ({"x0": np.zeros(3)}, r"(?s)3.*2|2.*3"),
    "a start that is not finite": ({"x0": np.array([0.0, np.nan])}, "(?i)nan|finite"),
    "times that run backwards": ({"times": np.array([0.0, 2.0, 1.0])}, "(?i)increas|backward"),
    "no times": ({"times": np.array([])}, "times"),
    "no samples": ({"n_samples": 0}, "n_samples"),
    "controls that it never saw": ({"controls": np.zeros((5, 1))}, "controls"),
}


def cases(table: dict[str, tuple[Any, str]]) -> list[Any]:
    """The entries of a table as pytest parameters, named by their key."""
    return [pytest.param(*entry, id=name.replace(" ", "-")) for name, entry in table.items()]


ERRORS = {"recordings": DataError, "parameters": ParameterError, "questions": ParameterError}
