"""How far a sampler may be asked to go: intervals, and states beyond what was recorded."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from foretell.core import ForetellWarning, ParameterError
from foretell.dynamics.lifting.scale import Scale

Array = NDArray[np.float64]

_OUTSIDE = 6.0  # standard deviations beyond the range that was seen
_ESCAPED = 50.0
_EVEN = 0.02  # how far an interval may be from a multiple of the step


def substeps(interval: float, step: float, seen: tuple[float, float] | None) -> int:
    """In how many steps an interval is gone.

    Parameters
    ----------
    interval : float
    step : float
        The usual interval of the recordings.
    seen : tuple of float, or None
        Shortest and longest interval that the model learned from; None where it knows one only.

    Raises
    ------
    ParameterError
        It is not a multiple of the only step, or shorter than anything that was recorded.
    """
    if seen is not None:
        n = max(1, int(np.ceil(interval / seen[1] - 1e-9)))
        if interval / n < 0.5 * seen[0]:
            raise ParameterError(
                f"times ask for a step of {interval / n:.6g}, and the recordings have none "
                f"shorter than {seen[0]:.6g}; how it scatters there was not seen. Ask for steps "
                "of that length or more."
            )
        return n
    ratio = interval / step
    n = max(1, round(ratio))
    if abs(ratio - n) > min(_EVEN * n, 0.25):
        raise ParameterError(
            f"times ask for an interval of {interval:.6g}; this model knows steps of {step:.6g} "
            "only, so intervals must be multiples of it. For others fit with dt_feature=True to "
            "recordings whose intervals vary."
        )
    return n


def point_out_extrapolation(states: Array, scale: Scale, names: tuple[str, ...]) -> None:
    """Warn where runs (B, S, T, n) are far outside of what was recorded."""
    margin = _OUTSIDE * scale.spread
    with np.errstate(invalid="ignore"):
        far = (states < scale.low - margin) | (states > scale.high + margin)
    if far.any():
        n = int(far.reshape(-1, far.shape[-1]).any(axis=0).argmax())
        warnings.warn(
            f"{names[n]} goes more than {_OUTSIDE:.0f} standard deviations beyond the range that "
            f"was recorded ({scale.low[n]:.4g} to {scale.high[n]:.4g}) in "
            f"{100 * far.any(axis=(2, 3)).mean():.2g} % of the runs; the model knows nothing "
            "there.",
            ForetellWarning,
            stacklevel=5,
        )


def without_escape(values: Array, scale: Scale) -> Array:
    """A run (T, n) with NaN from where it is far beyond anything that was recorded."""
    near = np.abs(values[1:] - scale.mean) < _ESCAPED * scale.spread
    gone = np.logical_or.accumulate(np.r_[False, ~near.all(axis=1)])
    return np.where(gone[:, None], np.nan, values)
