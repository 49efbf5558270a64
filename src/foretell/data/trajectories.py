"""Recordings of a system: a frozen, ragged set of time series with honest time stamps.

Legend: B windows, T (or L) samples, N observed variables, K inputs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import DataError, ParameterError
from foretell.data.assembly import ArrayPlace, Recording, checked_recording
from foretell.data.scaling import Scaler

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of equal length cut from recordings; none crosses from one recording to another.

    Attributes
    ----------
    times : array of shape (B, L)
    values : array of shape (B, L, N)
        NaN where a cell is missing.
    controls : array of shape (B, L, K) or None
    recording : integer array of shape (B,)
        The recording that each window comes from.
    skipped : tuple of str
        Labels of recordings shorter than one window.
    """

    times: Array
    values: Array
    controls: Array | None
    recording: NDArray[np.int64]
    skipped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.times.shape[0])

    def __repr__(self) -> str:
        B, L, N = self.values.shape
        return f"<Windows: {B} windows of {L} samples x {N} variables>"


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """One or more recordings of the same variables. Make one with a ``from_...`` method.

    Attributes
    ----------
    times : tuple of arrays of shape (T_i,)
        Strictly increasing time stamps, in ``time_unit``; they need not be equally spaced.
    values : tuple of arrays of shape (T_i, N)
        In ``units``; NaN where a cell is missing.
    mask : tuple of boolean arrays of shape (T_i, N)
        True where a cell was observed.
    controls : tuple of arrays of shape (T_i, K), or None
        Row k acts from stamp k to stamp k + 1.
    names, units, control_names, control_units : tuples of str
        Units are "" where unknown.
    time_name, time_unit : str
    labels : tuple of str
        One per recording.
    notes : tuple of str
        What was done while reading, in plain words.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.array([0.0, 0.1, 0.25, 0.3])
    >>> Trajectories.from_arrays(np.sin(t), t, names=["level"], units=["m"], time_unit="s")
    <Trajectories: 1 recording, 4 samples, median interval 0.1 s; level [m]>
    """

    times: tuple[Array, ...]
    values: tuple[Array, ...]
    mask: tuple[BoolArray, ...]
    controls: tuple[Array, ...] | None
    names: tuple[str, ...]
    units: tuple[str, ...]
    control_names: tuple[str, ...] = ()
    control_units: tuple[str, ...] = ()
    time_name: str = "time"
    time_unit: str = ""
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Freeze every array."""
        for group in (self.times, self.values, self.mask, self.controls or ()):
            for array in group:
                array.flags.writeable = False

    # ------------------------------------------------------------------ making one

    @classmethod
    def from_arrays(
        cls,
        values: ArrayLike | Sequence[ArrayLike],
        times: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        controls: ArrayLike | Sequence[ArrayLike] | None = None,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        names: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        control_names: Sequence[str] | None = None,
        control_units: Sequence[str] | None = None,
        time_name: str = "time",
        time_unit: str = "",
        labels: Sequence[str] | None = None,
        merge_duplicates: bool = False,
    ) -> Trajectories:
        """Make recordings from arrays, which are copied.

        Parameters
        ----------
        values : array of shape (T, N) or (T,), or a list of such arrays, or (B, T, N)
            One recording, or one per list item. A (T,) array is one variable.
        times : array of shape (T,), or a list with one per recording, optional
            Strictly increasing, or ``datetime64`` (becomes seconds from the first stamp).
            Default 0, 1, 2, ...
        controls : array of shape (T, K) or list, optional
            Row k acts from stamp k to stamp k + 1.
        mask : boolean array shaped like values, or list, optional
            True = observed. Without it every cell must be finite.
        names, units, control_names, control_units : sequences of str, optional
        time_name, time_unit : str
        labels : sequence of str, optional
            One name per recording.
        merge_duplicates : bool
            Average rows that share a time stamp instead of rejecting them.

        Raises
        ------
        DataError
            The message names the row, the column and the remedy.

        Examples
        --------
        >>> two = Trajectories.from_arrays([np.zeros((5, 2)), np.ones((3, 2))], names=["x", "y"])
        >>> len(two), two.n_samples
        (2, 8)
        """
        from foretell.data.arrays import prepare

        raw = prepare(values, times, controls, mask, names, control_names, labels)
        several = len(raw.values) > 1
        recordings = [
            checked_recording(
                raw.times[i],
                raw.values[i],
                raw.mask[i],
                None if raw.controls is None else raw.controls[i],
                place=ArrayPlace(f"[{i}]" if several else ""),
                names=raw.names,
                control_names=raw.control_names,
                merge_duplicates=merge_duplicates,
            )
            for i in range(len(raw.values))
        ]
        return cls.from_recordings(
            recordings,
            names=raw.names,
            units=_one_each(units, raw.names, "units", "variable"),
            control_names=raw.control_names,
            control_units=_one_each(control_units, raw.control_names, "control_units", "control"),
            time_name=time_name,
            time_unit=time_unit or raw.time_unit,
            labels=raw.labels,
        )

    @classmethod
    def from_recordings(
        cls, recordings: Sequence[Recording], *, notes: Sequence[str] = (), **names: Any
    ) -> Trajectories:
        """Put checked recordings together; readers end here."""
        counts: Counter[str] = sum((r.counts for r in recordings), Counter())
        controls = [r.controls for r in recordings if r.controls is not None]
        return cls(
            times=tuple(r.times for r in recordings),
            values=tuple(r.values for r in recordings),
            mask=tuple(r.mask for r in recordings),
            controls=tuple(controls) if controls else None,
            notes=(*notes, *(f"{n} {what.format(s='s' * (n != 1))}" for what, n in counts.items())),
            **names,
        )

    @classmethod
    def from_csv(cls, path: str | PathLike[str], **options: Any) -> Trajectories:
        """Read a text table; see `foretell.data.tables.read_csv` for the options."""
        from foretell.data import tables

        return tables.read_csv(path, **options)

    @classmethod
    def from_frame(cls, frame: Any, **options: Any) -> Trajectories:
        """Read a pandas frame; see `foretell.data.tables.read_frame` for the options."""
        from foretell.data.tables import read_frame

        return read_frame(frame, **options)

    @classmethod
    def read(cls, path: str | PathLike[str], **options: Any) -> Trajectories:
        """Read a .csv, .tsv, .txt, .parquet or .npz file, or a folder of such.

        See `foretell.data.tables.read`.
        """
        from foretell.data.tables import read

        return read(path, **options)

    # ------------------------------------------------------------------ looking at it

    @property
    def n_recordings(self) -> int:
        """Number of recordings."""
        return len(self.times)

    @property
    def n_variables(self) -> int:
        """N, the number of observed variables."""
        return len(self.names)

    @property
    def n_controls(self) -> int:
        """K, the number of controls."""
        return len(self.control_names)

    @property
    def n_samples(self) -> int:
        """Number of rows in all recordings together."""
        return sum(t.size for t in self.times)

    @property
    def median_interval(self) -> float:
        """Median distance of neighbouring stamps, in time units."""
        return float(np.median(np.concatenate([np.diff(t) for t in self.times])))

    @property
    def complete(self) -> bool:
        """True when no cell is missing."""
        return all(bool(m.all()) for m in self.mask)

    @property
    def duration(self) -> float:
        """Time from first to last stamp, summed over recordings."""
        return float(sum(t[-1] - t[0] for t in self.times))

    def __len__(self) -> int:
        return self.n_recordings

    def __repr__(self) -> str:
        def plural(n: int, word: str) -> str:
            return f"{n} {word}{'s' * (n != 1)}"

        def columns(names: tuple[str, ...], units: tuple[str, ...]) -> str:
            shown = [f"{n} [{u}]" if u else n for n, u in zip(names, units, strict=True)]
            return ", ".join(shown if len(shown) <= 8 else [*shown[:7], f"... ({len(shown)})"])

        text = (
            f"<Trajectories: {plural(self.n_recordings, 'recording')}, "
            f"{plural(self.n_samples, 'sample')}, "
            f"median interval {f'{self.median_interval:.4g} {self.time_unit}'.strip()}; "
            f"{columns(self.names, self.units)}"
        )
        if self.controls is not None:
            text += f"; controls {columns(self.control_names, self.control_units)}"
        if not self.complete:
            missing = sum(int((~m).sum()) for m in self.mask)
            text += f"; {plural(missing, 'missing cell')}"
        return text + ">"

    def fingerprint(self) -> str:
        """SHA-256 of stamps, cells, controls, names and units, as 64 hex digits.

        Notes do not count: the same content read from two formats has one fingerprint.
        """
        digest = hashlib.sha256()
        heading = (self.names, self.units, self.control_names, self.control_units)
        digest.update(repr((heading, self.time_name, self.time_unit, self.labels)).encode())
        for group in (self.times, self.values, self.mask, self.controls or ()):
            for array in group:
                kind = "|b1" if array.dtype == np.bool_ else "<f8"
                digest.update(repr(array.shape).encode())
                digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        return digest.hexdigest()

    # ------------------------------------------------------------------ cutting it

    def select(self, recordings: int | str | Sequence[int | str]) -> Trajectories:
        """Keep some recordings, by number or by label, in the order asked for.

        Examples
        --------
        >>> runs = Trajectories.from_arrays(np.arange(8.0).reshape(2, 4, 1), labels=["a", "b"])
        >>> runs.select("b").labels
        ('b',)
        """
        wanted = [recordings] if isinstance(recordings, int | str | np.integer) else recordings
        index = [self._position(r) for r in wanted]
        if not index:
            raise ParameterError(f"No recording selected; there are {list(self.labels)!r}.")
        return replace(
            self,
            times=tuple(self.times[i] for i in index),
            values=tuple(self.values[i] for i in index),
            mask=tuple(self.mask[i] for i in index),
            controls=None if self.controls is None else tuple(self.controls[i] for i in index),
            labels=tuple(self.labels[i] for i in index),
        )

    def split(
        self, fraction: float = 0.7, *, gap: float = 0.0
    ) -> tuple[Trajectories, Trajectories]:
        """Cut every recording in time: the first ``fraction`` of its duration, and the rest.

        Parameters
        ----------
        fraction : float
            Between 0 and 1.
        gap : float
            Time left out between the two parts, in time units. For chaotic data leave out more
            than one Lyapunov time.

        Examples
        --------
        >>> first, rest = Trajectories.from_arrays(np.zeros((10, 1))).split(0.7)
        >>> first.n_samples, rest.n_samples
        (7, 3)
        """
        if not 0 < fraction < 1:
            raise ParameterError(f"fraction={fraction} must lie between 0 and 1, for example 0.7.")
        if not gap >= 0:
            raise ParameterError(f"gap={gap} must be zero or more, in time units.")
        first, rest = [], []
        for label, t in zip(self.labels, self.times, strict=True):
            cut = t[0] + fraction * (t[-1] - t[0])
            head = int(np.searchsorted(t, cut, side="right"))
            tail = max(head, int(np.searchsorted(t, cut + gap, side="left")))
            if head < 2 or t.size - tail < 2:
                raise DataError(
                    f"Recording {label!r} with {t.size} rows splits into {head} and "
                    f"{t.size - tail} at fraction={fraction}, gap={gap}; both parts need at least "
                    "2 rows. Use another fraction, a smaller gap, or leave it out with select()."
                )
            first.append(slice(0, head))
            rest.append(slice(tail, t.size))
        return self.take_rows(first), self.take_rows(rest)

    def fold(self, length: int, stride: int | None = None) -> Windows:
        """Cut windows of ``length`` samples, one every ``stride`` samples (default: length).

        The last window of a recording ends at its last sample, overlapping its neighbour where
        needed, so that every sample of a long enough recording is in some window.

        Examples
        --------
        >>> windows = Trajectories.from_arrays(np.arange(10.0)).fold(4)
        >>> windows.times[:, 0]
        array([0., 4., 6.])
        """
        stride = length if stride is None else stride
        if length < 1 or stride < 1:
            raise ParameterError(f"length={length} and stride={stride} must be at least 1.")
        starts = [_window_starts(t.size, length, stride) for t in self.times]
        if not any(s.size for s in starts):
            longest = max(t.size for t in self.times)
            raise DataError(
                f"The longest recording has {longest} rows, and one window needs {length}. Give "
                f"longer recordings, or a shorter window (at most {longest})."
            )
        rows = [s[:, None] + np.arange(length) for s in starts]

        def cut(blocks: tuple[Array, ...]) -> Array:
            return np.concatenate([b[r] for b, r in zip(blocks, rows, strict=True)])

        return Windows(
            times=cut(self.times),
            values=cut(self.values),
            controls=None if self.controls is None else cut(self.controls),
            recording=np.repeat(np.arange(len(starts)), [s.size for s in starts]),
            skipped=tuple(x for x, s in zip(self.labels, starts, strict=True) if not s.size),
        )

    def standardise(self) -> tuple[Trajectories, Scaler]:
        """Scale every variable and control to zero mean and unit variance over all recordings.

        Raises
        ------
        DataError
            A variable is constant; the message names it and the remedy.
        """
        scaler = Scaler.fit(self)
        return scaler.transform(self), scaler

    def take_rows(self, rows: Sequence[slice | NDArray[Any]]) -> Trajectories:
        """Keep some rows of every recording; one slice, index or boolean array per recording."""

        def cut(blocks: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
            return tuple(b[r].copy() for b, r in zip(blocks, rows, strict=True))

        return replace(
            self,
            times=cut(self.times),
            values=cut(self.values),
            mask=cut(self.mask),
            controls=None if self.controls is None else cut(self.controls),
        )

    def _position(self, recording: int | str) -> int:
        if isinstance(recording, str):
            if recording in self.labels:
                return self.labels.index(recording)
        elif -self.n_recordings <= recording < self.n_recordings:
            return int(recording)
        raise ParameterError(
            f"There is no recording {recording!r}; there are {self.n_recordings}: "
            f"{', '.join(repr(x) for x in self.labels[:20])}."
        )


def _window_starts(n_rows: int, length: int, stride: int) -> NDArray[np.int64]:
    last = n_rows - length
    if last < 0:
        return np.zeros(0, dtype=np.int64)
    starts = np.arange(0, last + 1, stride, dtype=np.int64)
    return starts if starts[-1] == last else np.append(starts, last)


def _one_each(
    given: Sequence[str] | None, names: tuple[str, ...], argument: str, what: str
) -> tuple[str, ...]:
    if given is None:
        return ("",) * len(names)
    if isinstance(given, str) or len(given) != len(names):
        raise DataError(
            f"{argument}={given!r} needs one entry per {what}: {len(names)} for {list(names)!r}."
        )
    return tuple(str(g) for g in given)
