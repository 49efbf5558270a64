"""What a fitted sampler of transitions is asked for: draws, runs, ensembles, scores.

A sampler says how it draws the next state (``_next``); the rest is here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError, as_generator
from foretell.data import Trajectories
from foretell.dynamics.checks import checked_controls, checked_times, whole
from foretell.dynamics.learner import Learner
from foretell.dynamics.lifting.checks import checked_inputs, checked_past
from foretell.dynamics.lifting.reach import point_out_extrapolation, substeps, without_escape
from foretell.dynamics.lifting.rollouts import Move, run
from foretell.dynamics.lifting.scale import Scale
from foretell.dynamics.lifting.transitions import Transitions, as_recordings, cut, given
from foretell.dynamics.longrun.ensembles import energy_score

Array = NDArray[np.float64]

_SCORED = 400  # transitions in a score
_FACTS = ("seed_", "shape_", "step_", "interval_range_", "n_features_in_")


class Sampler(Learner):
    """Questions to a fitted sampler; the base of ``TransitionLearner``."""

    fitted_mark = "n_features_in_"
    when_lost_at_once = "Start nearer to what was recorded, or train longer."
    when_lost = "Start nearer to what was recorded, or train longer."

    history: int
    increments: bool
    scale_: Scale
    shape_: tuple[int, ...]
    step_: float
    interval_range_: tuple[float, float]

    @property
    def evaluations_per_step(self) -> int:
        """Network evaluations for one step of a run."""
        return 1

    # ------------------------------------------------------------------ using
    def sample_next(
        self,
        x: ArrayLike | Trajectories,
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
        x0: ArrayLike | Trajectories,
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
        x0: ArrayLike | Trajectories,
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
        self._check_samples(n_samples)
        stamps, u, runs = self._free_runs(x0, times, controls, int(n_samples), random_state)
        return self._recorded([without_escape(run, self.scale_) for run in runs], stamps, u)

    def predict(
        self,
        X0: ArrayLike | Trajectories,
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
        runs = self._free_runs(X0, times, controls, n_members, random_state)[2]
        return np.asarray(runs.reshape(-1, n_members, *runs.shape[1:]).mean(axis=1))

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
    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        """What is learned, in its unit: (R, n) from scaled pasts (R, h, n)."""

    def _start(self, n_rows: int, rng: np.random.Generator) -> Any:
        """Chance that stays the same along a run; none by default."""
        return None

    def _n_channels(self, shape: tuple[int, ...]) -> int:
        return shape[0]

    # ------------------------------------------------------------------ inside
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

    def _free_runs(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        controls: ArrayLike | None,
        n_members: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and states (B * S, T, n), members of a start in a row."""
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
        states = self._run(past, moves, n_members, inputs, rng)
        return stamps, u, states.reshape(-1, *states.shape[2:])

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

    # ------------------------------------------------------------------ keeping
    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, learned = self._learned()
        fields = {name: getattr(self, name) for name in _FACTS}
        return {**self.scale_.arrays(), **arrays}, {**fields, "learned": learned}

    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        for name in _FACTS:
            value = fields[name]
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self.scale_ = Scale.from_arrays(arrays)
        self._restore(arrays, fields["learned"])

    @abstractmethod
    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON values of what was learned."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        """Take over what ``_learned`` gave."""
