"""What a learner of dynamics offers: the ``Model`` protocol and the capabilities beside it.

A report or an instrument asks ``isinstance(model, FixedPoints)``, never for a class name. All
results are in the units and the time of the recordings.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.data import Trajectories
from foretell.solve.piecewise import EquilibriumSet, LimitCycle, LyapunovSpectrum

if TYPE_CHECKING:
    from foretell.dynamics.reachability import Reachability

Array = NDArray[np.float64]


@runtime_checkable
class Model(Protocol):
    """A generative model of recordings."""

    def fit(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> Self:
        """Learn from recordings."""
        ...

    def simulate(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Trajectories:
        """Run freely from ``x0`` at ``times[0]``."""
        ...

    def score(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> float:
        """Minus the long-run divergence from recordings: higher is better, 0 is perfect."""
        ...

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model folder."""
        ...

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a model folder."""
        ...


@runtime_checkable
class VectorField(Protocol):
    """Continuous time: the velocity of every latent state can be asked for."""

    def vector_field(self, states: ArrayLike, control: ArrayLike | None = None) -> Array:
        """Velocity, in latent units per data time, at latent states (..., M)."""
        ...


@runtime_checkable
class FixedPoints(Protocol):
    """States at which the system rests."""

    def equilibria(self, *, control: ArrayLike | None = None, **options: Any) -> EquilibriumSet:
        """Find the equilibria, with the claim of completeness that the search supports."""
        ...


@runtime_checkable
class Cycles(Protocol):
    """Periodic orbits."""

    def limit_cycles(
        self, *, control: ArrayLike | None = None, **options: Any
    ) -> Sequence[LimitCycle]:
        """Find limit cycles with their Floquet multipliers."""
        ...


@runtime_checkable
class Jumping(Protocol):
    """Moves on by jumps now and then, and says when, where and to where."""

    def events(self, x0: ArrayLike, times: ArrayLike, *, controls: ArrayLike | None = None) -> Any:
        """Jumps of a free run."""
        ...

    def guards(self) -> Sequence[Any]:
        """Surfaces at which it jumps, with what the jump does."""
        ...


@runtime_checkable
class Exponents(Protocol):
    """Rates at which neighbouring trajectories part."""

    def lyapunov_spectrum(
        self, *, control: ArrayLike | None = None, **options: Any
    ) -> LyapunovSpectrum:
        """Lyapunov exponents per data time, largest first."""
        ...


@runtime_checkable
class Stochastic(Protocol):
    """The same state may go on in different ways: runs are draws, and an ensemble has a width."""

    def sample_next(
        self,
        x: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Draw next states, (B, S, ...) from states (B, ...)."""
        ...

    def rollout(
        self,
        x0: ArrayLike | Trajectories,
        n_steps: int,
        n_members: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Run ensembles freely, (B, S, n_steps + 1, ...) from starts (B, ...)."""
        ...


@runtime_checkable
class Controllable(Protocol):
    """Its inputs can be chosen, and what they do to the variables can be asked for.

    A model that was fitted without inputs has none to choose: its ``control_names_`` are empty.
    """

    def input_response(
        self,
        x0: ArrayLike | None = None,
        n_steps: int = 40,
        *,
        control: ArrayLike | None = None,
        step: float | None = None,
    ) -> Reachability:
        """How far, and in which directions, inputs move the variables within ``n_steps``."""
        ...
