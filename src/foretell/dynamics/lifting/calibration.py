"""How wide the draws should be, measured on transitions that no network was fitted to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST, MOST = 0.5, 2.0
_FLAT = 2.0  # kurtosis; a Gaussian has 3, a flat law 1.8, two points 1
_FEWEST = 50


def choose_temperature(
    residual: Array, drawn: Array, n_channels: int, *, most: float = MOST
) -> tuple[Array, Array]:
    """Factor on the draws with which their variance is the mean square of the residuals.

    The residuals hold the error of the mean network too, so the draws get the width of what is not
    known (spread over skill 1), which is the pure noise only where the mean is good.

    Parameters
    ----------
    residual : array (N, n)
        Held-out targets minus the mean network.
    drawn : array (N, draws, n)
        Draws of the label network at the same states.
    n_channels : int
        One factor for each.
    most : float
        Largest factor.

    Returns
    -------
    raw, kept : arrays (n_channels,)
        As measured, and kept between 0.5 and ``most``.
    """
    N = len(residual)
    wanted = (residual**2).reshape(N, n_channels, -1).mean(axis=(0, 2))
    found = drawn.var(axis=1, ddof=1).reshape(N, n_channels, -1).mean(axis=(0, 2))
    raw = np.sqrt(wanted / np.maximum(found, 1e-300))
    return raw, np.clip(raw, LEAST, most)


def flat_residuals(residual: Array, n_channels: int) -> NDArray[np.bool_]:
    """Channels whose residuals are flat or two-peaked, (n_channels,).

    One step of a lifted model is close to a Gaussian with the covariance of the residuals; where
    the kurtosis is under 2 this is not what the data do.
    """
    if len(residual) < _FEWEST:
        return np.zeros(n_channels, dtype=bool)
    by_channel = residual.reshape(len(residual), n_channels, -1)
    by_channel = by_channel - by_channel.mean(axis=0)
    second = (by_channel**2).mean(axis=(0, 2))
    fourth = (by_channel**4).mean(axis=(0, 2))
    return np.asarray(fourth < _FLAT * np.maximum(second, 1e-300) ** 2)
