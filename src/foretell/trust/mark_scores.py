"""How well the next categories of held-out events were predicted.

Legend: U users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Gate:
    """Whether excitation predicts held-out categories better than habits alone.

    Parameters
    ----------
    passed : bool
        Whether the fitted excitation is used; otherwise ``ExcitationModel`` falls back.
    nll : float
        Mean negative log probability of a held-out category, in nats, with excitation.
    nll_habits : float
        The same for the better of two models without it: each user's shrunk shares, fixed or
        updated with every event.
    nll_everyone : float
        The same for the shares of all users together.
    n_events : int
        Held-out events.

    Examples
    --------
    >>> Gate(passed=True, nll=2.47, nll_habits=2.53, nll_everyone=2.58, n_events=20000)
    Gate(passed: 2.470 nats with excitation, 2.530 by habit, 2.580 for everyone; 20000 events)
    """

    passed: bool
    nll: float
    nll_habits: float
    nll_everyone: float
    n_events: int

    def __repr__(self) -> str:
        return (
            f"Gate({'passed' if self.passed else 'failed'}: {self.nll:.3f} nats with excitation, "
            f"{self.nll_habits:.3f} by habit, {self.nll_everyone:.3f} for everyone; "
            f"{self.n_events} events)"
        )


@dataclass(frozen=True)
class MarkScore:
    """How well the next categories of a log were predicted.

    Parameters
    ----------
    nll : float
        Mean negative log probability of an event's category, in nats.
    by_user : array (U,)
        The sum of a user's losses.
    events_by_user : array (U,)
        How many events each sum is over.
    """

    nll: float
    by_user: Array
    events_by_user: Array

    def __repr__(self) -> str:
        return f"MarkScore({self.nll:.4f} nats an event, {int(self.events_by_user.sum())} events)"
