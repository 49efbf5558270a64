"""Walkers: no flow in explicit form, so steps are integrated to 1e-12 and impacts root-found.

Legend: T samples, n state variables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.data.hybrid_systems import JumpingSystem, JumpRecordings, RandomState, record

Array = NDArray[np.float64]

_LONGEST = 100.0  # time within which the next spoke has to land


def rimless_wheel(
    n_recordings: int = 1,
    n_samples: int = 100,
    *,
    half_angle: float = 0.4,
    slope: float = 0.2,
    step: float = 0.05,
    random_state: RandomState = None,
) -> JumpRecordings:
    """A wheel of spokes without a rim, rolling down a slope; state (angle, speed).

    The spoke on the ground is an inverted pendulum, angle'' = sin(angle) in units of the pendulum's
    time. When the angle reaches slope + half_angle the next spoke lands: the angle becomes
    slope - half_angle, and the speed is multiplied by cos(2 half_angle).

    Parameters
    ----------
    n_recordings, n_samples : int
        B and T.
    half_angle : float
        Half the angle between two spokes, alpha.
    slope : float
        Of the ground, gamma.
    step : float
        Time between samples.
    random_state : int, Generator or None
        Of the speed with which the first spoke lands.

    Raises
    ------
    ParameterError
        The slope is too flat to keep the wheel rolling, or angles are out of range.

    Notes
    -----
    T. McGeer, "Passive dynamic walking", Int. J. Robotics Research 9 (1990) 62-82.

    Examples
    --------
    >>> rimless_wheel(2, 100, random_state=0)
    JumpRecordings(2 recordings, 6 jumps)
    """
    rest = steady_speed(half_angle, slope)
    begin, end = slope - half_angle, slope + half_angle
    if begin < 0 and rest**2 / 2 <= 1 - np.cos(begin):
        raise ParameterError(
            f"half_angle={half_angle}, slope={slope}: the wheel does not get over its next spoke. "
            "Needed is a steeper slope, for instance 0.2 with half_angle=0.4."
        )
    slowest = float(np.sqrt(max(2 * (1 - np.cos(begin)), 0.0))) if begin < 0 else 0.0
    speeds = np.random.default_rng(random_state).uniform(
        slowest + 0.3 * (rest - slowest), 1.5 * rest, n_recordings
    )
    starts = np.column_stack([np.full(n_recordings, begin), speeds])
    system = JumpingSystem(
        _fall, lambda z: _landing(z, end),
        lambda z: np.array([begin, np.cos(2 * half_angle) * z[1]]), ("angle", "speed"),
    )  # fmt: skip
    return record(system, starts, n_samples, step)


def steady_speed(half_angle: float = 0.4, slope: float = 0.2) -> float:
    """Speed after an impact at which the wheel rolls on steadily, from the balance of energy.

    Examples
    --------
    >>> round(steady_speed(), 6)
    0.54028
    """
    if not 0 < half_angle < np.pi / 4 or not 0 < slope < np.pi / 2:
        raise ParameterError(
            f"half_angle={half_angle}, slope={slope}: needed are 0 < half_angle < pi / 4 and "
            "0 < slope < pi / 2."
        )
    kept = np.cos(2 * half_angle) ** 2
    gained = 2 * (np.cos(slope - half_angle) - np.cos(slope + half_angle))
    return float(np.sqrt(kept * gained / (1 - kept)))


def _velocity(t: float, z: Array) -> list[float]:
    return [z[1], float(np.sin(z[0]))]


def _fall(z: Array, after: Array) -> Array:
    from scipy.integrate import solve_ivp

    if after.size == 0:
        return np.empty((0, 2))
    if after[-1] == 0.0:
        return np.tile(z, (after.size, 1))
    done = solve_ivp(
        _velocity, (0.0, float(after[-1])), z, method="DOP853", t_eval=after, rtol=1e-12, atol=1e-13
    )
    return np.asarray(done.y.T)


def _landing(z: Array, end: float) -> float:
    from scipy.integrate import solve_ivp

    def passes(t: float, state: Array) -> float:
        return float(state[0]) - end

    passes.terminal, passes.direction = True, 1  # type: ignore[attr-defined]
    done = solve_ivp(
        _velocity, (0.0, _LONGEST), z, method="DOP853", events=passes, rtol=1e-12, atol=1e-13
    )
    if done.t_events[0].size == 0:
        raise NumericalError(
            f"the wheel comes to rest: from {z.tolist()} no spoke lands within {_LONGEST:g} units "
            "of time. Use a steeper slope."
        )
    return float(done.t_events[0][0])
