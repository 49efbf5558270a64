"""Put the words, tables and figures of a study into one HTML page."""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.report import figures, tables
from foretell.app.report.ensemble import (
    ensemble_fan,
    ensemble_ranks,
    ensemble_width,
    ensemble_words,
)
from foretell.app.report.episodes import episodes_figure, episodes_table, episodes_words
from foretell.app.report.horizon import horizon_figure, horizon_table
from foretell.app.report.inputs import (
    input_errors,
    input_hint,
    input_steps,
    input_table,
    input_words,
)
from foretell.app.report.jumps import jump_figure, jump_words
from foretell.app.report.templates import templates
from foretell.app.study import Study
from foretell.app.trust_horizon_words import sentences
from foretell.app.words import GRADE_WORDS, amount, count, frequency_unit, listing, number, seconds
from foretell.core.citations import citation


def render(study: Study, model_path: str) -> str:
    """The whole report as one self-contained HTML text.

    Parameters
    ----------
    study : Study
        What the fit found.
    model_path : str
        Where the model folder is, as it should stand in the printed Python lines.

    Returns
    -------
    str
        HTML that loads nothing from anywhere.
    """
    from markupsafe import Markup

    folder = files("foretell.app.report")
    environment = templates()
    table_page = environment.get_template("table.html.j2")

    def table(title: str, block: tables.Table) -> Markup:
        return Markup(table_page.render(title=title, block=block))

    names = (
        "overview intervals forecast error_growth free_run spectra learning plane space floquet"
    ).split()
    drawn = {name: Markup(getattr(figures, name)(study)) for name in names}
    return environment.get_template("page.html.j2").render(
        study=study,
        figures=drawn,
        table=table,
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "script.js").read_text(encoding="utf-8")),
        grade_word=GRADE_WORDS[study.verdict.grade],
        facts=_facts(study),
        variables=tables.variables(study),
        longrun=tables.longrun(study),
        equilibria=tables.equilibria(study),
        cycles=tables.cycles(study),
        exponents=tables.exponents(study),
        jump_words=jump_words(study),
        jump_figure=Markup(jump_figure(study)),
        episodes_words=episodes_words(study),
        episodes_figure=Markup(episodes_figure(study)),
        episodes_table=episodes_table(study),
        ensemble_words=ensemble_words(study),
        ensemble_fan=Markup(ensemble_fan(study)),
        ensemble_ranks=Markup(ensemble_ranks(study)),
        ensemble_width=Markup(ensemble_width(study)),
        input_words=input_words(study),
        input_steps=Markup(input_steps(study)),
        input_errors=Markup(input_errors(study)),
        input_table=input_table(study),
        input_hint=input_hint(study, str(PurePosixPath(model_path).parent)),
        outside=_outside(study),
        trust_words=_trust(study),
        trust_figure=Markup(horizon_figure(study)),
        trust_table=horizon_table(study),
        choices=tables.choices(study),
        tried=tables.tried(study),
        cycle_regions=any(c.n_crossings > 0 for c in study.analysis.cycles or ()),
        code=loading_lines(study, model_path),
        bibtex=citation(*study.citations) if study.citations else "",
        provenance=_provenance(study),
        **_words(study),
    )


def loading_lines(study: Study, model_path: str) -> str:
    """Six lines of Python that load the model and let it run; they work as printed."""
    data = study.held_out.observed
    d = int(study.plan.settings.get("n_delays", 0))
    last = np.nan_to_num(data.values[-1][-d - 1 :])
    start = _shown(last if d else last[-1])
    step, n_steps = float(f"{data.median_interval:.4g}"), 1000
    inputs = ""
    if data.controls is not None:
        mean = _shown(np.concatenate(data.controls).mean(axis=0))
        inputs = f", controls=np.tile({mean}, (len(times), 1))"
        if d:
            inputs += f",\n    past_controls={_shown(data.controls[-1][-d - 1 : -1])}"
    return (
        "import numpy as np\n"
        "import foretell\n"
        f"model = foretell.load({model_path!r})\n"
        f"times = {step!r} * np.arange({n_steps})\n"
        f"run = model.simulate({start}, times{inputs})\n"
        "print(run.values[0][-1])"
    )


def _shown(values: NDArray[np.float64]) -> str:
    """Numbers as a list of Python."""
    if values.ndim > 1:
        return f"[{', '.join(map(_shown, values))}]"
    return f"[{', '.join(f'{v:.6g}' for v in values)}]"


def _facts(study: Study) -> list[dict[str, str]]:
    held, unit = study.held_out, study.recordings.time_unit
    data, model = held.spectra
    facts = []
    if held.driven_error is not None:
        fit, share = 1 - held.driven_error, 1 - held.driven_error**2
        for name, value, note in (
            ("Simulation fit", fit, "held-out free run with inputs: 1 − error / sd"),
            ("Variance explained", share, "of the held-out recording"),
        ):
            facts.append((name, f"{100 * max(value, 0):.0f}\u00a0%", note))
    else:
        floor = f"two stretches of data: {number(held.divergence_floor, 2)}"
        facts.append(("State-space divergence", number(held.divergence, 2), floor))
        floor = f"two stretches of data: {number(held.hellinger_floor, 2)}"
        facts.append(("Spectrum distance", number(held.hellinger, 2), floor))
    valid = held.forecast.valid_time
    if np.isfinite(valid):
        note = "then the error passes 0.4 sd"
        if data.peak > 0 and data.rhythmic:
            note += f" ({number(valid * data.peak, 2)} periods)"
        facts.append(("Forecast holds for", amount(valid, unit, 2), note))
    elif np.isinf(valid):
        longest = amount(float(held.forecast.lead[-1]), unit, 2)
        facts.append(("Forecast holds for", f"> {longest}", "as far as it was tried"))
    if data.peak > 0 and data.rhythmic and held.driven_error is None:
        shown = amount(1 / model.peak, unit) if model.peak > 0 else "none"
        facts.append(("Period of the model", shown, f"in the data: {amount(1 / data.peak, unit)}"))
    return [dict(zip(("name", "value", "note"), fact, strict=True)) for fact in facts]


