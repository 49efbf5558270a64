"""Real recordings that other installed packages carry."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.data.trajectories import Trajectories


def load_heartpy_ppg(which: Literal["irregular", "regular", "short"] = "irregular") -> Trajectories:
    """Heart pulse measured by light (photoplethysmogram), from the package ``heartpy`` (MIT).

    Parameters
    ----------
    which : {"irregular", "regular", "short"}
        ``irregular``: 11.4 minutes whose calendar stamps follow a clock that ticks every 15.6 ms:
        up to 3 readings share a stamp and are averaged; then 98 of 100 distances are 15 or 16 ms,
        the others 1 to 49 ms. For stronger irregularity use `foretell.data.systems.thin`.
        ``regular``: 15 000 samples at 117 Hz, about 2 minutes. The sensor loses contact between
        16 s and 25 s.
        ``short``: 2 483 samples at 100 Hz, about 25 s.

    Returns
    -------
    Trajectories
        One recording of one variable, ``pulse``, in raw sensor counts; time in seconds.

    Raises
    ------
    MissingExtraError
        The package is not installed.

    Notes
    -----
    P. van Gent, H. Farah, N. van Nes, B. van Arem, "HeartPy: a novel heart rate algorithm for the
    analysis of noisy signals", Transp. Res. F 66 (2019) 368-378.

    Examples
    --------
    >>> load_heartpy_ppg("short")
    <Trajectories: 1 recording, 2483 samples, median interval 0.01 s; pulse>
    """
    files = {"irregular": "data3.csv", "regular": "data2.csv", "short": "data.csv"}
    if which not in files:
        raise ParameterError(f"which={which!r}; choose one of {', '.join(map(repr, files))}.")
    path = _folder() / files[which]
    if which == "short":
        return Trajectories.from_arrays(
            values := np.loadtxt(path),
            0.01 * np.arange(values.size),
            names=["pulse"],
            time_unit="s",
            labels=["short"],
        )
    table = Trajectories.from_csv(
        path,
        time="timer" if which == "regular" else "datetime",
        columns=["hr"],
        merge_duplicates=which == "irregular",
    )
    seconds = 1e-3 if which == "regular" else 1.0  # its timer counts milliseconds
    return replace(
        table,
        times=(table.times[0] * seconds,),
        names=("pulse",),
        time_name="time",
        time_unit="s",
        labels=(which,),
    )


def _folder() -> Path:
    """Folder of the recordings, found without importing the package."""
    spec = find_spec("heartpy")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("heartpy", "demo", "load its heart pulse recordings")
    return Path(next(iter(spec.submodule_search_locations))) / "data"
