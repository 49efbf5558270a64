"""A fitted model as its instruments see it: where it is now, how it runs, how far it errs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.command_plan_start import Start, open_model, start_from_end
from foretell.app.folder import FitFolder
from foretell.app.starts import start_at
from foretell.core.errors import DataError, ForetellError
from foretell.data import Trajectories, delay_embed
from foretell.dynamics.model import Stochastic

Array = NDArray[np.float64]

SHARE = 0.9  # of an interval
_HELD_OUT, _STARTS, _FEWEST = 0.7, 40, 20
_RUNS = 100


@dataclass(frozen=True)
class Ahead:
    """Where a model expects to be.

    Attributes
    ----------
    times : array (H + 1,)
    values : array (H + 1, N)
    low, high : arrays (N,) or None
        Range of the end; None where nothing is known about the errors.
    basis : str
        What the range rests on, in words.
    """

    times: Array
    values: Array
    low: Array | None
    high: Array | None
    basis: str


class ModelView:
    """A model with its recording.

    Parameters
    ----------
    model : fitted learner
    data : Trajectories, optional
        The recording, in the coordinates of the model.
    name : str
        As it is named in sources.
    summary : mapping, optional
        The findings of the fit.
    """

    def __init__(
        self,
        model: Any,
        data: Trajectories | None = None,
        *,
        name: str = "model",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.data, self.name = model, data, name
        self.summary = dict(summary or {})
        self.names = tuple(model.names_)
        self.units = tuple(getattr(model, "units_", ("",) * len(self.names)))
        self.controls = tuple(getattr(model, "control_names_", ()))
        self.control_units = tuple(getattr(model, "control_units_", ("",) * len(self.controls)))
        self.time_unit = str(getattr(model, "time_unit_", ""))
        shown = self.summary.get("data", {}).get("variables")
        self.shown = tuple(n for n in self.names if shown is None or n in shown) or self.names
        self._errors: dict[int, Array] = {}

    @classmethod
    def open(cls, path: Path) -> ModelView:
        """The model of a fit or of a saved folder, with its recording where it is at hand."""
        model, data = open_model(path)
        folder = FitFolder(path)
        summary: dict[str, Any] = {}
        if folder.summary.is_file():
            try:
                summary = json.loads(folder.summary.read_text(encoding="utf-8"))
            except ValueError as error:
                raise DataError(f"{folder.summary} is damaged ({error}). Fit again.") from error
        plan = summary.get("plan", {})
        if data is not None and plan.get("embedding_dimension", 1) > 1:
            data = delay_embed(data, dimension=plan["embedding_dimension"], lag=plan["lag"])
        return cls(model, data, name=path.name or str(path), summary=summary)

    @cached_property
    def step(self) -> float:
        """Time between two rows of a run."""
        own = getattr(self.model, "step_", None)
        if own:
            return float(own)
        if self.data is not None:
            return float(self.data.median_interval)
        return float(getattr(self.model, "time_scale_", 1.0))

    @cached_property
    def start(self) -> Start:
        """Where the system is now: the end of the recording."""
        if self.data is None:
            raise DataError(
                f"The recording that {self.name} was fitted to is not at hand, so that the state "
                "now is not known. Put the file back where it was when the model was fitted."
            )
        return start_from_end(self.data, self.model)

    @property
    def u_now(self) -> Array:
        """The inputs now; their mean where they are not known."""
        if self.data is not None and self.start.u_now is not None:
            return np.asarray(self.start.u_now, dtype=np.float64)
        return np.asarray(self.model.scaler_.control_mean, dtype=np.float64)

    def seen_range(self, control: str) -> tuple[float, float] | None:
        """The values of an input in the recording."""
        if self.data is None or self.data.controls is None:
            return None
        used = np.concatenate(self.data.controls)[:, self.controls.index(control)]
        return float(used.min()), float(used.max())

    def unit_of(self, name: str) -> str:
        """The unit of a variable or an input."""
        if name in self.names:
            return str(self.units[self.names.index(name)])
        return str(self.control_units[self.controls.index(name)])

    def ahead(
        self,
        n_steps: int,
        *,
        control: Array | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Ahead:
        """Run from now on, inputs held; the range from errors where it was not trained."""
        start = self.start
        times: Array = self.step * np.arange(n_steps + 1, dtype=np.float64)
        held = self._held(n_steps + 1, self.u_now if control is None else control)
        if isinstance(self.model, Stochastic):
            runs = self._many(start, times, held)
            low, high = np.quantile(runs[:, -1], [(1 - SHARE) / 2, (1 + SHARE) / 2], axis=0)
            middle = np.median(runs, axis=0)
            return Ahead(times, middle, low, high, f"{_RUNS} runs of the model")
        values = self._run(start.state, times, held)
        off = self.errors(n_steps, cancelled)
        if len(off) < _FEWEST:
            return Ahead(times, values, None, None, "")
        low, high = np.quantile(off, [(1 - SHARE) / 2, (1 + SHARE) / 2], axis=0)
        basis = f"{len(off)} forecasts as long on the part of the recording that was held back"
        return Ahead(times, values, values[-1] + low, values[-1] + high, basis)

    def errors(self, n_steps: int, cancelled: Callable[[], bool] = lambda: False) -> Array:
        """Recorded minus forecast after so many steps, from starts that were held back, (S, N)."""
        if n_steps not in self._errors:
            self._errors[n_steps] = self._measured(n_steps, cancelled)
        return self._errors[n_steps]

    def _measured(self, n_steps: int, cancelled: Callable[[], bool]) -> Array:
        off: list[Array] = []
        data = self.data
        if data is None:
            return np.empty((0, len(self.names)))
        span = n_steps * self.step
        delays = int(getattr(self.model, "n_delays", 0))
        for r, t in enumerate(data.times):
            first = max(int(np.searchsorted(t, t[0] + _HELD_OUT * (t[-1] - t[0]))), delays)
            starts = [k for k in range(first, len(t)) if t[-1] - t[k] >= span]
            every = max(1, len(starts) * data.n_recordings // _STARTS)
            for k in starts[::every]:
                if cancelled():
                    return np.array(off).reshape(-1, len(self.names))
                times = t[k] + self.step * np.arange(n_steps + 1)
                end = self._one_error(r, k, times)
                if end is not None:
                    off.append(end)
        return np.array(off).reshape(-1, len(self.names))

    def _one_error(self, r: int, k: int, times: Array) -> Array | None:
        assert self.data is not None
        t, x, u = self.data.times[r], self.data.values[r], None
        delays = int(getattr(self.model, "n_delays", 0))
        if not np.isfinite(x[k - delays : k + 1]).all():
            return None
        if self.data.controls is not None:
            rows = np.clip(np.searchsorted(t, times + 1e-9 * self.step) - 1, 0, len(t) - 1)
            u = self.data.controls[r][rows]
        try:
            run = self._run(start_at(self.model, self.data, r, k), times, u)
        except ForetellError:
            return None
        seen = np.array([np.interp(times[-1], t, column) for column in x.T])
        end = seen - run[-1]
        return end if np.isfinite(end).all() else None

    def _held(self, rows: int, control: Array) -> Array | None:
        return np.tile(control, (rows, 1)) if self.controls else None

    def _run(self, state: Array | Trajectories, times: Array, u: Array | None) -> Array:
        """One run (H + 1, N)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if hasattr(self.model, "predict"):
                run = self.model.predict(state, times, controls=u)[0]
            else:
                run = self.model.simulate(state, times, controls=u).values[0]
        found = np.asarray(run, dtype=np.float64)
        if not np.isfinite(found).all():
            raise DataError(
                f"{self.name} leaves every bound before {times[-1] - times[0]:.4g} "
                f"{self.time_unit}".rstrip()
                + ". Ask for a shorter time."
            )
        return found

    def _many(self, start: Start, times: Array, u: Array | None) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = self.model.simulate(
                start.state, times, controls=u, n_samples=_RUNS, random_state=0
            )
        return np.array([v for v in runs.values if len(v) == len(times)])
