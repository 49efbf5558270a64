"""How a fit is watched, kept and resumed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from foretell.train.loop import OnStep


@dataclass
class Training:
    """What the caller wants to hear and to keep.

    Attributes
    ----------
    on_step : callable, optional
        Receives ``Progress``.
    checkpoint : path, optional
    resume : bool
    identity : str
        Names data and settings; a checkpoint of another identity is refused.
    """

    on_step: OnStep | None = None
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    identity: str = ""
