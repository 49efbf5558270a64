"""ALRNN: the discrete-time almost-linear RNN. A reference learner.

z' = A z + W phi(z) + h + C u, one application for each sample: the map has no notion of time
between samples. Irregular recordings are therefore brought to equal bins by interpolation, or the
length of each interval becomes an input.

Source: Brenner, Hemmer, Monfared, Durstewitz, "Almost-linear RNNs yield highly interpretable
symbolic codes in dynamical systems reconstruction", NeurIPS 2024.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.core import DataError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics._reference_kernels import ALRNNKernel
from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.sequence_learner import SequenceLearner
from foretell.dynamics.sequences import Sequences

Array = NDArray[np.float64]

_KINDS = ("linear", "cubic", "gp")
_MODES = (*_KINDS, "interval")
_BLOCK = 300  # samples of one local Gaussian process
_MOST_BINS = 20_000_000


class ALRNN(SequenceLearner):
    """Almost-linear RNN: a piecewise-linear map from sample to sample.

    After interpolation a sample is a bin of ``time_scale``; `transform` then returns one latent
    state for each bin.

    Parameters
    ----------
    irregular : {"linear", "cubic", "gp", "interval"}
        What to do with irregular stamps: interpolate to bins of ``time_scale`` (linearly, by
        cubic splines, by a Gaussian process), or keep the samples and make the interval an input.
    **others
        As for `CPLRNN`.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(300) * 0.1
    >>> x = np.column_stack([np.sin(t), np.cos(t)])
    >>> model = ALRNN(latent_dim=4, n_relu=1, sequence_length=50, max_updates=100, random_state=0)
    >>> model.fit(x, t).predict(x[0], t[:10]).shape
    (1, 10, 2)
    """

    citations: ClassVar[tuple[str, ...]] = ("alrnn", "sparse-teacher-forcing")
    continuous: ClassVar[bool] = False

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
        irregular: str = "linear",
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
        self.irregular = irregular

    def _kernel(self, layout: Layout, *, training: bool = True) -> SequenceKernel:
        return ALRNNKernel(int(self.n_relu))

    def _initial_decay(self, K: Array) -> Array:
        return K

    def _check_parameters(self, trajectories: Trajectories) -> None:
        if self.irregular not in _MODES:
            raise ParameterError(f"irregular={self.irregular!r} is not known; use one of {_MODES}.")
        super()._check_parameters(trajectories)

    def _prepare(self, trajectories: Trajectories, time_scale: float) -> Trajectories:
        if self.irregular == "interval" or _has_bins(trajectories, time_scale):
            return trajectories
        return interpolate(trajectories, time_scale, self.irregular)

    def _sequences(self, scaled: Trajectories, time_scale: float) -> Sequences:
        sequences = super()._sequences(scaled, time_scale)
        if self.irregular != "interval":
            return sequences
        extra = tuple(np.append(dt, 1.0)[:, None] for dt in sequences.dt)
        if sequences.controls is None:
            return replace(sequences, controls=extra)
        both = zip(sequences.controls, extra, strict=True)
        return replace(sequences, controls=tuple(np.hstack(pair) for pair in both))

    def _run(self, z0: Array, model_times: Array, u: Array | None) -> Array:
        if self.irregular == "interval":
            steps = np.append(np.diff(model_times), 1.0)[:, None]
            return super()._run(z0, model_times, steps if u is None else np.hstack([u, steps]))
        elapsed = model_times - model_times[0]
        bins = np.arange(int(np.ceil(elapsed[-1] - 1e-9)) + 1.0)
        held = None
        if u is not None:
            held = u[np.clip(np.searchsorted(elapsed, bins + 1e-9) - 1, 0, len(u) - 1)]
        runs = super()._run(z0, bins, held) if bins.size > 1 else None
        if runs is None:
            raise ParameterError("the requested times lie within one bin; ask for a longer span.")
        left = np.minimum(elapsed.astype(int), bins.size - 2)
        share = (elapsed - left)[:, None]
        return np.asarray((1.0 - share) * runs[:, left] + share * runs[:, left + 1])


def interpolate(trajectories: Trajectories, step: float, kind: str = "linear") -> Trajectories:
    """Recordings on a regular grid of ``step``, complete rows only going in.

    Parameters
    ----------
    trajectories : Trajectories
    step : float
        Grid spacing, in data time.
    kind : {"linear", "cubic", "gp"}
        Linear, cubic spline, or posterior mean of a Gaussian process fitted in local blocks.

    Raises
    ------
    DataError
        A recording has fewer than two complete rows, or spans more bins than fit into memory.

    Examples
    --------
    >>> t = np.array([0.0, 1.0, 3.0])
    >>> interpolate(Trajectories.from_arrays(t[:, None], t), 1.0).values[0].ravel()
    array([0., 1., 2., 3.])
    """
    if kind not in _KINDS:
        raise ParameterError(f"kind={kind!r} is not known; use one of {_KINDS}.")
    if not 0 < step < np.inf:
        raise ParameterError(f"step={step!r}; needed is a positive time in data units.")
    values, times, controls = [], [], []
    for n, (t, x) in enumerate(zip(trajectories.times, trajectories.values, strict=True)):
        complete = np.isfinite(x).all(axis=1)
        known_t, known_x = t[complete], x[complete]
        _check_grid(trajectories.labels[n], known_t, step)
        grid = np.arange(known_t[0], known_t[-1] + 0.5 * step, step)
        grid = grid[grid <= known_t[-1] + 1e-9 * step]
        values.append(_interpolated(grid, known_t, known_x, kind))
        times.append(grid)
        if trajectories.controls is not None:
            row = np.clip(np.searchsorted(t, grid + 1e-9 * step) - 1, 0, len(t) - 1)
            controls.append(trajectories.controls[n][row])
    return Trajectories.from_arrays(
        values,
        times,
        controls=controls or None,
        names=trajectories.names,
        units=trajectories.units,
        control_names=trajectories.control_names if controls else None,
        control_units=trajectories.control_units if controls else None,
        time_name=trajectories.time_name,
        time_unit=trajectories.time_unit,
        labels=trajectories.labels,
    )


def _check_grid(label: str, known_t: Array, step: float) -> None:
    if known_t.size < 2 or known_t[-1] - known_t[0] < step:
        raise DataError(
            f"recording {label!r} has {known_t.size} complete rows, which do not span one bin of "
            f"{step:.6g}; interpolation needs two bins. Leave the recording out, or use CPLRNN, "
            "which takes missing cells as they are."
        )
    n_bins = (known_t[-1] - known_t[0]) / step
    if n_bins > _MOST_BINS:
        raise DataError(
            f"recording {label!r} spans {n_bins:.3g} bins of {step:.6g}. Cut it at its gaps, give "
            'a longer time_scale, or use irregular="interval", which needs no bins.'
        )


def _has_bins(trajectories: Trajectories, step: float) -> bool:
    """Whether the stamps are complete and equally spaced by ``step`` already."""
    steps = (np.diff(t) for t in trajectories.times)
    return trajectories.complete and all(np.allclose(d, step, rtol=1e-3) for d in steps)


def _interpolated(grid: Array, t: Array, x: Array, kind: str) -> Array:
    if kind == "linear":
        return np.column_stack([np.interp(grid, t, column) for column in x.T])
    if kind == "cubic":
        from scipy.interpolate import CubicSpline

        return np.asarray(CubicSpline(t, x)(grid))
    return _gaussian_process(grid, t, x)


def _gaussian_process(grid: Array, t: Array, x: Array) -> Array:
    """Posterior mean in blocks that overlap by half, each value from the block it is central in."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    step = float(np.median(np.diff(t)))
    out = np.empty((grid.size, x.shape[1]))
    half = _BLOCK // 2
    for begin in range(0, max(t.size - half, 1), half):
        rows: Any = slice(begin, min(begin + _BLOCK, t.size))
        first = begin == 0
        last = rows.stop == t.size
        low = -np.inf if first else t[begin + half // 2]
        high = np.inf if last else t[min(begin + half + half // 2, t.size - 1)]
        inside = (grid >= low) & (grid < high)
        if inside.any():
            for n in range(x.shape[1]):
                kernel = ConstantKernel(1.0) * RBF(3.0 * step, (0.3 * step, 1e3 * step))
                process = GaussianProcessRegressor(
                    kernel + WhiteKernel(1e-3, (1e-8, 1.0)), normalize_y=True, random_state=0
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    process.fit(t[rows, None], x[rows, n])
                out[inside, n] = process.predict(grid[inside, None])
        if last:
            break
    return out