def _words(study: Study) -> dict[str, str]:
    data, held, unit = study.recordings, study.held_out, study.recordings.time_unit
    steps = np.concatenate([np.diff(t) for t in data.times])
    regular = float(steps.std()) < 0.01 * float(steps.mean())
    n_gaps = sum(len(figures.gaps(t, data.median_interval)) for t in data.times)
    spacing = (
        f"every {amount(data.median_interval, unit)}"
        if regular
        else f"at irregular times, {amount(data.median_interval, unit)} apart in the median"
    )
    data_words = (
        f"{count(data.n_recordings, 'recording').capitalize()} of {listing(list(data.names))}: "
        f"{number(float(data.n_samples), 9)} samples over {amount(data.duration, unit)}, "
        f"{spacing}. "
        + (
            f"{count(n_gaps, 'gap').capitalize()} longer than ten intervals."
            if n_gaps
            else "No gaps."
        )
        + "".join(f" {note[:1].upper()}{note[1:]}." for note in data.notes)
    )
    split_words = _split(study)
    error_words = (
        "The model beats keeping the last value at "
        f"{100 * held.forecast.useful:.0f}\u00a0% of these lead times."
    )
    peak, own = held.spectra[0].peak, held.spectra[1].peak
    spectrum_words = "The data have no dominant frequency."
    if peak > 0 and not held.spectra[0].rhythmic:
        spectrum_words = "No frequency of the data stands out from a process that only forgets."
    elif peak > 0:
        rate = frequency_unit(unit)
        still = ", its run stands still" if held.state == "settles" else " stands out"
        spectrum_words = f"Dominant frequency of the data: {amount(peak, rate)}; of the model: "
        spectrum_words += f"{amount(own, rate)}." if own > 0 else f"none{still}."
    free_run_words = (
        "The model starts at the first held-out row, gets only the recorded inputs, and is never "
        "corrected."
        + (" The shaded run-up, in which it finds its state, is not scored." if held.run_up else "")
        if held.driven_error is not None
        else "The model starts at the first row of the longest held-out recording and runs alone."
        if study.plan.episodes
        else "The model runs on alone from the first held-out state. It is not expected to stay in "
        "step, but to keep the same shape and rhythm; the stretch below is its last one."
    )
    return {
        "data_words": data_words,
        "split_words": split_words,
        "error_words": error_words,
        "spectrum_words": spectrum_words,
        "free_run_words": free_run_words,
        "structure_words": _structure(study),
        "code_words": _code_words(study),
    }


def _split(study: Study) -> str:
    plan, unit = study.plan, study.recordings.time_unit
    if plan.episodes:
        held, n = study.held_out.observed.n_recordings, study.recordings.n_recordings
        said = (
            f"The model was fitted to {n - held} recordings; the last {held} were left out whole. "
        )
    else:
        share = f"{100 * plan.fraction:.0f}\u00a0%"
        said = f"The model was fitted to the first {share} of the time. "
        if plan.gap > 0:
            gap = amount(plan.gap, unit, 2)
            said += f"The next {gap} were left out so that nothing leaks. "
    return said + "Everything below is about the rest, which played no part in fitting or choosing."


def _outside(study: Study) -> str:
    items = figures.equilibria(study)
    inside = figures.near(items, np.concatenate(study.held_out.observed.values)[:, :2], 2)
    missing = len(items) - len(inside)
    if missing == 0 or study.held_out.observed.n_variables < 2:
        return ""
    lies = "lies" if missing == 1 else "lie"
    return f"{count(missing, 'equilibrium').capitalize()} {lies} outside the picture."


def _trust(study: Study) -> tuple[str, ...]:
    trust = study.held_out.trust
    return () if trust is None else sentences(trust, study.recordings.time_unit)


def _structure(study: Study) -> str:
    analysis = study.analysis
    if analysis.equilibria is None and analysis.cycles is None and analysis.exponents is None:
        return (
            "This learner offers no exact analysis; a cplrnn model also tells its equilibria, "
            "cycles and exponents."
        )
    held = " With inputs held at their mean." if study.recordings.controls is not None else ""
    return (
        "The model is linear in every region of its state space, so these are solved for, not read "
        f"off a simulation. Filled marks are stable, open marks unstable.{held}"
    )


def _code_words(study: Study) -> str:
    names = listing(list(study.held_out.observed.names))
    return f"A state is {names}, in the units of the recording."


def _provenance(study: Study) -> list[tuple[str, str]]:
    origin = study.provenance
    settings = ", ".join(f"{key}={value!r}" for key, value in study.plan.settings.items())
    rows: list[tuple[str, Any]] = [
        ("Source", origin.source),
        ("Data fingerprint", f"sha256 {origin.fingerprint}"),
        ("Command", origin.command),
        ("Learner", f"{study.plan.learner}({settings})"),
        ("Updates", f"{number(float(origin.updates), 9)} in {seconds(origin.fit_seconds)}"),
        ("Whole run", seconds(origin.total_seconds)),
        ("Random state", str(origin.random_state)),
        ("Made", origin.created),
        ("Versions", ", ".join(f"{name} {version}" for name, version in origin.versions.items())),
    ]
    return [(name, str(value)) for name, value in rows]
