"""What the inputs of a model can do to its variables, and which directions are hard to reach.

A run is linearised along its inputs: ``response[h, n, j, k]`` is the change of variable
n after step h by input k at step j. In standard deviations the last row is the reachability matrix
of the horizon: its singular vectors are directions in the space of the variables, its singular
values say how far inputs of unit energy move them.

Source: Kailath, "Linear Systems" (1980), chapter 2; for nonlinear models it holds near the run that
it was linearised along.

Legend: H steps, N variables, K inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import NumericalError, ParameterError
from foretell.data import Scaler
from foretell.dynamics.checks import checked_starts, whole
from foretell.dynamics.learner import Learner

Array = NDArray[np.float64]

_NUDGE = 1e-3  # standard deviations by which an input is moved
_LEAST = 0.05  # standard deviations: a direction that moves less is out of reach in practice


@dataclass(frozen=True, eq=False)
class Reachability:
    """How far inputs move the variables within a horizon.

    Attributes
    ----------
    times : array (H,)
        Time after each step, in data units.
    response : array (H, N, H, K)
        Change of each variable by each input at each step, in data units.
    scale, control_scale : arrays (N,), (K,)
        Standard deviations.
    names, control_names : tuples of str
    """

    times: Array
    response: Array
    scale: Array
    control_scale: Array
    names: tuple[str, ...]
    control_names: tuple[str, ...]

    @cached_property
    def matrix(self) -> Array:
        """The reachability matrix (N, H K) in standard deviations."""
        last = self.response[-1] / self.scale[:, None, None] * self.control_scale
        return np.asarray(last.reshape(len(self.scale), -1))

    @cached_property
    def _svd(self) -> tuple[Array, Array]:
        U, s, _ = np.linalg.svd(self.matrix, full_matrices=True)
        values = np.zeros(len(U))
        values[: len(s)] = s
        return np.asarray(U.T), values

    @property
    def directions(self) -> Array:
        """Directions (N, N), one a row, the easiest first; in standard deviations."""
        rows = self._svd[0]
        signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])
        return np.asarray(rows * signs[:, None])

    @property
    def reach(self) -> Array:
        """How far (N,), in standard deviations, the best inputs move each direction.

        The inputs vary by one standard deviation (root mean square over steps and inputs).
        """
        return np.asarray(self._svd[1] * np.sqrt(self.matrix.shape[1]))

    @property
    def condition(self) -> float:
        """Reach of the easiest direction over that of the hardest; infinite where one is none."""
        first, last = float(self.reach[0]), float(self.reach[-1])
        return first / last if last > 1e-12 * max(first, 1e-300) else float("inf")

    @property
    def rank(self) -> int:
        """Directions that move at all."""
        return int((self.reach > 1e-9 * max(float(self.reach[0]), 1e-300)).sum())

    @property
    def n_reached(self) -> int:
        """Directions that move by at least a twentieth of a standard deviation."""
        return int((self.reach > _LEAST).sum())

    @property
    def step_response(self) -> Array:
        """Change (H, N, K) when an input is raised by one of its standard deviations for good."""
        return np.asarray(self.response.sum(axis=2) * self.control_scale)

    def __repr__(self) -> str:
        return (
            f"Reachability({self.n_reached} of {len(self.names)} directions within "
            f"{len(self.times)} steps, reach {self.reach[0]:.3g} to {self.reach[-1]:.3g} sd)"
        )


def check_steerable(control_names: tuple[str, ...]) -> None:
    """Refuse a model without inputs.

    Raises
    ------
    ParameterError
    """
    if not control_names:
        raise ParameterError(
            "this model was fitted without inputs, so that nothing can be steered. Name them when "
            'fitting: Trajectories.from_csv(path, controls=["valve"]).'
        )


def checked_horizon(n_steps: int) -> int:
    """A number of steps to look ahead.

    Raises
    ------
    ParameterError
    """
    if not whole(n_steps, 1, 1000):
        raise ParameterError(f"n_steps={n_steps!r}; needed is a whole number from 1 to 1000.")
    return int(n_steps)


def by_differences(run: Callable[[Array], Array], rest: Array, scale: Array, n_steps: int) -> Array:
    """Response (H, N, H, K) of ``run(u)`` (H, N) to inputs u (H, K), around constant ones.

    Raises
    ------
    NumericalError
        The run around which it is linearised leaves the range of the model.
    """
    K = len(rest)
    still = np.repeat(rest[None], n_steps, axis=0)
    quiet = run(still)
    if not np.isfinite(quiet).all():
        raise NumericalError(
            "the run around which the inputs are moved leaves the range of the model. Give "
            "another x0, or fewer n_steps."
        )
    response = np.zeros((n_steps, quiet.shape[1], n_steps, K))
    for j in range(n_steps):
        for k in range(K):
            moved = still.copy()
            moved[j, k] += _NUDGE * scale[k]
            response[:, :, j, k] = np.nan_to_num(run(moved) - quiet) / (_NUDGE * scale[k])
        response[:j, :, j] = 0.0
    return response


class SteeredRuns(Learner):
    """Gives a model that can be run along inputs the capability ``Controllable``."""

    scaler_: Scaler
    time_scale_: float

    def input_response(
        self,
        x0: ArrayLike | None = None,
        n_steps: int = 40,
        *,
        control: ArrayLike | None = None,
        step: float | None = None,
    ) -> Reachability:
        """What the inputs do to the variables, near a run with constant inputs.

        Parameters
        ----------
        x0 : array (N,), optional
            Where the run starts, in data units; the mean of the recordings without it.
        n_steps : int
            H.
        control : array (K,), optional
            The constant inputs, in data units; their mean without it.
        step : float, optional
            Time of a step; the model's unit of time without it.

        Raises
        ------
        ParameterError
            The model has no inputs, or a shape does not fit.
        NumericalError
            The run leaves the range of the model.
        """
        self._check_fitted()
        check_steerable(self.control_names_)
        H = checked_horizon(n_steps)
        mean, scale = self._typical()
        start, rest = operating_point(self, self.scaler_, x0, control, mean)
        unit = self.time_scale_ if step is None else float(step)
        times = unit * np.arange(H + 1)

        def run(u: Array) -> Array:
            given = np.concatenate([u, u[-1:]])
            return np.asarray(self._free_runs(start, times, given)[2][0, 1:])

        response = by_differences(run, rest, self.scaler_.control_scale, H)
        return Reachability(
            np.asarray(times[1:], np.float64), response, scale, self.scaler_.control_scale,
            self.names_, self.control_names_,
        )  # fmt: skip

    def _typical(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the variables."""
        return self.scaler_.mean, self.scaler_.scale


def operating_point(
    model: Learner, scaler: Scaler, x0: ArrayLike | None, control: ArrayLike | None, mean: Array
) -> tuple[Array, Array]:
    """State (N,) and constant inputs (K,) around which to linearise; ``mean`` and theirs if None.

    Raises
    ------
    ParameterError
        A shape does not fit, or a number is not finite.
    """
    names = model.control_names_
    start = mean if x0 is None else checked_starts(x0, model.names_)[0]
    rest = np.asarray(
        scaler.control_mean if control is None else control, dtype=np.float64
    ).reshape(-1)
    if rest.shape != (len(names),) or not np.isfinite(rest).all():
        raise ParameterError(
            f"control has {rest.size} entries; needed is one finite number for each of "
            f"{', '.join(names)}."
        )
    return start, rest
