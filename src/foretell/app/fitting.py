"""From a recording to a checked model with a report: the work behind ``foretell fit``.

read -> choose -> split and embed -> fit -> check on held-out data -> analyse -> say -> write
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, Protocol, Self

import numpy as np

from foretell.app.analysis import analyse
from foretell.app.choosing import compare, keep, kept
from foretell.app.episodes import like_the_end
from foretell.app.evaluation import evaluate, spread
from foretell.app.findings import caution, describe, judge
from foretell.app.folder import FitFolder
from foretell.app.inputs import look_at_inputs
from foretell.app.jumps import look_at_jumps
from foretell.app.planning import LEARNERS
from foretell.app.report import render
from foretell.app.study import Comparison, Plan, Provenance, Study
from foretell.app.summary import summarise, to_json
from foretell.core.errors import DataError, ForetellWarning
from foretell.core.files import write_text_atomic
from foretell.core.progress import Progress
from foretell.data import Trajectories, delay_embed
from foretell.dynamics.model import Model


@dataclass(frozen=True)
class Origin:
    """What the caller knows about where the recording comes from."""

    title: str
    source: str
    command: str
    citations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Trainable(Model, Protocol):
    """A model that tells how its fit goes on, and can be stopped and resumed."""

    def fit(
        self,
        X: Any,
        times: Any = None,
        *,
        on_step: Callable[[Progress], None] | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from recordings."""
        ...


class PlanFor(Protocol):
    """Makes the plan of a learner by name; given ``brief``, that of a short fit to those."""

    def __call__(self, name: str, brief: Trajectories | None = None) -> Plan:
        """The plan."""
        ...


class Listener:
    """What a fit tells while it runs; the command line shows it. Does nothing by default."""

    def stage(self, text: str) -> None:
        """A new stage begins."""

    def step(self, progress: Progress) -> None:
        """The fit moved on."""


def build(plan: Plan) -> Trainable:
    """The learner of a plan, not yet fitted."""
    import foretell.dynamics

    learner: Trainable = getattr(foretell.dynamics, LEARNERS[plan.learner])(**plan.settings)
    return learner


def check_time_given(data: Trajectories, time_column: str | None) -> None:
    """Refuse a table in which the time column was probably forgotten."""
    numbered = all(np.array_equal(t, np.arange(t.size)) for t in data.times)
    if time_column is not None or not numbered:
        return
    for n, name in enumerate(data.names):
        if all(bool((np.diff(v[:, n]) > 0).all()) for v in data.values):
            raise DataError(
                f"Column {name!r} rises in every row, so it looks like the time stamps, but no "
                "time "
                f"column was named. Add: --time {name!r}"
            )


def check_columns(data: Trajectories) -> None:
    """Refuse columns from which nothing can be learned, and say how to leave them out."""
    values, mask = np.concatenate(data.values), np.concatenate(data.mask)
    useless = {}
    for n, name in enumerate(data.names):
        seen = values[mask[:, n], n]
        if seen.size < 0.2 * len(values):
            useless[name] = f"only {seen.size} of {len(values)} cells are filled"
        elif float(np.ptp(seen)) == 0.0:
            useless[name] = f"it is {seen[0]:.6g} everywhere"
    if useless:
        said = "; ".join(f"{name!r}: {why}" for name, why in useless.items())
        rest = ",".join(name for name in data.names if name not in useless)
        remedy = f"Leave it out with: --columns {rest}" if rest else "Nothing is left to model."
        raise DataError(f"There is nothing to learn from a column. {said}. {remedy}")


def prepare(data: Trajectories, plan: Plan) -> tuple[Trajectories, Trajectories]:
    """Training part and held-out part in model coordinates; no lagged copy crosses the split."""
    if plan.episodes:
        from foretell.dynamics.choose import hold_out

        first, rest = hold_out(data, plan.fraction)
    else:
        first, rest = data.split(plan.fraction, gap=plan.gap)
    if plan.embedding_dimension > 1:
        first = delay_embed(first, dimension=plan.embedding_dimension, lag=plan.lag)
        rest = delay_embed(rest, dimension=plan.embedding_dimension, lag=plan.lag)
    return first, rest


