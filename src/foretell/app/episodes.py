"""Where else in the recordings something like this happened.

Every window of a recording, with the mean of each variable taken off and its spread set to one (so
that only the shape counts), becomes one vector of a `SketchIndex`; the cosine of two such vectors
is the mean correlation of their variables. Windows that overlap the one that is asked about are not
similar to it but the same, and of similar windows that overlap each other the best one is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]

_STEPS = 64  # of a window: enough for its shape, whatever the sampling
_STRIDE = 4  # of these steps
_BITS = 256
_FLAT = 1e-9  # spread, beside that of the recordings, of a variable that stands still
_PERIODS, _ROWS, _WINDOWS = 2.0, 16.0, 8.0  # of a window; windows in a recording, at least
_NUMBERS = 4e6  # of all windows together, which bounds the time that a search takes
_TRIES = 6


@dataclass(frozen=True)
class Episode:
    """A stretch of a recording.

    Parameters
    ----------
    recording : int
        Which one.
    start, stop : float
        In the unit of time of the recordings.
    similarity : float
        Mean correlation of the variables with the episode that was asked about; 1 is the same
        shape.
    """

    recording: int
    start: float
    stop: float
    similarity: float


@dataclass(frozen=True)
class SimilarEpisodes:
    """The end of a recording, and stretches of the recordings that look like it.

    Parameters
    ----------
    asked : Episode
        What was asked about; its similarity is 1.
    found : tuple of Episode
        Most similar first.
    """

    asked: Episode
    found: tuple[Episode, ...]


def like_the_end(trajectories: Trajectories, peak: float, *, k: int = 3) -> SimilarEpisodes | None:
    """What looks most like the end of the last recording; None where none is long enough.

    The window is two periods of the dominant frequency ``peak`` (0 where there is none), or a
    fortieth of the longest recording, but never so short that it holds less than 16 samples or that
    the search would take more than about a second.
    """
    longest = max(float(t[-1] - t[0]) for t in trajectories.times)
    together = sum(float(t[-1] - t[0]) for t in trajectories.times)
    most = _NUMBERS / (_STEPS * trajectories.n_variables)
    window = max(
        _PERIODS / peak if peak > 0 else longest / 40,
        _ROWS * trajectories.median_interval,
        together * _STEPS / (_STRIDE * most),
    )
    if _WINDOWS * window > longest:
        return None
    last = trajectories.n_recordings - 1
    times = trajectories.times[last]
    for back in range(_TRIES):  # where the very end stands still or has a gap
        start = float(times[-1] - window * (1 + back / 2))
        if start < times[0]:
            return None
        try:
            found = similar_episodes(trajectories, window, start=start, recording=last, k=k)
        except DataError:
            continue
        asked = Episode(last, start, start + window, 1.0)
        return SimilarEpisodes(asked, found) if found else None
    return None


def similar_episodes(
    trajectories: Trajectories,
    window: float,
    *,
    start: float | None = None,
    recording: int = 0,
    k: int = 5,
    budget: int = 200,
) -> tuple[Episode, ...]:
    """Stretches of the recordings that look most like one of them, best first.

    Parameters
    ----------
    trajectories : Trajectories
        Complete or with gaps; stamps may be irregular. Windows across a gap of more than a quarter
        of a window are left out.
    window : float
        Length of an episode, in the unit of time.
    start : float, optional
        Where the episode that is asked about begins; by default the last window of its recording.
    recording : int
        Where it is.
    k : int
        Episodes wanted; fewer come back where fewer do not overlap.
    budget : int
        Windows that are compared exactly.

    Raises
    ------
    ParameterError
        For a window that does not fit into a recording, and a start outside of it.
    DataError
        When the episode asked about stands still or lies across a gap.

    Examples
    --------
    >>> t = np.arange(0.0, 100.0, 0.1)
    >>> x = np.random.default_rng(0).normal(size=t.size).cumsum()
    >>> x[200:300] = x[900:1000]  # what happens at the end has happened before
    >>> first, *_ = similar_episodes(Trajectories.from_arrays([x[:, None]], [t]), window=9.0)
    >>> abs(first.start - 20.9) < 0.1, first.similarity > 0.95
    (True, True)
    """
    if not (np.isfinite(window) and window > 0):
        raise ParameterError(f"window={window!r} is not a length of time. Write window=10.0.")
    if not 0 <= recording < trajectories.n_recordings:
        raise ParameterError(
            f"recording={recording} is none of the {trajectories.n_recordings} recordings, which "
            "are counted from 0."
        )
    spread = np.concatenate(trajectories.values)
    spread = np.nanstd(np.where(np.concatenate(trajectories.mask), spread, np.nan), axis=0)
    places, shapes = [], []
    for number, times in enumerate(trajectories.times):
        span = float(times[-1] - times[0])
        if span < window:
            continue
        starts = np.arange(0.0, span - window + 1e-9 * span, _STRIDE * window / _STEPS) + times[0]
        vectors, good = _shapes(trajectories, number, starts, window, spread)
        places.append(np.column_stack([np.full(good.sum(), number), starts[good]]))
        shapes.append(vectors[good])
    times = trajectories.times[recording]
    if start is None:
        start = float(times[-1] - window)
    if not times[0] - 1e-9 <= start <= times[-1] - window + 1e-9 * window:
        raise ParameterError(
            f"An episode of {window:g} from {start:g} on does not lie within recording "
            f"{recording}, which lasts from {times[0]:g} to {times[-1]:g}."
        )
    query, usable = _shapes(trajectories, recording, np.array([start]), window, spread)
    if not usable[0]:
        raise DataError(
            f"The episode from {start:g} to {start + window:g} stands still or lies across a gap, "
            "so nothing is like it. Give another start."
        )
    where, X = np.concatenate(places), np.concatenate(shapes)
    if not len(X):
        return ()
    from foretell.recall import SignSketch, SketchIndex

    index = SketchIndex(SignSketch(n_bits=_BITS, random_state=0).fit(X[:1]))
    index.add(X)
    wanted = min(len(X), max(budget, k))
    unit = query / np.linalg.norm(query)
    found = index.search(unit, k=wanted, budget=wanted)
    kept: list[Episode] = []
    taken = [(recording, start)]
    for row, cosine in zip(found.ids[0], found.cosines[0], strict=True):
        number, begin = int(where[row, 0]), float(where[row, 1])
        if all(number != n or abs(begin - b) >= window for n, b in taken):
            taken.append((number, begin))
            kept.append(Episode(number, begin, begin + window, float(cosine)))
        if len(kept) == k:
            break
    nearer = [_placed(trajectories, episode, window, unit[0], spread) for episode in kept]
    return tuple(sorted(nearer, key=lambda episode: -episode.similarity))


def _placed(
    trajectories: Trajectories, episode: Episode, window: float, unit: Array, spread: Array
) -> Episode:
    """The same episode, begun where it is most similar: windows were only tried on a grid."""
    stride = _STRIDE * window / _STEPS
    times = trajectories.times[episode.recording]
    starts = episode.start + np.linspace(-stride, stride, 8 * _STRIDE + 1)
    starts = starts[(starts >= times[0]) & (starts + window <= times[-1])]
    if not starts.size:
        return episode
    shapes, good = _shapes(trajectories, episode.recording, starts, window, spread)
    lengths = np.linalg.norm(shapes, axis=1)
    cosines = np.where(good, shapes @ unit / np.where(good, lengths, 1.0), -np.inf)
    best = int(cosines.argmax())
    if cosines[best] <= episode.similarity:
        return episode
    start = float(starts[best])
    return Episode(episode.recording, start, start + window, float(cosines[best]))


def _shapes(
    trajectories: Trajectories, number: int, starts: Array, window: float, spread: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Standardised windows (n, steps * N) of a recording, and which of them are usable."""
    times = trajectories.times[number]
    values, mask = trajectories.values[number], trajectories.mask[number]
    steps = starts[:, None] + np.linspace(0.0, window, _STEPS)
    parts, good = [], np.ones(len(starts), np.bool_)
    for n in range(values.shape[1]):
        t, x = times[mask[:, n]], values[mask[:, n], n]
        if t.size < 2:
            return np.zeros((len(starts), _STEPS * values.shape[1])), ~good
        rows = np.interp(steps, t, x)
        after = np.clip(np.searchsorted(t, steps), 1, t.size - 1)
        good &= ((t[after] - t[after - 1]) <= window / 4).all(axis=1)
        rows -= rows.mean(axis=1, keepdims=True)
        size = rows.std(axis=1)
        still = size <= _FLAT * max(float(spread[n]), 1e-300)
        parts.append(rows / np.where(still, 1.0, size)[:, None] * ~still[:, None])
    vectors = np.concatenate(parts, axis=1)
    good &= (vectors != 0).any(axis=1)
    return vectors, good
