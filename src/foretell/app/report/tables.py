"""The tables of the report: plain rows of words, made from a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.app.study import Study
from foretell.app.words import amount, number


@dataclass(frozen=True)
class Table:
    """One table: columns are (name, "n" for numbers, "w" for words that do not wrap, or "")."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    intro: str = ""
    note: str = ""
    style: str = ""


def variables(study: Study) -> Table:
    """Name, unit, mean, spread and range of every variable and input."""
    data, rows = study.recordings, []
    values = np.concatenate(data.values)
    mask = np.concatenate(data.mask)
    for n, name in enumerate(data.names):
        seen = values[mask[:, n], n]
        rows.append(_variable(name, data.units[n], seen, int((~mask[:, n]).sum())))
    if data.controls is not None:
        inputs = np.concatenate(data.controls)
        for k, name in enumerate(data.control_names):
            rows.append(_variable(f"{name} (input)", data.control_units[k], inputs[:, k], 0))
    columns = (("name", "w"), ("unit", ""), ("mean", "n"), ("sd", "n"), ("min", "n"), ("max", "n"))
    if any(row[-1] != "0" for row in rows):
        return Table((*columns, ("missing", "n")), tuple(rows))
    return Table(columns, tuple(row[:-1] for row in rows))


def _variable(name: str, unit: str, seen: Any, missing: int) -> tuple[str, ...]:
    numbers = (number(float(f(seen))) for f in (np.mean, np.std, np.min, np.max))
    return (name, unit or "–", *numbers, number(float(missing)))


def longrun(study: Study) -> Table:
    """The long-run numbers beside their noise floor."""
    held = study.held_out
    rows = [
        (
            "State-space divergence",
            number(held.divergence),
            number(held.divergence_floor),
            "how differently model and data fill the state space (0 = alike), smoothed over a "
            "third of a standard deviation",
        ),
        (
            "… from a histogram",
            number(held.histogram_divergence),
            number(held.histogram_divergence_floor),
            "the same without smoothing, 30 bins per coordinate: measurement noise counts",
        ),
        (
            "Spectrum distance",
            number(held.hellinger),
            number(held.hellinger_floor),
            "how differently the power is spread over frequencies (0 = alike, 1 = disjoint)",
        ),
    ]
    if held.driven_error is not None:
        meaning = (
            "root mean squared error of the free run with the recorded inputs, in standard "
            "deviations of the training part; guessing the mean would give about 1"
        )
        return Table(
            (("number", "w"), ("model", "n"), ("meaning", "")),
            (("Simulation error", number(held.driven_error), meaning),),
            style="stack",
        )
    return Table(
        (("number", "w"), ("model", "n"), ("noise floor", "n"), ("meaning", "")),
        tuple(rows),
        note="Noise floor: the same number between the training part and the held-out part, "
        "which a perfect model would reach.",
        style="stack",
    )


def equilibria(study: Study) -> Table | None:
    """Place, kind and leading eigenvalue of every equilibrium."""
    found = study.analysis.equilibria
    if found is None:
        return None
    names = study.held_out.observed.names
    shown = min(len(names), 3)
    unit = study.recordings.time_unit
    rate = f"1/{unit}" if unit else ""
    rows = []
    for index, item in enumerate(found.items[:12], 1):
        values = np.asarray(item.eigenvalues)
        lead = values[int(np.argmax(values.real))]
        turn = f" ± {number(abs(float(lead.imag)))}i" if abs(lead.imag) > 1e-9 * abs(lead) else ""
        place = [number(float(item.state[n])) for n in range(shown)]
        stability = "stable" if item.stable else f"unstable in {item.unstable_dimension}"
        flag = "good" if item.status == "real" else "check"
        rows.append((str(index), *place, stability, number(float(lead.real)) + turn, flag))
    how = {
        "complete": "The search was exhaustive: there are no others.",
        "complete in box": "The search was complete inside a box around the data.",
        "heuristic": "The search was heuristic: there may be others.",
    }.get(str(found.completeness), "")
    more = f" Twelve of {len(found.items)} are shown." if len(found.items) > 12 else ""
    columns = (
        ("", ""),
        *((names[n], "n") for n in range(shown)),
        ("stability", "w"),
        (f"leading eigenvalue{f' [{rate}]' if rate else ''}", "n"),
        ("quality", "w"),
    )
    intro = "" if rows else "The model has no equilibrium."
    return Table(columns, tuple(rows), "Equilibria", intro, how + more)


