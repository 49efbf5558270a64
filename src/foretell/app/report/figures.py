"""Every figure of the report, made from a study: HTML, or "" where there is nothing to draw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.report.plot import Plot, padded
from foretell.app.study import Study
from foretell.app.words import amount, frequency_unit
from foretell.data import Trajectories

Array = NDArray[np.float64]

_REGIONS = 8
_MAX_PANELS = 4
_GAP_FACTOR = 10.0


def axis(name: str, unit: str) -> str:
    """An axis title such as ``level [m]``."""
    return f"{name} [{unit}]" if unit else name


def time_axis(data: Trajectories) -> str:
    """The title of a time axis."""
    return axis(data.time_name or "time", data.time_unit)


def gaps(times: Array, median: float) -> list[tuple[float, float]]:
    """Stretches without any sample that are longer than ten median intervals."""
    wide = np.flatnonzero(np.diff(times) > _GAP_FACTOR * median)
    return [(float(times[i]), float(times[i + 1])) for i in wide]


def overview(study: Study) -> str:
    """Every variable over the whole time, with gaps and the held-out part marked."""
    data, parts = study.recordings, []
    median = data.median_interval
    for r in range(min(data.n_recordings, 3)):
        times, values = data.times[r], data.values[r]
        cut = float(study.train.times[r][-1])
        x_range = (float(times[0]), float(times[-1]))
        n_panels = min(data.n_variables, _MAX_PANELS)
        for n in range(n_panels):
            name = data.names[n] if data.n_recordings == 1 else f"{data.labels[r]}: {data.names[n]}"
            plot = Plot(
                x_range,
                padded(values[:, n]),
                x_label=time_axis(data) if n == n_panels - 1 else "",
                y_label=axis(name, data.units[n]),
                title=f"{name} over time",
                height=150 if n_panels == 1 else 96,
            )
            plot.span(cut, x_range[1], "held", note="held out" if n == 0 else "")
            for index, (start, stop) in enumerate(gaps(times, median)):
                if index < 200:
                    plot.span(start, stop, "gap", label="gap" if index == 0 else "")
            plot.line(times, values[:, n], "data", max_gap=_GAP_FACTOR * median, label="recorded")
            parts.append(plot.html())
        if data.controls is not None:
            parts += _inputs(data, r, x_range, cut)
    return "".join(parts)


def _inputs(data: Trajectories, r: int, x_range: tuple[float, float], cut: float) -> list[str]:
    """The inputs of recording ``r`` below its variables."""
    assert data.controls is not None
    parts, times = [], data.times[r]
    for k, name in enumerate(data.control_names[:_MAX_PANELS]):
        values = data.controls[r][:, k]
        plot = Plot(
            x_range,
            padded(values),
            y_label=axis(f"input {name}", data.control_units[k]),
            title=f"input {name} over time",
            height=80,
        )
        plot.span(cut, x_range[1], "held", note="")
        plot.line(times, values, "muted", max_gap=_GAP_FACTOR * data.median_interval, label="input")
        parts.append(plot.html())
    return parts


def intervals(study: Study) -> str:
    """Histogram of the time between samples, when it varies."""
    steps = np.concatenate([np.diff(t) for t in study.recordings.times])
    if steps.std() < 0.01 * steps.mean():
        return ""
    high = float(np.quantile(steps, 0.995))
    few = np.unique(np.round(steps[steps <= high], 12))
    if few.size < 60:
        half = 0.5 * float(np.diff(few).min()) if few.size > 1 else 0.5 * float(few[0])
        edges = np.arange(few[0] - half, high + 2 * half, 2 * half)
    else:
        edges = np.linspace(0.0, high, 40)
    counts = np.histogram(steps, edges)[0] / steps.size
    plot = Plot(
        (0.0, float(edges[-1])),
        (0.0, 1.05 * float(counts.max())),
        x_label=axis("time between samples", study.recordings.time_unit),
        y_label="share of samples",
        title="Time between samples",
        height=150,
        hover=False,
    )
    return plot.bars(edges, counts, "data").rule(float(np.median(steps)), "model", "median").html()


def forecast(study: Study) -> str:
    """A few forecasts from held-out starts, first variable."""
    held = study.held_out
    if not held.forecast.examples:
        return ""
    parts, names, units = [], held.observed.names, held.observed.units
    y_range = padded([a for _, seen, guess in held.forecast.examples for a in (seen, guess)])
    for index, (times, seen, guess) in enumerate(held.forecast.examples):
        plot = Plot(
            (float(times[0]), float(times[-1])),
            y_range,
            x_label=time_axis(held.observed),
            y_label=axis(names[0], units[0]) if index == 0 else "",
            title="Forecast from a held-out start",
            height=170,
            narrow=True,
        )
        plot.line(times, seen, "data wide", "recorded")
        plot.line(times, guess, "model", "forecast")
        parts.append(f'<div class="cell">{plot.html(legend=index == 0)}</div>')
    return f'<div class="row three">{"".join(parts)}</div>'


def error_growth(study: Study) -> str:
    """Median forecast error against lead time, beside keeping the last value."""
    found, unit = study.held_out.forecast, study.recordings.time_unit
    if not found.examples:
        return ""
    plot = Plot(
        (0.0, float(found.lead[-1])),
        (0.0, 1.1 * float(np.nanmax([found.model_error, found.persistence_error]))),
        x_label=axis("lead time", unit),
        y_label="median error [standard deviations]",
        title="Forecast error against lead time",
        height=220,
    )
    plot.line(found.lead, found.persistence_error, "muted", "keep the last value")
    plot.line(found.lead, found.model_error, "model", "model").level(0.4, "muted")
    if np.isfinite(found.valid_time):
        plot.rule(found.valid_time, "model", f"valid for {amount(found.valid_time, unit)}")
    return plot.html()


def free_run(study: Study) -> str:
    """A stretch of the held-out data and the free run below it, same axes."""
    held = study.held_out
    data, run = held.observed, held.free_run
    times = data.times[0]
    period = 1.0 / held.spectra[0].peak if held.spectra[0].peak > 0 else 0.0
    if held.driven_error is not None:
        period = max(period, 1000 * data.median_interval / 12)
    length = min(float(times[-1] - times[0]), max(12 * period, 200 * data.median_interval))
    first = max(float(times[0]), float(times[-1]) - length)
    start, stop = (float(times[0]), float(times[0]) + length)
    if held.driven_error is not None:
        first = start
    y_range = padded([data.values[0][:, 0], run.values[0][:, 0]])
    widest = _GAP_FACTOR * data.median_interval
    if held.driven_error is not None:
        plot = Plot((start, stop), y_range, x_label=time_axis(data), height=220, title="Free run")
        plot.y_label = axis(data.names[0], data.units[0])
        if held.run_up:
            plot.span(start, float(times[held.run_up]), "held", note="run-up")
        plot.line(times, data.values[0][:, 0], "data wide", "recorded", max_gap=widest)
        plot.line(run.times[0], run.values[0][:, 0], "model", "model, driven by the same inputs")
        return plot.html()
    parts = []
    for label, kind, series, begin in (
        ("recorded, held out", "data", data, start),
        ("model on its own, never corrected", "model", run, first),
    ):
        t, x = series.times[0], series.values[0][:, 0]
        keep = (t >= begin) & (t <= begin + length)
        last = kind == "model"
        plot = Plot(
            (0.0, length),
            y_range,
            x_label=axis("time from the start of each stretch", data.time_unit) if last else "",
            y_label=axis(data.names[0], data.units[0]) if not last else "",
            title=label,
            height=130,
        )
        plot.line(t[keep] - begin, x[keep], kind, label, max_gap=widest)
        parts.append(plot.html())
    return "".join(parts)


def spectra(study: Study) -> str:
    """Power spectra of the held-out data and of the free run; not with inputs, which set them."""
    if study.held_out.driven_error is not None:
        return ""
    data, model = study.held_out.spectra
    top = float(max(data.power.max(), model.power.max(initial=0.0)))
    peak = data.peak if data.peak > 0 else float(data.frequency[-1]) / 8
    high = min(float(data.frequency[-1]), 8 * peak)
    plot = Plot(
        (0.0, high),
        (top * 1e-5, top * 2),
        x_label=axis("frequency", frequency_unit(study.recordings.time_unit)),
        y_label="share of power",
        title="Power spectra",
        height=220,
        log_y=True,
    )
    for spectrum, kind, label in ((data, "data", "held-out data"), (model, "model", "model")):
        keep = spectrum.frequency <= high
        plot.line(spectrum.frequency[keep], spectrum.power[keep], kind, label)
    if data.peak > 0 and data.rhythmic:
        period = amount(1 / data.peak, study.recordings.time_unit)
        plot.rule(data.peak, "muted", f"period {period}")
    return plot.html()


def learning(study: Study) -> str:
    """Training loss against updates."""
    steps = [(s, loss) for s, loss, _ in study.learning if np.isfinite(loss) and loss > 0]
    if len(steps) < 3:
        return ""
    s, loss = (np.array(column, dtype=np.float64) for column in zip(*steps, strict=True))
    plot = Plot(
        (0.0, float(s[-1])),
        (0.8 * float(loss.min()), 1.3 * float(loss.max())),
        x_label="update",
        y_label="training loss",
        title="Training loss",
        height=150,
        log_y=True,
    )
    return plot.line(s, loss, "model", "loss").html(legend=False)


def plane(study: Study) -> str:
    """State space in the plane of the first two coordinates."""
    held = study.held_out
    if held.observed.n_variables < 2:
        return ""
    names, units = held.observed.names, held.observed.units
    data = _thinned(np.concatenate(held.observed.values), 1500)
    run = _stretch(held.long_run, 2500)
    dots = near(equilibria(study), data[:, :2], 2)
    plot = Plot(
        padded([data[:, 0], run[:, 0], *(e.state[0] for e in dots)], 0.08),
        padded([data[:, 1], run[:, 1], *(e.state[1] for e in dots)], 0.08),
        x_label=axis(names[0], units[0]),
        y_label=axis(names[1], units[1]),
        title="State space",
        square=True,
        hover=False,
    )
    plot.cloud(data[:, 0], data[:, 1], "data", "held-out data")
    plot.line(run[:, 0], run[:, 1], "model thin", "model, free run", ordered=False)
    for number_, cycle in enumerate(study.analysis.cycles or (), 1):
        for states, region in cycle_pieces(cycle):
            plot.line(states[:, 0], states[:, 1], f"cycle region-{region}", ordered=False)
        if number_ >= 3:
            break
    for stable in (True, False):
        same = [e for e in dots if bool(e.stable) is stable]
        if same:
            xs, ys = [e.state[0] for e in same], [e.state[1] for e in same]
            label = "stable equilibrium" if stable else "unstable equilibrium"
            plot.points(xs, ys, "equilibrium", label, hollow=not stable)
    return plot.html()


def space(study: Study) -> str:
    """Data for the rotating view of the first three coordinates, as a JSON script element."""
    held = study.held_out
    if held.observed.n_variables < 3:
        return ""
    data = _thinned(np.concatenate(held.observed.values)[:, :3], 1500)
    run = _stretch(held.long_run, 2500)[:, :3]
    both = np.concatenate([data, run])
    both = both[np.isfinite(both).all(axis=1)]
    low, high = both.min(axis=0), both.max(axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-300)

    def unit(states: Array) -> list[list[float]]:
        scaled = (states[np.isfinite(states).all(axis=1)][:, :3] - middle) / half
        rounded: list[list[float]] = np.round(scaled, 3).tolist()
        return rounded

    dots = near(equilibria(study), data, 3)
    scene: dict[str, Any] = {
        "names": list(held.observed.names[:3]),
        "data": unit(data),
        "run": unit(run),
        "cycles": [
            {"region": region, "states": unit(states)}
            for cycle in (study.analysis.cycles or ())[:3]
            for states, region in cycle_pieces(cycle)
        ],
        "equilibria": [
            {"stable": bool(e.stable), "state": unit(e.state[None, :3])[0]} for e in dots
        ],
    }
    text = json.dumps(scene, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="space-data">{text}</script>'


def floquet(study: Study) -> str:
    """Multipliers of the best cycle in the complex plane, with the unit circle."""
    cycles = study.analysis.cycles
    if not cycles:
        return ""
    mu = np.asarray(cycles[0].multipliers)
    limit = min(2.0, max(1.25, 1.1 * float(np.abs(mu).max())))
    angle = np.linspace(0.0, 2 * np.pi, 181)
    plot = Plot(
        (-limit, limit),
        (-limit, limit),
        x_label="real part",
        y_label="imaginary part",
        title="Floquet multipliers",
        square=True,
        hover=False,
    )
    plot.line(np.cos(angle), np.sin(angle), "muted", "unit circle", ordered=False).level(
        0.0, "muted"
    )
    trivial = int(np.argmin(np.abs(mu - 1.0)))
    rest = np.delete(mu, trivial)
    plot.points(rest.real, rest.imag, "model", "multiplier")
    plot.points(
        mu[[trivial]].real, mu[[trivial]].imag, "muted", "the trivial one (must be 1)", hollow=True
    )
    return plot.html()


def equilibria(study: Study) -> tuple[Any, ...]:
    """The equilibria of the study, if the model can tell them."""
    found = study.analysis.equilibria
    return () if found is None else tuple(found.items)


def near(items: Sequence[Any], data: Array, n: int) -> list[Any]:
    """The equilibria that lie at most one range of the data away, in ``n`` coordinates."""
    low, high = np.nanmin(data, axis=0)[:n], np.nanmax(data, axis=0)[:n]
    reach = high - low
    return [
        e
        for e in items
        if (e.state[:n] >= low - reach).all() and (e.state[:n] <= high + reach).all()
    ]


def cycle_pieces(cycle: Any, n: int = 400) -> list[tuple[Array, int]]:
    """One orbit of a cycle, cut where the region changes: (states, number of the colour)."""
    times, states = cycle.orbit(n)
    switches = np.sort(np.asarray(cycle.events.times, dtype=np.float64))
    place = np.searchsorted(switches, np.asarray(times, dtype=np.float64), side="right")
    codes = [tuple(np.asarray(code, dtype=int).tolist()) for code in cycle.codes]
    order = {code: i for i, code in enumerate(dict.fromkeys(codes))}
    pieces = []
    for piece in np.unique(place):
        index = np.flatnonzero(place == piece)
        index = np.r_[index, min(index[-1] + 1, len(states) - 1)]
        code = codes[int(piece) % len(codes)] if codes else ()
        pieces.append((np.asarray(states)[index], order.get(code, 0) % _REGIONS))
    return pieces


def _thinned(values: Array, n: int) -> Array:
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) <= n:
        return values
    return values[np.linspace(0, len(values) - 1, n).astype(np.intp)]


def _stretch(run: Trajectories, n: int) -> Array:
    values = run.values[0]
    return values[-n:] if len(values) > n else values
