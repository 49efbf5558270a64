"""``foretell demo``: a real, irregularly sampled heart pulse, modelled in about a minute.

The recording is the one that the MIT-licensed package heartpy carries: a finger pulse measured by
light, with time stamps that a busy computer wrote down as it could.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import typer

from foretell.app.command_fit import report
from foretell.app.console import ProgressView
from foretell.app.demo_kill import kill_a_worker
from foretell.app.findings import best_cycle
from foretell.app.fitting import Origin, fit_study, retitled, write
from foretell.app.folder import FitFolder
from foretell.app.guard import interrupts_as_such
from foretell.app.planning import make_plan
from foretell.app.study import Study
from foretell.app.summary import summarise, to_json
from foretell.app.warmup import compiling_analysis
from foretell.app.words import amount, number
from foretell.core.errors import ArtifactError
from foretell.data import Trajectories

# The first minutes are enough for the demo, and keep it inside a minute on two slow cores.
_SECONDS = 120.0
_UPDATES = 2_500


def recording() -> Trajectories:
    """The stretch of the pulse recording that the demo uses."""
    from foretell.data.recordings import load_heartpy_ppg

    whole = load_heartpy_ppg("irregular")
    times = whole.times[0]
    seconds = 1.0 if whole.time_unit in ("s", "") else 1e3
    keep = np.flatnonzero(times <= times[0] + _SECONDS * seconds)
    return whole.take_rows([slice(0, int(keep[-1]) + 1)])


def heart_rate(data: Trajectories) -> float:
    """Beats per minute, counted from the tops of the pulse; independent of any model."""
    from scipy.signal import find_peaks

    times, x = data.times[0], data.values[0][:, 0]
    step = 0.01
    grid = np.arange(times[0], times[-1], step)
    even = np.interp(grid, times, x)
    high, low = np.quantile(even, [0.95, 0.05])
    tops, _ = find_peaks(even, prominence=0.4 * float(high - low), distance=int(0.35 / step))
    return 60.0 / float(np.median(np.diff(grid[tops])))


def run(out: Path, *, as_json: bool = False) -> Study:
    """Run the demo into a folder."""
    folder = FitFolder(out)
    command = f"foretell demo --out {out.as_posix()}"
    _make_room(folder)
    try:
        with interrupts_as_such(), ProgressView() as view, compiling_analysis():
            view.stage(
                "Reading a heart pulse with irregular time stamps (from the package heartpy)"
            )
            data = recording()
            view.say("  " + repr(data).strip("<>"))
            plan = make_plan(data, learner="cplrnn", effort=2, updates=_UPDATES)
            record = {"command": command, "demo": True}
            folder.claim(record, resume=False)
            view.say("  The first run compiles its kernels, which takes about half a minute.")
            study = fit_study(
                data,
                plan,
                folder,
                Origin(
                    "A heart pulse",
                    f"heartpy data3.csv, first {_SECONDS:.0f} s",
                    command,
                    citations=("heartpy",),
                ),
                listener=view,
            )
            study = retitled(study, _with_heart_rate(study))
            write(study, folder)
            folder.finish(record)
            view.stage("Training a small model with three workers, and killing one of them")
            killed = kill_a_worker(data)
    except KeyboardInterrupt as stop:
        _make_room(folder)
        raise KeyboardInterrupt(f"\nStopped. Start again with: {command}") from stop
    if as_json:
        typer.echo(to_json(summarise(study, folder)), nl=False)
    else:
        report(study, folder, limit=3)
    typer.echo(f"\n{killed}", err=as_json)
    return study


def _make_room(folder: FitFolder) -> None:
    """Remove an earlier demo, and nothing else."""
    if folder.record.exists():
        if not folder.read()["request"].get("demo"):
            raise ArtifactError(
                f"{folder.path} holds a fit of yours. Give another folder with --out."
            )
        shutil.rmtree(folder.path)


def _with_heart_rate(study: Study) -> tuple[str, ...]:
    """Put the period beside the heart rate counted from the held-out pulse."""
    beats = heart_rate(study.held_out.observed)
    cycle = best_cycle(study.analysis)
    own = study.held_out.spectra[1].peak
    period = cycle.period if cycle is not None else 1 / own if own > 0 else 0.0
    if period <= 0:
        return study.findings
    turns = max(1, round(period * beats / 60))
    rate = 60 * turns / period
    said = (
        f"The model beats {number(rate)} times a minute (one round takes "
        f"{amount(period / turns, 's')}); the held-out pulse has {number(beats)} beats a minute, a "
        f"difference of {100 * (rate / beats - 1):+.1f} %."
    )
    return (*study.findings[:2], said, *study.findings[3:])
