"""Errors that mean something for systems that jump.

A step too early or too late at a wrap is an error of order one for the plain mean square. So errors
are also measured in the glued space, jumps are matched in time, and states between the two sides of
a jump, where the system never is, are counted.

Legend: B runs, T samples, n variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from foretell.core import ParameterError

Array = NDArray[np.float64]
Copies = Callable[[Array], Sequence[Array]]


@dataclass(frozen=True)
class EventMatch:
    """Predicted jumps against true ones.

    Parameters
    ----------
    precision, recall, f1 : float
        Shares of matched jumps.
    timing_error : float
        Mean distance of matched pairs, in time units; NaN without one.
    """

    precision: float
    recall: float
    f1: float
    timing_error: float


def event_f1(
    predicted: Sequence[ArrayLike], true: Sequence[ArrayLike], tolerance: float
) -> EventMatch:
    """Match jumps in time, each at most once, nearest pairs first, over all runs together.

    Examples
    --------
    >>> event_f1([[1.0, 2.1, 5.0]], [[1.0, 2.0]], tolerance=0.2)
    EventMatch(precision=0.666..., recall=1.0, f1=0.8, timing_error=0.05...)
    """
    if len(predicted) != len(true):
        raise ParameterError(
            f"there are {len(predicted)} runs of predicted and {len(true)} of true jumps; needed "
            "is one list of jump times for each run."
        )
    errors, n_predicted, n_true = [], 0, 0
    for one, two in zip(predicted, true, strict=True):
        p, q = np.asarray(one, dtype=float).reshape(-1), np.asarray(two, dtype=float).reshape(-1)
        n_predicted, n_true = n_predicted + p.size, n_true + q.size
        away = np.abs(p[:, None] - q)
        while away.size and away.min() <= tolerance:
            i, j = np.unravel_index(away.argmin(), away.shape)
            errors.append(float(away[i, j]))
            away[i, :], away[:, j] = np.inf, np.inf
    precision = len(errors) / n_predicted if n_predicted else float(n_true == 0)
    recall = len(errors) / n_true if n_true else float(n_predicted == 0)
    both = precision + recall
    return EventMatch(
        precision, recall, 2 * precision * recall / both if both else 0.0,
        float(np.mean(errors)) if errors else float("nan"),
    )  # fmt: skip


def quotient_error(predicted: Array, true: Array, copies: Copies) -> float:
    """Mean square error per variable in the glued space.

    ``copies(x)`` returns the states that are glued to x (..., n), x itself included, as seen from
    the other side; the nearest one counts.

    Examples
    --------
    >>> round(quotient_error(np.array([[0.95, 0.5]]), np.array([[0.05, 0.5]]), torus_copies), 6)
    0.005
    """
    away = [((copy - true) ** 2).sum(axis=-1) for copy in copies(predicted)]
    return float(np.min(away, axis=0).mean() / true.shape[-1])


def torus_copies(x: Array) -> list[Array]:
    """The nine copies of points of the unit square with opposite sides glued."""
    return [x + np.array([i, j]) for i in (-1.0, 0.0, 1.0) for j in (-1.0, 0.0, 1.0)]


def klein_copies(x: Array) -> list[Array]:
    """The same for the Klein bottle: a turn in x flips y."""
    flipped = np.stack([x[..., 0], 1.0 - x[..., 1]], axis=-1)
    return [
        (flipped if i else x) + np.array([i, j]) for i in (-1.0, 0.0, 1.0) for j in (-1.0, 0.0, 1.0)
    ]


def ghost_rate(predicted: Array, data: Array, *, quantile: float = 0.999) -> float:
    """Share of predicted states (.., n) that are farther from all data (S, n) than data are.

    The limit is the 99.9 % quantile of the distances of data to their nearest neighbours; scale
    the variables alike before.

    Examples
    --------
    >>> line = np.column_stack([np.linspace(0, 1, 101), np.zeros(101)])
    >>> ghost_rate(np.array([[0.5, 0.0], [0.5, 0.5]]), line)
    0.5
    """
    tree = cKDTree(data)
    limit = float(np.quantile(tree.query(data, k=2)[0][:, 1], quantile))
    away = tree.query(predicted.reshape(-1, data.shape[1]))[0]
    return float((away > limit).mean())
