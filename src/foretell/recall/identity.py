"""From the ids that users give to the rows where vectors lie.

Sorted runs that merge when they are of like length, so that a million small additions cost a
logarithm each and 10^7 ids take 160 MB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class IdentityMap:
    """Finds the last row of an id.

    Examples
    --------
    >>> ids = IdentityMap()
    >>> ids.add(np.array([30, 10]), first_row=0)
    >>> ids.add(np.array([10]), first_row=2)
    >>> ids.rows(np.array([10, 20, 30]))
    array([ 2, -1,  0])
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Ids, Ids]] = []

    def add(self, ids: Ids, first_row: int) -> None:
        """Note the ids of new rows, the first of which is ``first_row``."""
        if not len(ids):
            return
        order = np.argsort(ids, kind="stable")
        run = (ids[order], order + first_row)
        while self._runs and len(self._runs[-1][0]) <= 2 * len(run[0]):
            older = self._runs.pop()
            both = np.concatenate([older[0], run[0]])
            order = np.argsort(both, kind="stable")
            run = (both[order], np.concatenate([older[1], run[1]])[order])
        self._runs.append(run)

    def rows(self, ids: Ids) -> Ids:
        """Row of each id, the newest where it occurs twice; -1 where it does not occur."""
        out = np.full(len(ids), -1, np.int64)
        for known, rows in self._runs:
            if len(known):
                place = np.searchsorted(known, ids, side="right") - 1
                found = (place >= 0) & (known[place] == ids)
                out[found] = np.maximum(out[found], rows[place[found]])
        return out
