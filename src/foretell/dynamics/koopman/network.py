"""Encoders trained by gradients: the shared part of KoopmanQP and of the models it is compared to.

torch is imported when something is trained; a fitted model works without it.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import MissingExtraError, ParameterError, Progress, as_generator
from foretell.data import Trajectories
from foretell.dynamics.checks import positive, whole
from foretell.dynamics.koopman.base import KoopmanModel
from foretell.dynamics.koopman.lifts import Lift
from foretell.dynamics.koopman.linear import clipped
from foretell.dynamics.koopman.measured import measured
from foretell.dynamics.koopman.windows import States, Windows
from foretell.train.loop import OnStep, TrainRun

if TYPE_CHECKING:
    from foretell.dynamics.koopman.learning import Learning

Array = NDArray[np.float64]

LOOKS = 10
_VALIDATION_WINDOWS = 500


@dataclass(frozen=True)
class Candidate:
    """One training of a model, and how it forecasts recordings held back."""

    name: str
    W: Array
    lift: Lift
    error: float
    run: TrainRun
    facts: dict[str, Any]
    restart: int = 0


class NetworkKoopman(KoopmanModel):
    """Base of the models with a trained encoder; use KoopmanQP."""

    def __init__(
        self,
        *,
        n_observables: int = 8,
        hidden: tuple[int, ...] = (48, 48),
        horizon: int = 15,
        ridge: float = 1e-6,
        input: str = "linear",
        n_delays: int = 0,
        max_steps: int = 400,
        lr: float = 1e-2,
        batch_size: int = 64,
        latent_weight: float = 0.1,
        n_restarts: int = 1,
        stable: bool | str = "auto",
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        self.n_observables = n_observables
        self.hidden = hidden
        self.horizon = horizon
        self.ridge = ridge
        self.input = input
        self.n_delays = n_delays
        self.max_steps = max_steps
        self.lr = lr
        self.batch_size = batch_size
        self.latent_weight = latent_weight
        self.n_restarts = n_restarts
        self.stable = stable
        self.validation = validation
        self.random_state = random_state

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
        X : Trajectories, array (T, N) or list of arrays
            Evenly sampled, complete recordings; inputs are the controls of Trajectories.
        times : array (T,), optional
            Time stamps of arrays.
        on_step : callable, optional
            Receives a ``Progress`` now and then.
        checkpoint : path, optional
            A folder in which the training is kept, also when Ctrl-C ends it.
        resume : bool
            Go on from ``checkpoint``; the result is the one of an uninterrupted training.

        Raises
        ------
        DataError
            Recordings are too short, uneven, incomplete or constant.
        ParameterError
            An argument has an impossible value.
        MissingExtraError
            torch is not installed.
        """
        began = time.monotonic()
        self._check_arguments()
        data = measured(X, times)
        states = self._prepare(data)
        horizon = int(self.horizon)
        train, held = states.hold_back(float(self.validation), horizon)
        judged = (held or train).windows(horizon, most=_VALIDATION_WINDOWS)
        try:
            from foretell.dynamics.koopman.learning import Learning
        except ImportError as error:
            raise MissingExtraError("torch", "learn", "train this learner") from error
        seed = int(as_generator(self.random_state).integers(2**31))
        learning = Learning(self, train, judged, data.n_variables, seed)
        found = self._best(learning, data, on_step, checkpoint, resume)
        self._conclude(learning, found, states, judged, held is not None)
        self.fit_seconds_ = time.monotonic() - began
        return self

    def _best(
        self,
        learning: Learning,
        data: Trajectories,
        on_step: OnStep | None,
        checkpoint: str | os.PathLike[str] | None,
        resume: bool,
    ) -> Candidate:
        """Train every candidate, keep the one with the least error; a draw is for the first."""
        trainings = [(name, k) for name in self._candidates() for k in range(int(self.n_restarts))]
        several = len(trainings) > 1
        found: list[Candidate] = []
        for n, (name, restart) in enumerate(trainings):
            label = f"{name}-{restart}" if restart else name
            place = None if checkpoint is None else Path(checkpoint)
            if place is not None and several:
                place = place.with_name(f"{place.name}-{label}")
            go_on = resume and (not several or place is None or place.exists() or n == 0)
            found.append(
                learning.train(
                    name, restart=restart, on_step=_shifted(on_step, n, len(trainings)),
                    checkpoint=place, resume=go_on,
                    identity=self._identity(data.fingerprint(), label),
                )
            )  # fmt: skip
        self.compared_ = {
            name: min(c.error for c in found if c.name == name) for name in self._candidates()
        }
        return min(found, key=lambda c: c.error)

    def _conclude(
        self, learning: Learning, found: Candidate, states: States, judged: Windows, held: bool
    ) -> None:
        """Refit on all recordings, look at stability, and keep what ``ensemble`` needs."""
        W, facts = learning.refit(found, states)
        trained = found.W
        radius = float(np.abs(np.linalg.eigvals(W[:, : len(W)])).max())
        if self.stable is True or (self.stable == "auto" and radius > 1 + 1e-3):
            tamed = clipped(trained)
            better = learning.error(tamed, found.lift) <= found.error
            if self.stable is True or better:
                W, trained = clipped(W), tamed
        self.facts_ = {**found.facts, **facts, "constraint": found.name, "compared": self.compared_}
        self.history_ = found.run
        self._finish_with(W, trained, found.lift, judged, held)

    def _finish_with(
        self, W: Array, trained: Array, lift: Lift, judged: Windows, held: bool
    ) -> None:
        self._finish(trained, lift, judged, held)
        self._adopt(W, lift)

    # ------------------------------------------------------------------ for the models
    def _candidates(self) -> tuple[str, ...]:
        return (type(self).__name__,)

    @abstractmethod
    def _check_arguments(self) -> None:
        """Refuse impossible arguments."""

    def _check_network(self) -> None:
        self._check_common()
        for name in ("n_observables", "max_steps", "batch_size", "n_restarts"):
            if not whole(getattr(self, name), 1):
                raise ParameterError(
                    f"{name}={getattr(self, name)!r}; needed is a whole number >= 1."
                )
        if not (isinstance(self.hidden, tuple) and all(whole(h, 1) for h in self.hidden)):
            raise ParameterError(
                f"hidden={self.hidden!r}; needed are widths of layers, for instance (48, 48)."
            )
        if not positive(self.lr):
            raise ParameterError(f"lr={self.lr!r}; needed is a positive number.")
        if not (isinstance(self.latent_weight, Real) and 0 <= float(self.latent_weight) < np.inf):
            raise ParameterError(f"latent_weight={self.latent_weight!r}; needed is a number >= 0.")
        if self.stable not in (True, False, "auto"):
            raise ParameterError(f'stable={self.stable!r}; use True, False or "auto".')


def _shifted(on_step: OnStep | None, n: int, of: int) -> OnStep | None:
    """Reports of the n-th training of several as those of one long training."""
    if on_step is None or of == 1:
        return on_step
    send = on_step

    def forward(report: Progress) -> None:
        send(
            Progress(
                step=report.step + n * report.total, total=of * report.total, loss=report.loss,
                score=report.score, seconds=report.seconds,
                eta=report.eta + (of - 1 - n) * (report.seconds + report.eta),
            )
        )  # fmt: skip

    return forward
