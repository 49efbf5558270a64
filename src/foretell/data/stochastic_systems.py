"""Stochastic differential equations as generators of recordings.

dx = f(x) dt + g(x) dW, by the Euler-Maruyama formula with small steps inside a sample. Source of
the formula: Kloeden and Platen, "Numerical Solution of Stochastic Differential Equations" (1992).

Legend: B recordings, T samples, N variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError, as_generator
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]
RandomState = int | np.random.Generator | None
Field = Callable[[Array], Array]

_SUBSTEPS = 20


def langevin(
    drift: Field,
    noise: Field,
    starts: Array,
    n_samples: int,
    *,
    step: float,
    names: Sequence[str],
    random_state: RandomState = None,
) -> Trajectories:
    """Recordings of dx = drift(x) dt + noise(x) dW with independent noise in every variable.

    Parameters
    ----------
    drift, noise : callable
        From states (B, N) to (B, N).
    starts : array (B, N)
        First row of each recording.
    n_samples : int
        T, the rows of each recording.
    step : float
        Time between samples; 20 steps of the formula lie between.
    names : sequence of str
        Names of the variables.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> def pull(x): return -x
    >>> langevin(pull, np.ones_like, np.zeros((2, 1)), 50, step=0.1, names=["x"], random_state=0)
    <Trajectories: 2 recordings, 100 samples, median interval 0.1; x>
    """
    if n_samples < 2 or not step > 0:
        raise ParameterError(
            f"n_samples={n_samples} and step={step} must be 2 or more and positive."
        )
    rng = as_generator(random_state)
    x = np.array(starts, dtype=np.float64)
    h = step / _SUBSTEPS
    rows = [x.copy()]
    for _ in range(n_samples - 1):
        for _ in range(_SUBSTEPS):
            x = x + h * drift(x) + np.sqrt(h) * noise(x) * rng.standard_normal(x.shape)
        rows.append(x.copy())
    runs = np.stack(rows, axis=1)
    times = step * np.arange(n_samples)
    return Trajectories.from_arrays(list(runs), [times] * len(runs), names=names)


def double_well(
    n_samples: int = 3000,
    *,
    n_recordings: int = 1,
    step: float = 0.1,
    random_state: RandomState = None,
) -> Trajectories:
    """A particle between two wells, with noise that depends on the place.

    Notes
    -----
    dx = (x - x^3) dt + (0.5 + 0.25 tanh x) dW, starting in the wells.

    Examples
    --------
    >>> double_well(200, random_state=0)
    <Trajectories: 1 recording, 200 samples, median interval 0.1; x>
    """
    rng = as_generator(random_state)
    starts = rng.choice([-1.0, 1.0], size=(n_recordings, 1))
    return langevin(
        lambda x: x - x**3, lambda x: 0.5 + 0.25 * np.tanh(x), starts, n_samples, step=step,
        names=["x"], random_state=rng,
    )  # fmt: skip


def noisy_spiral(
    n_samples: int = 3000,
    *,
    n_recordings: int = 1,
    step: float = 0.1,
    damping: float = 0.5,
    frequency: float = 2.0,
    noise: float = 0.5,
    random_state: RandomState = None,
) -> Trajectories:
    """A damped rotation that noise keeps alive: an Ornstein-Uhlenbeck process in the plane.

    Notes
    -----
    dx = [[-a, w], [-w, -a]] x dt + s dW; each variable has the variance s^2 / (2 a).

    Examples
    --------
    >>> noisy_spiral(200, random_state=0)
    <Trajectories: 1 recording, 200 samples, median interval 0.1; x, y>
    """
    rng = as_generator(random_state)
    matrix = np.array([[-damping, frequency], [-frequency, -damping]])
    starts = noise / np.sqrt(2 * damping) * rng.standard_normal((n_recordings, 2))
    return langevin(
        lambda x: x @ matrix.T, lambda x: np.full_like(x, noise), starts, n_samples, step=step,
        names=["x", "y"], random_state=rng,
    )  # fmt: skip


def noisy_oscillator(
    n_samples: int = 3000,
    *,
    n_recordings: int = 1,
    step: float = 0.1,
    noise: float = 0.5,
    random_state: RandomState = None,
) -> Trajectories:
    """Van der Pol's oscillator, pushed at random: a limit cycle whose phase wanders.

    Notes
    -----
    dx = y dt, dy = ((1 - x^2) y - x) dt + s dW.

    Examples
    --------
    >>> noisy_oscillator(200, random_state=0)
    <Trajectories: 1 recording, 200 samples, median interval 0.1; x, y>
    """
    rng = as_generator(random_state)

    def drift(s: Array) -> Array:
        x, y = s[:, 0], s[:, 1]
        return np.stack([y, (1 - x**2) * y - x], axis=1)

    strength = np.array([0.0, noise])
    starts = 2 * rng.standard_normal((n_recordings, 2))
    return langevin(
        drift, lambda x: np.broadcast_to(strength, x.shape), starts, n_samples, step=step,
        names=["x", "y"], random_state=rng,
    )  # fmt: skip
