"""What ``foretell plan`` starts from: the model of a folder, its recording, the state now.

Legend: N variables, K inputs, d delays, H steps.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.folder import FitFolder
from foretell.app.starts import start_at
from foretell.core.errors import ArtifactError, DataError, ForetellError
from foretell.data import Trajectories

Array = NDArray[np.float64]

_STRETCHES = 40  # forecasts from which the error of a model without an ensemble is measured
_HELD_OUT = 0.7  # the share of a recording that a fit is made to


@dataclass(frozen=True)
class Start:
    """What was recorded until now, the inputs now, and where they are from.

    Of a single row there is no recording, so the state is then an array.
    """

    state: Array | Trajectories
    u_now: Array | None
    source: str

    @property
    def now(self) -> Array:
        """The last row (N,)."""
        return self.state.values[0][-1] if isinstance(self.state, Trajectories) else self.state


def open_model(path: Path) -> tuple[Any, Trajectories | None]:
    """The model of a fit or of a saved folder, and the recording of the fit if it is there."""
    from foretell.dynamics import load

    if not path.is_dir():
        raise ArtifactError(f"There is no folder {path}.")
    folder = FitFolder(path)
    if not folder.record.exists():
        return load(path), None
    record = folder.read()
    if record["state"] != "done":
        raise ArtifactError(
            f"The fit in {path} is not finished. Continue it with: "
            f"{record['request'].get('command', 'foretell fit ...')} --resume"
        )
    return load(folder.model), _recording(record["request"])


def _recording(request: dict[str, Any]) -> Trajectories | None:
    """The recording that was fitted, where its file is still there and unchanged."""
    from foretell.app.command_fit import FitRequest

    words = shlex.split(str(request.get("command", "")))[2:]
    options = {
        words[i].removeprefix("--"): words[i + 1]
        for i in range(1, len(words) - 1)
        if words[i].startswith("--") and not words[i + 1].startswith("--")
    }
    if not words or not Path(words[0]).exists():
        return None
    known = ("time", "group", "controls", "columns")
    kept: dict[str, Any] = {k: options[k] for k in known if k in options}
    merge = "--merge-duplicates" in words
    try:
        data = FitRequest(file=Path(words[0]), out=Path(), merge_duplicates=merge, **kept).read()
    except (ForetellError, TypeError):
        return None
    return data if data.fingerprint() == request.get("data") else None


def start_from_table(path: Path, model: Any, step: float) -> Start:
    """The last rows of a table with a header, one step apart; columns are found by name."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if len(rows) < 2:
        raise DataError(f"{path} has {len(rows)} rows; needed are a header and the state now.")
    header = [cell.strip() for cell in rows[0]]
    state = _numbers(rows[1:], header, model.names_, path)
    controls = None
    if all(name in header for name in model.control_names_):
        controls = _numbers(rows[1:], header, model.control_names_, path)
    u_now = None if controls is None else controls[-1]
    if len(state) < 2 or (controls is None and model.control_names_):
        if (d := int(getattr(model, "n_delays", 0))) and controls is None and len(state) > d:
            raise DataError(
                f"{path} needs the inputs as well ({', '.join(model.control_names_)}), since this "
                f"model looks back {d} samples."
            )
        return _checked(state[-1], u_now, model, str(path))
    past = Trajectories.from_arrays(
        state, step * np.arange(len(state)), controls=controls, names=model.names_,
        control_names=None if controls is None else model.control_names_,
    )  # fmt: skip
    return _checked(start_at(model, past, 0, len(state) - 1), u_now, model, str(path))


def start_from_end(data: Trajectories, model: Any) -> Start:
    """The end of the last recording."""
    u_now = None if data.controls is None else data.controls[-1][-1]
    state = start_at(model, data, len(data) - 1, len(data.values[-1]) - 1)
    return _checked(state, u_now, model, f"the end of {data.labels[-1]!r}")


def _numbers(rows: list[list[str]], header: list[str], names: Sequence[str], path: Path) -> Array:
    values = np.empty((len(rows), len(names)))
    for j, name in enumerate(names):
        if name not in header:
            raise DataError(
                f"{path} has no column {name!r}; it has {', '.join(header)}. The state needs "
                f"{', '.join(names)}."
            )
        column = header.index(name)
        for i, row in enumerate(rows):
            text = row[column] if column < len(row) else ""
            try:
                values[i, j] = float(text)
            except ValueError as error:
                raise DataError(f"{path}, row {i + 1}: {name} is {text!r}, no number.") from error
    return values


def _checked(state: Array | Trajectories, u_now: Array | None, model: Any, source: str) -> Start:
    """A start that the model can use."""
    start, d = Start(state, u_now, source), int(getattr(model, "n_delays", 0))
    rows = state.values[0] if isinstance(state, Trajectories) else state[None]
    if len(rows) < d + 1:
        raise DataError(
            f"{source} has {len(rows)} rows; this model needs the last {d + 1}, one sample apart."
        )
    if not np.isfinite(rows[-d - 1 :]).all():
        raise DataError(f"the last rows of {source} are not complete; give --from STATE.csv.")
    return start


def forecast_errors(model: Any, data: Trajectories, horizon: int, step: float) -> Array | None:
    """Recorded minus forecast (S, H, N), from starts in the part that was held back."""
    from foretell.dynamics.choose import WHOLE_FROM

    errors = []
    whole = len(data) >= WHOLE_FROM  # then the last recordings were held back, as they are
    for n, (t, x) in enumerate(zip(data.times, data.values, strict=True)):
        if whole and n < round(_HELD_OUT * len(data)):
            continue
        first = 0 if whole else int(np.searchsorted(t, t[0] + _HELD_OUT * (t[-1] - t[0])))
        span = horizon * step
        starts = [k for k in range(first, len(t)) if t[-1] - t[k] >= span]
        for k in starts[:: max(1, len(starts) * len(data.times) // _STRETCHES)]:
            times = t[k] + step * np.arange(horizon + 1)
            if not np.isfinite(x[k]).all():
                continue
            row = np.clip(np.searchsorted(t, times + 1e-9 * step) - 1, 0, len(t) - 1)
            u = None if data.controls is None else data.controls[n][row]
            run = model.predict(start_at(model, data, n, k), times, controls=u)[0]
            seen = np.column_stack([np.interp(times, t, column) for column in x.T])
            if np.isfinite(run).all() and np.isfinite(seen).all():
                errors.append(seen[1:] - run[1:])
    return np.array(errors) if len(errors) >= 5 else None
