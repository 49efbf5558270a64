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
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError
from foretell.data import Trajectories
from foretell.dynamics.checks import as_trajectories, point_out_gaps
from foretell.dynamics.history import History
from foretell.dynamics.hybrid import keeping
from foretell.dynamics.hybrid.arguments import (
    check_arguments,
    check_derivatives,
    check_jump_index,
    check_latent_dim,
)
from foretell.dynamics.hybrid.columns import Columns, read_columns
from foretell.dynamics.hybrid.latent_model import LatentModel, Shape
from foretell.dynamics.hybrid.preparation import LONGER, prepare, remark_on_jumps
from foretell.dynamics.hybrid.reading import HybridReading
from foretell.dynamics.hybrid.scoring import FreeRuns
from foretell.dynamics.sequences import Sequences
from foretell.train.loop import OnStep


class HybridLatentODE(HybridReading):
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
        variance, o covariance, g position at jumps, v velocity at jumps. Those left out keep their
        default.
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
    fitted_mark = "model_"

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
        index = check_jump_index(jump_index, recordings)
        rates = check_derivatives(derivatives, recordings)
        prepared = prepare(recordings, columns, self, index, rates)
        remark_on_jumps(prepared.jumps)
        shape = self._shape(columns, recordings.n_controls, latent)
        settings = keeping.settings_of(self)
        from foretell.dynamics.hybrid.training import train_networks

        trained = train_networks(
            shape, prepared.drawer, prepared.free_runs, settings, on_step=on_step,
            checkpoint=checkpoint, resume=resume, warm=derivatives is not None,
            identity=self._identity(
                recordings.fingerprint(), arrays=[*prepared.jumps.flags, *(rates or ())]
            ),
        )  # fmt: skip
        self.columns_, self.scaler_ = columns, prepared.scaler
        self.time_scale_ = prepared.time_scale
        self.low_, self.high_ = prepared.low, prepared.high
        self.jumps_ = prepared.jumps
        self._note(recordings)
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
    @classmethod
    def _arguments(cls, parameters: Any) -> dict[str, Any]:
        return keeping.arguments(parameters)

    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return keeping.kept(self)

    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        keeping.take_over(self, arrays, fields)

    def _runs(self, sequences: Sequences) -> FreeRuns:
        length = LONGER * max(self.horizons)
        return FreeRuns(
            sequences, length, int(self.substeps), self.low_, self.high_, self.seam_pairs_
        )
