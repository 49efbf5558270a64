"""Compare a fitted model with recordings that it has not seen.

Nothing is forced towards the data: a free run and each forecast start from one recorded state and
then see only the time stamps and the inputs.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.app.ensemble import ensembles, mean_run
from foretell.app.spectrum import power_spectrum
from foretell.app.study import Forecasts, HeldOut, Spectrum
from foretell.app.trust_horizon import trust_horizon
from foretell.core.errors import ForetellWarning, NumericalError
from foretell.data import Trajectories
from foretell.dynamics.model import Model

Array = NDArray[np.float64]

_STARTS = 40
_FEWEST = 500
_BINS, _MOST_CELLS = 30, 5
_SMOOTHING = 0.1  # variance, so features of a third of a standard deviation count
_ERROR_LIMIT = 0.4
_LOST = 1e3  # the error of a run that escaped, in standard deviations


def evaluate(
    model: Model,
    train: Trajectories,
    test: Trajectories,
    *,
    embedded: bool = False,
    run_up: int = 0,
    episodes: bool = False,
) -> HeldOut:
    """Free run, forecasts and long-run numbers on held-out recordings.

    Parameters
    ----------
    model : Model
        Fitted.
    train, test : Trajectories
        In model coordinates; ``train`` gives the scale and the noise floor.
    embedded : bool
        Whether the variables are delayed copies of the first one.
    run_up : int
        With inputs: first samples of the free run that are not scored, because one recorded row
        does not tell the hidden state. At most a third of the held-out part.
    episodes : bool
        Whether the held-out recordings are whole ones: the long run is then a run along each of
        them, from its first row.
    """
    from foretell.dynamics.longrun import (
        power_spectrum_hellinger,
        state_space_divergence,
        state_space_divergence_gmm,
    )

    longest = int(np.argmax([t.size for t in test.times]))
    test = test.select([longest, *(i for i in range(len(test)) if i != longest)])
    scale = spread(train)
    driven = test.controls is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        free = _free_run(model, test)
        wanted = test.times[0].size if driven else max(test.n_samples, _FEWEST)
        if driven:
            long_run = free
        else:
            long_run = (_along if episodes else _long_run)(model, test, wanted)
        forecast = (
            _no_forecasts(test)  # one row does not tell the hidden state, so there is no start
            if driven
            else _forecasts(model, test, scale, 1 if embedded else test.n_variables)
        )
    rounds = 3.0 if episodes else 1.0
    spectra = (_spectrum(test, test, rounds), _spectrum(long_run, test, rounds))
    peak = 0.0 if driven else spectra[0].peak
    run_up = min(run_up, test.times[0].size // 3) if driven else 0
    trust = trust_horizon(
        model, train, test,
        period=1 / peak if peak > 0 else 0.0, n_scored=1 if embedded else test.n_variables,
        run_up=run_up,
    )  # fmt: skip
    before = train.take_rows([slice(-wanted, None)] * len(train))
    dims = compared_dimensions(test)

    def cut(data: Trajectories) -> list[Array]:
        return [np.ascontiguousarray(values[:, :dims]) for values in data.values]

    return HeldOut(
        observed=test,
        free_run=free,
        long_run=long_run,
        divergence=state_space_divergence_gmm(test, long_run, variance=_SMOOTHING),
        divergence_floor=state_space_divergence_gmm(test, before, variance=_SMOOTHING),
        histogram_divergence=state_space_divergence(cut(test), cut(long_run)),
        histogram_divergence_floor=state_space_divergence(cut(test), cut(before)),
        hellinger=float(power_spectrum_hellinger(test, long_run)) if _moves(long_run) else 1.0,
        hellinger_floor=float(power_spectrum_hellinger(test, before)),
        state=_state_along(long_run, test, train)
        if episodes and not driven
        else _state(long_run, wanted, train),
        spectra=spectra,
        driven_error=_driven_error(test, free, scale, run_up) if driven else None,
        run_up=run_up,
        episodes=episodes,
        forecast=forecast,
        trust=trust,
        ensembles=ensembles(model, test, scale),
    )


def spread(train: Trajectories) -> Array:
    """Standard deviation of every variable, one where it does not vary."""
    scale = np.nanstd(np.concatenate(train.values), axis=0)
    return np.asarray(np.where(scale > 0, scale, 1.0), dtype=np.float64)


def compared_dimensions(test: Trajectories) -> int:
    """How many coordinates the state-space divergence looks at: more samples, more coordinates.

    A histogram with far more cells than samples says nothing, so there is at least about one
    sample for three cells; above five variables the divergence does not use a histogram.
    """
    if test.n_variables > _MOST_CELLS:
        return test.n_variables
    affordable = int(np.log(3.0 * test.n_samples) / np.log(_BINS))
    return int(np.clip(affordable, 1, test.n_variables))


def _free_run(model: Model, test: Trajectories) -> Trajectories:
    """A run along the first recording; the rows that a model with delays begins with as they are.

    What comes after them has seen nothing of the recording but its inputs.
    """
    d = int(getattr(model, "n_delays", 0)) if test.controls else 0
    first = test.select(0)
    start: Any = first.take_rows([slice(0, d + 1)]) if d else _first_state(first.values[0])
    inputs = first.controls[0][d:] if first.controls else None
    run = model.simulate(start, first.times[0][d:], controls=inputs, random_state=0)
    if not d:
        return run
    values = np.concatenate([first.values[0][:d], run.values[0]])
    cut = first.take_rows([slice(0, len(values))])
    return replace(cut, values=(values,), mask=(np.isfinite(values),))


def _first_state(values: Array) -> Array:
    """First recorded value of every variable."""
    first = [column[np.flatnonzero(np.isfinite(column))[0]] for column in values.T]
    return np.array(first)


def _long_run(model: Model, test: Trajectories, n: int) -> Trajectories:
    """As many samples as the held-out part, after a transient."""
    skip = min(n // 4, 1000)
    times = test.median_interval * np.arange(n + skip)
    run = model.simulate(_first_state(test.values[0]), times, random_state=0)
    return run.take_rows([slice(min(skip, run.times[0].size // 2), None)])


def _along(model: Model, test: Trajectories, n: int) -> Trajectories:
    """A run along every held-out recording, from its first row."""
    runs = []
    for values, times in zip(test.values, test.times, strict=True):
        start = _first_state(values)
        try:
            runs.append(model.simulate(start, times, random_state=0).values[0])
        except NumericalError:  # lost at once: a run of its first row
            runs.append(np.array([start, start]))
    return Trajectories.from_arrays(
        runs, [t[: len(r)] for t, r in zip(test.times, runs, strict=True)], names=test.names,
        units=test.units, time_name=test.time_name, time_unit=test.time_unit,
    )  # fmt: skip


def _spectrum(data: Trajectories, test: Trajectories, rounds: float) -> Spectrum:
    """Spectrum on the grid of the held-out part; fewer ``rounds`` in a recording are no rhythm."""
    found = power_spectrum(data, step=test.median_interval)
    span = max(float(t[-1] - t[0]) for t in data.times)
    return replace(found, peak=0.0) if found.peak * span < rounds else found


def _moves(run: Trajectories) -> bool:
    return run.times[0].size >= 16


def _state(
    run: Trajectories, wanted: int, train: Trajectories
) -> Literal["moving", "settles", "escapes"]:
    seen, values = np.concatenate(train.values), run.values[0]
    middle, spread = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
    short = len(values) < wanted
    if short or not np.isfinite(values).all() or (np.abs(values - middle) > 20 * spread).any():
        return "escapes"
    tail = values[-max(len(values) // 4, 2) :]
    return "settles" if (tail.std(axis=0) < 0.02 * spread).all() else "moving"


def _state_along(
    runs: Trajectories, test: Trajectories, train: Trajectories
) -> Literal["moving", "settles", "escapes"]:
    """What runs along whole recordings do; they settle if they rest where those do not."""
    states = [_state(runs.select([n]), len(values), train) for n, values in enumerate(test.values)]
    if "escapes" in states:
        return "escapes"
    resting = np.array([s == "settles" for s in states])
    recorded = np.array([_state(test.select([n]), 2, train) == "settles" for n in range(len(test))])
    return "settles" if resting.mean() > recorded.mean() + 0.5 else "moving"


def _driven_error(test: Trajectories, free: Trajectories, scale: Array, run_up: int) -> float:
    n = min(len(free.values[0]), len(test.values[0]))
    error = (free.values[0][run_up:n] - test.values[0][run_up:n]) / scale
    if not np.isfinite(error).any():
        return float("inf")
    whole = np.sqrt(np.nanmean(error**2))
    return float(whole) if n == len(test.values[0]) else float("inf")


def _no_forecasts(test: Trajectories) -> Forecasts:
    nothing = np.full(2, np.nan)
    return Forecasts(np.array([0.0, test.median_interval]), nothing, nothing, float("nan"), ())


def _forecasts(model: Model, test: Trajectories, scale: Array, n_scored: int) -> Forecasts:
    times, values = test.times[0], test.values[0]
    step = test.median_interval
    peak = power_spectrum(test).peak
    n_lead = int(np.clip(2.0 / (peak * step) if peak > 0 else 100, 20, 400))
    n_lead = min(n_lead, max(5, times.size // 3))
    lead: Array = step * np.arange(n_lead + 1, dtype=np.float64)
    whole = np.isfinite(values).all(axis=1)
    stop = np.searchsorted(times, times + lead[-1], side="right")
    usable = np.flatnonzero(
        whole & (times + lead[-1] <= times[-1]) & (stop - np.arange(times.size) > 3)
    )
    if not usable.size:
        nothing = np.full(n_lead + 1, np.nan)
        return Forecasts(lead, nothing, nothing, float("nan"), ())
    starts = usable[np.unique(np.linspace(0, usable.size - 1, _STARTS).astype(np.intp))]
    shown = set(starts[np.linspace(0, starts.size - 1, 5).astype(np.intp)[1:4]].tolist())
    errors: list[Array] = []
    kept: list[Array] = []
    examples = []
    for start in starts:
        rows = slice(int(start), int(stop[start]))
        inputs = test.controls[0][rows] if test.controls else None
        truth, ahead = values[rows], times[rows] - times[start]
        run = np.full_like(truth, np.nan)
        reached = mean_run(model, values[start], times[rows], inputs)
        run[: len(reached)] = reached
        seen = np.isfinite(truth[:, :n_scored]).any(axis=1)
        for guess, found in ((run, errors), (values[start], kept)):
            miss = np.abs(guess - truth)[seen, :n_scored] / scale[:n_scored]
            found.append(np.interp(lead, ahead[seen], _mean_error(miss)))
        if int(start) in shown:
            examples.append((times[rows], truth[:, 0], run[:, 0]))
    model_error, persistence = np.nanmedian(errors, axis=0), np.nanmedian(kept, axis=0)
    beyond = np.array([_first_beyond(lead, error) for error in errors])
    return Forecasts(lead, model_error, persistence, float(np.median(beyond)), tuple(examples))


def _mean_error(miss: NDArray[Any]) -> Array:
    """Mean over the variables that were recorded; large where the run had escaped."""
    mean = np.full(len(miss), _LOST)
    alive = np.isfinite(miss).any(axis=1)
    mean[alive] = np.nanmean(miss[alive], axis=1)
    return mean


def _first_beyond(lead: Array, error: NDArray[Any]) -> float:
    over = np.flatnonzero(error > _ERROR_LIMIT)
    return float(lead[over[0]]) if over.size else float("inf")
