"""What the three learners trained by teacher forcing share: checks, fit, simulate, save, load.

A learner says which kernel steps its state from sample to sample; the rest is here.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from abc import abstractmethod
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from foretell.core import (
    Artifact,
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
    as_generator,
)
from foretell.data import Scaler, Trajectories
from foretell.dynamics.fitting import (
    FreeRunScore,
    History,
    Layout,
    OnStep,
    SequenceKernel,
    Sequences,
    Settings,
    WindowSampler,
    train,
)
from foretell.dynamics.longrun import state_space_divergence

Array = NDArray[np.float64]


def as_trajectories(X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> Trajectories:
    """Recordings from what a user has: Trajectories, an array (T, N), or a list of arrays."""
    if isinstance(X, Trajectories):
        if times is not None:
            raise ParameterError(
                "times were given beside Trajectories, which carry their own. Leave times out."
            )
        return X
    column = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype != object
    if column or (isinstance(X, (list, tuple)) and len(X) > 0 and np.isscalar(X[0])):
        raise DataError(
            "X is one column of values, and one variable seldom determines what comes next. Give "
            "delayed copies beside it: delay_embed(Trajectories.from_arrays(X, times), "
            "dimension=3). If the one column is enough, write np.asarray(X)[:, None]."
        )
    return Trajectories.from_arrays(X, times)


class SequenceLearner(BaseEstimator):
    """Base of the learners trained by teacher forcing; use CPLRNN, ALRNN or ReLUNeuralODE."""

    citations: ClassVar[tuple[str, ...]] = ()
    continuous: ClassVar[bool] = True

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
        trajectories = as_trajectories(X, times)
        self._check_parameters(trajectories)
        trajectories = self._prepare(trajectories)
        scaled, scaler = trajectories.standardise()
        scale = (
            trajectories.median_interval if self.time_scale == "auto" else float(self.time_scale)
        )
        sequences = self._sequences(scaled, scale)
        length = int(self.sequence_length)
        train_part, validation_part = _hold_back(sequences, float(self.validation), length)
        interval = self._forcing_interval(train_part, length)
        settings = Settings(
            forcing=self.forcing, forcing_interval=interval, sequence_length=length,
            batch_size=int(self.batch_size), max_updates=int(self.max_updates), lr=float(self.lr),
            final_lr=float(self.final_lr), noise=float(self.noise), grad_clip=float(self.grad_clip),
        )  # fmt: skip
        layout = Layout(int(self.latent_dim), trajectories.n_variables, sequences.n_controls)
        sampler = WindowSampler(train_part, length, settings.batch_size, settings.noise)
        if sampler.n_windows == 0:
            longest = max(len(v) for v in train_part.values)
            raise DataError(
                f"no stretch of {length + 1} samples that begins with a complete row is left for "
                f"training (the longest has {longest} samples). Give longer recordings, or "
                f"sequence_length={max(longest - 1, 1)} or less."
            )
        rng = as_generator(self.random_state)
        kernel = self._kernel(layout)
        trained = train(
            kernel, layout, self._initial(layout, rng), sampler,
            FreeRunScore(validation_part, layout), settings, rng,
            on_step=on_step, checkpoint=checkpoint, resume=resume,
            identity=self._identity(trajectories, settings),
        )  # fmt: skip
        self.scaler_ = scaler
        self.time_scale_ = scale
        self.forcing_interval_ = interval
        self.history_ = trained.history
        self.best_step_, self.validation_score_ = trained.best_step, trained.best_score
        self.fit_seconds_ = trained.seconds
        self.names_, self.units_ = trajectories.names, trajectories.units
        self.control_names_, self.control_units_ = (
            trajectories.control_names,
            trajectories.control_units,
        )
        self.time_name_, self.time_unit_ = trajectories.time_name, trajectories.time_unit
        self.fingerprint_ = trajectories.fingerprint()
        self._adopt(layout, trained.theta)
        if not np.isfinite(trained.best_score):
            warnings.warn(
                "the free run of the trained model leaves the range of the data at every look "
                f"({trained.best_score:.3g}); do not use it for long runs. Train longer "
                f"(max_updates={2 * settings.max_updates}) or lower lr.",
                ForetellWarning,
                stacklevel=2,
            )
        return self

    def _adopt(self, layout: Layout, theta: Array) -> None:
        self.layout_ = layout
        self.theta_ = theta
        self.n_features_in_ = layout.n_observed
        self.A_, self.W_, self.h_, self.C_, self.L_ = (v.copy() for v in layout.views(theta))

    # ------------------------------------------------------------------ using
    def simulate(
        self,
        x0: ArrayLike,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Trajectories:
        """Run freely, without data, from one or several starts.

        Parameters
        ----------
        x0 : array (N,) or (B, N)
            Observed state at ``times[0]``, in data units.
        times : array (T,)
            Increasing stamps, in data time.
        controls : array (T, K), optional
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``. Needed when the model was
            fitted with controls.
        n_samples : int
            Copies of each start; they are equal, since the model has no noise.
        random_state : int, Generator or None
            Accepted for the interface; there is nothing random.

        Returns
        -------
        Trajectories
            B * n_samples recordings. One that leaves the range of the model ends there, with a
            warning.
        """
        self._check_fitted()
        starts = np.atleast_2d(np.asarray(x0, dtype=np.float64))
        stamps = _increasing(times)
        if starts.ndim != 2 or starts.shape[1] != self.n_features_in_:
            raise ParameterError(
                f"x0 has shape {np.shape(x0)}; needed is ({self.n_features_in_},) or "
                f"(number of starts, {self.n_features_in_}) for {', '.join(self.names_)}."
            )
        if not np.isfinite(starts).all():
            raise ParameterError("x0 has entries that are not finite; a start must be complete.")
        if n_samples < 1:
            raise ParameterError(f"n_samples={n_samples}; needed is 1 or more.")
        u = self._scaled_controls(controls, stamps.size)
        states = self._run(self.scaler_.transform_values(starts), stamps / self.time_scale_, u)
        values = self.scaler_.inverse_values(states[..., : self.n_features_in_])
        recordings = []
        lengths = []
        for run in values:
            reached = int(np.isfinite(run).all(axis=1).argmin()) or len(run)
            if reached < len(run):
                warnings.warn(
                    f"a free run left the range of the model at {stamps[reached]:.6g} and ends "
                    "there; the fit is not bounded. Train longer or with another random_state.",
                    ForetellWarning,
                    stacklevel=2,
                )
            recordings += [run[:reached]] * n_samples
            lengths += [reached] * n_samples
        given = None if controls is None else np.asarray(controls, dtype=np.float64)
        given = given[:, None] if given is not None and given.ndim == 1 else given
        return Trajectories.from_arrays(
            recordings,
            [stamps[:n] for n in lengths],
            controls=None if given is None else [given[:n] for n in lengths],
            names=self.names_,
            units=self.units_,
            control_names=self.control_names_ if given is not None else None,
            control_units=self.control_units_ if given is not None else None,
            time_name=self.time_name_,
            time_unit=self.time_unit_,
        )

    def predict(
        self, X0: ArrayLike, times: ArrayLike, *, controls: ArrayLike | None = None
    ) -> Array:
        """Values (B, T, N) of free runs from X0 (B, N); NaN where a run escaped."""
        runs = self.simulate(X0, times, controls=controls)
        out = np.full((runs.n_recordings, np.size(times), runs.n_variables), np.nan)
        for b, values in enumerate(runs.values):
            out[b, : len(values)] = values
        return out

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
        """Minus the state-space divergence between recordings and free runs. 0 is perfect."""
        self._check_fitted()
        sequences = self._known_sequences(as_trajectories(X, times))
        free_run = FreeRunScore(sequences, self.layout_)
        cloud = free_run.cloud(self._kernel(self.layout_, training=False), self.theta_)
        if cloud is None:
            return -np.inf
        truth = np.concatenate(sequences.values)
        truth = truth[np.isfinite(truth).all(axis=1)]
        return -float(state_space_divergence(truth, cloud))

    # ------------------------------------------------------------------ keeping
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model folder (``model.json`` and ``weights.safetensors``)."""
        self._check_fitted()
        fields = {
            "names": list(self.names_),
            "control_names": list(self.control_names_),
            "control_units": list(self.control_units_),
            "time_name": self.time_name_,
            "time_unit": self.time_unit_,
            "time_scale": self.time_scale_,
            "forcing_interval": self.forcing_interval_,
            "best_step": self.best_step_,
            "validation_score": repr(float(self.validation_score_)),
            "fit_seconds": self.fit_seconds_,
            "scaler": self.scaler_.to_dict(),
            "history": {
                "steps": self.history_.steps,
                "losses": [repr(float(v)) for v in self.history_.losses],
                "scores": [repr(float(v)) for v in self.history_.scores],
                "skipped": self.history_.skipped,
            },
            "layout": asdict(self.layout_),
        }
        return Artifact(
            model_class=type(self).__name__,
            arrays={"theta": self.theta_},
            parameters=self.get_params(),
            fields=fields,
            units=dict(zip(self.names_, self.units_, strict=True)),
            data_fingerprint=self.fingerprint_,
            citations=self.citations,
        ).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that ``save`` wrote."""
        return cls.from_artifact(Artifact.open(path, classes=[cls.__name__]))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """The model that an opened artefact describes."""
        model = cls(**artifact.parameters)
        fields: dict[str, Any] = dict(artifact.fields)
        model.names_ = tuple(fields["names"])
        model.units_ = tuple(artifact.units[name] for name in model.names_)
        model.control_names_ = tuple(fields["control_names"])
        model.control_units_ = tuple(fields["control_units"])
        model.time_name_, model.time_unit_ = fields["time_name"], fields["time_unit"]
        model.time_scale_ = fields["time_scale"]
        model.forcing_interval_ = fields["forcing_interval"]
        model.best_step_ = fields["best_step"]
        model.validation_score_ = float(fields["validation_score"])
        model.fit_seconds_ = fields["fit_seconds"]
        model.scaler_ = Scaler.from_dict(fields["scaler"])
        past = fields["history"]
        model.history_ = History(
            past["steps"],
            [float(v) for v in past["losses"]],
            [float(v) for v in past["scores"]],
            past["skipped"],
        )
        model.fingerprint_ = artifact.data_fingerprint
        model._adopt(Layout(**fields["layout"]), artifact.arrays["theta"])
        return model

    # ------------------------------------------------------------------ for the learners
    @abstractmethod
    def _kernel(self, layout: Layout, *, training: bool = True) -> SequenceKernel:
        """The step from sample to sample; finer where it is not ``training``."""

    def _initial_decay(self, K: Array) -> Array:
        """Starting A from the diagonal of a Gram matrix with largest eigenvalue one."""
        return np.asarray(np.log(K))

    def _prepare(self, trajectories: Trajectories) -> Trajectories:
        return trajectories

    def _sequences(self, scaled: Trajectories, time_scale: float) -> Sequences:
        return Sequences(
            values=tuple(np.ascontiguousarray(v) for v in scaled.values),
            dt=tuple(np.diff(t) / time_scale for t in scaled.times),
            controls=scaled.controls,
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

    def _run(self, x0: Array, model_times: Array, u: Array | None) -> Array:
        """Latent states (B, T, M) at model times."""
        A, W, h, C, L = (self.A_, self.W_, self.h_, self.C_, self.L_)
        z0 = np.concatenate([x0, x0 @ L.T], axis=1)
        dt = np.broadcast_to(np.diff(model_times), (len(x0), model_times.size - 1))
        u_B = None if u is None else np.broadcast_to(u[:-1], (len(x0), *u[:-1].shape))
        return self._kernel(self.layout_, training=False).free_run(A, W, h, C, z0, u_B, dt)

    def _forced_states(self, values: Array, dt: Array, u: Array | None) -> Array:
        kernel = self._kernel(self.layout_, training=False)
        A, W, h, C, L = (self.A_, self.W_, self.h_, self.C_, self.L_)
        N, step = self.layout_.n_observed, self.forcing_interval_
        complete = np.flatnonzero(np.isfinite(values).all(axis=1))
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
    def _check_fitted(self) -> None:
        if not hasattr(self, "theta_"):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned anything yet. "
                "Call fit(recordings) first, or open a saved one with load(path)."
            )

    def _check_parameters(self, trajectories: Trajectories) -> None:
        N = trajectories.n_variables
        name = type(self).__name__
        for key in ("latent_dim", "n_relu", "sequence_length", "batch_size", "max_updates"):
            value, least = getattr(self, key), 0 if key == "n_relu" else 1
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise ParameterError(f"{key}={value!r}; needed is a whole number >= {least}.")
        if self.latent_dim < N:
            raise ParameterError(
                f"{name} has latent_dim={self.latent_dim} units for {N} observed variables; "
                f"needed are at least {N}. Write latent_dim={max(2 * N, 20)}."
            )
        if self.n_relu > self.latent_dim:
            raise ParameterError(
                f"{name} has n_relu={self.n_relu}; it must lie between 0 and "
                f"latent_dim={self.latent_dim}."
            )
        if self.forcing not in ("stf", "gtf"):
            raise ParameterError(f'forcing={self.forcing!r} is not known; use "stf" or "gtf".')
        if self.forcing_interval != "auto" and not (
            isinstance(self.forcing_interval, (int, np.integer))
            and 1 <= self.forcing_interval <= self.sequence_length
        ):
            raise ParameterError(
                f"forcing_interval={self.forcing_interval!r}; needed is a whole number from 1 to "
                f'sequence_length={self.sequence_length}, or "auto".'
            )
        if self.time_scale != "auto" and not (
            isinstance(self.time_scale, (int, float)) and 0 < self.time_scale < np.inf
        ):
            raise ParameterError(
                f"time_scale={self.time_scale!r}; needed is a positive time in data units, or "
                f'"auto" for the median sampling interval ({trajectories.median_interval:.6g}).'
            )
        for key in ("lr", "final_lr", "grad_clip"):
            if not 0 < getattr(self, key) < np.inf:
                raise ParameterError(f"{key}={getattr(self, key)!r}; needed is a positive number.")
        if not 0 <= self.noise < np.inf:
            raise ParameterError(f"noise={self.noise!r}; needed is a number >= 0.")
        if not 0 <= self.validation < 1:
            raise ParameterError(f"validation={self.validation!r}; needed is a share in [0, 1).")
        longest = max(len(t) for t in trajectories.times)
        if longest < self.sequence_length + 1:
            raise DataError(
                f"the longest recording has {longest} samples; sequence_length="
                f"{self.sequence_length} needs {self.sequence_length + 1}. "
                f"Write sequence_length={max(longest // 2, 1)}."
            )
        gaps = max(float(np.diff(t).max()) for t in trajectories.times if len(t) > 1)
        if gaps > 50 * trajectories.median_interval:
            warnings.warn(
                f"the longest gap ({gaps:.6g}) is {gaps / trajectories.median_interval:.0f} times "
                "the median sampling interval; what happens inside it is not seen. Consider "
                "cutting the recording there (one recording for each side).",
                ForetellWarning,
                stacklevel=3,
            )

    def _forcing_interval(self, sequences: Sequences, length: int) -> int:
        if self.forcing_interval != "auto":
            return int(self.forcing_interval)
        return int(np.clip(_decorrelation(sequences), 2, max(length // 2, 1)))

    def _scaled_controls(self, controls: ArrayLike | None, n_times: int) -> Array | None:
        K = len(self.control_names_)
        if controls is None:
            if K:
                raise ParameterError(
                    f"this model was fitted with the controls {', '.join(self.control_names_)}; "
                    f"give controls=array of shape ({n_times}, {K})."
                )
            return None
        u = np.asarray(controls, dtype=np.float64)
        u = u[:, None] if u.ndim == 1 else u
        if K == 0:
            raise ParameterError("this model was fitted without controls; leave controls out.")
        if u.shape != (n_times, K) or not np.isfinite(u).all():
            raise ParameterError(
                f"controls have shape {u.shape}; needed are finite numbers of shape "
                f"({n_times}, {K}), one row for each time."
            )
        return self.scaler_.transform_controls(u)

    def _known_sequences(self, trajectories: Trajectories) -> Sequences:
        if trajectories.n_variables != self.n_features_in_:
            raise DataError(
                f"the recordings have {trajectories.n_variables} variables "
                f"({', '.join(trajectories.names)}); the model knows {self.n_features_in_} "
                f"({', '.join(self.names_)})."
            )
        if trajectories.n_controls != len(self.control_names_):
            raise DataError(
                f"the recordings have {trajectories.n_controls} controls; the model was fitted "
                f"with {len(self.control_names_)}."
            )
        return self._sequences(
            self.scaler_.transform(self._prepare(trajectories)), self.time_scale_
        )

    def _identity(self, trajectories: Trajectories, settings: Settings) -> str:
        content = json.dumps(
            [type(self).__name__, self.get_params(), asdict(settings), trajectories.fingerprint()],
            sort_keys=True,
            default=str,
        )
        return hashlib.sha256(content.encode()).hexdigest()


# ---------------------------------------------------------------------- pieces
def _hold_back(sequences: Sequences, share: float, length: int) -> tuple[Sequences, Sequences]:
    """Training part and validation part, cut in time; too short a recording is all training.

    Without a validation part, the free run is compared with the training data.
    """
    cuts = []
    for values in sequences.values:
        keep = len(values) - round(share * len(values))
        cuts.append(keep if keep > length else len(values))
    first = _cut(sequences, [slice(0, c) for c in cuts])
    tails = [len(v) - c for v, c in zip(sequences.values, cuts, strict=True)]
    if sum(tails) < 50:
        return first, sequences
    kept = [n for n, tail in enumerate(tails) if tail > 1]
    rest = _cut(sequences, [slice(c, None) for c in cuts])
    return first, Sequences(
        tuple(rest.values[n] for n in kept),
        tuple(rest.dt[n] for n in kept),
        None if rest.controls is None else tuple(rest.controls[n] for n in kept),
    )


def _cut(sequences: Sequences, rows: list[slice]) -> Sequences:
    def steps(s: slice, n: int) -> slice:
        start, stop, _ = s.indices(n)
        return slice(start, max(stop - 1, start))

    return Sequences(
        tuple(v[s] for v, s in zip(sequences.values, rows, strict=True)),
        tuple(
            d[steps(s, len(v))]
            for d, v, s in zip(sequences.dt, sequences.values, rows, strict=True)
        ),
        None
        if sequences.controls is None
        else tuple(c[s] for c, s in zip(sequences.controls, rows, strict=True)),
    )


def _decorrelation(sequences: Sequences) -> int:
    """Samples until the autocorrelation of a variable first reaches zero (median over variables).

    For an oscillation this is a quarter of the period, which is where the forcing intervals that
    work in the literature lie.
    """
    longest = max(sequences.values, key=len)
    firsts = []
    for x in longest.T:
        x = np.nan_to_num(x - np.nanmean(x))
        n = 1 << (2 * len(x) - 1).bit_length()
        power = np.abs(np.fft.rfft(x, n)) ** 2
        correlation = np.fft.irfft(power, n)[: len(x)]
        below = np.flatnonzero(correlation <= 0)
        firsts.append(int(below[0]) if below.size else len(x))
    return round(float(np.median(firsts)))


def _increasing(times: ArrayLike) -> Array:
    stamps = np.asarray(times, dtype=np.float64)
    if stamps.ndim != 1 or stamps.size < 2 or not np.isfinite(stamps).all():
        raise ParameterError(
            f"times have shape {stamps.shape}; needed are at least two finite stamps, "
            "for instance np.linspace(0, 10, 101)."
        )
    steps = np.diff(stamps)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise ParameterError(
            f"times must increase; times[{row}]={stamps[row]:.6g} follows "
            f"times[{row - 1}]={stamps[row - 1]:.6g}."
        )
    return stamps
