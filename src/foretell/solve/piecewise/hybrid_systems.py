"""Benchmark systems with exact solutions and exact event times.

Each function returns a `PWLHybridSystem`. Between events the solutions are closed-form, so these
are ground truth for methods that must find events in data.
"""

from __future__ import annotations

from foretell.core.errors import ParameterError
from foretell.solve.piecewise.hybrid import PWLHybridSystem
from foretell.solve.piecewise.hybrid_records import AffineMode, Guard


def bouncing_ball(restitution: float = 0.8, gravity: float = 9.81) -> PWLHybridSystem:
    """A ball on a floor; state (height, velocity), one guard at height 0.

    Parameters
    ----------
    restitution : float
        Ratio of the speeds after and before a bounce, in (0, 1].
    gravity : float
        Positive.

    Raises
    ------
    ParameterError
        For values out of range.

    Examples
    --------
    >>> bouncing_ball(0.5, gravity=2.0).simulate([1.0, 0.0], [0.0, 2.2]).jumps.times
    array([1., 2.])
    """
    if not 0 < restitution <= 1 or not gravity > 0:
        raise ParameterError(
            f"restitution={restitution}, gravity={gravity}: needed are 0 < restitution <= 1 and "
            "gravity > 0."
        )
    fall = AffineMode([[0.0, 1.0], [0.0, 0.0]], [0.0, -gravity])
    bounce = Guard(
        mode=0,
        target=0,
        normal=[1.0, 0.0],
        level=0.0,
        direction=-1,
        reset_matrix=[[0.0, 0.0], [0.0, -restitution]],
    )
    return PWLHybridSystem([fall], [bounce])


def lif(
    resistance: float = 5.0,
    capacitance: float = 1e-3,
    current: float = 0.25,
    threshold: float = 1.0,
    reset: float = 0.0,
) -> PWLHybridSystem:
    """The leaky integrate-and-fire neuron, C dV/dt = -V / R + I, V -> reset at threshold.

    Parameters
    ----------
    resistance, capacitance, current : float
        R, C (positive) and I; the time unit is that of R C.
    threshold, reset : float
        The potential at which it fires, and the one after that, which must be lower.

    Raises
    ------
    ParameterError
        For values out of range.

    Examples
    --------
    >>> lif().simulate([0.0], [0.0, 0.01]).jumps.times  # R C log(R I / (R I - threshold))
    array([0.00804719])
    """
    if not (resistance > 0 and capacitance > 0) or not reset < threshold:
        raise ParameterError(
            f"resistance={resistance}, capacitance={capacitance}, reset={reset}, "
            f"threshold={threshold}: needed are positive R and C, and reset < threshold."
        )
    leak = AffineMode([[-1.0 / (resistance * capacitance)]], [current / capacitance])
    fire = Guard(
        mode=0,
        target=0,
        normal=[1.0],
        level=threshold,
        direction=1,
        reset_matrix=[[0.0]],
        reset_offset=[reset],
    )
    return PWLHybridSystem([leak], [fire])


def relay(rate: float = 1.0, drive: float = 1.0, hysteresis: float = 0.5) -> PWLHybridSystem:
    """Relay feedback with hysteresis (a thermostat), dx/dt = -rate x +- drive.

    Mode 0 drives up until x = hysteresis, mode 1 down until x = -hysteresis; the cycle has period
    (2 / rate) log((drive + rate hysteresis) / (drive - rate hysteresis)).

    Parameters
    ----------
    rate, drive, hysteresis : float
        Positive, with rate * hysteresis < drive.

    Raises
    ------
    ParameterError
        For values out of range.

    Examples
    --------
    >>> relay().simulate([-0.5], [0.0, 2.5]).jumps.times.round(6)  # log 3, 2 log 3
    array([1.098612, 2.197225])
    """
    if not min(rate, drive, hysteresis) > 0 or not rate * hysteresis < drive:
        raise ParameterError(
            f"rate={rate}, drive={drive}, hysteresis={hysteresis}: all must be positive, and "
            "rate * hysteresis < drive, or the relay never switches."
        )
    modes = [AffineMode([[-rate]], [drive]), AffineMode([[-rate]], [-drive])]
    guards = [
        Guard(mode=0, target=1, normal=[1.0], level=hysteresis, direction=1),
        Guard(mode=1, target=0, normal=[1.0], level=-hysteresis, direction=-1),
    ]
    return PWLHybridSystem(modes, guards)


def mckean(
    threshold: float = 0.25, rate: float = 0.1, decay: float = 0.2, current: float = 0.0
) -> PWLHybridSystem:
    """McKean's nerve model with a step: a discontinuous field without resets, excitable by default.

    dv/dt = -v + H(v - threshold) - w + current, dw/dt = rate (v - decay w); mode 1 lies above the
    threshold.

    Parameters
    ----------
    threshold, rate, decay, current : float
        As in the equations; rate > 0.

    Raises
    ------
    ParameterError
        For a rate that is not positive.

    Examples
    --------
    >>> run = mckean().simulate([0.3, 0.0], [0.0, 5.0, 200.0])  # one pulse, then rest
    >>> run.modes, run.jumps.modes_after
    (array([1, 1, 0]), array([0]))
    """
    if not rate > 0:
        raise ParameterError(f"rate={rate} must be positive.")
    matrix = [[-1.0, -1.0], [rate, -rate * decay]]
    modes = [AffineMode(matrix, [current, 0.0]), AffineMode(matrix, [current + 1.0, 0.0])]
    normal = [1.0, 0.0]
    guards = [
        Guard(mode=0, target=1, normal=normal, level=threshold, direction=1),
        Guard(mode=1, target=0, normal=normal, level=threshold, direction=-1),
    ]
    return PWLHybridSystem(modes, guards)


def chua(
    alpha: float = 9.0,
    beta: float = 100.0 / 7.0,
    inner_slope: float = -8.0 / 7.0,
    outer_slope: float = -5.0 / 7.0,
) -> PWLHybridSystem:
    """Chua's circuit, three affine modes of one continuous field (double scroll by default).

    dx/dt = alpha (y - x - f(x)), dy/dt = x - y + z, dz/dt = -beta y, with f of slope `inner_slope`
    on |x| <= 1 (mode 0) and `outer_slope` beyond (mode 1 right, mode 2 left).

    Parameters
    ----------
    alpha, beta, inner_slope, outer_slope : float
        As in the equations.

    Examples
    --------
    >>> chua().locate([-3.0, 0.0, 0.0])
    2
    """

    def mode(slope: float, constant: float) -> AffineMode:
        matrix = [[-alpha * (1.0 + slope), alpha, 0.0], [1.0, -1.0, 1.0], [0.0, -beta, 0.0]]
        return AffineMode(matrix, [-alpha * constant, 0.0, 0.0])

    step = inner_slope - outer_slope
    normal = [1.0, 0.0, 0.0]
    guards = [
        Guard(mode=0, target=1, normal=normal, level=1.0, direction=1),
        Guard(mode=0, target=2, normal=normal, level=-1.0, direction=-1),
        Guard(mode=1, target=0, normal=normal, level=1.0, direction=-1),
        Guard(mode=2, target=0, normal=normal, level=-1.0, direction=1),
    ]
    return PWLHybridSystem(
        [mode(inner_slope, 0.0), mode(outer_slope, step), mode(outer_slope, -step)], guards
    )
