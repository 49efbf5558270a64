"""ReLUNeuralODE: the field of the cPLRNN followed by Runge-Kutta steps. A reference learner.

The same parameters and the same trainer as CPLRNN; only the step differs: each sampling interval
is crossed by ``substeps`` classical fourth-order Runge-Kutta steps, forwards and backwards fused.

Source: Chen et al., "Neural ordinary differential equations", NeurIPS 2018; used as the peer of
the cPLRNN in Braendle et al., ICML 2026, arXiv 2602.15649.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError
from foretell.dynamics._reference_kernels import RK4Kernel
from foretell.dynamics.checks import whole
from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.piecewise_view import PiecewiseView
from foretell.dynamics.sequence_learner import SequenceLearner

Array = NDArray[np.float64]


class ReLUNeuralODE(PiecewiseView, SequenceLearner):
    """Neural ODE with one ReLU layer, trained through fixed Runge-Kutta steps.

    Parameters
    ----------
    substeps : int
        Runge-Kutta steps in each sampling interval. `simulate` takes so many in each unit of model
        time, so that the stamps one asks for have little influence on the run.
    **others
        As for `CPLRNN`.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(300) * 0.1
    >>> x = np.column_stack([np.sin(t), np.cos(t)])
    >>> model = ReLUNeuralODE(
    ...     latent_dim=4, n_relu=1, sequence_length=50, max_updates=100, random_state=0
    ... )
    >>> model.fit(x, t).predict(x[0], t[:10]).shape
    (1, 10, 2)
    """

    citations: ClassVar[tuple[str, ...]] = ("neural-ode", "sparse-teacher-forcing")

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
        substeps: int = 1,
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
        self.substeps = substeps

    def _kernel(self, layout: Layout, *, training: bool = True) -> SequenceKernel:
        return RK4Kernel(int(self.n_relu), int(self.substeps))

    def _run(self, z0: Array, model_times: Array, u: Array | None) -> Array:
        steps = np.diff(model_times)
        n_T = np.maximum(np.ceil(steps - 1e-9), 1).astype(np.int64)
        fine = model_times[0] + np.append(0.0, np.cumsum(np.repeat(steps / n_T, n_T)))
        held = None if u is None else np.concatenate([np.repeat(u[:-1], n_T, axis=0), u[-1:]])
        return super()._run(z0, fine, held)[:, np.append(0, np.cumsum(n_T))]

    def _check_parameters(self, trajectories: Any) -> None:
        super()._check_parameters(trajectories)
        if not whole(self.substeps, 1):
            raise ParameterError(f"substeps={self.substeps!r}; needed is a whole number >= 1.")
