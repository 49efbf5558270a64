"""The same barrier under other decays, for those who are not sure of the fitted one.

Each guard is a model of its own with its own state and its own limit, the same quantile of its own
saturation. A category is barred when any of them bars it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.estimator import unfitted
from foretell.trust._limits import limits_of_users
from foretell.trust.event_log import EventLog
from foretell.trust.saturation import SaturationState

if TYPE_CHECKING:
    from foretell.trust.exposure import ExposureRegulator

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass
class Guard:
    """A state under another decay, with the limit of each user and of users that come later."""

    state: SaturationState
    limit: Array
    common_limit: float

    def relative(self, labels: NDArray[Any], memberships: Array | None) -> Array:
        """D / L after an engagement with each kind, shape (B, K)."""
        ahead = self.state.lookahead(labels, memberships=memberships)
        return ahead / self.limit[self.state.rows(labels)][:, None]

    def update(
        self, labels: NDArray[Any], shown: Any, engaged: ArrayLike | None, dt: ArrayLike
    ) -> None:
        """The same step as the regulator's own state."""
        self.state.update(labels, shown, engaged, dt=dt)

    def add(self, labels: NDArray[Any]) -> None:
        """Hold further users."""
        held = self.state.labels_
        self.state.add(labels)
        limit = np.full(self.state.labels_.size, self.common_limit)
        limit[np.searchsorted(self.state.labels_, held)] = self.limit
        self.limit = limit


def guards_of(regulator: ExposureRegulator, log: EventLog, warm: bool) -> list[Guard]:
    """One guard for each factor of the decay, fitted to the same log."""
    guards = []
    for factor in regulator.also_decays:
        model = unfitted(regulator.model_).set_params(decay=float(factor) * regulator.model_.decay_)
        state = SaturationState(model.fit(log), rho=regulator.rho, users=log.labels, warm=warm)
        guards.append(Guard(state, *limits_of_users(regulator.limit, state.replay(log), log)))
    return guards
