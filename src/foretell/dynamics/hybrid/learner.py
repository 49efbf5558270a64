"""HybridLatentODE: systems that flow and jump, as one continuous flow in a latent space.

A guard and what its reset makes of it are one place for the motion, which arrives at the one and
goes on from the other. An encoder f glues them: f(x) = f(r(x)), and the velocities agree as well.
In the latent space nothing jumps any more, so an ordinary differential equation can be learned;
the decoder has several heads and picks one, so that it may jump where the encoder glued.

    z = f(x),    dz/dt = V(z, u),    x = the head of d(z) with the largest logit

Source: Teng, Liu, Sreenath, "Embedding hybrid systems into continuous latent vector fields", ICML
2026, arXiv 2606.10596; the quotient space is that of Simic, Johansson, Lygeros, Sastry, "Towards a
geometric theory of hybrid systems" (2005). Differs from the paper in: gluing across one step of the
flow, not of two samples with each other, which would hold the flow up at every jump; a mixture
decoder; autoencoding beside the rollout; the number of heads and the best state chosen by long
free runs; guards, resets and events read out.

Legend: N observed variables, n columns (angles as sine and cosine), m latent, K inputs, J heads.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
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
    NumericalError,
    ParameterError,
)
from foretell.data import Trajectories
from foretell.dynamics.checks import (
    as_trajectories,
    checked_controls,
    checked_starts,
    checked_times,
    point_out_gaps,
    whole,
)
from foretell.dynamics.hybrid import keeping
from foretell.dynamics.hybrid.arguments import (
    check_arguments,
    check_derivatives,
    check_jump_index,
    check_latent_dim,
)
from foretell.dynamics.hybrid.columns import Columns, column_trajectories, read_columns
from foretell.dynamics.hybrid.latent_model import LatentModel, Shape
from foretell.dynamics.hybrid.preparation import LONGER, Prepared, as_sequences, prepare
from foretell.dynamics.hybrid.reading import HybridReading
from foretell.dynamics.hybrid.scoring import FreeRuns
from foretell.dynamics.sequences import Sequences
from foretell.dynamics.training_state import History
from foretell.train.loop import OnStep

Array = NDArray[np.float64]

OUT_OF_RANGE = 1e6  # of a latent coordinate
MANY_JUMPS = 0.15  # share of the steps that is suspicious


class HybridLatentODE(HybridReading, BaseEstimator):
    """Latent neural ODE of a system that flows and jumps; no modes, guards or events are given.

    Parameters
    ----------
    latent_dim : int, optional
        m; by default 2 n + 1 for n dimensions of the flow, which suffices for almost every such
        system. An angle counts as one dimension, a quaternion as three.
    hidden, n_layers : int
        Width and number of the hidden layers of every network.
    activation : str
        "silu", or "sin_last" for a sine in the last hidden layer of encoder and decoder.
    decoder_heads : int or "auto"
        Heads of the decoder; "auto" trains decoders with one and with three heads on one latent
        space and keeps the one whose long free runs are better on held-out recordings.
    head_spread : float
        Squared distance, in variances, within which a head counts as near a sample.
    field : str
        "mlp", or "pwl" for a piecewise-linear field, whose equilibria, cycles and Floquet
        multipliers can be computed.
    n_relu : int, optional
        Rectified units of a piecewise-linear field; half of the latent ones by default.
    weights : mapping, optional
        Weights of the losses, by letter: x rollout, z latent consistency, a autoencoding, c
        variance, o covariance, v velocity at jumps. Those left out keep their default.
    seam_weight : float
        How much more latent consistency counts across a jump.
    variance_floor : float
        Variance below which a latent coordinate counts as collapsed.
    horizons : sequence of int
        Lengths of the rollouts, one after the other.
    updates_per_horizon, batch_size : int
        Training effort.
    lr, final_lr, grad_clip : float
        Learning rate at the first and at the last update; longest gradient.
    jump_threshold : float or "auto"
        Residual of a step, in standard deviations, above which it is a jump.
    angle_columns : sequence of column
        Columns, by name or number, that are angles in radians.
    quaternion_columns : sequence of four columns each
        Columns that are a unit quaternion.
    substeps : int
        Runge-Kutta steps in each sampling interval.
    time_scale : float or "auto"
        Data time that is one unit of model time; "auto" is the median sampling interval.
    validation : float
        Share of the recordings (with fewer than five: of each recording) that is held back.
    random_state : int, optional
        Seed of the networks and of the batches.

    Attributes
    ----------
    jumps_ : Jumps
        Where the recordings were taken to jump.
    n_heads_ : int
        Heads of the decoder that was kept.
    latent_rank_ : LatentRank
        Spread of the latent states in each direction.
    seams_ : SeamGaps
        Whether positions and velocities meet at held-out jumps.
    history_ : History
        Loss and score during the training.

    Examples
    --------
    >>> from foretell.data.hybrid_systems import ball
    >>> bounces = ball(20, 60, random_state=0).trajectories
    >>> model = HybridLatentODE(horizons=(4, 8), updates_per_horizon=20, random_state=0)
    >>> run = model.fit(bounces).simulate([1.0, 0.0], [0.0, 0.05, 0.1])
    >>> run.values[0].shape, model.jumps_.n_jumps
    ((3, 2), 46)
    """

    citations: ClassVar[tuple[str, ...]] = ("hybrid-latent-ode", "hybrifold")
    continuous: ClassVar[bool] = True

    def __init__(
        self,
        *,
        latent_dim: int | None = None,
        hidden: int = 64,
        n_layers: int = 2,
        activation: str = "silu",
        decoder_heads: int | str = "auto",
        head_spread: float = 0.05,
        field: str = "mlp",
        n_relu: int | None = None,
        weights: Mapping[str, float] | None = None,
        seam_weight: float = 3.0,
        variance_floor: float = 0.3,
        horizons: Sequence[int] = (4, 8, 16, 25),
        updates_per_horizon: int = 600,
        batch_size: int = 64,
        lr: float = 2e-3,
        final_lr: float = 1e-5,
        grad_clip: float = 2.0,
        jump_threshold: float | str = "auto",
        angle_columns: Sequence[str | int] = (),
        quaternion_columns: Sequence[Sequence[str | int]] = (),
        substeps: int = 1,
        time_scale: float | str = "auto",
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.n_layers = n_layers
        self.activation = activation
        self.decoder_heads = decoder_heads
        self.head_spread = head_spread
        self.field = field
        self.n_relu = n_relu
        self.weights = weights
        self.seam_weight = seam_weight
        self.variance_floor = variance_floor
        self.horizons = horizons
        self.updates_per_horizon = updates_per_horizon
        self.batch_size = batch_size
        self.lr = lr
        self.final_lr = final_lr
        self.grad_clip = grad_clip
        self.jump_threshold = jump_threshold
        self.angle_columns = angle_columns
        self.quaternion_columns = quaternion_columns
        self.substeps = substeps
        self.time_scale = time_scale
        self.validation = validation
        self.random_state = random_state

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        X: Trajectories | ArrayLike,
        times: ArrayLike | None = None,
        *,
        derivatives: ArrayLike | Sequence[ArrayLike] | None = None,
        jump_index: Sequence[ArrayLike] | None = None,
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
        derivatives : list of arrays (T_i, N), optional
            Time derivatives of the values, in data units; the first fifth of the training then
            matches velocities and needs no rollout.
        jump_index : list of int arrays, optional
            For each recording the samples after which it jumps; found in the data without it.
        on_step : callable, optional
            Receives a ``Progress`` now and then.
        checkpoint : path, optional
            A folder in which the state of the training is kept, also when Ctrl-C ends it.
        resume : bool
            Go on from ``checkpoint``; the result is the one of an uninterrupted training.

        Raises
        ------
        DataError
            The recordings are too short, constant, or angles and quaternions are none.
        ParameterError
            An argument has an impossible value.
        NumericalError
            Training gave no finite gradient.
        MissingExtraError
            torch is not installed.
        """
        recordings = as_trajectories(X, times)
        check_arguments(self)
        columns = read_columns(recordings, self.angle_columns, self.quaternion_columns)
        latent = check_latent_dim(self, columns)
        point_out_gaps(recordings)
        prepared = prepare(
            recordings, columns, self,
            check_jump_index(jump_index, recordings),
            check_derivatives(derivatives, recordings),
        )  # fmt: skip
        _remark_on_jumps(prepared)
        shape = self._shape(columns, recordings.n_controls, latent)
        settings = keeping.settings_of(self)
        from foretell.dynamics.hybrid.training import train_networks

        trained = train_networks(
            shape, prepared.drawer, prepared.free_runs, settings, on_step=on_step,
            checkpoint=checkpoint, resume=resume, warm=derivatives is not None,
            identity=keeping.identity(self, recordings, prepared, derivatives),
        )  # fmt: skip
        self.columns_, self.scaler_ = columns, prepared.scaler
        self.time_scale_ = prepared.time_scale
        self.low_, self.high_ = prepared.low, prepared.high
        self.jumps_ = prepared.jumps
        self.names_, self.units_ = recordings.names, recordings.units
        self.control_names_ = recordings.control_names
        self.control_units_ = recordings.control_units
        self.time_name_, self.time_unit_ = recordings.time_name, recordings.time_unit
        self.fingerprint_ = recordings.fingerprint()
        run = trained.run
        self.history_ = History(run.steps, run.losses, run.scores, run.skipped)
        self.best_step_, self.validation_score_ = run.best_step, trained.score
        self.fit_seconds_ = run.seconds
        self._adopt(shape, trained.arrays, trained.head)
        self._read_seams(prepared)
        return self

    def _shape(self, columns: Columns, n_controls: int, latent: int) -> Shape:
        heads = (1, 3) if self.decoder_heads == "auto" else (int(self.decoder_heads),)
        P = 0
        if self.field == "pwl":
            P = latent // 2 if self.n_relu is None else int(self.n_relu)
        return Shape(
            columns.n_columns, latent, n_controls, int(self.hidden), int(self.n_layers), heads,
            self.activation, self.field, P,
        )  # fmt: skip

    def _adopt(self, shape: Shape, arrays: Mapping[str, NDArray[Any]], head: int) -> None:
        self.shape_, self.arrays_, self.head_ = shape, dict(arrays), head
        self.n_heads_ = shape.heads[head]
        self.n_features_in_ = len(self.columns_.names)
        self.model_ = LatentModel(shape, arrays, head)

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
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``.
        n_samples : int
            Copies of each start; they are equal, since the model has no noise.
        random_state : int, Generator or None
            Accepted for the interface; there is nothing random.

        Returns
        -------
        Trajectories
            B * n_samples recordings. One that leaves the range of the model ends there, with a
            warning.

        Raises
        ------
        ParameterError
            The start, the times or the controls do not fit the model.
        NumericalError
            A run leaves the range of the model at once.
        """
        if not whole(n_samples, 1):
            raise ParameterError(f"n_samples={n_samples!r}; needed is 1 or more.")
        stamps, given, runs = self._free_runs(x0, times, controls)
        recordings: list[Array] = []
        for run in runs:
            fine = np.isfinite(run).all(axis=1)
            reached = len(run) if fine.all() else int(fine.argmin())
            if reached < 2:
                raise NumericalError(
                    "a free run leaves the range of the model before the second of the times "
                    f"({stamps[1]:.6g}), so there is nothing to return. Start within the range of "
                    "the recordings, or train longer."
                )
            if reached < len(run):
                warnings.warn(
                    f"a free run left the range of the model at {stamps[reached]:.6g} and ends "
                    "there. Train longer, or with longer horizons.",
                    ForetellWarning,
                    stacklevel=2,
                )
            recordings += [run[:reached]] * int(n_samples)
        return Trajectories.from_arrays(
            recordings,
            [stamps[: len(run)] for run in recordings],
            controls=None if given is None else [given[: len(run)] for run in recordings],
            names=self.names_,
            units=self.units_,
            control_names=self.control_names_ if given is not None else None,
            control_units=self.control_units_ if given is not None else None,
            time_name=self.time_name_,
            time_unit=self.time_unit_,
        )

    def predict(
        self,
        X0: ArrayLike,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        reencode_every: int | None = None,
    ) -> Array:
        """Values (B, T, N) of free runs from X0 (B, N); NaN where a run escaped.

        ``reencode_every`` encodes what was decoded every so many samples. A run encodes once and
        never again without it: beside a jump a decoded state may land on the wrong side.
        """
        if reencode_every is not None and not whole(reencode_every, 1):
            raise ParameterError(
                f"reencode_every={reencode_every!r}; needed is a whole number >= 1, or None."
            )
        return self._free_runs(X0, times, controls, reencode_every)[2]

    def encode(self, X: ArrayLike) -> Array:
        """Latent states (..., m) of observed states (..., N) in data units."""
        self._check_fitted()
        values = np.asarray(X, dtype=np.float64)
        if values.shape[-1:] != (self.n_features_in_,):
            raise ParameterError(
                f"X has shape {values.shape}; needed is (..., {self.n_features_in_})."
            )
        flat = values.reshape(-1, self.n_features_in_)
        signed = np.concatenate([self.columns_.aligned(row[None]) for row in flat])
        z = self.model_.encode(self.scaler_.transform_values(self.columns_.spread(signed)))
        return z.reshape(*values.shape[:-1], -1)

    def decode(self, z: ArrayLike, *, return_heads: bool = False) -> Array | tuple[Array, Array]:
        """Observed states (..., N) of latent states (..., m).

        With ``return_heads`` also the candidates (..., J, N) of all heads come back: first the
        state of the best head, then the candidates.
        """
        self._check_fitted()
        latent = np.asarray(z, dtype=np.float64)
        best = self._to_data(self.model_.decode(latent))
        if not return_heads:
            return best
        return best, self._to_data(self.model_.heads(latent)[0])

    def vector_field(self, states: ArrayLike, control: ArrayLike | None = None) -> Array:
        """Velocity (..., m) at latent states (..., m), per data time.

        ``control`` (K,) is in data units; without it the mean input acts.
        """
        self._check_fitted()
        z = np.asarray(states, dtype=np.float64)
        u = None
        if self.shape_.n_controls:
            mean = np.zeros(self.shape_.n_controls)
            u = mean if control is None else self.scaler_.transform_controls(control)
            u = np.broadcast_to(u, (*z.shape[:-1], mean.size))
        return self.model_.velocity(z, u) / self.time_scale_

    def score(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> float:
        """How well long free runs follow recordings: higher is better, 0 is perfect.

        Minus the root mean square error, in standard deviations, of runs four times as long as
        the longest rollout of the training (or as the recording). Distances are those of the glued
        space: a jump a sample too late is no large error, a state in the middle of one is.
        """
        self._check_fitted()
        sequences = self.sequences(as_trajectories(X, times))
        runs = self._runs(sequences)
        if runs.n_runs == 0:
            raise DataError(
                "no row of the recordings is complete, so there is nothing to start a free run "
                "from. Give recordings in which some rows have all variables."
            )
        return -float(np.sqrt(runs.error(self.model_)))

    # ------------------------------------------------------------------ keeping
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model folder (``model.json`` and ``weights.safetensors``)."""
        self._check_fitted()
        return keeping.artifact_of(self).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that ``save`` wrote."""
        return cls.from_artifact(Artifact.open(path, classes=[cls.__name__]))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        """The model that an opened artefact describes."""
        model: Self = keeping.restore(cls, artifact)
        return model

    # ------------------------------------------------------------------ parts
    def sequences(self, recordings: Trajectories) -> Sequences:
        """Recordings as the networks see them: standardised columns in model time."""
        self._check_fitted()
        if recordings.names != self.names_ and recordings.n_variables != len(self.names_):
            raise DataError(
                f"the recordings have {recordings.n_variables} variables "
                f"({', '.join(recordings.names)}); the model knows {len(self.names_)} "
                f"({', '.join(self.names_)})."
            )
        if recordings.n_controls != len(self.control_names_):
            raise DataError(
                f"the recordings have {recordings.n_controls} controls; the model was fitted "
                f"with {len(self.control_names_)}."
            )
        scaled = self.scaler_.transform(column_trajectories(recordings, self.columns_))
        return as_sequences(scaled, self.time_scale_)

    def _runs(self, sequences: Sequences) -> FreeRuns:
        length = LONGER * max(self.horizons)
        return FreeRuns(
            sequences, length, int(self.substeps), self.low_, self.high_, self.seam_pairs_
        )

    def _free_runs(
        self,
        x0: ArrayLike,
        times: ArrayLike,
        controls: ArrayLike | None,
        reencode_every: int | None = None,
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and values (B, T, N) in data units, NaN from an escape."""
        self._check_fitted()
        stamps = checked_times(times)
        starts = checked_starts(x0, self.names_)
        u = checked_controls(controls, stamps.size, self.control_names_)
        z = self._latent_runs(starts, stamps, u, reencode_every)
        outside = np.asarray(~(np.abs(z) < OUT_OF_RANGE).all(axis=2))
        values = self._to_data(self.model_.decode(np.where(outside[..., None], 0.0, z)))
        for b, start in enumerate(starts):
            values[b] = self.columns_.aligned(values[b], start)
        values[np.logical_or.accumulate(outside, axis=1)] = np.nan
        values[:, 0] = starts
        return stamps, u, values

    def _latent_runs(
        self, starts: Array, stamps: Array, u: Array | None, reencode_every: int | None = None
    ) -> Array:
        """Latent states (B, T, m) of free runs, not finite after an escape."""
        T = stamps.size - 1
        dt = np.broadcast_to(np.diff(stamps) / self.time_scale_, (len(starts), T))
        held = None
        if u is not None:
            scaled = self.scaler_.transform_controls(u)[:-1]
            held = np.broadcast_to(scaled, (len(starts), *scaled.shape))
        z = np.empty((len(starts), T + 1, self.shape_.n_latent))
        z[:, 0] = self.encode(starts)
        block = T if reencode_every is None else int(reencode_every)
        for begin in range(0, T, block):
            part = slice(begin, min(begin + block, T))
            start = z[:, begin]
            if begin:
                start = self.model_.encode(self._clipped(self.model_.decode(start)))
            run = self.model_.roll_out(
                start, dt[:, part], None if held is None else held[:, part], int(self.substeps)
            )
            z[:, begin + 1 : part.stop + 1] = run[:, 1:]
        return z

    def _clipped(self, columns: Array) -> Array:
        return np.clip(columns, self.low_, self.high_)

    def _to_data(self, columns: Array) -> Array:
        """Observed values of standardised columns, clipped to the range of the recordings."""
        return self.columns_.gather(self.scaler_.inverse_values(self._clipped(columns)))

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned anything yet. "
                "Call fit(recordings) first, or open a saved one with load(path)."
            )


def _remark_on_jumps(prepared: Prepared) -> None:
    jumps = prepared.jumps
    if jumps.n_jumps == 0:
        warnings.warn(
            "no jumps found in the recordings, so a plain neural ODE may do as well (and CPLRNN "
            "can be analysed). Lower jump_threshold="
            f"{jumps.threshold:.3g} (standard deviations) if you know that there are some.",
            ForetellWarning,
            stacklevel=3,
        )
    elif jumps.share > MANY_JUMPS:
        warnings.warn(
            f"{jumps.share:.0%} of the steps count as jumps, more than {MANY_JUMPS:.0%}: the "
            "sampling may be too coarse for the motion, or the noise too large. Sample faster, or "
            f"raise jump_threshold={jumps.threshold:.3g} (standard deviations).",
            ForetellWarning,
            stacklevel=3,
        )
