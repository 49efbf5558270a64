"""The section on the inputs of a model: its words and its figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.app.inputs import InputEffects
from foretell.app.report.figures import axis
from foretell.app.report.plot import Plot, padded
from foretell.app.report.tables import Table
from foretell.app.study import Study
from foretell.app.words import amount, count, number

Array = NDArray[np.float64]

_OUT_OF_REACH = 0.05  # standard deviations
_HARD = 0.3
_SOME = 0.1  # share of the lead times that is worth a sentence
_MOST_LINES, _MOST_COLUMNS = 4, 6


def input_words(study: Study) -> tuple[str, ...]:
    """What the inputs can do, in sentences; nothing for a model without inputs."""
    found = study.inputs
    if found is None:
        return ()
    reach, unit = found.reachability, study.recordings.time_unit
    names, N = study.recordings.control_names, len(reach.names)
    what = f"the input {names[0]}" if len(names) == 1 else f"the {len(names)} inputs"
    within = amount(float(reach.times[-1]), unit, 2)
    easiest = _direction(reach.names, reach.directions[0])
    best = (
        f"Within {within} ({len(reach.times)} samples) {what} can push {easiest} by up to "
        f"{number(float(reach.reach[0]), 2)}"
        " of its standard deviations, when "
        f"{'it varies' if len(names) == 1 else 'they vary'} as much as in the recording. "
    )
    said = [best + (_hardest(found) if N > 1 else _single(found))]
    if found.n_starts:
        said.append(_errors(found, unit))
    if study.held_out.run_up:
        said.append(
            f"One recorded row does not tell {_what_is_hidden(study)}, so each forecast starts "
            "with the rows before it. foretell plan does the same."
        )
    return tuple(said)


def _what_is_hidden(study: Study) -> str:
    delays = study.plan.settings.get("n_delays", 0)
    return "where the system is going" if delays else "the state of the hidden units"


def _single(found: InputEffects) -> str:
    reach = float(found.reachability.reach[0])
    if reach < _OUT_OF_REACH:
        return "That is next to nothing: do not plan with this model."
    if reach < _HARD:
        return "That is little: plans can only correct it slightly."
    return "That is reach enough for plans."


def _hardest(found: InputEffects) -> str:
    reach = found.reachability
    N, n = len(reach.names), reach.n_reached
    last = f"{_direction(reach.names, reach.directions[-1])} by {number(float(reach.reach[-1]), 2)}"
    if n < N:
        apart = ", ".join(_direction(reach.names, reach.directions[i]) for i in range(n, N)[:3])
        return (
            f"The variables can be moved independently in {n} of {count(N, 'direction')} only; "
            f"out of reach in practice (less than a twentieth of a standard deviation): {apart}. "
            "Do not ask a plan for these."
        )
    if reach.reach[-1] < _HARD or reach.condition > 30:
        return (
            f"All {count(N, 'direction')} can be reached, but the hardest is {last}: what a plan "
            "asks of it takes strong inputs."
        )
    return f"All {count(N, 'direction')} can be reached; the hardest is {last}."


def _direction(names: tuple[str, ...], direction: Array) -> str:
    """A direction in words: one variable, or those that move together and against each other."""
    order = np.argsort(-np.abs(direction))
    main = [int(i) for i in order if abs(direction[i]) > 0.35][:3]
    if len(main) <= 1:
        return names[int(order[0])]
    first = main[0]
    parts = [
        f"{'with' if direction[i] * direction[first] > 0 else 'against'} {names[i]}"
        for i in main[1:]
    ]
    return f"{names[first]} ({', '.join(parts)})"


def _errors(found: InputEffects, unit: str) -> str:
    half, most = (float(found.error[k, -1]) for k in (0, 2))
    still = float(found.still[-1])
    better = (
        f"keeping the last value would miss by {number(still, 2)}"
        if half < still
        else f"keeping the last value, at {number(still, 2)}, is no worse"
    )
    return (
        f"Given the recorded inputs, {found.n_starts} held-out forecasts were compared with what "
        f"followed: {amount(float(found.lead[-1]), unit, 2)} ahead half of them miss by less than "
        f"{number(half, 2)} standard deviations and 95\u00a0% by less than {number(most, 2)}; "
        f"{better}.{_sooner(found, unit) if half < still else ''}"
    )


def _sooner(found: InputEffects, unit: str) -> str:
    """Lead times at which keeping the last value is nearer, where it is not in the end."""
    nearer = np.flatnonzero(found.still[1:] < found.error[0, 1:])
    if nearer.size < _SOME * len(found.lead):
        return ""
    until = amount(float(found.lead[1 + nearer[-1]]), unit, 2)
    return f" Up to {until} ahead the last value would miss by less, so a plan gains beyond that."


def input_steps(study: Study) -> str:
    """What each variable does after an input is raised for good."""
    found, data = study.inputs, study.recordings
    if found is None:
        return ""
    reach, parts = found.reachability, []
    times = np.concatenate([[0.0], reach.times])
    for k, control in enumerate(data.control_names[:_MOST_LINES]):
        rise = amount(float(reach.control_scale[k]), data.control_units[k], 2)
        response = reach.step_response[:, :_MOST_LINES, k] / reach.scale[:_MOST_LINES]
        lines = np.vstack([np.zeros(response.shape[1]), response])
        plot = Plot(
            (0.0, float(times[-1])),
            padded([lines, np.zeros(1)]),
            x_label=axis("time", data.time_unit),
            y_label=f"change after {control} +{rise} [sd]",
            title=f"After {control} rises by {rise}",
            height=190,
            narrow=True,
        )
        plot.level(0.0, "muted")
        for n in range(lines.shape[1]):
            plot.line(times, lines[:, n], f"region-{n}", reach.names[n])
        parts.append(plot.html())
    return "".join(parts)


def input_errors(study: Study) -> str:
    """Error by lead time: what 50, 80 and 95 % of the forecasts keep."""
    found = study.inputs
    if found is None or not found.n_starts:
        return ""
    lead, zero = found.lead, np.zeros(found.lead.size)
    top = 1.1 * float(min(max(found.error[2].max(), found.still.max()), 10 * found.still.max()))
    plot = Plot(
        (0.0, float(lead[-1])),
        (0.0, max(top, 1e-3)),
        x_label=axis("lead time", study.recordings.time_unit),
        y_label="error [sd]",
        title="Error of forecasts that are given the inputs",
        height=190,
        narrow=True,
    )
    for k, kind in ((2, "model b95"), (1, "model b80"), (0, "model b50")):
        share = ("50", "80", "95")[k]
        plot.band(lead, zero, np.minimum(found.error[k], top), kind,
                  f"{share}\u00a0% of the forecasts")  # fmt: skip
    plot.line(lead, np.minimum(found.error[0], top), "model", "median")
    return plot.line(lead, found.still, "data", "keeping the last value").html()


def input_table(study: Study) -> Table | None:
    """Directions, the easiest first, with how far they can be moved."""
    found = study.inputs
    if found is None or not 2 <= len(found.reachability.names) <= _MOST_COLUMNS:
        return None
    reach = found.reachability
    rows = tuple(
        (number(float(reach.reach[i]), 2), *(number(float(v), 2) for v in reach.directions[i]))
        for i in range(len(reach.names))
    )
    columns = (("reach [sd]", "n"), *((name, "n") for name in reach.names))
    return Table(
        columns,
        rows,
        title="Directions, the easiest first",
        note="Reach: how far the best inputs move this combination of the variables.",
    )


def input_hint(study: Study, folder: str) -> str:
    """A line that plans something possible."""
    found = study.inputs
    if found is None or found.reachability.n_reached == 0:
        return ""
    n = int(np.abs(found.reachability.directions[0]).argmax())
    values = np.concatenate(study.recordings.values)[:, n]
    limit = f"{float(np.nanquantile(values, 0.9)):.3g}"
    return f'foretell plan {folder} --keep "{study.recordings.names[n]} below {limit}"'