def cycles(study: Study) -> Table | None:
    """Period, stability and quality of every limit cycle."""
    found = study.analysis.cycles
    if found is None:
        return None
    unit, rows = study.recordings.time_unit, []
    for cycle in found[:8]:
        mu = np.asarray(cycle.multipliers)
        rest = np.delete(mu, int(np.argmin(np.abs(mu - 1.0))))
        largest = float(np.abs(rest).max()) if rest.size else 0.0
        rows.append(
            (
                amount(cycle.period, unit, 6),
                "stable" if cycle.stable else "unstable",
                number(largest),
                str(cycle.n_crossings),
                number(float(cycle.residual), 2),
                number(float(cycle.trivial_error), 2),
                number(float(cycle.liouville_error), 2),
                str(cycle.quality),
            )
        )
    columns = (
        ("period", "n"),
        ("stability", "w"),
        ("largest multiplier", "n"),
        ("crossings", "n"),
        ("closure", "n"),
        ("trivial − 1", "n"),
        ("Liouville", "n"),
        ("quality", "w"),
    )
    intro = "" if rows else "No limit cycle was found from the free run."
    note = (
        "Closure: how far the orbit misses its own start. Trivial − 1 and Liouville: two "
        "identities "
        "that hold exactly for a true cycle."
    )
    return Table(columns, tuple(rows), "Limit cycles", intro, note if rows else "")


def exponents(study: Study) -> Table | None:
    """Largest Lyapunov exponents with their errors."""
    found = study.analysis.exponents
    if found is None:
        return None
    unit = study.recordings.time_unit
    rows = []
    for index, (value, error) in enumerate(
        zip(found.exponents[:5], found.standard_errors[:5], strict=True), 1
    ):
        sign = (
            "zero within its error"
            if abs(value) <= 2 * error
            else "grows"
            if value > 0
            else "decays"
        )
        rows.append((str(index), number(float(value)), number(float(error), 2), sign))
    columns = (("", ""), ("exponent", "n"), ("standard error", "n"), ("a small difference", "w"))
    note = f"Per {unit}. " if unit else ""
    left = len(found.exponents) - len(rows)
    note += f"Averaged over {amount(float(found.duration), unit)} along the free run."
    note += f" The other {left} decay faster." if left > 1 else ""
    return Table(columns, tuple(rows), "Lyapunov exponents", "", note)


def choices(study: Study) -> Table:
    """What was chosen and why."""
    rows = tuple((choice.what, choice.value, choice.why) for choice in study.plan.choices)
    return Table((("what", "w"), ("chosen", "w"), ("because", "")), rows, style="stack")


def tried(study: Study) -> Table | None:
    """The learners that were compared before the fit."""
    found = study.comparison
    if found is None:
        return None
    rows = []
    for item in found.tried:
        if item.note:
            rows.append((item.name, "–", "–", "–", number(item.seconds, 2), item.note))
            continue
        said = "taken" if item.name == found.learner else "as good" if item.as_good else ""
        rows.append(
            (
                item.name,
                number(item.score, 2),
                f"{number(item.low, 2)} – {number(item.high, 2)}",
                f"{number(item.worse_by, 2)} ({number(item.less, 2)} – {number(item.more, 2)})"
                if item.worse_by
                else "the best",
                number(item.seconds, 2),
                said or "worse",
            )
        )
    rows += [(name, "–", "–", "–", "–", f"left out: {why}") for name, why in found.left_out]
    columns = (
        ("learner", "w"), ("score", "n"), ("± standard error", "n"),
        ("worse than the best by", "n"), ("CPU-s", "n"), ("", ""),
    )  # fmt: skip
    return Table(
        columns,
        tuple(rows),
        "Learners that were tried",
        f"{found.shown} The score is the {found.measure}; lower is better. Each was fitted "
        "briefly to the first part of the training data and compared on its rest; the first one "
        "that is not worse than the best by more than one standard error is taken.",
        style="stack",
    )
