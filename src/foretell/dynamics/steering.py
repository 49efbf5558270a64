"""Choose inputs that keep a condition, and check the choice on an ensemble of runs.

The model forecasts; the scatter of its forecasts, measured where it was not trained, becomes a
margin by which the condition is kept; inputs that stay near a resting value and change little are
found by `foretell.solve.mpc_shooting`; finally an ensemble runs under them, and what it does is
reported, not what was aimed at.

Legend: H steps, N variables, K inputs, S runs, d delays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError, as_generator
from foretell.data import Trajectories
from foretell.dynamics.checks import last_rows, whole
from foretell.dynamics.conditions import Condition, parse_condition
from foretell.solve.mpc_shooting import shoot

Array = NDArray[np.float64]

_REST, _CHANGE, _PENALTY = 0.01, 1.0, 1e3  # weights of distance from rest, of changes, of breaches


@dataclass(frozen=True, eq=False)
class SteeringPlan:
    """Inputs that should keep conditions, and what an ensemble of runs does under them.

    Attributes
    ----------
    conditions : tuple of Condition
    times : array (H + 1,)
        From now on, in the time of the recordings.
    inputs : array (H, K)
        Row k holds from ``times[k]`` to ``times[k + 1]``.
    forecast, low, high : arrays (H + 1, N)
        The run of the model, and the range in which 90 % of the ensemble lie at each time.
    kept : float
        Share of the runs of the ensemble that keep all conditions at all steps.
    kept_untouched : float
        The same under inputs held as they are now.
    breach : float
        Most that the forecast itself lies outside, in units of the variable; zero if it does not.
    n_runs : int
        Runs of the ensemble; zero where nothing is known about the errors of the model.
    held_back : bool
        Whether its errors were measured on recordings that it was not trained on.
    """

    conditions: tuple[Condition, ...]
    times: Array
    inputs: Array
    forecast: Array
    low: Array
    high: Array
    kept: float
    kept_untouched: float
    breach: float
    n_runs: int
    held_back: bool

    def __repr__(self) -> str:
        what = " and ".join(map(str, self.conditions))
        return (
            f"SteeringPlan({what}; {len(self.inputs)} steps, kept in {100 * self.kept:.0f} % of "
            f"{self.n_runs} runs)"
        )


def steer(
    model: Any,
    state: ArrayLike | Trajectories,
    keep: str | Sequence[str],
    *,
    horizon: int = 40,
    inputs: Sequence[str] | None = None,
    u_now: ArrayLike | None = None,
    limits: Mapping[str, tuple[float, float]] | None = None,
    past_controls: ArrayLike | None = None,
    errors: ArrayLike | None = None,
    step: float | None = None,
    margin: float = 0.95,
    n_runs: int = 200,
    random_state: int | np.random.Generator | None = 0,
) -> SteeringPlan:
    """Plan inputs that keep conditions.

    Parameters
    ----------
    model : fitted learner with inputs
        A `KoopmanQP` or `EDMDc`, or any learner with ``predict(x0, times, controls=)``.
    state : array (N,), or with delays (d + 1, N), or Trajectories
        Where the system is now, in data units; or one recording that ends now, from which a model
        with delays takes what it needs, and along which one with hidden units runs them up.
    keep : str or sequence of str
        Conditions; see `parse_condition`.
    horizon : int
        Steps to plan.
    inputs : sequence of str, optional
        The inputs that may be changed; others stay. All of them if left out.
    u_now : array (K,), optional
        Inputs now, which are also where they rest; their mean in the recordings if left out.
    limits : mapping of str to (low, high), optional
        Range of each input; the range seen in the recordings if left out, where the model knows
        it, else two standard deviations around the mean.
    past_controls : array (d, K), optional
        For a model with delays.
    errors : array (S, H, N), optional
        Past errors of forecasts (recorded minus forecast), for models without ``ensemble``.
    step : float, optional
        Time between steps, for models without one of their own.
    margin : float
        Share of the ensemble that should keep a condition at each step.
    n_runs : int
        Runs of the ensemble.
    random_state : int, Generator or None

    Raises
    ------
    ParameterError
        The model has no inputs, or an argument does not fit it.
    NumericalError
        The model leaves its range under all inputs tried.

    Examples
    --------
    >>> from foretell.data.controlled_systems import cascaded_tanks
    >>> from foretell.dynamics.koopman import EDMDc
    >>> data = cascaded_tanks().recordings(10, 200, hold=20, random_state=0)
    >>> model = EDMDc(degree=2, n_centres=0, horizon=40).fit(data)
    >>> plan = steer(model, [7.0, 6.5], "level < 7.2", u_now=[4.4])
    >>> plan.kept > 0.8 > plan.kept_untouched
    True
    """
    names = tuple(getattr(model, "control_names_", ()))
    if not names:
        raise ParameterError(
            "this model was fitted without inputs, so that nothing can be steered. Name them when "
            "fitting: foretell fit FILE --controls valve"
        )
    if not whole(horizon, 2):
        raise ParameterError(f"horizon={horizon!r}; needed is a whole number >= 2.")
    if not 0.5 <= margin < 1:
        raise ParameterError(f"margin={margin!r}; needed is a share in [0.5, 1).")
    texts = [keep] if isinstance(keep, str) else list(keep)
    conditions = tuple(parse_condition(t, model.names_, model.units_) for t in texts)
    if not conditions:
        raise ParameterError('there is nothing to keep. Write for instance keep="level < 8".')
    runner = _Runner(model, state, names, int(horizon), u_now, past_controls, errors, step)
    free = _columns(inputs, names)
    low, high = _limits(model, names, limits, runner.u_now)
    rng = as_generator(random_state)
    still = np.repeat(runner.u_now[None], horizon, axis=0)
    quiet = runner.forecast(still[None])[0]
    scatter = runner.ensemble(still, n_runs, rng)
    deviations = None if scatter is None else scatter - quiet

    sides = _sides(conditions, model.scaler_.scale, quiet, deviations, margin)

    def breaches(U: Array) -> Array:
        full = np.repeat(still[None], len(U), axis=0)
        full[:, :, free] = U
        y = runner.forecast(full)
        return np.stack(
            [(sign * (y[..., n] - limit) + extra) / unit for n, sign, limit, extra, unit in sides],
            axis=-1,
        )

    span = np.maximum(high - low, 1e-12)[free]
    rest, floor, ceiling = runner.u_now[free], low[free], high[free]
    guesses = [np.tile(v, (horizon, 1)) for v in (np.clip(rest, floor, ceiling), floor, ceiling)]
    found = shoot(
        breaches, guesses, u_reference=rest, u_before=rest, Q=0.0, R=_REST / span**2,
        S=_CHANGE / span**2, u_min=floor, u_max=ceiling, y_max=0.0, soft_penalty=_PENALTY,
        perturbation=float(1e-4 * span.min()), n_iterations=15,
    )  # fmt: skip
    planned = still.copy()
    planned[:, free] = found.inputs
    return runner.checked(conditions, planned, still, n_runs, rng)


class _Runner:
    """Runs of one model from one start, whatever its interface."""

    def __init__(
        self, model: Any, state: ArrayLike | Trajectories, names: tuple[str, ...], horizon: int,
        u_now: ArrayLike | None, past: ArrayLike | None, errors: ArrayLike | None,
        step: float | None,
    ) -> None:  # fmt: skip
        self.model, self.horizon, self._past = model, horizon, past
        self._recorded = state if isinstance(state, Trajectories) else None
        if isinstance(state, Trajectories):
            d = int(getattr(model, "n_delays", 0))
            if d and state.controls is not None:
                self._past = state.controls[-1][-d - 1 : -1]
            rows = last_rows(state, d + 1)[-1]
            state = rows if d else rows[-1]
        self.state = np.asarray(state, dtype=np.float64)
        self.step = float(getattr(model, "step_", step or 0.0))
        if not self.step > 0:
            raise ParameterError("this model moves in continuous time; give step=TIME.")
        mean = model.scaler_.control_mean
        self.u_now = np.array(mean if u_now is None else u_now, dtype=np.float64).reshape(-1)
        if self.u_now.shape != (len(names),) or not np.isfinite(self.u_now).all():
            raise ParameterError(
                f"u_now has {self.u_now.size} entries; needed is one finite number for each of "
                f"{', '.join(names)}."
            )
        self._errors = None if errors is None else np.asarray(errors, dtype=np.float64)
        self.times = self.step * np.arange(horizon + 1)

    def forecast(self, U: Array) -> Array:
        """Values (B, H, N) after each of the inputs U (B, H, K); NaN after an escape."""
        controls = np.concatenate([U, U[:, -1:]], axis=1)
        if hasattr(self.model, "ensemble"):
            starts = np.repeat(self.state[None], len(U), axis=0)
            past = None if self._past is None else np.asarray(self._past, float)
            runs = self.model.predict(starts, self.times, controls=controls, past_controls=past)
            return np.asarray(runs[:, 1:])
        start = self._recorded or np.atleast_2d(self.state)[-1]
        runs = [self.model.predict(start, self.times, controls=u)[0] for u in controls]
        return np.array(runs)[:, 1:]

    def ensemble(self, U: Array, n_runs: int, rng: np.random.Generator) -> Array | None:
        """Runs (S, H, N) that scatter like past forecasts did; None where that is unknown."""
        if hasattr(self.model, "ensemble"):
            runs = self.model.ensemble(
                self.state, U, n_samples=n_runs, past_controls=self._past, random_state=rng
            )
            return np.asarray(runs[:, 1:])
        if self._errors is None or not len(self._errors):
            return None
        if self._errors.shape[1] < self.horizon:
            raise ParameterError(
                f"errors reach {self._errors.shape[1]} steps; the plan has {self.horizon}."
            )
        drawn = self._errors[rng.integers(len(self._errors), size=n_runs), : self.horizon]
        return self.forecast(U[None]) + drawn

    def checked(
        self, conditions: tuple[Condition, ...], planned: Array, still: Array, n_runs: int,
        rng: np.random.Generator,
    ) -> SteeringPlan:  # fmt: skip
        """The plan with what an ensemble that it was not made from does under it."""
        now = self.state if self.state.ndim == 1 else self.state[-1]
        forecast = np.asarray(np.vstack([now, self.forecast(planned[None])[0]]), dtype=np.float64)
        runs, idle = self.ensemble(planned, n_runs, rng), self.ensemble(still, n_runs, rng)
        low = high = forecast
        kept = kept_untouched = float("nan")
        if runs is not None and idle is not None:
            low, high = (
                np.array(np.vstack([now, np.nanquantile(runs, q, axis=0)]), dtype=np.float64)
                for q in (0.05, 0.95)
            )
            kept, kept_untouched = (
                float(np.all([c.holds(r) for c in conditions], axis=0).all(axis=1).mean())
                for r in (runs, idle)
            )
        breach = max(
            float(np.maximum(y - c.high, c.low - y).max(initial=0.0))
            for c in conditions
            for y in (forecast[1:, c.column],)
        )
        held = bool(getattr(self.model, "residuals_held_back_", self._errors is not None))
        return SteeringPlan(
            conditions, np.asarray(self.times, dtype=np.float64), planned, forecast, low, high,
            kept, kept_untouched, breach,
            0 if runs is None else n_runs, held,
        )  # fmt: skip


def _sides(
    conditions: tuple[Condition, ...], scale: Array, quiet: Array, deviations: Array | None,
    margin: float,
) -> list[tuple[int, float, float, Array, float]]:  # fmt: skip
    """Column, sign, limit, margin (H,) and unit of every finite side of the conditions."""
    sides = []
    for c in conditions:
        for sign, limit in ((1.0, c.high), (-1.0, c.low)):
            if not np.isfinite(limit):
                continue
            extra = np.zeros(len(quiet))
            if deviations is not None:
                off = sign * deviations[..., c.column]
                extra = np.maximum(np.nanquantile(off, margin, axis=0), 0.0)
            sides.append((c.column, sign, limit, extra, float(scale[c.column])))
    return sides


def _columns(inputs: Sequence[str] | None, names: tuple[str, ...]) -> list[int]:
    wanted = list(names) if inputs is None else list(inputs)
    for name in wanted:
        if name not in names:
            raise ParameterError(
                f"there is no input {name!r} to steer; the model has {', '.join(names)}."
            )
    return [names.index(name) for name in wanted]


def _limits(
    model: Any, names: tuple[str, ...], limits: Mapping[str, tuple[float, float]] | None, now: Array
) -> tuple[Array, Array]:
    scaler = model.scaler_
    mean, std = scaler.control_mean, scaler.control_scale
    seen = getattr(model, "facts_", {}).get("control_range")
    low, high = (
        (np.array(seen[0]), np.array(seen[1])) if seen else (mean - 2.0 * std, mean + 2.0 * std)
    )
    for name, (least, most) in (limits or {}).items():
        if name not in names:
            raise ParameterError(f"limits name {name!r}; the inputs are {', '.join(names)}.")
        if not least < most:
            raise ParameterError(
                f"limits of {name!r} are {least:g} and {most:g}; the smaller one comes first."
            )
        low[names.index(name)], high[names.index(name)] = least, most
    return np.minimum(low, high), high
