"""What all samplers of transitions share: recordings in, draws and runs out, saving.

A sampler says how it learns from transitions and how it draws the next one; the rest is here.
"""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import (
    DataError,
    NotFittedError,
    ParameterError,
    as_generator,
)
from foretell.data import Trajectories
from foretell.dynamics.checks import checked_controls, checked_times, point_out_gaps, whole
from foretell.dynamics.lifting.checks import check_common, checked_inputs, checked_past
from foretell.dynamics.lifting.keeping import Kept
from foretell.dynamics.lifting.reach import point_out_extrapolation, substeps, until_escape
from foretell.dynamics.lifting.rollouts import Move, run
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
from foretell.dynamics.longrun.ensembles import energy_score
from foretell.train.loop import OnStep

Array = NDArray[np.float64]

_SCORED = 400  # transitions in a score


class TransitionLearner(Kept):
    """Base of the samplers of transitions; use StochasticLifting or one of its siblings."""

    history: int
    increments: bool
    dt_feature: bool | str
    validation: float
    random_state: int | None

    @property
    def evaluations_per_step(self) -> int:
        """Network evaluations for one step of a run."""
        return 1

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
        self.names_, self.units_ = recordings.names, recordings.units
        self.control_names_ = recordings.control_names
        self.control_units_ = recordings.control_units
        self.time_name_, self.time_unit_ = recordings.time_name, recordings.time_unit
        self.fingerprint_ = recordings.fingerprint()
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
        training.identity = self._identity()
        self._learn(found.take(fitted), found.take(held), training)
        self.n_features_in_ = scale.mean.size
        return self

    # ------------------------------------------------------------------ using
    def sample_next(
        self,
        x: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
        *,
        controls: ArrayLike | None = None,
        interval: float | None = None,
    ) -> Array:
        """Draw next states.

        Parameters
        ----------
        x : array (B, ...) or one state
            States of the shape that was fitted, or with history (B, history, ...).
        n_samples : int
            S draws of each.
        random_state : int, Generator or None
        controls : array (K,), optional
            Inputs during the step.
        interval : float, optional
            Time of the step, where the model was fitted to varying ones.

        Returns
        -------
        array (B, S, ...)
        """
        steps = self.rollout(x, 1, n_samples, random_state, controls=controls, interval=interval)
        return np.asarray(steps[:, :, 1])

    def rollout(
        self,
        x0: ArrayLike,
        n_steps: int,
        n_members: int = 1,
        random_state: int | np.random.Generator | None = None,
        *,
        controls: ArrayLike | None = None,
        interval: float | None = None,
        project: Callable[[Array], ArrayLike] | None = None,
    ) -> Array:
        """Run freely, every member with its own chance.

        Parameters
        ----------
        x0 : array (B, ...) or one state
            Starts, or with history (B, history, ...); a start without its past is taken to have
            stood still.
        n_steps : int
        n_members : int
            S runs of each start.
        random_state : int, Generator or None
        controls : array (n_steps, K) or (K,), optional
            Inputs of every step.
        interval : float, optional
            Time of a step, where the model was fitted to varying ones; the usual one otherwise.
        project : callable, optional
            Brings states (rows, ...) back into their physical range after every step.

        Returns
        -------
        array (B, S, n_steps + 1, ...)
            The first slice is the start.
        """
        self._check_fitted()
        for name, value in (("n_steps", n_steps), ("n_members", n_members)):
            if not whole(value, 1):
                raise ParameterError(f"{name}={value!r}; needed is a whole number >= 1.")
        past = checked_past(x0, self.shape_, int(self.history))
        inputs = checked_inputs(controls, int(n_steps), self.control_names_)
        moves = [Move(self._checked_interval(interval), k) for k in range(int(n_steps))]
        shaped = None if project is None else self._shaped(project)
        states = self._run(past, moves, int(n_members), inputs, as_generator(random_state), shaped)
        return np.asarray(states.reshape(*states.shape[:3], *self.shape_))

    def simulate(
        self,
        x0: ArrayLike,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Trajectories:
        """Run freely from one or several starts, ``n_samples`` members of each.

        Parameters
        ----------
        x0 : array (n,) or (B, n), or with history (B, history, n)
            State at ``times[0]``, in data units.
        times : array (T,)
            Increasing stamps. A model of even steps goes to multiples of its step; one that knows
            the interval goes to any, long intervals in several steps.
        controls : array (T, K), optional
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``.
        n_samples : int
        random_state : int, Generator or None

        Returns
        -------
        Trajectories
            B * n_samples recordings, the members of a start side by side.

        Raises
        ------
        ParameterError
            The start, the times or the controls do not fit the model.
        """
        if not whole(n_samples, 1):
            raise ParameterError(f"n_samples={n_samples!r}; needed is 1 or more.")
        stamps, u, values = self._runs(x0, times, controls, int(n_samples), random_state)
        runs = values.reshape(-1, *values.shape[2:])
        kept = [until_escape(run, stamps, self.scale_) for run in runs]
        return Trajectories.from_arrays(
            [run[:n] for run, n in zip(runs, kept, strict=True)],
            [stamps[:n] for n in kept],
            controls=None if u is None else [u[:n] for n in kept],
            names=self.names_,
            units=self.units_,
            control_names=self.control_names_ if u is not None else None,
            control_units=self.control_units_ if u is not None else None,
            time_name=self.time_name_,
            time_unit=self.time_unit_,
        )

    def predict(
        self,
        X0: ArrayLike,
        times: ArrayLike | None = None,
        *,
        controls: ArrayLike | None = None,
        n_members: int = 64,
        random_state: int | np.random.Generator | None = 0,
    ) -> Array:
        """Mean of an ensemble: of the next states (B, ...), or of runs at ``times``, (B, T, n)."""
        if times is None:
            draws = self.sample_next(X0, n_members, random_state, controls=controls)
            return np.asarray(draws.mean(axis=1))
        return np.asarray(self._runs(X0, times, controls, n_members, random_state)[2].mean(axis=1))

    def score(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> float:
        """Minus the energy score one step ahead, in standard deviations: higher is better.

        Its best possible value is that of the true law, which is not 0. Judged on at most 400
        transitions of the recordings, evenly spread, with 32 draws of each.
        """
        self._check_fitted()
        recordings, shape = as_recordings(X, times)
        if shape != self.shape_ or recordings.n_controls != len(self.control_names_):
            raise DataError(
                f"the recordings have states of shape {shape} and {recordings.n_controls} "
                f"controls; the model knows {self.shape_} and {len(self.control_names_)}."
            )
        return self._score(cut(recordings, int(self.history)))

    def score_transitions(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        *,
        inputs: ArrayLike | None = None,
        interval: ArrayLike | None = None,
    ) -> float:
        """``score`` from pairs of states."""
        self._check_fitted()
        found, _ = given(X, Y, history=int(self.history), groups=None, inputs=inputs,
                         interval=interval)  # fmt: skip
        return self._score(found)

    def draw(
        self, found: Transitions, n_samples: int, random_state: int | np.random.Generator | None = 0
    ) -> Array:
        """Draws (N, S, n) of the next states of transitions, in data units."""
        rng = as_generator(random_state)
        S = n_samples
        past = np.repeat(self.scale_.seen(found.past), S, axis=0)
        context = np.repeat(self.scale_.context(found.inputs, found.interval), S, axis=0)
        moved = self._next(past, context, rng, self._start(len(past), rng))
        now = np.repeat(found.past[:, -1], S, axis=0)
        return np.asarray(self._moved(now, moved).reshape(len(found), S, -1))

    # ------------------------------------------------------------------ for the samplers
    @abstractmethod
    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        """Learn from the fitted part; ``held`` may be empty."""

    @abstractmethod
    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        """What is learned, in its unit: (R, n) from scaled pasts (R, h, n)."""

    def _start(self, n_rows: int, rng: np.random.Generator) -> Any:
        """Chance that stays the same along a run; none by default."""
        return None

    def _n_channels(self, shape: tuple[int, ...]) -> int:
        return shape[0]

    def _holds_back(self) -> bool:
        return bool(self.validation)

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        check_common(self)

    # ------------------------------------------------------------------ inside
    def _targets(self, found: Transitions) -> Array:
        base = found.past[:, -1] if self.increments else 0.0
        return np.asarray((found.following - base - self.scale_.shift) / self.scale_.step)

    def _moved(self, now: Array, learned: Array) -> Array:
        base = now if self.increments else 0.0
        return np.asarray(base + self.scale_.shift + self.scale_.step * learned)

    def _run(
        self,
        past: Array,
        moves: list[Move],
        n_members: int,
        inputs: Array,
        rng: np.random.Generator,
        project: Callable[[Array], Array] | None = None,
    ) -> Array:
        scale, kept = self.scale_, self._start(len(past) * n_members, rng)

        def step(window: Array, u: Array, interval: float) -> Array:
            context = scale.context(u, np.full(len(u), interval))
            return self._moved(window[:, -1], self._next(scale.seen(window), context, rng, kept))

        states = run(step, past, moves, n_members, inputs, project)
        point_out_extrapolation(states, self.scale_, self.names_)
        return states

    def _runs(
        self,
        x0: ArrayLike,
        times: ArrayLike,
        controls: ArrayLike | None,
        n_members: int,
        random_state: int | np.random.Generator | None,
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and states (B, S, T, n)."""
        self._check_fitted()
        stamps = checked_times(times)
        past = checked_past(x0, self.shape_, int(self.history), self.names_)
        u = checked_controls(controls, stamps.size, self.control_names_)
        moves: list[Move] = []
        for k, interval in enumerate(np.diff(stamps)):
            n = self._substeps(float(interval))
            moves += [Move(float(interval) / n, k, kept=j == n - 1) for j in range(n)]
        inputs = np.zeros((stamps.size, 0)) if u is None else u
        rng = as_generator(random_state)
        return stamps, u, self._run(past, moves, n_members, inputs, rng)

    def _substeps(self, interval: float) -> int:
        seen = self.interval_range_ if self._knows_interval else None
        return substeps(interval, self.step_, seen)

    @property
    def _knows_interval(self) -> bool:
        return self.scale_.context_mean.size > len(self.control_names_)

    def _checked_interval(self, interval: float | None) -> float:
        if interval is None:
            return self.step_
        if self._substeps(float(interval)) != 1:
            raise ParameterError(
                f"interval={interval:.6g} is longer than one step ({self.interval_range_[1]:.6g} "
                "at most). Use simulate(x0, times), which takes several."
            )
        return float(interval)

    def _shaped(self, project: Callable[[Array], ArrayLike]) -> Callable[[Array], Array]:
        def flat(states: Array) -> Array:
            done = np.asarray(project(states.reshape(len(states), *self.shape_)), dtype=np.float64)
            return done.reshape(states.shape)

        return flat

    def _score(self, found: Transitions, n_samples: int = 32) -> float:
        if len(found) > _SCORED:
            found = found.take(np.linspace(0, len(found) - 1, _SCORED).astype(np.int64))
        draws = self.scale_.states(self.draw(found, n_samples))
        return -float(energy_score(draws, self.scale_.states(found.following)).mean())

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned anything yet. "
                "Call fit(recordings) first, or open a saved one with load(path)."
            )


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
