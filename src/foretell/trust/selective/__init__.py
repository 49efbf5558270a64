"""Accept, pass on or withhold by a score, with a guarantee that is named exactly."""

from foretell.trust.selective.identity import ScoreIdentity, ScoreProfile, ScoreShift, ScoreTally
from foretell.trust.selective.threshold import Performance, SelectiveThreshold, as_errors

__all__ = [
    "Performance",
    "ScoreIdentity",
    "ScoreProfile",
    "ScoreShift",
    "ScoreTally",
    "SelectiveThreshold",
    "as_errors",
]
