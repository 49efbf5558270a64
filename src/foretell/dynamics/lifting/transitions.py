"""Recordings as transitions: what was, what acted, how long, what came next.

Legend: N transitions, h states of history (the last one is the present), n numbers of a state,
K inputs. A state may be a field: (channels, cells) or (channels, height, width), flattened here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import as_trajectories

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 10
_GAP = 10.0  # median intervals; a longer one cuts a recording
_EVEN = 0.01  # relative spread of the intervals of an even recording
_BLOCKS = 10


@dataclass(frozen=True, eq=False)
class Transitions:
    """Pairs of a state and the next one.

    Attributes
    ----------
    past : array (N, h, n)
        States up to the present one, oldest first.
    following : array (N, n)
    inputs : array (N, K)
        What acted between the two.
    interval : array (N,)
        Time between the two.
    ids : integer array (N, 2)
        Recording and row, which name the label.
    group : integer array (N,)
        Transitions of one group hang together; a split never cuts a group.
    """

    past: Array
    following: Array
    inputs: Array
    interval: Array
    ids: Ints
    group: Ints

    def __len__(self) -> int:
        return len(self.following)

    def take(self, rows: NDArray[Any]) -> Transitions:
        """Some of the transitions."""
        return replace(self, **{name: value[rows] for name, value in vars(self).items()})


def as_recordings(
    X: Trajectories | ArrayLike, times: ArrayLike | None
) -> tuple[Trajectories, tuple[int, ...]]:
    """Recordings of flattened states, and the shape of a state.

    Arrays of four or five axes are recordings of fields, (B, T, channels, cells) or (B, T,
    channels, height, width); so are lists of arrays with one axis less.
    """
    if isinstance(X, Trajectories):
        return as_trajectories(X, times), (X.n_variables,)
    blocks: list[Any] = []
    if isinstance(X, np.ndarray) and X.ndim in (4, 5):
        blocks = list(X)
    elif isinstance(X, (list, tuple)) and X and all(np.ndim(x) in (3, 4) for x in X):
        blocks = [np.asarray(x) for x in X]
    if not blocks:
        found = as_trajectories(X, times)
        return found, (found.n_variables,)
    shapes = {block.shape[1:] for block in blocks}
    if len(shapes) > 1:
        raise DataError(
            f"the recordings have fields of {len(shapes)} shapes, {sorted(map(str, shapes))}; "
            "needed is one shape for all. Interpolate them to one grid."
        )
    (shape,) = shapes
    stamps: Any = times
    if times is not None and np.ndim(times) == 1 and np.isscalar(np.asarray(times)[0]):
        stamps = [times] * len(blocks)
    flat = [block.reshape(len(block), -1) for block in blocks]
    return Trajectories.from_arrays(flat, stamps), tuple(int(s) for s in shape)


def padded_history(values: Array, row: int, history: int) -> Array:
    """The states up to ``row``, (h, n); before the first one it is repeated."""
    return np.asarray(values[np.maximum(np.arange(row - history + 1, row + 1), 0)])


def cut(recordings: Trajectories, history: int) -> Transitions:
    """All transitions of complete rows, none across a gap or from one recording to another.

    Raises
    ------
    DataError
        There are fewer than ten.
    """
    median = recordings.median_interval
    parts: list[list[Array]] = [[] for _ in range(6)]
    for r, (t, values) in enumerate(zip(recordings.times, recordings.values, strict=True)):
        if history > t.size - 1:
            raise DataError(
                f"recording {recordings.labels[r]!r} has {t.size} rows, and history={history} "
                f"needs {history + 1}. Write history={max(t.size - 1, 1)} or less."
            )
        wide = np.diff(t) > _GAP * median
        segment: Ints = np.concatenate([[0], np.cumsum(wide)])
        begin: Ints = np.asarray(
            np.searchsorted(segment, segment)
        )  # first row of the stretch of every row
        rows = np.arange(t.size - 1)
        back = np.maximum(rows[:, None] + np.arange(1 - history, 1), begin[:-1, None])
        whole = np.asarray(np.isfinite(values).all(axis=1))
        keep = whole[back].all(axis=1) & whole[1:] & ~wide
        rows, back = rows[keep], back[keep]
        K = recordings.n_controls
        controls = np.zeros((t.size, 0)) if recordings.controls is None else recordings.controls[r]
        parts[0].append(values[back])
        parts[1].append(values[rows + 1])
        parts[2].append(controls[rows].reshape(rows.size, K))
        parts[3].append(np.diff(t)[rows])
        parts[4].append(np.stack([np.full(rows.size, r), rows], axis=1))
        parts[5].append(np.full(rows.size, r))
    joined = [np.concatenate(p) for p in parts]
    found = Transitions(joined[0], joined[1], joined[2], joined[3],
                        joined[4].astype(np.int64), joined[5].astype(np.int64))  # fmt: skip
    if len(found) < FEWEST:
        raise DataError(
            f"there are {len(found)} transitions between complete rows; at least {FEWEST} are "
            "needed. Record longer, or fill single missing cells."
        )
    return replace(found, group=_groups(found))


def _groups(found: Transitions) -> Ints:
    """Recordings as groups; where they are fewer than ten, blocks of time inside them."""
    recordings = np.unique(found.group)
    if recordings.size >= _BLOCKS:
        return found.group
    per_recording = -(-_BLOCKS // recordings.size)
    group = np.empty(len(found), dtype=np.int64)
    for i, r in enumerate(recordings):
        mine = np.flatnonzero(found.group == r)
        block = np.arange(mine.size) * per_recording // max(mine.size, 1)
        group[mine] = i * per_recording + block
    return group


def given(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    history: int,
    groups: ArrayLike | None,
    inputs: ArrayLike | None,
    interval: ArrayLike | None,
) -> tuple[Transitions, tuple[int, ...]]:
    """Transitions from arrays, and the shape of a state."""
    following = np.asarray(Y, dtype=np.float64)
    past = np.asarray(X, dtype=np.float64)
    if following.ndim == 1:
        past, following = past.reshape(len(past), -1), following[:, None]
    shape, N = following.shape[1:], len(following)
    if past.shape == following.shape:
        past = np.repeat(past[:, None], history, axis=1)
    if past.shape != (N, history, *shape):
        raise DataError(
            f"X has shape {np.shape(X)} and Y {np.shape(Y)}; needed are states of one shape, X "
            f"(N, ...) or with history (N, {history}, ...), and Y (N, ...)."
        )
    for name, array in (("X", past), ("Y", following)):
        bad = ~np.isfinite(array.reshape(N, -1)).all(axis=1)
        if bad.any():
            raise DataError(
                f"{name}[{int(bad.argmax())}] has entries that are not finite; leave out the "
                "transitions that were not fully observed."
            )
    if N < FEWEST:
        raise DataError(f"there are {N} transitions; at least {FEWEST} are needed.")
    u = np.zeros((N, 0)) if inputs is None else np.asarray(inputs, dtype=np.float64).reshape(N, -1)
    dt = np.ones(N) if interval is None else np.asarray(interval, dtype=np.float64)
    group = np.arange(N) if groups is None else _coded(groups, N)
    ids = np.stack([np.zeros(N, dtype=np.int64), np.arange(N)], axis=1)
    if groups is not None:
        ids[:, 0] = group
    flat = Transitions(past.reshape(N, history, -1), following.reshape(N, -1), u, dt, ids, group)
    return flat, tuple(int(s) for s in shape)


def _coded(groups: ArrayLike, N: int) -> Ints:
    names = np.asarray(groups)
    if names.shape != (N,):
        raise DataError(f"groups have shape {names.shape}; needed is one for each of {N}.")
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def uneven(found: Transitions) -> bool:
    """Whether the time from state to state varies by more than one per cent."""
    return bool(found.interval.std() > _EVEN * found.interval.mean())


def hold_back(
    found: Transitions, share: float, seed: int, chosen: ArrayLike | None = None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which transitions are fitted and which are for calibration; no group is in both.

    Parameters
    ----------
    found : Transitions
    share : float
        Share of the groups for calibration; 0 for none.
    seed : int
        Draws the groups.
    chosen : boolean array (N,), optional
        Said by the caller instead: True for calibration.

    Raises
    ------
    DataError
        ``chosen`` cuts a group.
    """
    N = len(found)
    if chosen is not None:
        held = np.asarray(chosen, dtype=bool)
        if held.shape != (N,):
            raise DataError(f"calibration has shape {held.shape}; needed is one truth for each "
                            f"of {N} transitions.")  # fmt: skip
        both = np.intersect1d(found.group[held], found.group[~held])
        if both.size:
            raise DataError(
                f"{both.size} groups (the first is number {both[0]}) have transitions in the "
                "calibration part and in the fitted part; neighbouring transitions would leak. "
                "Hold back whole groups."
            )
        if held.all() or not held.any():
            raise ParameterError("calibration must be true for some transitions and false for "
                                 "others; leave it out to have them drawn.")  # fmt: skip
        return ~held, held
    names = np.unique(found.group)
    n_held = 0 if share == 0 else max(1, round(share * names.size))
    if share > 0 and names.size < 2:
        raise DataError("all transitions are of one group, so none can be held back. Give groups= "
                        "with at least two, or calibrate=False.")  # fmt: skip
    drawn = np.random.default_rng([seed, 11]).permutation(names)[:n_held]
    held = np.isin(found.group, drawn)
    return ~held, held
