"""One run of a piecewise-affine system with jumps; see `hybrid.py` for the mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from foretell.solve.piecewise.hybrid_records import HybridRun, Jumps

if TYPE_CHECKING:
    from foretell.solve.piecewise.hybrid import PWLHybridSystem

Array = NDArray[np.float64]

TOUCH = 1e-12  # a shallower passage, relative to the terms of n^T z - b, is a touch
MOST_AT_ONCE = 50  # events without progress of time that are taken for an accumulation point


class HybridPass:
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
        """Follow the system through all output times."""
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
        self.watched = system.watched[self.mode]
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
