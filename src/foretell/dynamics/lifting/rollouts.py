"""One step after the other for many members at once: the engine of all samplers.

Legend: B starts, S members of each, R = B S rows, h states of history, n numbers of a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Step = Callable[[Array, Array, float], Array]
"""(past (R, h, n), inputs (R, K), interval) -> next states (R, n)."""


@dataclass(frozen=True)
class Move:
    """One step of a run.

    Attributes
    ----------
    interval : float
        How long it takes.
    input_row : int
        Row of the inputs that acts during it.
    kept : bool
        Whether the state after it is one of those asked for.
    """

    interval: float
    input_row: int = 0
    kept: bool = True


def run(
    step: Step,
    past: Array,
    moves: Sequence[Move],
    n_members: int,
    inputs: Array,
    project: Callable[[Array], Array] | None = None,
) -> Array:
    """Run every start with several members: one call of ``step`` for each move, for all rows.

    Parameters
    ----------
    step : callable
    past : array (B, h, n)
        The states up to the present.
    moves : sequence of Move
    n_members : int
        S.
    inputs : array (T, K)
    project : callable, optional
        Brings states (R, n) back to where they can physically be, after every step.

    Returns
    -------
    array (B, S, 1 + number of moves that are kept, n)
        The first slice is the start.
    """
    B, _, n = past.shape
    states = np.empty((B * n_members, 1 + sum(m.kept for m in moves), n))
    window = np.repeat(past, n_members, axis=0)
    states[:, 0] = window[:, -1]
    column = 0
    for move in moves:
        u = np.broadcast_to(inputs[move.input_row], (len(window), inputs.shape[1]))
        following = step(window, u, move.interval)
        if project is not None:
            following = np.asarray(project(following), dtype=np.float64)
        window = np.concatenate([window[:, 1:], following[:, None]], axis=1)
        if move.kept:
            column += 1
            states[:, column] = following
    return states.reshape(B, n_members, -1, n)
