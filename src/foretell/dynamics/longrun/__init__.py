"""How a generated run compares with recordings: long-run behaviour first, short forecasts second.

Where a system is chaotic, no model follows one recording for long; what a good model keeps is how
often each state is visited (`state_space_divergence`), the spectrum (`power_spectrum_hellinger`)
and, for spiking data, the intervals between events (`interval_histogram_distance`). Numbers from
two implementations cannot be compared, and none means much without `noise_floor`, the same number
between stretches of true recordings. Ensembles of possible futures are judged by `energy_score`,
`spread_skill` and `rank_histogram`; two laws of many variables by `energy_distance`.

Everywhere a set of recordings is a `Trajectories`, an array (T, N) or (T,) of one recording, an
array (B, T, N) of several, or a list of arrays.
"""

from foretell.dynamics.longrun.divergence import state_space_divergence, state_space_divergence_gmm
from foretell.dynamics.longrun.ensembles import (
    RankHistogram,
    SpreadSkill,
    energy_distance,
    energy_score,
    rank_histogram,
    sliced_wasserstein,
    spread_skill,
    wasserstein,
)
from foretell.dynamics.longrun.floor import NoiseFloor, noise_floor
from foretell.dynamics.longrun.forecasts import (
    ValidPredictionTime,
    prediction_error,
    valid_prediction_time,
)
from foretell.dynamics.longrun.intervals import event_times, interval_histogram_distance
from foretell.dynamics.longrun.rhythm import dominant_frequency
from foretell.dynamics.longrun.spectra import power_spectrum_hellinger

__all__ = [
    "NoiseFloor",
    "RankHistogram",
    "SpreadSkill",
    "ValidPredictionTime",
    "dominant_frequency",
    "energy_distance",
    "energy_score",
    "event_times",
    "interval_histogram_distance",
    "noise_floor",
    "power_spectrum_hellinger",
    "prediction_error",
    "rank_histogram",
    "sliced_wasserstein",
    "spread_skill",
    "state_space_divergence",
    "state_space_divergence_gmm",
    "valid_prediction_time",
    "wasserstein",
]
