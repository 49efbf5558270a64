"""Systems that flow and jump, learned as one continuous flow in a latent space.

Only fitting needs torch; a saved model is opened and used without it.
"""

from foretell.dynamics.hybrid.guards import GuardReset, GuardSamples, JumpEvent
from foretell.dynamics.hybrid.learner import HybridLatentODE
from foretell.dynamics.hybrid.metrics import (
    EventMatch,
    event_f1,
    ghost_rate,
    klein_copies,
    quotient_error,
    torus_copies,
)
from foretell.dynamics.hybrid.seams import (
    LatentRank,
    SeamGaps,
    position_gaps,
    quotient_distances,
    velocity_gaps,
)
from foretell.dynamics.hybrid.topology import Betti, betti_numbers
from foretell.dynamics.hybrid.windows import Jumps

__all__ = [
    "Betti",
    "EventMatch",
    "GuardReset",
    "GuardSamples",
    "HybridLatentODE",
    "JumpEvent",
    "Jumps",
    "LatentRank",
    "SeamGaps",
    "betti_numbers",
    "event_f1",
    "ghost_rate",
    "klein_copies",
    "position_gaps",
    "quotient_distances",
    "quotient_error",
    "torus_copies",
    "velocity_gaps",
]
