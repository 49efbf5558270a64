"""What recordings show before anything is fitted: jumps, scatter, inputs, uneven stamps, length.

Each is a number with a threshold, and only decides which learners are worth trying. Whether they
are right is decided on held-out data (`choose.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from foretell.data import Trajectories

Array = NDArray[np.float64]

_FEW_ROWS = 400
_UNEVEN = 0.05
_JUMPS = (5e-4, 0.3)  # share of steps that jump: below, an accident; above, it is noise
_SCATTER = 0.02  # a smooth system in five dimensions, known at 4,000 states, has as much
_MOST_POINTS = 4_000
_DEVIATIONS = 12.0  # of a typical second difference; and
_JUMP_SIZE = 0.35  # standard deviations of the column, for a jump


@dataclass(frozen=True)
class Evidence:
    """What the recordings show.

    Parameters
    ----------
    n_rows, n_variables, n_controls : int
        Size of the recordings.
    unevenness : float
        Standard deviation of the time between samples as a share of its mean, gaps left out.
    jumps : float
        Share of the steps in which the state jumps: it leaves the line through its neighbours by
        far more than usual, and at once.
    scatter : float
        Of states that are almost the same, how differently they go on: 0 the same way, 1 as if
        the state said nothing. NaN where there are too few neighbours, or with inputs.

    Examples
    --------
    >>> import numpy as np
    >>> t = 0.1 * np.arange(2000)
    >>> evidence = look_at(Trajectories.from_arrays(np.column_stack([np.sin(t), np.cos(t)]), t))
    >>> evidence.has_jumps, evidence.has_scatter, evidence.is_short
    (False, False, False)
    """

    n_rows: int
    n_variables: int
    n_controls: int
    unevenness: float
    jumps: float
    scatter: float

    @property
    def is_short(self) -> bool:
        """Fewer rows than a large model can learn from."""
        return self.n_rows < _FEW_ROWS

    @property
    def is_uneven(self) -> bool:
        """Whether the stamps have to be used as they are."""
        return self.unevenness > _UNEVEN

    @property
    def has_jumps(self) -> bool:
        """Whether some, and not most, steps jump."""
        return _JUMPS[0] < self.jumps < _JUMPS[1]

    @property
    def has_scatter(self) -> bool:
        """Whether the same state goes on in different ways."""
        return self.scatter > _SCATTER

    @property
    def is_driven(self) -> bool:
        """Whether there are inputs."""
        return self.n_controls > 0


def look_at(recordings: Trajectories) -> Evidence:
    """Measure what the recordings show.

    Parameters
    ----------
    recordings : Trajectories
        At least two rows in one of them.
    """
    steps = np.concatenate([np.diff(t) for t in recordings.times])
    steps = steps[steps <= 10 * np.median(steps)]
    return Evidence(
        n_rows=recordings.n_samples,
        n_variables=recordings.n_variables,
        n_controls=recordings.n_controls,
        unevenness=float(steps.std() / steps.mean()),
        jumps=_jumps(recordings),
        scatter=float("nan") if recordings.controls is not None else _scatter(recordings),
    )


def _jumps(recordings: Trajectories) -> float:
    """Share of the steps that leave the line through their neighbours far and at once."""
    found, total = 0, 0
    for n in range(recordings.n_variables):
        column = np.concatenate([v[:, n] for v in recordings.values])
        spread = float(np.nanstd(column))
        steps = [np.diff(v[:, n]) for v in recordings.values if len(v) > 3]
        bends = np.concatenate([np.abs(np.diff(s)) for s in steps]) if steps else np.zeros(0)
        bends = bends[np.isfinite(bends)]
        if bends.size < 10 or spread == 0:
            continue
        usual = float(np.median(bends)) + 1e-12
        limit = max(_DEVIATIONS * usual, _JUMP_SIZE * spread)
        here = sum(_count_jumps(s, limit) for s in steps)
        found, total = max(found, here), max(total, sum(s.size for s in steps))
    return found / total if total else 0.0


def _count_jumps(steps: Array, limit: float) -> int:
    """Steps much larger than both neighbours: a fast but smooth passage has large neighbours."""
    if steps.size < 3:
        return 0
    middle, before, after = steps[1:-1], steps[:-2], steps[2:]
    return int(np.sum((np.abs(middle - before) > limit) & (np.abs(middle - after) > limit)))


def _scatter(recordings: Trajectories) -> float:
    """Mean square difference of the futures of neighbours, as a share of that of any two states.

    The nearest neighbour of each state is sought away from it in time. The future is where the
    state is a tenth of the time to decorrelation later, and half of that, so that noise of the
    measurement, which adds the same to both, is told from scatter that grows.
    """
    lead = max(decorrelation_rows(recordings) // 4, 2)
    (half, _), (full, typical) = (_future_difference(recordings, h) for h in (lead // 2, lead))
    if not (np.isfinite(half) and np.isfinite(full)):
        return float("nan")
    return float(np.clip(2 * (full - half), 0.0, full) / max(typical, 1e-12))


def _future_difference(recordings: Trajectories, lead: int) -> tuple[float, float]:
    """Mean square difference of how neighbours, and how any two states, moved on."""
    nothing = float("nan"), float("nan")
    now, later, where = [], [], []
    clock = 0
    for values in recordings.values:
        if len(values) > lead + 1:
            now.append(values[:-lead])
            later.append(values[lead:])
            where.append(clock + np.arange(len(values) - lead))
        clock += len(values) + 10 * lead
    if not now:
        return nothing
    x, y, at = np.concatenate(now), np.concatenate(later), np.concatenate(where)
    complete = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
    x, y, at = x[complete], y[complete], at[complete]
    if len(x) < 100:
        return nothing
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    x, y = x / spread, y / spread
    some = np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int)
    distances, others = cKDTree(x).query(x[some], k=min(30, len(x)))
    apart = np.abs(at[others] - at[some][:, None]) > 3 * lead
    usable = apart.any(axis=1)
    first = np.argmax(apart, axis=1)
    row = np.arange(len(some))
    pair, distance = others[row, first], distances[row, first]
    if usable.sum() < 50:
        return nothing
    closest = usable & (distance <= np.quantile(distance[usable], 0.3))
    moved = (y - x)[some][closest] - (y - x)[pair][closest]
    return float(np.mean(np.sum(moved**2, axis=1))), float(2 * np.sum((y - x).var(axis=0)))


def decorrelation_rows(recordings: Trajectories) -> int:
    """Rows until the autocorrelation first reaches zero, median over the variables."""
    longest = max(recordings.values, key=len)
    firsts = []
    for column in longest.T:
        seen = np.isfinite(column)
        if not seen.any():
            continue
        x = np.where(seen, column - column[seen].mean(), 0.0)
        n = 1 << (2 * len(x) - 1).bit_length()
        correlation = np.fft.irfft(np.abs(np.fft.rfft(x, n)) ** 2, n)[: len(x)]
        below = np.flatnonzero(correlation <= 0)
        firsts.append(int(below[0]) if below.size else len(x))
    return round(float(np.median(firsts))) if firsts else len(longest)
