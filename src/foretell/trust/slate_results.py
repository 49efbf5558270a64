"""What re-ranking and booking feedback return, with the reason for every moved item.

Legend: B users, k slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.trust.event_log import plain

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Move:
    """One slot whose item is not the one that the ranker alone would have put there.

    Parameters
    ----------
    slot : int
        From 0.
    item, displaced : label
        The item shown, and the one that the ranker had in this slot.
    saturation : float
        D / L of the user after the next step if nothing is engaged with; above 1 is a violation.
    with_item, with_displaced : float
        D / L after an engagement with either.
    weight : float
        The user's weight of saturation beside one standard deviation of scores.

    Examples
    --------
    >>> Move(0, "b", "a", saturation=0.9, with_item=0.95, with_displaced=1.2, weight=2.0)
    slot 0: 'b' for 'a', which could raise saturation from 0.90 to 1.20 of the limit ('b': 0.95)
    """

    slot: int
    item: Any
    displaced: Any
    saturation: float
    with_item: float
    with_displaced: float
    weight: float

    def __repr__(self) -> str:
        change = f"slot {self.slot}: {self.item!r} for {self.displaced!r}, "
        if self.with_displaced > max(1.0, self.with_item):
            return change + (
                f"which could raise saturation from {self.saturation:.2f} to "
                f"{self.with_displaced:.2f} of the limit ({self.item!r}: {self.with_item:.2f})"
            )
        return change + (
            f"for variety or because of an earlier move (saturation at most "
            f"{max(self.with_item, self.with_displaced):.2f} of the limit with either)"
        )


@dataclass(frozen=True)
class Slate:
    """Re-ranked items of a batch of users, and why.

    Parameters
    ----------
    items : array (B, k)
        Labels as given to ``rerank``, in the order of the slots.
    columns : int array (B, k)
        Where they stand in the candidates that were given.
    plain : array (B, k)
        What the ranker alone would have shown.
    relative : array (B,)
        D / L after the next step without an engagement.
    ahead, ahead_plain : array (B, k)
        D / L after an engagement with the shown and with the plain items.
    weight : array (B,)
        The users' weights.
    forced : bool array (B,)
        Barrier mode: too few candidates kept the limit, so the least bad ones fill the slate.
    """

    items: NDArray[Any]
    columns: NDArray[np.int64]
    plain: NDArray[Any]
    relative: Array
    ahead: Array
    ahead_plain: Array
    weight: Array
    forced: NDArray[np.bool_]

    def __repr__(self) -> str:
        moved = (self.items != self.plain).mean()
        return (
            f"Slate({self.items.shape[0]} users, {self.items.shape[1]} slots, {moved:.0%} of the "
            f"slots changed, {int(self.forced.sum())} forced)"
        )

    def moves(self, row: int = 0) -> list[Move]:
        """Why each changed slot of one user's slate was changed."""
        changed = np.flatnonzero(self.items[row] != self.plain[row])
        return [
            Move(
                slot=int(j),
                item=plain(self.items[row, j]),
                displaced=plain(self.plain[row, j]),
                saturation=float(self.relative[row]),
                with_item=float(self.ahead[row, j]),
                with_displaced=float(self.ahead_plain[row, j]),
                weight=float(self.weight[row]),
            )
            for j in changed
        ]


@dataclass(frozen=True)
class Feedback:
    """Where users stand after a step was booked.

    Parameters
    ----------
    saturation : array (B,)
        D.
    violated : bool array (B,)
        Whether D is above the user's limit.
    weight : array (B,)
        The new weights.
    """

    saturation: Array
    violated: NDArray[np.bool_]
    weight: Array

    def __repr__(self) -> str:
        return f"Feedback({self.violated.size} users, {int(self.violated.sum())} above the limit)"
