"""What the three learners trained by teacher forcing share: fit, predict, score, parts of a run.

A learner says which kernel steps its state from sample to sample; the rest is here.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ForetellWarning, as_generator
from foretell.data import Scaler, Trajectories
from foretell.dynamics.checks import (
    as_trajectories,
    check_arguments,
    check_length,
    checked_controls,
    checked_starts,
    checked_times,
    point_out_gaps,
)
from foretell.dynamics.fitting import SLACK_ON_TRAINING_DATA, Trained, train
from foretell.dynamics.forced_task import Settings
from foretell.dynamics.free_run_score import OUT_OF_RANGE, FreeRunScore
from foretell.dynamics.history import History
from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.reachability import SteeredRuns
from foretell.dynamics.sequences import (
    Sequences,
    WindowSampler,
    complete_rows,
    decorrelation,
    hold_back,
)
from foretell.train.loop import OnStep

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PreparedTraining:
    """Recordings cut up for training, and everything else that a training begins with."""

    recordings: Trajectories
    trajectories: Trajectories
    scaler: Scaler
    scale: float
    settings: Settings
    layout: Layout
    sampler: WindowSampler
    kernel: SequenceKernel
    theta: Array
    rng: np.random.Generator
    score: FreeRunScore
    identity: str


class SequenceLearner(SteeredRuns):
    """Base of the learners trained by teacher forcing; use CPLRNN, ALRNN or ReLUNeuralODE."""

    continuous: ClassVar[bool] = True
    fitted_mark = "theta_"
    when_lost_at_once = "Ask for finer times, or train longer."
    when_lost = "The fit is not bounded. Train longer or with another random_state."

    def __init__(
        self,
        *,
        latent_dim: int = 20,
        n_relu: int = 5,
        forcing: str = "stf",
        forcing_interval: int | str = "auto",
        sequence_length: int = 200,
        batch_size: int = 16,
        max_updates: int = 30_000,
        lr: float = 5e-3,
        final_lr: float = 1e-5,
        noise: float = 0.05,
        grad_clip: float = 10.0,
        time_scale: float | str = "auto",
        warm_up: int = 0,
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.n_relu = n_relu
        self.forcing = forcing
        self.forcing_interval = forcing_interval
        self.sequence_length = sequence_length
        self.batch_size = batch_size
        self.max_updates = max_updates
        self.lr = lr
        self.final_lr = final_lr
        self.noise = noise
        self.grad_clip = grad_clip
        self.time_scale = time_scale
        self.warm_up = warm_up
        self.validation = validation
        self.random_state = random_state

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
        X : Trajectories, array (T, N) or list of arrays
            The recordings; missing cells are allowed in Trajectories.
        times : array (T,), optional
            Time stamps of arrays; 0, 1, 2, .. without them.
        on_step : callable, optional
            Receives a ``Progress`` now and then.
        checkpoint : path, optional
            A folder in which the state of the training is kept, also when Ctrl-C ends it.
        resume : bool
            Go on from ``checkpoint``; the result is the one of an uninterrupted training.

        Raises
        ------
        DataError
            The recordings are too short or constant.
        ParameterError
            An argument has an impossible value.
        NumericalError
            Training gave no finite gradient.
        """
        prepared = self.prepare_training(X, times)
        trained = train(
            prepared.kernel, prepared.layout, prepared.theta, prepared.sampler, prepared.score,
            prepared.settings, prepared.rng,
            on_step=on_step, checkpoint=checkpoint, resume=resume, identity=prepared.identity,
        )  # fmt: skip
        settings = prepared.settings
        self.conclude_training(prepared, trained)
        if not np.isfinite(trained.best_score):
            warnings.warn(
                "the free run of the trained model leaves the range of the data at every look "
                f"({trained.best_score:.3g}); do not use it for long runs. Train longer "
                f"(max_updates={2 * settings.max_updates}) or lower lr.",
                ForetellWarning,
                stacklevel=2,
            )
        elif not trained.confirmed:
            warnings.warn(
                "a longer free run of the trained model ends elsewhere than where the data are, at "
                "rest for instance. Look at long runs before you rely on them, or train longer "
                f"(max_updates={2 * settings.max_updates}).",
                ForetellWarning,
                stacklevel=2,
            )
        return self

    def prepare_training(
        self, X: Trajectories | ArrayLike, times: ArrayLike | None = None
    ) -> PreparedTraining:
        """Check the recordings, cut them up, and draw the first parameters."""
        recordings = as_trajectories(X, times)
        self._check_parameters(recordings)
        scale = recordings.median_interval if self.time_scale == "auto" else float(self.time_scale)
        trajectories = self._prepare(recordings, scale)
        check_length(trajectories, int(self.sequence_length))
        scaled, scaler = trajectories.standardise()
        sequences = self._sequences(scaled, scale)
        length = int(self.sequence_length)
        train_part, validation_part = hold_back(sequences, float(self.validation), length)
        slack = SLACK_ON_TRAINING_DATA if validation_part is sequences else 0.0
        if sequences.driven:  # the part held back is too short for a run that follows inputs
            validation_part = sequences
        interval = self._forcing_interval(train_part, length)
        settings = Settings(
            forcing=self.forcing, forcing_interval=interval, sequence_length=length,
            batch_size=int(self.batch_size), max_updates=int(self.max_updates), lr=float(self.lr),
            final_lr=float(self.final_lr), noise=float(self.noise), grad_clip=float(self.grad_clip),
            slack=slack,
        )  # fmt: skip
        layout = Layout(int(self.latent_dim), trajectories.n_variables, sequences.n_controls)
        sampler = WindowSampler(
            train_part, length, settings.batch_size, settings.noise, int(self.warm_up)
        )
        if sampler.n_windows == 0:
            longest = max(len(v) for v in train_part.values)
            raise DataError(
                f"no stretch of {length + 1} samples that begins with a complete row is left for "
                f"training (the longest has {longest} samples). Give longer recordings, or "
                f"sequence_length={max(longest - 1, 1)} or less."
            )
        rng = as_generator(self.random_state)
        kernel = self._kernel(layout)
        return PreparedTraining(
            recordings=recordings, trajectories=trajectories, scaler=scaler, scale=scale,
            settings=settings, layout=layout, sampler=sampler, kernel=kernel,
            theta=self._initial(layout, rng), rng=rng,
            score=FreeRunScore(validation_part, layout, int(self.warm_up)),
            identity=self._identity(asdict(settings), recordings.fingerprint()),
        )  # fmt: skip

    def conclude_training(self, prepared: PreparedTraining, trained: Trained) -> None:
        """Take over what a training gave: parameters, scales, history."""
        self.scaler_ = prepared.scaler
        self.time_scale_ = prepared.scale
        self.forcing_interval_ = prepared.settings.forcing_interval
        self.history_ = trained.history
        self.best_step_, self.validation_score_ = trained.best_step, trained.best_score
        self.fit_seconds_ = trained.seconds
        self._note(prepared.trajectories, prepared.recordings.fingerprint())
        self.adopt(prepared.layout, trained.theta)

    def adopt(self, layout: Layout, theta: Array) -> None:
        """Take over parameters."""
        self.layout_ = layout
        self.theta_ = theta
        self.n_features_in_ = layout.n_observed
        self.A_, self.W_, self.h_, self.C_, self.L_ = (v.copy() for v in layout.views(theta))

    # ------------------------------------------------------------------ using
    def predict(
        self,
        X0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
    ) -> Array:
        """Values (B, T, N) of free runs; NaN where a run escaped.

        Parameters
        ----------
        X0 : array (N,) or (B, N), or Trajectories
            Where the runs start. One row does not tell the state of the hidden units; recordings
            do, which end where the runs start: the hidden units are run up along them.
        times : array (T,)
            Increasing stamps, the start first.
        controls : array (T, K), optional
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``.
        """
        return self._free_runs(X0, times, controls)[2]

    def _free_runs(
        self, x0: ArrayLike | Trajectories, times: ArrayLike, controls: ArrayLike | None
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and values (B, T, N) in data units, NaN from an escape."""
        self._check_fitted()
        stamps = checked_times(times)
        starts = checked_starts(x0, self.names_)
        u = checked_controls(controls, stamps.size, self.control_names_)
        z0 = self._latent_starts(self.scaler_.transform_values(starts))
        if isinstance(x0, Trajectories):
            hidden = np.stack([z[-1] for z in self.transform(x0)])[:, self.n_features_in_ :]
            known = np.isfinite(hidden).all(axis=1)
            z0[known, self.n_features_in_ :] = hidden[known]
        states = self._run(
            z0,
            (stamps - stamps[0]) / self.time_scale_,
            None if u is None else self.scaler_.transform_controls(u),
        )
        outside = np.array(~(np.abs(states) < OUT_OF_RANGE).all(axis=2))
        outside[:, 0] = False
        values = self.scaler_.inverse_values(states[..., : self.n_features_in_])
        values[np.logical_or.accumulate(outside, axis=1)] = np.nan
        values[:, 0] = starts
        return stamps, u, values

    def transform(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> list[Array]:
        """Latent states (T, M), one array for each recording, forced like in training.

        The observed units follow the data every ``forcing_interval_`` samples; the units of the
        model are standardised.
        """
        self._check_fitted()
        sequences = self._known_sequences(as_trajectories(X, times))
        return [
            self._forced_states(
                v, dt, None if sequences.controls is None else sequences.controls[n]
            )
            for n, (v, dt) in enumerate(zip(sequences.values, sequences.dt, strict=True))
        ]

    def score(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> float:
        """How well free runs agree with recordings: higher is better, 0 is perfect.

        Minus the state-space divergence, or, with controls, minus the root mean square error of
        a run along the recorded controls, in standard deviations; minus infinity for an escape.
        """
        self._check_fitted()
        sequences = self._known_sequences(as_trajectories(X, times))
        if not any(complete_rows(values).any() for values in sequences.values):
            raise DataError(
                "no row of the recordings is complete, so there is nothing to compare a free run "
                "with. Give recordings in which some rows have all variables."
            )
        kernel = self._kernel(self.layout_, training=False)
        return FreeRunScore(sequences, self.layout_)(kernel, self.theta_)

    # ------------------------------------------------------------------ keeping
    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"theta": self.theta_}, {
            "time_scale": self.time_scale_,
            "forcing_interval": self.forcing_interval_,
            "best_step": self.best_step_,
            "validation_score": repr(float(self.validation_score_)),
            "fit_seconds": self.fit_seconds_,
            "scaler": self.scaler_.to_dict(),
            "history": self.history_.to_dict(),
            "layout": asdict(self.layout_),
        }

    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        self.time_scale_ = fields["time_scale"]
        self.forcing_interval_ = fields["forcing_interval"]
        self.best_step_ = fields["best_step"]
        self.validation_score_ = float(fields["validation_score"])
        self.fit_seconds_ = fields["fit_seconds"]
        self.scaler_ = Scaler.from_dict(fields["scaler"])
        self.history_ = History.from_dict(fields["history"])
        self.adopt(Layout(**fields["layout"]), arrays["theta"])

    # ------------------------------------------------------------------ for the learners
    @abstractmethod
    def _kernel(self, layout: Layout, *, training: bool = True) -> SequenceKernel:
        """The step from sample to sample; finer where it is not ``training``."""

    def _initial_decay(self, K: Array) -> Array:
        """Starting A from the diagonal of a Gram matrix with largest eigenvalue one."""
        return np.asarray(np.log(K))

    def _prepare(self, trajectories: Trajectories, time_scale: float) -> Trajectories:
        return trajectories

    def _sequences(self, scaled: Trajectories, time_scale: float) -> Sequences:
        return Sequences(
            values=tuple(np.ascontiguousarray(v) for v in scaled.values),
            dt=tuple(np.diff(t) / time_scale for t in scaled.times),
            controls=scaled.controls,
            driven=scaled.controls is not None,
        )

    def _initial(self, layout: Layout, rng: np.random.Generator) -> Array:
        """A from a normalised random Gram matrix, W and h and C small, L Glorot-uniform."""
        M, N = layout.n_units, layout.n_observed
        theta = 0.01 * rng.standard_normal(layout.size)
        A, _, _, _, L = layout.views(theta)
        R = rng.standard_normal((M, M))
        K = R.T @ R / M + np.eye(M)
        A[:] = self._initial_decay(np.diag(K) / np.linalg.eigvalsh(K)[-1])
        limit = np.sqrt(6.0 / M)
        L[:] = rng.uniform(-limit, limit, size=(M - N, N))
        return theta

    def _latent_starts(self, x0: Array) -> Array:
        """Latent states (B, M) of which only the observed units are known."""
        return np.concatenate([x0, x0 @ self.L_.T], axis=1)

    def _run(self, z0: Array, model_times: Array, u: Array | None) -> Array:
        """Latent states (B, T, M) at model times."""
        A, W, h, C = (self.A_, self.W_, self.h_, self.C_)
        dt = np.broadcast_to(np.diff(model_times), (len(z0), model_times.size - 1))
        u_B = None if u is None else np.broadcast_to(u[:-1], (len(z0), *u[:-1].shape))
        return self._kernel(self.layout_, training=False).free_run(A, W, h, C, z0, u_B, dt)

    def _forced_states(self, values: Array, dt: Array, u: Array | None) -> Array:
        kernel = self._kernel(self.layout_, training=False)
        A, W, h, C, L = (self.A_, self.W_, self.h_, self.C_, self.L_)
        N, step = self.layout_.n_observed, self.forcing_interval_
        complete = np.flatnonzero(complete_rows(values))
        states = np.full((len(values), self.layout_.n_units), np.nan)
        if complete.size == 0:
            return states
        first = int(complete[0])
        z = np.concatenate([values[first], L @ values[first]])
        for begin in range(first, len(values), step):
            seen = np.isfinite(values[begin])
            z[:N][seen] = values[begin][seen]
            stop = min(begin + step, len(values) - 1)
            states[begin] = z
            if stop > begin:
                u_B = None if u is None else u[None, begin:stop]
                run = kernel.free_run(A, W, h, C, z[None], u_B, dt[None, begin:stop])[0]
                states[begin : stop + 1] = run
                z = run[-1].copy()
        return states

    # ------------------------------------------------------------------ checks
    def _check_parameters(self, trajectories: Trajectories) -> None:
        check_arguments(self, trajectories)
        point_out_gaps(trajectories)

    def _forcing_interval(self, sequences: Sequences, length: int) -> int:
        if self.forcing_interval != "auto":
            return int(self.forcing_interval)
        return int(np.clip(decorrelation(sequences), 2, max(length // 2, 1)))

    def _known_sequences(self, trajectories: Trajectories) -> Sequences:
        self._check_columns(trajectories)
        prepared = self._prepare(trajectories, self.time_scale_)
        return self._sequences(self.scaler_.transform(prepared), self.time_scale_)
