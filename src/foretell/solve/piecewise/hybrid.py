"""Piecewise-affine systems with jumps: affine modes, affine guards, affine resets, exact events.

In mode m the state follows dz/dt = B_m z + c_m. A guard watches n^T z - b in one mode; when it
passes zero in the guard's direction the state jumps to R z + q and the mode changes. Between jumps
the flow is expanded to rounding, and guard passages are certified exactly as in `certified.py`.

The derivative of a run with respect to its start jumps as well, by the saltation matrix

    S = R + (F+(z+) - R F-(z-)) n^T / (n^T F-(z-)),

whose second term is the shift of the event time; leaving it out makes an error of order one.

Source: Aizerman and Gantmakher, "On the stability of periodic motions of dynamical systems with
discontinuities" (1957), for the saltation matrix. Differs from event-driven integrators in: no step
size and no tolerance, since the flow between jumps is known.

Legend: M state variables, K output times, E events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.certified_kernel import (
    ORDERS,
    RADIUS,
    ROUNDING,
    evaluate,
    expand,
    first_crossing,
    operator_norm,
    sign_at_zero,
)
from foretell.solve.piecewise.sensitivity import region_exponential

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

TOUCH = 1e-12  # a shallower passage, relative to the terms of n^T z - b, is a touch
MOST_AT_ONCE = 50  # events without progress of time that are taken for an accumulation point


@dataclass(frozen=True, eq=False)
class AffineMode:
    """dz/dt = matrix z + offset.

    Parameters
    ----------
    matrix : array of shape (M, M)
        In 1 / time unit.
    offset : array of shape (M,)
        Constant drive.
    """

    matrix: Array
    offset: Array

    def __init__(self, matrix: ArrayLike, offset: ArrayLike) -> None:
        object.__setattr__(self, "matrix", np.array(matrix, dtype=np.float64))
        object.__setattr__(self, "offset", np.array(offset, dtype=np.float64))

    def __call__(self, state: Array) -> Array:
        """The velocity at one state (M,)."""
        velocity: Array = self.matrix @ state + self.offset
        return velocity


@dataclass(frozen=True, eq=False)
class Guard:
    """A jump that happens when normal^T z passes `level` in one mode.

    Parameters
    ----------
    mode, target : int
        The mode that is watched, and the mode after the jump.
    normal : array of shape (M,)
        n.
    level : float
        b.
    direction : int
        +1 when n^T z rises through b, -1 when it falls.
    reset_matrix : array of shape (M, M), optional
        R; identity by default.
    reset_offset : array of shape (M,), optional
        q; zero by default.
    """

    mode: int
    target: int
    normal: Array
    level: float
    direction: int
    reset_matrix: Array
    reset_offset: Array

    def __init__(
        self,
        *,
        mode: int,
        target: int,
        normal: ArrayLike,
        level: float,
        direction: int,
        reset_matrix: ArrayLike | None = None,
        reset_offset: ArrayLike | None = None,
    ) -> None:
        n_M = np.array(normal, dtype=np.float64)
        R = np.eye(n_M.size) if reset_matrix is None else np.array(reset_matrix, dtype=np.float64)
        q = np.zeros(n_M.size) if reset_offset is None else np.array(reset_offset, dtype=np.float64)
        if direction not in (-1, 1):
            raise ParameterError(
                f"direction={direction}; needed is 1 (rising) or -1 (falling). "
                "For both, give two guards."
            )
        values = {
            "mode": int(mode),
            "target": int(target),
            "normal": n_M,
            "level": float(level),
            "direction": int(direction),
            "reset_matrix": R,
            "reset_offset": q,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def switches_only(self) -> bool:
        """Whether the state is left as it is and only the mode changes."""
        identity = np.array_equal(self.reset_matrix, np.eye(self.normal.size))
        return identity and not self.reset_offset.any()

    def excess(self, state: Array) -> float:
        """n^T z - b, signed so that the guard fires when it passes zero from below."""
        return self.direction * float(self.normal @ state - self.level)


@dataclass(frozen=True, eq=False)
class Jumps:
    """The jumps of a run, in order.

    Attributes
    ----------
    times : array (E,)
    guards : int array (E,)
        Index of the guard that fired.
    states_before, states_after : array (E, M)
    modes_before, modes_after : int array (E,)
    """

    times: Array
    guards: Whole
    states_before: Array
    states_after: Array
    modes_before: Whole
    modes_after: Whole

    def __len__(self) -> int:
        return int(self.times.size)

    def __repr__(self) -> str:
        return f"Jumps({len(self)} of guards {sorted(set(self.guards.tolist()))})"


@dataclass(frozen=True, eq=False)
class HybridRun:
    """A trajectory of a system with resets.

    Attributes
    ----------
    times : array (K,)
    states : array (K, M)
        After the jump where an output time is a jump time; NaN from the escape on.
    modes : int array (K,)
        -1 from the escape on.
    jumps : Jumps
        Jumps in [times[0], times[-1]].
    escaped_at : float or None
        When the norm of the state was first seen above `max_norm`.
    """

    times: Array
    states: Array
    modes: Whole
    jumps: Jumps
    escaped_at: float | None

    def __repr__(self) -> str:
        end = "" if self.escaped_at is None else f", escaped at {self.escaped_at:.6g}"
        return f"HybridRun({self.times.size} times, {len(self.jumps)} jumps{end})"


@dataclass(frozen=True, eq=False)
class HybridJacobian:
    """The end of a run with resets, and its derivative with respect to the start.

    Attributes
    ----------
    state : array (M,)
    mode : int
    jacobian : array (M, M)
    jumps : Jumps
    """

    state: Array
    mode: int
    jacobian: Array
    jumps: Jumps

    def __repr__(self) -> str:
        return f"HybridJacobian({self.state.size} variables, {len(self.jumps)} jumps)"


class PWLHybridSystem:
    """A piecewise-affine system with guards and resets.

    Parameters
    ----------
    modes : sequence of AffineMode
        The affine fields.
    guards : sequence of Guard
        The jumps. When several fire at one instant, the first in this list goes first.

    Examples
    --------
    >>> from foretell.solve.piecewise import lif
    >>> neuron = lif()
    >>> neuron.simulate([0.0], [0.0, 0.02]).jumps.times.round(6)
    array([0.008047, 0.016094])
    """

    def __init__(self, modes: Sequence[AffineMode], guards: Sequence[Guard]) -> None:
        self.modes, self.guards = tuple(modes), tuple(guards)
        if not self.modes:
            raise ParameterError("modes is empty; a system needs at least one AffineMode.")
        M = self.modes[0].offset.size
        for k, mode in enumerate(self.modes):
            if mode.matrix.shape != (M, M) or mode.offset.shape != (M,):
                raise ParameterError(
                    f"modes[{k}] has a matrix of shape {mode.matrix.shape} and an offset of shape "
                    f"{mode.offset.shape}; needed are ({M}, {M}) and ({M},)."
                )
            if not (np.isfinite(mode.matrix).all() and np.isfinite(mode.offset).all()):
                raise ParameterError(f"modes[{k}] has entries that are not finite.")
        for k, guard in enumerate(self.guards):
            _check_guard(k, guard, M, len(self.modes))
        self._watched = tuple(
            tuple(k for k, g in enumerate(self.guards) if g.mode == m)
            for m in range(len(self.modes))
        )

    @property
    def n_variables(self) -> int:
        """M, the number of state variables."""
        return int(self.modes[0].offset.size)

    def __repr__(self) -> str:
        return (
            f"PWLHybridSystem({self.n_variables} variables, {len(self.modes)} modes, "
            f"{len(self.guards)} guards)"
        )

    def locate(self, state: ArrayLike) -> int:
        """The mode of `state`: from mode 0 through the guards without reset it lies beyond."""
        z, mode = np.asarray(state, dtype=np.float64), 0
        for _ in self.modes:
            beyond = [
                self.guards[k]
                for k in self._watched[mode]
                if self.guards[k].switches_only and self.guards[k].excess(z) > 0
            ]
            if not beyond:
                break
            mode = beyond[0].target
        return mode

    def simulate(
        self,
        z0: ArrayLike,
        times: ArrayLike,
        *,
        mode: int | None = None,
        max_events: int = 100_000,
        max_norm: float = 1e6,
    ) -> HybridRun:
        """Follow the system exactly, with every jump.

        Parameters
        ----------
        z0 : array of shape (M,)
            State at times[0]. A guard whose plane z0 has already passed fires only after z has come
            back.
        times : array of shape (K,)
            Strictly increasing.
        mode : int, optional
            Mode at times[0]; by default `locate(z0)`.
        max_events : int
            More jumps than this are an error.
        max_norm : float
            The run stops, without an error, where the norm of the state is larger.

        Raises
        ------
        ParameterError
            For arguments that do not fit.
        NumericalError
            When jumps accumulate at one time (Zeno behaviour, or sliding along a guard), or there
            are more than `max_events`.
        """
        return _Run(self, z0, times, mode, max_events, max_norm).result()

    def jacobian(
        self,
        z0: ArrayLike,
        duration: float,
        *,
        mode: int | None = None,
        max_events: int = 100_000,
        max_norm: float = 1e6,
        saltation: bool = True,
    ) -> HybridJacobian:
        """Derivative of the state after `duration` with respect to z0, exactly.

        Parameters
        ----------
        z0, mode, max_events, max_norm
            As in `simulate`.
        duration : float
            Positive.
        saltation : bool
            False leaves the shift of the event times out (and is wrong): for comparison only.

        Raises
        ------
        ParameterError
            For arguments that do not fit.
        NumericalError
            At a grazing jump (n^T F = 0), where the derivative does not exist; when the run
            escapes; and as in `simulate`.

        Examples
        --------
        >>> from foretell.solve.piecewise import bouncing_ball
        >>> bouncing_ball(restitution=0.5, gravity=1.0).jacobian([0.5, 0.0], 1.5).jacobian.round(6)
        array([[0.25, 0.  ],
               [1.5 , 1.  ]])
        """
        if not (np.isfinite(duration) and duration > 0):
            raise ParameterError(f"duration={duration} must be finite and positive.")
        course = _Run(self, z0, [0.0, float(duration)], mode, max_events, max_norm)
        run = course.result()
        if run.escaped_at is not None:
            raise NumericalError(
                f"The run escapes (norm above {max_norm:g}) at t={run.escaped_at:.6g}, before the "
                f"duration {duration:g} is over. Shorten it, or raise max_norm."
            )
        jacobian, jumps = np.eye(self.n_variables), run.jumps
        for k, (m, stay) in enumerate(course.stays):
            jacobian = region_exponential(self.modes[m].matrix, stay) @ jacobian
            if k < len(jumps):
                jacobian = self._jump_derivative(jumps, k, saltation) @ jacobian
        return HybridJacobian(run.states[-1], int(run.modes[-1]), jacobian, jumps)

    def saltation_matrix(self, guard: int, state_before: ArrayLike) -> Array:
        """S of one guard at the state (M,) just before it fires.

        Raises
        ------
        NumericalError
            When the state moves along the guard (grazing).
        """
        rule, z = self.guards[guard], np.asarray(state_before, dtype=np.float64)
        before = self.modes[rule.mode](z)
        after = self.modes[rule.target](rule.reset_matrix @ z + rule.reset_offset)
        speed = float(rule.normal @ before)
        if abs(speed) <= 1e-12 * float(np.abs(rule.normal) @ np.abs(before)) or speed == 0.0:
            raise NumericalError(
                f"Guard {guard} is grazed at {z.tolist()} (n^T F = {speed:.3g}): the derivative of "
                "the run does not exist there. Choose another start or duration."
            )
        jump = after - rule.reset_matrix @ before
        matrix: Array = rule.reset_matrix + np.outer(jump, rule.normal) / speed
        return matrix

    def _jump_derivative(self, jumps: Jumps, k: int, saltation: bool) -> Array:
        guard = int(jumps.guards[k])
        if saltation:
            return self.saltation_matrix(guard, jumps.states_before[k])
        return self.guards[guard].reset_matrix


def _check_guard(k: int, guard: Guard, M: int, n_modes: int) -> None:
    shapes = guard.normal.shape, guard.reset_matrix.shape, guard.reset_offset.shape
    if shapes != ((M,), (M, M), (M,)):
        raise ParameterError(
            f"guards[{k}] has normal, reset_matrix and reset_offset of shapes {shapes}; needed are "
            f"({M},), ({M}, {M}) and ({M},)."
        )
    if not (0 <= guard.mode < n_modes and 0 <= guard.target < n_modes):
        raise ParameterError(
            f"guards[{k}] leads from mode {guard.mode} to {guard.target}; there are modes 0 to "
            f"{n_modes - 1}."
        )
    finite = [guard.normal, guard.reset_matrix, guard.reset_offset, np.array(guard.level)]
    if not all(np.isfinite(value).all() for value in finite) or not guard.normal.any():
        raise ParameterError(f"guards[{k}] has a zero normal, or entries that are not finite.")


class _Run:
    """One pass through the output times: state, mode and the side of every watched guard."""

    def __init__(
        self,
        system: PWLHybridSystem,
        z0: ArrayLike,
        times: ArrayLike,
        mode: int | None,
        max_events: int,
        max_norm: float,
    ) -> None:
        self.system, self.max_events, self.max_norm = system, max_events, max_norm
        M = system.n_variables
        self.z, self.times = np.array(z0, dtype=np.float64), np.array(times, dtype=np.float64)
        if self.z.shape != (M,) or not np.isfinite(self.z).all():
            raise ParameterError(f"z0={self.z.tolist()} must be {M} finite numbers.")
        increasing = self.times.ndim == 1 and self.times.size > 0 and np.isfinite(self.times).all()
        if not increasing or (np.diff(self.times) <= 0).any():
            raise ParameterError(
                "times must be finite and increase strictly; see np.unique(times)."
            )
        if mode is not None and not 0 <= mode < len(system.modes):
            raise ParameterError(f"mode={mode}; there are modes 0 to {len(system.modes) - 1}.")
        self.mode = system.locate(self.z) if mode is None else int(mode)
        self.t, self.idle = float(self.times[0]), 0
        self.states = np.full((self.times.size, M), np.nan)
        self.modes = np.full(self.times.size, -1, dtype=np.int64)
        self.log: list[tuple[float, int, Array, Array, int, int]] = []
        self.stays: list[tuple[int, float]] = []
        self.stay = 0.0
        self.b, self.scale, self.trial = np.zeros((ORDERS, M)), np.empty(M), np.empty(M)

    def result(self) -> HybridRun:
        self._enter()
        escaped = self._follow()
        self.stays.append((self.mode, self.stay))
        M = self.z.size
        jumps = Jumps(
            np.array([row[0] for row in self.log], dtype=np.float64),
            np.array([row[1] for row in self.log], dtype=np.int64),
            np.array([row[2] for row in self.log], dtype=np.float64).reshape(-1, M),
            np.array([row[3] for row in self.log], dtype=np.float64).reshape(-1, M),
            np.array([row[4] for row in self.log], dtype=np.int64),
            np.array([row[5] for row in self.log], dtype=np.int64),
        )
        return HybridRun(self.times, self.states, self.modes, jumps, escaped)

    def _enter(self) -> None:
        """Take up a mode: its matrix, and the sides of its guards (+1 before firing, -1 beyond)."""
        system, field = self.system, self.system.modes[self.mode]
        self.watched = system._watched[self.mode]
        self.wt = np.ascontiguousarray(field.matrix.T)
        self.norm = operator_norm(self.wt)
        self.side = [0] * len(self.watched)  # settled by the first expansion

    def _follow(self) -> float | None:
        """March to the last time; the time of escape, or None."""
        k, times, stop = 0, self.times, float(self.times[-1])
        drive = self.system.modes[self.mode].offset
        while k < times.size:
            span = stop - self.t
            reachable = span if span > 0 else 1.0
            D = reachable if self.norm * reachable <= RADIUS else RADIUS / self.norm
            drive = self.system.modes[self.mode].offset
            n = expand(self.wt, drive, self.z, D, self.b, self.scale)
            s, which = self._first_passage(n)
            if span == 0 and s > 0:
                s = 2.0
            reach = min(max(s, 0.0), 1.0) if span > 0 else 0.0
            end = stop if D == span and reach == 1.0 else self.t + reach * D
            # The last output waits for the guards at its very time.
            ready = times.size if span == 0 else times.size - 1
            while k < times.size and (times[k] < end or (times[k] == end and s > 1 and k < ready)):
                evaluate(self.b, n, min((times[k] - self.t) / D, 1.0), self.trial)
                if not np.linalg.norm(self.trial) <= self.max_norm:
                    return float(times[k])
                self.states[k], self.modes[k] = self.trial, self.mode
                k += 1
            if k == times.size:
                self.stay += reach * D
                return None
            evaluate(self.b, n, reach, self.trial)
            if not np.linalg.norm(self.trial) <= self.max_norm:
                return end
            self.idle = self.idle + 1 if end == self.t else 0
            if end == self.t and s > 1.0 and span > 0:
                raise NumericalError(
                    f"Time does not advance beyond t={end}: the rates of mode {self.mode} are too "
                    "fast for double precision at this time. Start the clock at zero."
                )
            self.z, self.t = self.trial.copy(), end
            self.stay += reach * D
            if s <= 1.0:
                self._pass(which)
        return None

    def _first_passage(self, n: int) -> tuple[float, int]:
        """When a watched guard first changes side (-1: now; 2: not in this step), and which."""
        best, which = 2.0, -1
        for place, k in enumerate(self.watched):
            guard = self.system.guards[k]
            size = float(np.abs(guard.normal) @ self.scale) + abs(guard.level)
            noise, touch, start = ROUNDING * size, TOUCH * size, 0
            if self.side[place] == 0:
                # On the plane counts as before it: a guard that is being passed fires at once.
                self.side[place] = -1 if guard.excess(self.z) > noise else 1
            sign = -guard.direction * self.side[place]
            d = sign * (self.b[:n] @ guard.normal)
            d[0] -= sign * guard.level
            if d[0] <= noise:
                start = int(sign_at_zero(d, noise))
                if start == 0:
                    continue
                if d[0] < -touch or (d[0] <= 0 and d[start] < 0):
                    return -1.0, place
                if d[start] < 0:
                    start = 0
            s = first_crossing(d[start:], min(1.0, best), touch, noise)
            if s < best:
                best, which = s, place
        return best, which

    def _pass(self, place: int) -> None:
        """A guard changes side: jump when it is in the firing direction."""
        k = self.watched[place]
        guard = self.system.guards[k]
        fires = self.side[place] == 1
        if not fires:
            self.side[place] = 1
            return
        if self.idle > MOST_AT_ONCE or len(self.log) >= self.max_events:
            many = len(self.log) >= self.max_events
            why = (
                f"more than max_events={self.max_events} jumps"
                if many
                else "jumps accumulate (Zeno behaviour, or sliding along the guard)"
            )
            raise NumericalError(
                f"{why[0].upper()}{why[1:]} at t={self.t:.12g}, guard {k}, after {len(self.log)} "
                "jumps. End `times` before that"
                + (", or raise max_events." if many else ", or add a mode for what happens there.")
            )
        after = guard.reset_matrix @ self.z + guard.reset_offset
        self.log.append((self.t, k, self.z, after, guard.mode, guard.target))
        self.stays.append((self.mode, self.stay))
        self.stay, self.z, self.mode = 0.0, after, guard.target
        self._enter()
        if guard.switches_only and guard.target == guard.mode:
            self.side[place] = -1  # a guard that changes nothing is behind us now
