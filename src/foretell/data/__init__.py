"""Recordings: reading, checking, cutting and scaling them, and systems that generate them."""

from foretell.data.scaling import Scaler
from foretell.data.trajectories import Trajectories, Windows

__all__ = ["Scaler", "Trajectories", "Windows"]
