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

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.hybrid_records import (
    AffineMode,
    Guard,
    HybridJacobian,
    HybridRun,
    Jumps,
    check_guard,
)
from foretell.solve.piecewise.hybrid_run import HybridPass
from foretell.solve.piecewise.sensitivity import region_exponential

Array = NDArray[np.float64]


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
            check_guard(k, guard, M, len(self.modes))
        self.watched = tuple(
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
                for k in self.watched[mode]
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
        return HybridPass(self, z0, times, mode, max_events, max_norm).result()

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
        course = HybridPass(self, z0, [0.0, float(duration)], mode, max_events, max_norm)
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
