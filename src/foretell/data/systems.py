"""Systems with known equations, as generators of recordings.

Smooth systems use the eighth-order Runge-Kutta formula of Dormand and Prince with a fixed fine
step (its coefficients come from SciPy). Piecewise-linear systems are exact: inside a region the
flow is a Taylor series summed to rounding error, and boundaries are located by bisection.

Legend: T samples, M units of a piecewise-linear field, P of them rectified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.data import _integrate
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]
RandomState = int | np.random.Generator | None


class FieldArrays(TypedDict):
    """Coefficients of dz/dt = A z + W phi(z) + h whose last ``n_relu`` units are rectified."""

    A: Array
    W: Array
    h: Array
    n_relu: int


def lorenz63(
    n_samples: int,
    *,
    step: float = 0.01,
    sigma: float = 10.0,
    rho: float = 28.0,
    beta: float = 8.0 / 3.0,
    initial: Sequence[float] | None = None,
    transient: float = 20.0,
    random_state: RandomState = None,
) -> Trajectories:
    """Lorenz's convection model, chaotic at the default parameters.

    Parameters
    ----------
    n_samples : int
        T, the number of rows.
    step : float
        Time between samples.
    sigma, rho, beta : float
        Parameters of the equations.
    initial : three numbers, optional
        State at the first sample; ``transient`` is then not used. Default: a random start.
    transient : float
        Time that a random start runs before the first sample.
    random_state : int, Generator or None

    Notes
    -----
    dx/dt = sigma (y - x), dy/dt = x (rho - z) - y, dz/dt = x y - beta z.
    E. N. Lorenz, "Deterministic nonperiodic flow", J. Atmos. Sci. 20 (1963) 130-141.

    Examples
    --------
    >>> lorenz63(100, random_state=0)
    <Trajectories: 1 recording, 100 samples, median interval 0.01; x, y, z>
    """
    start, transient = _start([0.0, 0.0, 25.0], 5.0, initial, transient, random_state)
    return _smooth(
        _integrate.LORENZ63, start, (sigma, rho, beta), n_samples, step, transient, 0.0025, "xyz"
    )


def lorenz96(
    n_samples: int,
    *,
    n_variables: int = 10,
    forcing: float = 8.0,
    step: float = 0.05,
    initial: Sequence[float] | None = None,
    transient: float = 20.0,
    random_state: RandomState = None,
) -> Trajectories:
    """Lorenz's ring of ``n_variables`` coupled sites.

    Parameters are as in `lorenz63`; ``forcing`` is F.

    Notes
    -----
    dx_i/dt = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + F, indices modulo the number of sites.
    E. N. Lorenz, "Predictability: a problem partly solved", ECMWF seminar 1996.

    Examples
    --------
    >>> lorenz96(50, n_variables=5, random_state=0).n_variables
    5
    """
    if n_variables < 4:
        raise ParameterError(f"n_variables={n_variables}; the ring needs at least 4 sites.")
    start, transient = _start([forcing] * n_variables, 1.0, initial, transient, random_state)
    names = [f"x{i}" for i in range(n_variables)]
    return _smooth(_integrate.LORENZ96, start, (forcing,), n_samples, step, transient, 0.005, names)


def rossler(
    n_samples: int,
    *,
    step: float = 0.08,
    a: float = 0.2,
    b: float = 0.2,
    c: float = 5.7,
    initial: Sequence[float] | None = None,
    transient: float = 200.0,
    random_state: RandomState = None,
) -> Trajectories:
    """Roessler's band, chaotic at the default parameters.

    Parameters are as in `lorenz63`.

    Notes
    -----
    dx/dt = -y - z, dy/dt = x + a y, dz/dt = b + z (x - c).
    O. E. Roessler, "An equation for continuous chaos", Phys. Lett. A 57 (1976) 397-398.

    Examples
    --------
    >>> rossler(50, random_state=0).names
    ('x', 'y', 'z')
    """
    start, transient = _start([1.0, 1.0, 0.0], 0.5, initial, transient, random_state)
    return _smooth(_integrate.ROSSLER, start, (a, b, c), n_samples, step, transient, 0.01, "xyz")


def chua(
    n_samples: int,
    *,
    step: float = 0.05,
    initial: Sequence[float] | None = None,
    transient: float = 100.0,
    random_state: RandomState = None,
    **parameters: float,
) -> Trajectories:
    """Chua's circuit, chaotic (double scroll) at the default parameters; exact.

    Parameters are as in `lorenz63`; ``parameters`` go to `chua_field`.

    Examples
    --------
    >>> chua(50, random_state=0).names
    ('x', 'y', 'z')
    """
    start, transient = _start([0.5, 0.0, 0.0], 0.1, initial, transient, random_state)
    field = chua_field(**parameters)
    lifted = np.concatenate((start, [start[0] + 1.0, start[0] - 1.0]))
    return piecewise_linear(
        field, n_samples, step=step, initial=lifted, transient=transient, names=["x", "y", "z"]
    )


def chua_field(
    *,
    alpha: float = 15.6,
    beta: float = 28.0,
    inner_slope: float = -8.0 / 7.0,
    outer_slope: float = -5.0 / 7.0,
    attraction: float = 1.0,
) -> FieldArrays:
    """Chua's circuit as a piecewise-linear field with M = 5 units, P = 2 of them rectified.

    The units are x, y, z and r1 = x + 1, r2 = x - 1. See `pl_fitzhugh_nagumo_field` for
    ``attraction``.

    Notes
    -----
    dx/dt = alpha (y - x - f(x)), dy/dt = x - y + z, dz/dt = -beta y, where f has the inner slope
    for |x| < 1 and the outer slope outside. L. O. Chua, M. Komuro, T. Matsumoto, "The double
    scroll family", IEEE Trans. Circuits Syst. 33 (1986) 1072-1118.

    Examples
    --------
    >>> chua_field()["n_relu"]
    2
    """
    # f(x) = outer x + (inner - outer) (relu(x + 1) - relu(x - 1) - 1)
    bend = alpha * (inner_slope - outer_slope)
    A = np.array([-alpha * (1.0 + outer_slope), -1.0, 0.0])
    W = np.array([[0.0, alpha, 0.0, -bend, bend], [1.0, 0, 1.0, 0, 0], [0, -beta, 0, 0, 0]])
    return _lift(A, W, np.array([bend, 0.0, 0.0]), (-1.0, 1.0), attraction)


def pl_fitzhugh_nagumo_field(
    *,
    a: float = 0.25,
    epsilon: float = 0.2,
    gamma: float = 0.5,
    current: float = 0.5,
    attraction: float = 1.0,
) -> FieldArrays:
    """A neuron model in three linear pieces: M = 4 units, P = 2 of them rectified.

    The units are v, w and two rectified copies r1 = v - a/2 and r2 = v - (1 + a)/2. The default
    parameters have a stable limit cycle of period 20.200101354512.

    Parameters
    ----------
    a, epsilon, gamma, current : float
        Parameters of the equations.
    attraction : float
        Rate at which a state with r1 != v - a/2 (or r2) returns to agreement. Agreement is kept
        exactly for every rate. With 0 the mismatch is conserved instead: the matrices of all
        regions are then singular and every cycle has two more multipliers equal to 1.

    Notes
    -----
    dv/dt = -v + 2 relu(v - a/2) - 2 relu(v - (1 + a)/2) - w + current,
    dw/dt = epsilon (v - gamma w). H. P. McKean, "Nagumo's equation", Adv. Math. 4 (1970) 209-223.

    Examples
    --------
    >>> field = pl_fitzhugh_nagumo_field()
    >>> field["W"].shape, field["n_relu"]
    ((4, 4), 2)
    """
    A = np.array([-1.0, -epsilon * gamma])
    W = np.array([[0.0, -1.0, 2.0, -2.0], [epsilon, 0.0, 0.0, 0.0]])
    return _lift(A, W, np.array([current, 0.0]), (a / 2.0, (1.0 + a) / 2.0), attraction)


def piecewise_linear(
    field: FieldArrays,
    n_samples: int,
    *,
    step: float,
    initial: Sequence[float] | Array,
    transient: float = 0.0,
    names: Sequence[str] | None = None,
    max_step: float = 0.01,
) -> Trajectories:
    """Follow a continuous piecewise-linear field exactly and record its first units.

    Parameters
    ----------
    field : dict with A, W, h and n_relu
        For example from `chua_field`.
    n_samples, step, transient
        As in `lorenz63`.
    initial : M numbers
        State at the start.
    names : sequence of str, optional
        Names of the recorded leading units; default all M.
    max_step : float
        Longest piece between two looks at the region code. A unit that crosses zero and returns
        within one piece is not noticed.

    Examples
    --------
    >>> field = pl_fitzhugh_nagumo_field()
    >>> start = [0, 0, -0.125, -0.625]
    >>> run = piecewise_linear(field, 40, step=0.5, initial=start, names=["v", "w"])
    >>> run.n_variables
    2
    """
    A, W, h = (np.ascontiguousarray(field[k], dtype=np.float64) for k in ("A", "W", "h"))
    start = np.array(initial, dtype=np.float64)
    if start.shape != A.shape:
        raise ParameterError(f"initial has shape {start.shape}; needed is {A.shape}.")
    names = [f"z{i}" for i in range(A.size)] if names is None else names
    n_lead, substeps = _grid(n_samples, step, transient, max_step)
    states = _integrate.piecewise_linear(
        A, W, h, int(field["n_relu"]), start, step, n_lead + n_samples, substeps
    )
    return _recording(states[n_lead:, : len(names)], step, names)


def lif_neuron(
    n_samples: int = 1000,
    *,
    step: float = 1e-4,
    resistance: float = 5.0,
    capacitance: float = 1e-3,
    current: float = 0.25,
    threshold: float = 1.0,
    reset: float = 0.0,
    initial: float = 0.0,
    keep: float = 1.0,
    random_state: RandomState = None,
) -> Trajectories:
    """A leaky integrate-and-fire neuron by Euler's rule; its period is 80 samples by default.

    Parameters
    ----------
    n_samples : int
        Rows before thinning.
    step : float
        Time between rows, in seconds.
    resistance, capacitance, current, threshold, reset : float
        R, C, I, V_th and the voltage after a spike.
    initial : float
        Voltage at the first row.
    keep : float
        Fraction of rows kept, drawn at random by `thin`: 0.1 gives irregular stamps.
    random_state : int, Generator or None
        For ``keep`` only.

    Notes
    -----
    dV/dt = (R I - V) / (R C); where V reaches V_th, that row records the reset value.

    Examples
    --------
    >>> lif_neuron(keep=0.1, random_state=0).n_samples
    100
    """
    if n_samples < 2:
        raise ParameterError(f"n_samples={n_samples} must be at least 2.")
    rate = step / (resistance * capacitance)
    if not 0 < rate < 1:
        raise ParameterError(
            f"step={step} does not fit resistance x capacitance={resistance * capacitance:.4g} "
            "s: Euler's rule needs a step above 0 and shorter than that time constant."
        )
    voltage = np.empty(n_samples)
    v = initial
    for k in range(n_samples):
        voltage[k] = v
        v += rate * (resistance * current - v)
        v = reset if v >= threshold else v
    full = Trajectories.from_arrays(
        voltage, step * np.arange(n_samples), names=["V"], time_unit="s", labels=["neuron"]
    )
    return full if keep == 1.0 else thin(full, keep, random_state)


def thin(trajectories: Trajectories, keep: float, random_state: RandomState = None) -> Trajectories:
    """Remove rows at random; the first and the last row of every recording stay.

    Parameters
    ----------
    keep : float
        Fraction of rows that stay, in (0, 1].
    random_state : int, Generator or None

    Examples
    --------
    >>> thin(lif_neuron(200), 0.5, random_state=0).n_samples
    100
    """
    if not 0 < keep <= 1:
        raise ParameterError(f"keep={keep} must lie in (0, 1], for example 0.1.")
    generator = np.random.default_rng(random_state)
    rows: list[NDArray[Any]] = []
    for t in trajectories.times:
        inner = min(max(round(keep * t.size) - 2, 0), t.size - 2)
        drawn = 1 + generator.choice(t.size - 2, size=inner, replace=False)
        rows.append(np.concatenate(([0], np.sort(drawn), [t.size - 1])).astype(np.int64))
    return trajectories.take_rows(rows)


def _start(
    centre: Sequence[float],
    spread: float,
    initial: Sequence[float] | None,
    transient: float,
    random_state: RandomState,
) -> tuple[Array, float]:
    if initial is None:
        generator = np.random.default_rng(random_state)
        return np.asarray(centre) + spread * generator.standard_normal(len(centre)), transient
    start = np.array(initial, dtype=np.float64)
    if start.shape != (len(centre),) or not np.isfinite(start).all():
        raise ParameterError(f"initial={initial!r}; needed are {len(centre)} finite numbers.")
    return start, 0.0


def _grid(n_samples: int, step: float, transient: float, max_step: float) -> tuple[int, int]:
    """Samples before the first row, and integration steps per sample."""
    if n_samples < 2:
        raise ParameterError(f"n_samples={n_samples} must be at least 2.")
    if not (step > 0 and max_step > 0 and transient >= 0):
        raise ParameterError(
            f"step={step} and max_step={max_step} must be positive and transient={transient} "
            "zero or more."
        )
    return int(np.ceil(transient / step)), int(np.ceil(step / max_step))


def _smooth(
    system: int,
    start: Array,
    parameters: Sequence[float],
    n_samples: int,
    step: float,
    transient: float,
    max_step: float,
    names: Sequence[str],
) -> Trajectories:
    from scipy.integrate import DOP853

    n_lead, substeps = _grid(n_samples, step, transient, max_step)
    states = _integrate.smooth(
        system,
        np.asarray(parameters, dtype=np.float64),
        np.ascontiguousarray(DOP853.A, dtype=np.float64),
        np.ascontiguousarray(DOP853.B, dtype=np.float64),
        start,
        step,
        n_lead + n_samples,
        substeps,
    )
    return _recording(states[n_lead:], step, list(names))


def _recording(states: Array, step: float, names: Sequence[str]) -> Trajectories:
    if not np.isfinite(states).all():
        row = int(np.flatnonzero(~np.isfinite(states).all(axis=1))[0])
        raise NumericalError(
            f"The orbit escaped to infinity at row {row}. Start closer to the attractor, or use "
            "parameters with a bounded attractor."
        )
    return Trajectories.from_arrays(states, step * np.arange(len(states)), names=names)


def _lift(
    A: Array, W: Array, h: Array, thresholds: Sequence[float], attraction: float
) -> FieldArrays:
    """Add one rectified unit r = (unit 0) - threshold per threshold.

    A rectified unit enters others only through relu(r), so it must be a unit of its own, with
    dr/dt = d(unit 0)/dt + attraction (unit 0 - threshold - r).
    """
    n, P = A.size, len(thresholds)
    M = n + P
    A_M, W_MM, h_M = np.zeros(M), np.zeros((M, M)), np.zeros(M)
    A_M[:n], W_MM[:n], h_M[:n] = A, W, h
    for row, threshold in enumerate(thresholds, start=n):
        A_M[row] = -attraction
        W_MM[row] = W[0]
        W_MM[row, 0] += A[0] + attraction
        h_M[row] = h[0] - attraction * threshold
    return FieldArrays(A=A_M, W=W_MM, h=h_M, n_relu=P)