def fit_study(
    data: Trajectories,
    plan: Plan,
    folder: FitFolder,
    origin: Origin,
    *,
    listener: Listener | None = None,
    resume: bool = False,
    learner: Callable[[Plan], Trainable] = build,
    plan_for: PlanFor | None = None,
) -> Study:
    """Fit, check, analyse and write the folder.

    Parameters
    ----------
    data : Trajectories
        As read.
    plan : Plan
        From ``make_plan``.
    folder : FitFolder
        Claimed by the caller.
    origin : Origin
        Title, source and command for the report.
    listener : Listener, optional
        Hears about stages and updates.
    resume : bool
        Continue from the state that an interrupted fit left.
    learner : callable
        Makes the unfitted model of a plan.
    plan_for : callable, optional
        ``plan_for(name)`` is the plan of another learner, ``plan_for(name, recordings)`` that of a
        short fit. Given it, several learners are compared and the plan of the one taken followed.

    Returns
    -------
    Study
        What was written.
    """
    hear = listener or Listener()
    began = time.perf_counter()
    train, test = prepare(data, plan)
    comparison = None
    if plan_for is not None:
        plan, comparison = _choose(train, plan, plan_for, folder, hear, learner)
    curve: list[tuple[int, float, float | None]] = []
    seconds = [0.0]

    def on_step(progress: Progress) -> None:
        curve.append((progress.step, progress.loss, progress.score))
        seconds[0] = progress.seconds
        hear.step(progress)

    hear.stage("Fitting")
    model = learner(plan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ForetellWarning)
        model.fit(train, on_step=on_step, checkpoint=folder.progress, resume=resume)
        hear.stage("Comparing with the held-out part")
        held = evaluate(
            model,
            train,
            test,
            embedded=plan.embedding_dimension > 1,
            run_up=int(plan.settings.get("warm_up", plan.settings.get("n_delays", 0))),
            episodes=plan.episodes,
        )
    heard = [str(w.message) for w in caught if issubclass(w.category, ForetellWarning)]
    hear.stage("Solving for equilibria and cycles")
    analysis = analyse(model)
    hear.stage("Writing the report")
    study = Study(
        title=origin.title,
        recordings=data,
        train=train,
        plan=plan,
        held_out=held,
        analysis=analysis,
        verdict=judge(held),
        findings=describe(held, analysis, data),
        warnings=caution(data, plan, held, analysis, heard),
        learning=_shortened(curve),
        provenance=Provenance(
            created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
            versions=_versions(),
            source=origin.source,
            fingerprint=data.fingerprint(),
            command=origin.command,
            fit_seconds=seconds[0],
            total_seconds=time.perf_counter() - began,
            updates=curve[-1][0] if curve else int(plan.settings.get("max_updates", 0)),
            random_state=int(plan.settings.get("random_state", 0)),
        ),
        citations=(*_citations(model), *origin.citations),
        comparison=comparison,
        episodes=like_the_end(data, held.spectra[0].peak),
        jumps=look_at_jumps(model, test),
        inputs=look_at_inputs(model, test, spread(train)),
    )
    model.save(folder.model)
    write(study, folder)
    return study


def _choose(
    train: Trajectories,
    plan: Plan,
    plan_for: PlanFor,
    folder: FitFolder,
    hear: Listener,
    learner: Callable[[Plan], Trainable],
) -> tuple[Plan, Comparison | None]:
    """The plan of the learner that does best in short fits, or the given one with the reason."""
    found: Comparison | str | None = kept(folder.comparison)  # by the fit that is resumed
    if found is None:
        hear.stage("Comparing learners")
        found = compare(
            train,
            lambda name, first: learner(plan_for(name, first)),
            random_state=int(plan.settings.get("random_state", 0)),
            on_try=lambda name: hear.stage(f"Comparing learners: {name}"),
        )
    if isinstance(found, str):
        return _because(plan, f"learners could not be compared: {found}"), None
    keep(found, folder.comparison)
    return _because(plan_for(found.learner), found.why), found


def _because(plan: Plan, why: str) -> Plan:
    """The same plan with another reason for its learner."""
    choices = tuple(replace(c, why=why) if c.what == "Learner" else c for c in plan.choices)
    return replace(plan, choices=choices)


def write(study: Study, folder: FitFolder) -> None:
    """Write report and summary of a study."""
    write_text_atomic(folder.report, render(study, folder.model.as_posix()))
    write_text_atomic(folder.summary, to_json(summarise(study, folder)))


def _citations(model: Model) -> tuple[str, ...]:
    keys: Sequence[str] = getattr(model, "citations", ())
    return tuple(keys)


def _shortened(curve: Sequence[Any], n: int = 300) -> tuple[Any, ...]:
    stride = max(1, -(-len(curve) // n))
    return (*curve[::stride], curve[-1]) if curve else ()


def _versions() -> dict[str, str]:
    found = {"foretell": "unknown", "python": python_version()}
    for package in ("foretell", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def retitled(study: Study, findings: tuple[str, ...]) -> Study:
    """The same study with other findings in words."""
    return replace(study, findings=findings)
