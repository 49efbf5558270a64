"""CPLRNN: a continuous-time piecewise-linear recurrent network, learned from recordings.

The model is dz/dt = A z + W phi(z) + h + C u, of which the first N units are what is observed and
the last P are rectified. Inside a region of constant signs it is affine, so its flow needs no
numerical integration, and equilibria, cycles and exponents follow from matrices.

Training uses the dyadic engine (``solve.piecewise.dyadic``), analysis the certified one.

Legend: M latent units, P rectified, N observed, K inputs.

Source: Braendle, Eisenmann, Goetz, Durstewitz, "Continuous-time piecewise-linear recurrent neural
networks", ICML 2026, arXiv 2602.15649.
Differs from the paper in: no eigen-decomposition and no root finding while training; gradients
through switching times are left out because they are exactly zero; a larger learning rate; the
parameters that are kept have the best free run on held-back data.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.core import ForetellWarning, ParameterError
from foretell.dynamics.checks import whole
from foretell.dynamics.fitting import Trained
from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.piecewise_view import PiecewiseView
from foretell.dynamics.sequence_learner import PreparedTraining, SequenceLearner
from foretell.solve.piecewise import flow
from foretell.solve.piecewise.dyadic import DyadicFlow, SequenceGradient

Array = NDArray[np.float64]

_FINER = 3  # levels that free runs add to those of training
MANY_REGIONS = 512
_FINEST = 20  # levels that the dyadic engine can have


class CPLRNN(PiecewiseView, SequenceLearner):
    """Continuous-time piecewise-linear RNN for dynamical systems reconstruction.

    Parameters
    ----------
    latent_dim : int
        M, latent units; the first N are the observed variables.
    n_relu : int
        P, rectified units. 0 is a linear model, M the fully rectified one.
    forcing : {"stf", "gtf"}
        Sparse teacher forcing (observed units are set to the data now and then) or generalised
        teacher forcing (they are moved part of the way at each sample).
    forcing_interval : int or "auto"
        Samples between forcings. "auto" takes the first zero of the autocorrelation.
    sequence_length : int
        Samples in a training window.
    batch_size : int
        Windows in an update.
    max_updates : int
        Updates of the parameters.
    lr, final_lr : float
        Learning rate at the first and the last update; it falls exponentially.
    noise : float
        Standard deviation of the noise on the windows, in standard deviations of the data.
    grad_clip : float
        Largest norm of a gradient.
    time_scale : float or "auto"
        Data time that is one unit of model time. "auto" takes the median sampling interval.
    warm_up : int
        First samples of a window that neither count nor force; for recordings with inputs, in which
        the hidden units need a while to find their state.
    validation : float
        Share of each recording, at its end, that only selects parameters.
    random_state : int or None
        Seed. The same seed gives the same parameters bit for bit.
    engine : {"dyadic", "certified"}
        How ``simulate`` follows the flow: fast, or with every switch located to rounding error.
    n_levels : int
        J; while training, the shortest piece of the dyadic engine is 2^-J of the model time unit.
        Free runs use pieces eight times shorter.

    Attributes
    ----------
    field_ : PiecewiseLinearField
        The learned field, standardised variables and model time.
    data_field_ : PiecewiseLinearField
        The same field in the units and the time of the recordings (observed units come first).
    history_ : History
        Loss and free-run score during training.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(400) * 0.1
    >>> x = np.column_stack([np.sin(t), np.cos(t)])
    >>> model = CPLRNN(latent_dim=4, n_relu=1, sequence_length=50, max_updates=300, random_state=0)
    >>> model.fit(x, t).predict(x[0], t[:10]).shape
    (1, 10, 2)
    """

    citations: ClassVar[tuple[str, ...]] = ("cplrnn", "sparse-teacher-forcing", "scyfi")

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
        engine: str = "dyadic",
        n_levels: int = 3,
    ) -> None:
        super().__init__(
            latent_dim=latent_dim,
            n_relu=n_relu,
            forcing=forcing,
            forcing_interval=forcing_interval,
            sequence_length=sequence_length,
            batch_size=batch_size,
            max_updates=max_updates,
            lr=lr,
            final_lr=final_lr,
            noise=noise,
            grad_clip=grad_clip,
            time_scale=time_scale,
            warm_up=warm_up,
            validation=validation,
            random_state=random_state,
        )
        self.engine = engine
        self.n_levels = n_levels

    def _kernel(self, layout: Layout, *, training: bool = True) -> SequenceKernel:
        return _DyadicKernel(
            DyadicFlow(
                n_units=layout.n_units,
                n_relu=int(self.n_relu),
                n_controls=layout.n_controls,
                n_levels=int(self.n_levels) + (0 if training else _FINER),
            )
        )

    def _check_parameters(self, trajectories: Any) -> None:
        super()._check_parameters(trajectories)
        if not whole(self.n_levels, 0, _FINEST - _FINER):
            raise ParameterError(
                f"n_levels={self.n_levels!r}; needed is a whole number from 0 to "
                f"{_FINEST - _FINER}."
            )
        if self.engine not in ("dyadic", "certified"):
            raise ParameterError(
                f'engine={self.engine!r} is not known; use "dyadic" or "certified".'
            )

    def conclude_training(self, prepared: PreparedTraining, trained: Trained) -> None:
        """Take over what a training gave, and warn where the field is cut into very many pieces."""
        super().conclude_training(prepared, trained)
        kernel = prepared.kernel
        if isinstance(kernel, _DyadicKernel) and kernel.n_regions > MANY_REGIONS:
            warnings.warn(
                f"the windows of the last update went through {kernel.n_regions} regions of the "
                f"field (n_relu={self.n_relu}). Each has maps of its own, so updates are slow, and "
                f"few rows speak of each. Try n_relu={max(1, int(self.n_relu) // 2)}.",
                ForetellWarning,
                stacklevel=3,
            )

    def _run(self, z0: Array, model_times: Array, u: Array | None) -> Array:
        if self.engine == "dyadic":
            return super()._run(z0, model_times, u)
        runs = np.full((len(z0), model_times.size, self.layout_.n_units), np.nan)
        for b, z in enumerate(z0):
            result = flow(self.field_, z, model_times, controls=u)
            fine = np.isfinite(result.states).all(axis=1)
            runs[b, fine] = result.states[fine]
        return runs


class _DyadicKernel:
    """The dyadic flow as the trainer sees it."""

    def __init__(self, flow_: DyadicFlow) -> None:
        self._flow = flow_
        self.n_regions = 0  # of the last update

    def loss_and_gradient(
        self, A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array | None,
        dt: Array, *, forcing_interval: int, alpha: float,
    ) -> SequenceGradient:  # fmt: skip
        found = self._flow.loss_and_gradient(
            A, W, h, C, L, x, u, dt, forcing_interval=forcing_interval, alpha=alpha
        )
        self.n_regions = found.n_regions
        return found

    def free_run(
        self, A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array | None, dt: Array
    ) -> Array:
        states, _ = self._flow.free_run(A, W, h, C, z0, u, dt)
        return states
