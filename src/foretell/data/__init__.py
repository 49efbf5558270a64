"""Recordings: reading, checking, cutting, scaling and embedding them.

Generators of known systems are in `foretell.data.systems`, real recordings of other packages in
`foretell.data.recordings`.
"""

from foretell.data.embedding import choose_lag, delay_embed
from foretell.data.scaling import Scaler
from foretell.data.trajectories import Trajectories, Windows

__all__ = ["Scaler", "Trajectories", "Windows", "choose_lag", "delay_embed"]
