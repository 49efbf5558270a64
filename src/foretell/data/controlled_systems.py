"""Plants with an input: known equations that can be recorded under random inputs, and steered.

Every plant advances a whole batch by classical Runge-Kutta steps with the input held in between.

Legend: B copies, N state variables, K inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.core.random import as_generator
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plant:
    """A controlled system with known equations.

    Parameters
    ----------
    name : str
    derivative : callable
        ``derivative(x, u)`` for x (B, N) and u (B, K), of shape (B, N).
    step : float
        Time between samples.
    names, control_names : tuples of str
    low, high : tuples of N numbers
        The box of starts.
    u_low, u_high : tuples of K numbers
        The range of the inputs.
    substeps : int
        Runge-Kutta steps in one sample.
    floor, ceiling : numbers, optional
        Range that the states cannot leave, of tanks for instance.

    Examples
    --------
    >>> plant = pendulum()
    >>> plant.advance([0.0, 0.0], [0.0])
    array([0., 0.])
    >>> plant.recordings(3, 20, random_state=0)
    <Trajectories: 3 recordings, 60 samples, median interval 0.05; angle, speed; controls torque>
    """

    name: str
    derivative: Callable[[Array, Array], Array]
    step: float
    names: tuple[str, ...]
    control_names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    u_low: tuple[float, ...]
    u_high: tuple[float, ...]
    substeps: int = 2
    floor: float = -np.inf
    ceiling: float = np.inf

    def advance(self, x: ArrayLike, u: ArrayLike) -> Array:
        """State one sample later, of the same shape as x: (N,) or (B, N); u is (K,) or (B, K)."""
        state, single = np.asarray(x, dtype=np.float64), np.ndim(x) == 1
        state = np.atleast_2d(state)
        held = np.broadcast_to(np.atleast_2d(np.asarray(u, float)), (len(state), len(self.u_low)))
        h, f = self.step / self.substeps, self.derivative
        for _ in range(self.substeps):
            k1 = f(state, held)
            k2 = f(state + 0.5 * h * k1, held)
            k3 = f(state + 0.5 * h * k2, held)
            k4 = f(state + h * k3, held)
            state = state + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            state = np.clip(state, self.floor, self.ceiling)
        return np.asarray(state[0] if single else state)

    def run(self, x0: ArrayLike, inputs: ArrayLike) -> Array:
        """States (B, T + 1, N) from starts (B, N) under inputs (B, T, K)."""
        x, u = np.atleast_2d(np.asarray(x0, float)), np.asarray(inputs, float)
        states = [x]
        for k in range(u.shape[1]):
            x = self.advance(x, u[:, k])
            states.append(x)
        return np.stack(states, axis=1)

    def starts(self, n: int, random_state: int | np.random.Generator | None = None) -> Array:
        """Random starts (n, N) from the box."""
        rng = as_generator(random_state)
        return rng.uniform(self.low, self.high, size=(n, len(self.low)))

    def recordings(
        self,
        n: int,
        n_samples: int,
        *,
        hold: int = 5,
        noise: float = 0.0,
        spread: float = 1.0,
        random_state: int | np.random.Generator | None = None,
    ) -> Trajectories:
        """Record n runs under random inputs.

        Parameters
        ----------
        n, n_samples : int
            Recordings, and rows of each.
        hold : int
            Samples for which an input stays.
        noise : float
            Standard deviation of measurement noise, in standard deviations of each variable.
        spread : float
            Scales the box of starts around its centre.
        random_state : int, Generator or None

        Raises
        ------
        ParameterError
            A number is out of range.
        NumericalError
            A run left the range of numbers.
        """
        if n < 1 or n_samples < 2 or hold < 1 or noise < 0 or not spread > 0:
            raise ParameterError(
                f"n={n}, n_samples={n_samples}, hold={hold}, noise={noise}, spread={spread}; "
                "needed are n >= 1, n_samples >= 2, hold >= 1, noise >= 0, spread > 0."
            )
        rng = as_generator(random_state)
        centre = 0.5 * (np.asarray(self.low) + np.asarray(self.high))
        x0 = np.clip(centre + spread * (self.starts(n, rng) - centre), self.floor, self.ceiling)
        levels = rng.uniform(
            self.u_low, self.u_high, size=(n, -(-n_samples // hold), len(self.u_low))
        )
        u = np.repeat(levels, hold, axis=1)[:, :n_samples]
        x = self.run(x0, u[:, :-1])
        if not np.isfinite(x).all():
            raise NumericalError(
                f"a run of {self.name} left the range of numbers. Use a smaller spread, or fewer "
                "samples."
            )
        if noise > 0:
            scale = x.reshape(-1, x.shape[2]).std(axis=0)
            x = x + noise * scale * rng.standard_normal(x.shape)
        return Trajectories.from_arrays(
            list(x), self.step * np.arange(n_samples), controls=list(u), names=self.names,
            control_names=self.control_names,
        )  # fmt: skip


def van_der_pol(*, damping: float = 1.0) -> Plant:
    """Reversed van der Pol oscillator with an input, after Korda and Mezic, Automatica 93 (2018).

    dx1/dt = 2 x2, dx2/dt = -0.8 x1 + 2 x2 - 10 x1^2 x2 + u, with ``damping`` on both terms in x2.

    Examples
    --------
    >>> van_der_pol().names
    ('x1', 'x2')
    """

    def derivative(x: Array, u: Array) -> Array:
        a, b = x[:, 0], x[:, 1]
        return _columns(2.0 * b, -0.8 * a + damping * (2.0 * b - 10.0 * a * a * b) + u[:, 0])

    return _plant("van der Pol", derivative, 0.02, "x1 x2", "u", (1.0, 1.0), (1.0,))


def pendulum(*, mass: float = 1.0, damping: float = 0.2, torque: float = 4.0) -> Plant:
    """Hanging pendulum with a torque: d2a/dt2 = -9.81 sin a - (damping da/dt - torque u) / mass.

    The input lies in [-1, 1] and is multiplied by ``torque``.

    Examples
    --------
    >>> pendulum().control_names
    ('torque',)
    """

    def derivative(x: Array, u: Array) -> Array:
        force = torque * u[:, 0] - damping * x[:, 1]
        return _columns(x[:, 1], -9.81 * np.sin(x[:, 0]) + force / mass)

    return _plant("pendulum", derivative, 0.05, "angle speed", "torque", (2.0, 3.0), (1.0,))


def duffing(*, mass: float = 1.0, damping: float = 0.5) -> Plant:
    """Duffing oscillator with two wells: d2x/dt2 = (-damping dx/dt + x - x^3 + 2 u) / mass.

    Examples
    --------
    >>> duffing().advance([1.0, 0.0], [0.0])
    array([1., 0.])
    """

    def derivative(x: Array, u: Array) -> Array:
        force = -damping * x[:, 1] + x[:, 0] - x[:, 0] ** 3 + 2.0 * u[:, 0]
        return _columns(x[:, 1], force / mass)

    return _plant("Duffing", derivative, 0.05, "position speed", "force", (1.5, 1.5), (1.0,))


def cart_pole(*, pole: float = 0.3, damping: float = 0.1, force: float = 10.0) -> Plant:
    """Pole on a cart (1 kg), angle 0 upright; ``pole`` is its mass in kg, 0.5 m to its centre.

    The input lies in [-1, 1] and is multiplied by ``force`` (N); ``damping`` acts on cart
    (N s/m) and hinge (N m s).

    Examples
    --------
    >>> cart_pole().names
    ('position', 'speed', 'angle', 'rate')
    """
    cart, length, g = 1.0, 0.5, 9.81

    def derivative(x: Array, u: Array) -> Array:
        v, a, w = x[:, 1], x[:, 2], x[:, 3]
        sin, cos = np.sin(a), np.cos(a)
        push = force * u[:, 0] - damping * v + pole * length * w * w * sin
        turn = g * sin - damping * w / (pole * length)
        total = cart + pole
        rate = (turn - cos * push / total) / (length * (4.0 / 3.0 - pole * cos * cos / total))
        return _columns(v, (push - pole * length * rate * cos) / total, w, rate)

    return _plant(
        "cart-pole", derivative, 0.02, "position speed angle rate", "force",
        (0.5, 0.5, 0.5, 0.5), (1.0,),
    )  # fmt: skip


def dc_motor(*, inertia: float = 0.00441, friction: float = 0.00732) -> Plant:
    """DC motor whose input, the field current, multiplies the state.

    Armature current and speed, in units of 10 A and 100 rad/s; the input lies in [-1, 1].

    Notes
    -----
    Constants of Daniel-Berhe and Unbehauen, "Experimental physical parameter estimation of a
    thyristor driven DC-motor using the HMF-method", Control Engineering Practice 6 (1998).

    Examples
    --------
    >>> dc_motor().step
    0.01
    """
    inductance, resistance, gain, voltage, load = 0.314, 12.345, 0.253, 60.0, 1.47

    def derivative(x: Array, u: Array) -> Array:
        current, speed, field = 10.0 * x[:, 0], 100.0 * x[:, 1], 4.0 * u[:, 0]
        electric = (-resistance * current - gain * speed * field + voltage) / inductance
        turning = (-friction * speed + gain * current * field - load) / inertia
        return _columns(electric / 10.0, turning / 100.0)

    return _plant("DC motor", derivative, 0.01, "current speed", "field", (1.0, 1.0), (1.0,))


def cascaded_tanks(*, outflow: float = 0.06, pump: float = 0.04) -> Plant:
    """Two tanks above each other, the upper one filled by a pump; both can overflow.

    dh1/dt = -outflow sqrt(h1) + pump u, dh2/dt = outflow (sqrt(h1) - sqrt(h2)), levels from 0 to
    10. What the upper tank spills is lost. The sample is 4 s.

    Notes
    -----
    Structure of Schoukens and Noel, "Three benchmarks addressing open challenges in nonlinear
    system identification", IFAC PapersOnLine 50 (2017).

    Examples
    --------
    >>> cascaded_tanks().recordings(1, 5, random_state=0).names
    ('upper', 'level')
    """

    def derivative(x: Array, u: Array) -> Array:
        upper, lower = np.sqrt(np.maximum(x[:, 0], 0.0)), np.sqrt(np.maximum(x[:, 1], 0.0))
        return _columns(-outflow * upper + pump * u[:, 0], outflow * (upper - lower))

    return Plant(
        "cascaded tanks", derivative, 4.0, ("upper", "level"), ("pump",), (2.0, 2.0), (8.0, 8.0),
        (0.5,), (4.5,), 4, 0.0, 10.0,
    )  # fmt: skip


def sampled(plant: Plant, step: float) -> Plant:
    """The same plant with another time between samples.

    Examples
    --------
    >>> sampled(duffing(), 0.1).step
    0.1
    """
    return replace(plant, step=step, substeps=max(1, round(plant.substeps * step / plant.step)))


def _plant(
    name: str, derivative: Callable[[Array, Array], Array], step: float, names: str, control: str,
    reach: Sequence[float], inputs: Sequence[float],
) -> Plant:  # fmt: skip
    high, u_high = tuple(reach), tuple(inputs)
    return Plant(
        name, derivative, step, tuple(names.split()), (control,), tuple(-h for h in high), high,
        tuple(-h for h in u_high), u_high,
    )  # fmt: skip


def _columns(*columns: Array) -> Array:
    return np.stack(columns, axis=1)
