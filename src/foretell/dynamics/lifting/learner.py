"""How all samplers of transitions learn: recordings or pairs in, a part held back.

A sampler says how it learns from transitions (``_learn``) and how it draws the next one.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.checks import point_out_gaps, whole
from foretell.dynamics.lifting.checks import check_common
from foretell.dynamics.lifting.sampler import Sampler
from foretell.dynamics.lifting.scale import measure
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import (
    Transitions,
    as_recordings,
    cut,
    given,
    hold_back,
    uneven,
)
from foretell.train.loop import OnStep

Array = NDArray[np.float64]


class TransitionLearner(Sampler):
    """Base of the samplers of transitions; use StochasticLifting or one of its siblings."""

    dt_feature: bool | str
    validation: float
    random_state: int | None

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        X: Trajectories | ArrayLike,
        times: ArrayLike | None = None,
        *,
        on_step: OnStep | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from recordings.

        Parameters
        ----------
        X : Trajectories, or arrays
            One recording (T, n), several (B, T, n), or a list of them; of fields (B, T, channels,
            cells) or (B, T, channels, height, width).
        times : array (T,), optional
            Stamps of arrays; 0, 1, 2, .. without them.
        on_step : callable, optional
            Receives a ``Progress`` now and then.
        checkpoint : path, optional
            A folder in which the training is kept, also when Ctrl-C ends it.
        resume : bool
            Go on from ``checkpoint``; the result is that of an uninterrupted training.

        Raises
        ------
        DataError
            The recordings are too short, constant, or unevenly sampled with ``dt_feature=False``.
        ParameterError
            An argument has an impossible value.
        """
        recordings, shape = as_recordings(X, times)
        self._check_parameters(shape)
        point_out_gaps(recordings)
        found = cut(recordings, int(self.history))
        self._note(recordings)
        return self._fit(found, shape, None, Training(on_step, checkpoint, resume))

    def fit_transitions(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        inputs: ArrayLike | None = None,
        interval: ArrayLike | None = None,
        calibration: ArrayLike | None = None,
        on_step: OnStep | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from pairs of a state and the next one.

        Parameters
        ----------
        X : array (N, ...) or (N, history, ...)
            States, with their past where ``history`` is more than 1.
        Y : array (N, ...)
            The next states.
        groups : array (N,), optional
            The recording that each pair comes from, or another name of what hangs together.
            Needed where pairs are held back, since neighbours of one recording would leak.
        inputs : array (N, K), optional
            What acted between the two.
        interval : array (N,), optional
            Time between the two.
        calibration : boolean array (N,), optional
            Pairs to hold back; by default a share ``validation`` of the groups.

        Raises
        ------
        DataError
            Shapes do not fit, entries are not finite, or a group is cut.
        """
        found, shape = given(X, Y, history=int(self.history) if whole(self.history, 1) else 1,
                             groups=groups, inputs=inputs, interval=interval)  # fmt: skip
        self._check_parameters(shape)
        if groups is None and calibration is None and self._holds_back():
            raise ParameterError(
                "pairs are held back, and without groups neighbouring pairs of one recording could "
                "fall on both sides. Give groups= (the recording of each pair, or "
                "np.arange(len(X)) where all are independent)."
            )
        self.names_ = tuple(f"x{i}" for i in range(found.following.shape[1]))
        self.units_ = ("",) * len(self.names_)
        self.control_names_ = tuple(f"u{i}" for i in range(found.inputs.shape[1]))
        self.control_units_ = ("",) * len(self.control_names_)
        self.time_name_, self.time_unit_ = "time", ""
        self.fingerprint_ = _digest(found)
        return self._fit(found, shape, calibration, Training(on_step, checkpoint, resume))

    def _fit(
        self,
        found: Transitions,
        shape: tuple[int, ...],
        calibration: ArrayLike | None,
        training: Training,
    ) -> Self:
        irregular = uneven(found)
        if irregular and self.dt_feature is False:
            raise DataError(
                f"the time between states varies from {found.interval.min():.6g} to "
                f"{found.interval.max():.6g}, and dt_feature=False. Write dt_feature=True, so "
                "that the interval is an input, or interpolate to even times."
            )
        for name in [k for k in vars(self) if k.endswith("_") and k not in _GIVEN]:
            delattr(self, name)  # nothing of an earlier fit stays when this one fails
        seed = self.random_state
        self.seed_ = int(np.random.default_rng().integers(2**31)) if seed is None else int(seed)
        self.shape_ = shape
        knows_interval = irregular if self.dt_feature == "auto" else bool(self.dt_feature)
        scale = measure(found, self._n_channels(shape), increments=bool(self.increments),
                        interval=knows_interval, names=self.names_)  # fmt: skip
        self.scale_ = scale
        self.step_ = float(np.median(found.interval))
        self.interval_range_ = (float(found.interval.min()), float(found.interval.max()))
        share = float(self.validation) if self._holds_back() else 0.0
        fitted, held = hold_back(found, share, self.seed_, calibration)
        training.identity = self._identity(self.fingerprint_)
        self._learn(found.take(fitted), found.take(held), training)
        self.n_features_in_ = scale.mean.size
        return self

    # ------------------------------------------------------------------ for the samplers
    @abstractmethod
    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        """Learn from the fitted part; ``held`` may be empty."""

    def _holds_back(self) -> bool:
        return bool(self.validation)

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        check_common(self)

    def _targets(self, found: Transitions) -> Array:
        base = found.past[:, -1] if self.increments else 0.0
        return np.asarray((found.following - base - self.scale_.shift) / self.scale_.step)


_GIVEN = (
    "names_", "units_", "control_names_", "control_units_", "time_name_", "time_unit_",
    "fingerprint_",
)  # fmt: skip


def _digest(found: Transitions) -> str:
    digest = hashlib.sha256()
    for array in (found.past, found.following, found.inputs, found.interval, found.group):
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
