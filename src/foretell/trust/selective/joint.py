"""Joint search over the thresholds of several models: what the paper proposes, without a theorem.

Legend: n cases, K models, u_NK uncertainty, e_NK errors.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

JOINT_CANDIDATES = 256  # combinations of thresholds of all models but the last


def joint_search(u_NK: Array, e_NK: Array, alpha: float) -> tuple[float, ...] | None:
    """Thresholds of all models that accept the most with E + 1 <= alpha k."""
    n, n_models = u_NK.shape
    per_model = max(2, int(JOINT_CANDIDATES ** (1 / (n_models - 1)) + 1e-9))
    grids = [
        np.append(-np.inf, np.quantile(u_NK[:, k], np.linspace(0, 1, per_model - 1)))
        for k in range(n_models - 1)
    ]
    order = np.argsort(u_NK[:, -1], kind="stable")
    u, e = u_NK[order], e_NK[order]
    last_of_group = np.append(u[1:, -1] != u[:-1, -1], True)
    best, limits = 0, None
    for first in itertools.product(*grids):
        taken = u[:, :-1] <= np.asarray(first)
        model = np.column_stack([taken, np.ones(n, dtype=bool)]).argmax(axis=1)
        early = model < n_models - 1
        kept, lost = int(early.sum()), float(e[np.arange(n), model][early].sum())
        late = ~early
        k = np.append(kept, kept + np.cumsum(late)[last_of_group])
        errors = np.append(lost, lost + np.cumsum(e[:, -1] * late)[last_of_group])
        passing = np.flatnonzero(errors + 1 <= alpha * k + 1e-9)
        if passing.size and k[passing[-1]] > best:
            best = int(k[passing[-1]])
            values = np.append(-np.inf, u[last_of_group, -1])
            limits = (*map(float, first), float(values[passing[-1]]))
    return limits


def joint_routes(
    u_NK: Array, limits: tuple[float, ...] | None
) -> tuple[Integers, NDArray[np.bool_]]:
    """The model whose threshold is met first, and which cases meet any."""
    n, n_models = u_NK.shape
    if limits is None:
        return np.full(n, n_models - 1), np.zeros(n, dtype=bool)
    below = u_NK <= np.asarray(limits)
    accepted: NDArray[np.bool_] = np.asarray(below.any(axis=1))
    return np.where(accepted, below.argmax(axis=1), n_models - 1), accepted
