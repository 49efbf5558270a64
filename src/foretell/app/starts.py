"""Where a forecast starts: at a recorded row, with what was recorded before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.data import Trajectories

LONGEST_RUN_UP = 400  # rows; hidden units have forgotten where they began by then


def start_at(
    model: Any, data: Trajectories, recording: int, row: int
) -> NDArray[np.float64] | Trajectories:
    """The state at a row; with inputs or delays, what was recorded until then.

    Hidden units are run up along it, and delays are taken from it. Otherwise forecasts start from
    the row alone, as those do by which the model is judged.
    """
    looks_back = data.controls is not None or int(getattr(model, "n_delays", 0)) > 0
    if row == 0 or not looks_back:
        return np.asarray(data.values[recording][row], dtype=np.float64)
    first = max(0, row + 1 - LONGEST_RUN_UP)
    return data.select(recording).take_rows([slice(first, row + 1)])
