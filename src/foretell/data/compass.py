"""The compass gait: two stiff legs with a heavy hip walk down a slope without a motor.

Legend: angles from the vertical, s of the stance leg and n of the swing leg; T samples.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.data.hybrid_systems import JumpingSystem, JumpRecordings, RandomState, record

Array = NDArray[np.float64]

LEG_MASS, HIP_MASS, BELOW, ABOVE, GRAVITY = 5.0, 10.0, 0.5, 0.5, 9.81
LENGTH = BELOW + ABOVE
_THREE_DEGREES = np.deg2rad(3.0)
_GAIT = np.array([0.27105, -1.0918, -0.3772])  # near the steady one there: half angle, rates
_APART = 0.05  # angle between the legs below which a crossing of the slope is scuffing
_BY = np.deg2rad(0.6)  # by which a gait is followed from slope to slope
_LONGEST = 3.0  # s, within which the foot has to land


def compass_gait(
    n_recordings: int = 1,
    n_samples: int = 100,
    *,
    slope: float = _THREE_DEGREES,
    step: float = 0.02,
    spread: float = 0.02,
    random_state: RandomState = None,
) -> JumpRecordings:
    """A passive walker; state (stance, swing, stance_rate, swing_rate), in rad and rad/s.

    When the foot of the swing leg lands in front, stance + swing = -2 slope, the legs change names,
    and the rates jump: the angular momentum of the walker about the foot that lands is kept, and
    that of the leg behind about the hip.

    Parameters
    ----------
    n_recordings, n_samples : int
        B and T.
    slope : float
        Of the ground, in rad. Around 3 degrees it walks steadily; towards 5 degrees steps alternate
        and then become irregular.
    step : float
        Time between samples, in s.
    spread : float
        By what share starts differ from the steady gait of 3 degrees.
    random_state : int, Generator or None
        Of the starts.

    Raises
    ------
    ParameterError
        The slope is outside of 2 to 5.2 degrees.
    NumericalError
        The walker falls.

    Notes
    -----
    A. Goswami, B. Thuilot, B. Espiau, "A study of the passive gait of a compass-like biped robot",
    Int. J. Robotics Research 17 (1998) 1282-1301: legs of 5 kg and 1 m, the mass halfway, a hip of
    10 kg.

    Examples
    --------
    >>> compass_gait(2, 100, random_state=0).trajectories.names
    ('stance', 'swing', 'stance_rate', 'swing_rate')
    """
    if not np.deg2rad(2.0) <= slope <= np.deg2rad(5.2):
        raise ParameterError(
            f"slope={slope:.4g}; the walker stays on its feet between about 0.035 and 0.09 rad "
            "(2 to 5.2 degrees). Write slope=np.deg2rad(3)."
        )
    rng = np.random.default_rng(random_state)
    off = 1.0 + spread * rng.uniform(-1.0, 1.0, (n_recordings, 3))
    starts = np.array([after_landing(row, slope) for row in steady_gait(_THREE_DEGREES) * off])
    system = JumpingSystem(
        _swing, lambda z: landing(z, slope), heel_strike,
        ("stance", "swing", "stance_rate", "swing_rate"),
    )  # fmt: skip
    return record(system, starts, n_samples, step)


def after_landing(gait: Array, slope: float) -> Array:
    """The state after a landing from half the angle between the legs and the two rates."""
    return np.array([gait[0] - slope, -gait[0] - slope, gait[1], gait[2]])


def next_gait(gait: Array, slope: float) -> Array:
    """The step map: half the angle between the legs and the rates after the next landing."""
    z = after_landing(gait, slope)
    end = heel_strike(_swing(z, np.array([landing(z, slope)]))[0])
    return np.array([(end[0] - end[1]) / 2, end[2], end[3]])


@lru_cache(maxsize=8)
def _steady(slope: float) -> tuple[float, ...]:
    from scipy.optimize import fsolve

    found, n = _GAIT, int(np.ceil(abs(slope - _THREE_DEGREES) / _BY)) + 1
    for part in np.linspace(_THREE_DEGREES, slope, n):
        found = fsolve(lambda g, at=float(part): next_gait(g, at) - g, found, xtol=1e-12)
    return tuple(float(v) for v in found)


def steady_gait(slope: float = _THREE_DEGREES) -> Array:
    """The gait that repeats after one step, followed from the one of 3 degrees.

    Examples
    --------
    >>> steady_gait().round(4)
    array([ 0.271 , -1.0924, -0.3774])
    """
    return np.array(_steady(float(slope)))


def energy(states: Array) -> tuple[Array, Array]:
    """Kinetic and potential energy (T,) of states (T, 4), above the stance foot, in J."""
    s, n, ds, dn = np.moveaxis(np.asarray(states, dtype=np.float64), -1, 0)
    m, M, a, b, g = LEG_MASS, HIP_MASS, BELOW, ABOVE, GRAVITY
    kinetic = 0.5 * ((M + m) * LENGTH**2 + m * a**2) * ds**2 + 0.5 * m * b**2 * dn**2
    kinetic = kinetic - m * LENGTH * b * np.cos(s - n) * ds * dn
    height = (m * a + M * LENGTH + m * LENGTH) * np.cos(s) - m * b * np.cos(n)
    return kinetic, g * height


def heel_strike(z: Array) -> Array:
    """The state after the swing foot has landed, the legs renamed."""
    s, n = float(z[0]), float(z[1])
    hip = LENGTH * _along(s)
    foot = hip - LENGTH * _along(n)
    lead, trail = hip - ABOVE * _along(n), hip - ABOVE * _along(s)

    def momenta(v_hip: Array, v_lead: Array, v_trail: Array) -> Array:
        whole = HIP_MASS * _cross(hip - foot, v_hip) + LEG_MASS * (
            _cross(lead - foot, v_lead) + _cross(trail - foot, v_trail)
        )
        return np.array([whole, LEG_MASS * _cross(trail - hip, v_trail)])

    def before(ds: float, dn: float) -> Array:
        v_hip = LENGTH * ds * _turn(s)
        return momenta(v_hip, v_hip - ABOVE * dn * _turn(n), v_hip - ABOVE * ds * _turn(s))

    def after(stance: float, swing: float) -> Array:
        v_hip = LENGTH * stance * _turn(n)
        return momenta(v_hip, v_hip - ABOVE * stance * _turn(n), v_hip - ABOVE * swing * _turn(s))

    matrix = np.column_stack([after(1.0, 0.0), after(0.0, 1.0)])
    rates = np.linalg.solve(matrix, before(float(z[2]), float(z[3])))
    return np.array([n, s, rates[0], rates[1]])


def landing(z: Array, slope: float) -> float:
    """Time until the swing foot lands in front.

    Raises
    ------
    NumericalError
        It does not: the walker falls.
    """
    from scipy.integrate import solve_ivp

    def above(t: float, x: Array) -> float:
        return float(x[0] + x[1] + 2 * slope)

    above.direction = -1  # type: ignore[attr-defined]
    done = solve_ivp(
        _rates, (0.0, _LONGEST), z, method="DOP853", events=[above, _fallen], rtol=1e-11, atol=1e-12
    )
    for t, x in zip(done.t_events[0], done.y_events[0], strict=True):
        if x[1] - x[0] > _APART:
            return float(t)
    raise NumericalError(
        f"the walker falls: from {np.round(z, 4).tolist()} its foot does not land in front. Start "
        "nearer to the steady gait (a smaller spread), or use a slope around 0.052."
    )


def _fallen(t: float, x: Array) -> float:
    return float(1.2 - abs(x[0]))


_fallen.terminal = True  # type: ignore[attr-defined]


def _rates(t: float, z: Array) -> Array:
    s, n, ds, dn = z
    m, M, a, b, g, length = LEG_MASS, HIP_MASS, BELOW, ABOVE, GRAVITY, LENGTH
    c, k = m * length * b * np.cos(s - n), m * length * b * np.sin(s - n)
    A, B = (M + m) * length**2 + m * a**2, m * b**2
    p = k * dn**2 + (m * a + M * length + m * length) * g * np.sin(s)
    q = -k * ds**2 - m * b * g * np.sin(n)
    det = A * B - c**2
    return np.array([ds, dn, (B * p + c * q) / det, (c * p + A * q) / det])


def _swing(z: Array, after: Array) -> Array:
    from scipy.integrate import solve_ivp

    if after.size == 0:
        return np.empty((0, 4))
    if after[-1] == 0.0:
        return np.tile(z, (after.size, 1))
    done = solve_ivp(
        _rates, (0.0, float(after[-1])), z, method="DOP853", t_eval=after, rtol=1e-11, atol=1e-12
    )
    return np.asarray(done.y.T)


def _along(angle: float) -> Array:
    return np.array([-np.sin(angle), np.cos(angle)])


def _turn(angle: float) -> Array:
    return np.array([-np.cos(angle), -np.sin(angle)])


def _cross(r: Array, v: Array) -> float:
    return float(r[0] * v[1] - r[1] * v[0])
