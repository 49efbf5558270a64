"""``foretell fit``: check the request, run the fit, say what came out."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from foretell.app.console import ProgressView, results
from foretell.app.fitting import Origin, check_columns, check_time_given, fit_study
from foretell.app.folder import FitFolder
from foretell.app.guard import interrupts_as_such
from foretell.app.planning import make_plan
from foretell.app.study import Plan, Study
from foretell.app.summary import summarise, to_json
from foretell.app.words import GRADE_WORDS
from foretell.core.errors import ArtifactError, DataError, ForetellError
from foretell.data import Trajectories

_FEWEST_ROWS = 5  # of a recording, where there are others
COMPARING_EFFORT = 2  # from here on `--learner auto` compares learners, with this effort each


@dataclass(frozen=True)
class FitRequest:
    """The options of ``foretell fit`` that decide the result."""

    file: Path
    out: Path
    time: str | None = None
    group: str | None = None
    controls: str | None = None
    columns: str | None = None
    effort: int = 3
    learner: str = "auto"
    merge_duplicates: bool = False

    def command(self, *, resume: bool = False) -> str:
        """The command line that makes this request.

        Examples
        --------
        >>> FitRequest(Path("my pump.csv"), Path("pump"), time="t").command()
        "foretell fit 'my pump.csv' --time t --out pump"
        """
        words = ["foretell", "fit", self.file.as_posix()]
        for name in ("time", "group", "controls", "columns"):
            value = getattr(self, name)
            words += [f"--{name}", value] if value is not None else []
        words += ["--out", self.out.as_posix()]
        words += ["--effort", str(self.effort)] if self.effort != 3 else []
        words += ["--learner", self.learner] if self.learner != "auto" else []
        words += ["--merge-duplicates"] if self.merge_duplicates else []
        words += ["--resume"] if resume else []
        return shlex.join(words)

    def read(self) -> Trajectories:
        """Read the file, or the files of the folder."""
        if not self.file.exists():
            raise DataError(f"There is no file {self.file} (looked in {Path.cwd()}).")
        data = Trajectories.read(
            self.file,
            time=self.time,
            group=self.group,
            controls=_names(self.controls) or (),
            columns=_names(self.columns),
            merge_duplicates=self.merge_duplicates,
            calendar_unit="auto",
        )
        check_time_given(data, self.time)
        check_columns(data)
        return without_stubs(data)


def without_stubs(data: Trajectories) -> Trajectories:
    """Recordings that are long enough for a learner to see anything in them.

    Examples
    --------
    >>> import numpy as np
    >>> runs = Trajectories.from_arrays([np.arange(9.0)[:, None], np.arange(2.0)[:, None]])
    >>> without_stubs(runs).notes
    ('1 recording of fewer than 5 rows left out',)
    """
    kept = [n for n, t in enumerate(data.times) if t.size >= _FEWEST_ROWS]
    left = data.n_recordings - len(kept)
    if not kept or not left:
        return data
    note = f"{left} recording{'s' * (left != 1)} of fewer than {_FEWEST_ROWS} rows left out"
    return replace(data.select(kept), notes=(*data.notes, note))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def run(request: FitRequest, *, resume: bool = False, as_json: bool = False) -> Study:
    """Carry the request out; raises ForetellError or KeyboardInterrupt with a message."""
    folder, claimed = FitFolder(request.out), False
    held_before = folder.record.exists()
    try:
        with interrupts_as_such(), ProgressView() as view:
            view.stage(f"Reading {request.file}")
            data = request.read()
            view.say(f"  {data!r}"[2:].strip("<>"))
            plan = make_plan(data, learner=request.learner, effort=request.effort)
            comparing = request.learner == "auto" and request.effort >= COMPARING_EFFORT
            for choice in plan.choices:
                if not (comparing and choice.what in ("Learner", "Size", "Training")):
                    view.say(f"  {choice.what}: {choice.value}")
            record = {
                "command": request.command(),
                "data": data.fingerprint(),
                "learner": plan.learner,
                "settings": plan.settings,
            }
            folder.claim(record, resume=resume)
            claimed = True
            study = fit_study(
                data,
                plan,
                folder,
                Origin(request.file.stem, request.file.name, request.command()),
                listener=view,
                resume=resume and folder.progress.exists(),
                plan_for=partial(_plan_for, data, request) if comparing else None,
            )
            folder.finish(record)
    except ForetellError as error:
        if claimed:
            folder.release()
        if claimed and folder.record.exists() and isinstance(error, ArtifactError):
            again = f"{error} Then continue with: {request.command(resume=True)}"
            raise ArtifactError(again) from error
        raise
    except KeyboardInterrupt as stop:
        saved = "the state is saved. " if folder.progress.exists() else ""
        kept = folder.record.exists() and (claimed or not held_before)
        how = f"Continue with: {request.command(resume=True)}" if kept else "Nothing was written."
        raise KeyboardInterrupt(f"\nStopped; {saved}{how}".replace("; C", ". C")) from stop
    if as_json:
        typer.echo(to_json(summarise(study, folder)), nl=False)
    else:
        report(study, folder)
    return study


def _plan_for(
    data: Trajectories, request: FitRequest, name: str, brief: Trajectories | None = None
) -> Plan:
    if brief is not None:
        return make_plan(brief, learner=name, effort=COMPARING_EFFORT)
    return make_plan(data, learner=name, effort=request.effort)


def report(study: Study, folder: FitFolder, limit: int | None = None) -> None:
    """Print what came out, for a person."""
    results(
        Console(highlight=False),
        f"{GRADE_WORDS[study.verdict.grade]}. {study.verdict.sentence}",
        study.findings[:limit],
        len(study.warnings),
        [f"Report  {folder.report}", f"Model   {folder.model}"],
    )
