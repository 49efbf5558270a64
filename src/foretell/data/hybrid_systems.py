"""Systems that flow and jump, in closed form: recordings with the exact times of their jumps.

Between jumps every system here has an explicit solution, and so has the time of its next jump; no
solver and no penalty is involved. Walkers, whose flow has no explicit form, are in `walkers.py`.

Legend: T samples, n state variables; a square of side 1 stands for two angles, counted in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.data.trajectories import Trajectories

Array = NDArray[np.float64]
RandomState = int | np.random.Generator | None

MOST_JUMPS = 100_000  # of one recording


@dataclass(frozen=True, eq=False)
class JumpingSystem:
    """A flow in closed form with jumps.

    Parameters
    ----------
    flow : callable
        ``flow(state (n,), after (T,))`` returns the states (T, n) so much later, without jumps.
    delay : callable
        ``delay(state)`` returns the time until the next jump, infinity without one.
    reset : callable
        ``reset(state)`` returns the state after the jump.
    names : tuple of str
        Of the state variables.
    ends : callable, optional
        ``ends(state)``, asked after each jump: whether the recording stops there.
    """

    flow: Callable[[Array, Array], Array]
    delay: Callable[[Array], float]
    reset: Callable[[Array], Array]
    names: tuple[str, ...]
    ends: Callable[[Array], bool] = lambda state: False

    def follow(self, start: Array, times: Array) -> tuple[Array, Array]:
        """States (T', n) at the times, of which the last may be missing, and the jump times.

        Raises
        ------
        NumericalError
            Jumps accumulate.
        """
        states = np.empty((times.size, len(self.names)))
        jumps: list[float] = []
        z, now, k = np.array(start, dtype=np.float64), float(times[0]), 0
        for _ in range(MOST_JUMPS):
            wait = float(self.delay(z))
            until = int(np.searchsorted(times, now + wait, side="left"))
            states[k:until] = self.flow(z, times[k:until] - now)
            k = max(k, until)
            if k == times.size:
                return states, np.array(jumps)
            z = self.reset(self.flow(z, np.array([wait]))[0])
            now += wait
            jumps.append(now)
            if self.ends(z):
                return states[:k], np.array(jumps)
        raise NumericalError(
            f"more than {MOST_JUMPS} jumps before t={times[-1]:.6g}; they accumulate at "
            f"t={now:.6g}. End the recording before that."
        )


@dataclass(frozen=True)
class JumpRecordings:
    """Recordings of a system that jumps, and when it jumped.

    Parameters
    ----------
    trajectories : Trajectories
        What a learner sees.
    jump_times : tuple of arrays
        For each recording the exact times of the jumps; for judging only.
    """

    trajectories: Trajectories
    jump_times: tuple[Array, ...]

    def __repr__(self) -> str:
        n = sum(len(t) for t in self.jump_times)
        return f"JumpRecordings({self.trajectories.n_recordings} recordings, {n} jumps)"


def record(
    system: JumpingSystem, starts: Array, n_samples: int, step: float, fewest: int = 3
) -> JumpRecordings:
    """Follow a system from each start (B, n) for ``n_samples`` samples or until it ends."""
    if n_samples < fewest or not step > 0:
        raise ParameterError(
            f"n_samples={n_samples}, step={step}; needed are at least {fewest} samples and a "
            "positive step."
        )
    times: Array = step * np.arange(n_samples, dtype=np.float64)
    runs = [system.follow(start, times) for start in starts]
    kept = [(states, jumps) for states, jumps in runs if len(states) >= fewest]
    return JumpRecordings(
        Trajectories.from_arrays(
            [states for states, _ in kept],
            [times[: len(states)] for states, _ in kept],
            names=system.names,
        ),
        tuple(jumps[jumps <= times[len(states) - 1]] for states, jumps in kept),
    )


def arcs(
    n_recordings: int = 1, n_samples: int = 100, *, step: float = 0.03,
    random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """Two intervals glued to a circle: speed 1 on [0, 1), 2 on [2, 3), with 1 -> 2 and 3 -> 0.

    Examples
    --------
    >>> arcs(2, 50, random_state=0)
    JumpRecordings(2 recordings, 4 jumps)
    """
    starts = np.random.default_rng(random_state).uniform(0, 1, (n_recordings, 1))
    system = JumpingSystem(
        flow=lambda z, t: z + np.where(z[0] < 1.5, 1.0, 2.0) * t[:, None],
        delay=lambda z: 1.0 - z[0] if z[0] < 1.5 else (3.0 - z[0]) / 2.0,
        reset=lambda z: np.array([2.0 if z[0] < 1.5 else 0.0]),
        names=("x",),
    )
    return record(system, starts, n_samples, step)


def torus(
    n_recordings: int = 1, n_samples: int = 100, *, speed: Sequence[float] = (1.0, 0.5),
    step: float = 0.05, random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """Constant speed on the unit square whose opposite sides are glued.

    Examples
    --------
    >>> torus(3, 60, random_state=0)
    JumpRecordings(3 recordings, 12 jumps)
    """
    v = _speed(speed)
    system = JumpingSystem(
        lambda z, t: z + v * t[:, None], lambda z: _next_side(z, v), _wrap, ("x", "y")
    )
    return record(system, _in_square(n_recordings, random_state), n_samples, step)


def klein(
    n_recordings: int = 1, n_samples: int = 100, *, speed: Sequence[float] = (1.0, 0.35),
    compatible: bool = False, step: float = 0.05, random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """The unit square glued to a Klein bottle: (1, y) -> (0, 1 - y) and (x, 1) -> (x, 0).

    The constant field does not survive the flip: its image is torn along x = 0, whatever the
    embedding. With ``compatible`` the field is (v_x, v_y sin 2 pi y), which the flip respects.

    Examples
    --------
    >>> klein(3, 60, random_state=0)
    JumpRecordings(3 recordings, 8 jumps)
    """
    v = _speed(speed)

    def reset(z: Array) -> Array:
        after = _wrap(z)
        return np.array([after[0], 1.0 - after[1]]) if z[0] > 1.0 - 1e-9 else after

    def along(z: Array, t: Array) -> Array:
        if not compatible:
            return np.asarray(z + v * t[:, None])
        # y' = c sin(2 pi y) keeps tan(pi y) exp(-2 pi c t).
        angle = np.arctan2(
            np.sin(np.pi * z[1]) * np.exp(2 * np.pi * v[1] * t), np.cos(np.pi * z[1])
        )
        return np.column_stack([z[0] + v[0] * t, angle / np.pi])

    def delay(z: Array) -> float:
        return float((1.0 - z[0]) / v[0]) if compatible else _next_side(z, v)

    return record(
        JumpingSystem(along, delay, reset, ("x", "y")),
        _in_square(n_recordings, random_state), n_samples, step,
    )  # fmt: skip


def ball(
    n_recordings: int = 1, n_samples: int = 100, *, restitution: float = 0.9,
    gravity: float = 9.81, step: float = 0.03, random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """A ball on a floor, state (height, velocity); a recording ends before the bounces pile up.

    It starts at a height of 0.5 to 1.5 with a velocity of -1 to 1, and ends after a bounce that is
    slower than a twentieth of the first fall.

    Examples
    --------
    >>> ball(2, 100, random_state=0)
    JumpRecordings(2 recordings, 9 jumps)
    """
    if not 0 < restitution <= 1 or not gravity > 0:
        raise ParameterError(
            f"restitution={restitution}, gravity={gravity}: needed are 0 < restitution <= 1 and "
            "gravity > 0."
        )
    rng = np.random.default_rng(random_state)
    starts = np.column_stack(
        [rng.uniform(0.5, 1.5, n_recordings), rng.uniform(-1.0, 1.0, n_recordings)]
    )
    slowest = 0.05 * np.sqrt(2 * gravity * 1.0)

    def flow(z: Array, t: Array) -> Array:
        return np.column_stack([z[0] + z[1] * t - gravity / 2 * t**2, z[1] - gravity * t])

    def delay(z: Array) -> float:
        return float((z[1] + np.sqrt(z[1] ** 2 + 2 * gravity * max(z[0], 0.0))) / gravity)

    system = JumpingSystem(
        flow, delay, lambda z: np.array([0.0, -restitution * z[1]]), ("height", "velocity"),
        ends=lambda z: bool(z[1] < slowest),
    )  # fmt: skip
    return record(system, starts, n_samples, step)


def box_ball(
    n_recordings: int = 1, n_samples: int = 100, *, restitution: float = 0.9,
    gravity: float = 9.81, step: float = 0.03, random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """A ball in a box with smooth elastic walls at x, y = 0 and 1 and a floor at z = 0.

    The state is (x, y, z, vx, vy, vz), six variables; the floor has the restitution.

    Examples
    --------
    >>> box_ball(2, 100, random_state=0)
    JumpRecordings(2 recordings, 20 jumps)
    """
    rng = np.random.default_rng(random_state)
    low, high = [0.2, 0.2, 0.5, -1, -1, -1], [0.8, 0.8, 1.5, 1, 1, 1]
    starts = rng.uniform(low, high, (n_recordings, 6))
    pull = np.array([0.0, 0.0, -gravity])
    slowest = 0.05 * np.sqrt(2 * gravity)

    def flow(z: Array, t: Array) -> Array:
        s = t[:, None]
        return np.hstack([z[:3] + z[3:] * s + pull / 2 * s**2, z[3:] + pull * s])

    def waits(z: Array) -> Array:
        room = np.where(z[3:5] > 0, 1.0 - z[:2], z[:2])
        with np.errstate(divide="ignore"):
            walls = np.maximum(room, 0.0) / np.abs(z[3:5])
        floor = (z[5] + np.sqrt(z[5] ** 2 + 2 * gravity * max(z[2], 0.0))) / gravity
        return np.append(walls, floor)

    def reset(z: Array) -> Array:
        after, away = z.copy(), np.minimum(np.abs(z[:2]), np.abs(1 - z[:2]))
        gaps = np.append(away, abs(z[2]))
        axis = int(np.argmin(np.where(_approaches(z), gaps, np.inf)))
        after[axis] = np.round(after[axis]) if axis < 2 else 0.0
        after[3 + axis] *= -restitution if axis == 2 else -1.0
        return after

    def _approaches(z: Array) -> NDArray[np.bool_]:
        sides = np.where(z[:2] > 0.5, z[3:5] > 0, z[3:5] < 0)
        return np.append(sides, z[5] < 0)

    system = JumpingSystem(
        flow, lambda z: float(waits(z).min()), reset, ("x", "y", "z", "vx", "vy", "vz"),
        ends=lambda z: bool(z[2] == 0.0 and 0 <= z[5] < slowest),
    )  # fmt: skip
    return record(system, starts, n_samples, step)


def lif_pair(
    n_recordings: int = 1, n_samples: int = 100, *, drive: Sequence[float] = (1.2, 1.3),
    coupling: float = 0.1, step: float = 0.05, random_state: RandomState = None,
) -> JumpRecordings:  # fmt: skip
    """Two leaky neurons that push each other when they fire; time in units of the membrane's.

    dv/dt = drive - v; at v = 1 a neuron goes back to 0 and the other one rises by ``coupling``, or
    fires too when that takes it to 1.

    Examples
    --------
    >>> lif_pair(2, 100, random_state=0)
    JumpRecordings(2 recordings, 6 jumps)
    """
    I = np.array(drive, dtype=np.float64)  # noqa: E741  (the symbol of a current)
    if I.shape != (2,) or not (I > 1).all() or not 0 <= coupling < 1:
        raise ParameterError(
            f"drive={list(drive)!r}, coupling={coupling}: needed are two drives above the "
            "threshold 1 and 0 <= coupling < 1."
        )

    def reset(v: Array) -> Array:
        fires = v >= 1.0 - 1e-12
        pushed = v + coupling * fires[::-1]
        return np.where(fires | (pushed >= 1.0), 0.0, pushed)

    system = JumpingSystem(
        lambda v, t: I + (v - I) * np.exp(-t[:, None]),
        lambda v: float(np.log((I - v) / (I - 1.0)).min()), reset, ("v1", "v2"),
    )  # fmt: skip
    starts = np.random.default_rng(random_state).uniform(0.0, 0.95, (n_recordings, 2))
    return record(system, starts, n_samples, step)


def _in_square(n_recordings: int, random_state: RandomState) -> Array:
    return np.random.default_rng(random_state).uniform(0.0, 1.0, (n_recordings, 2))


def _speed(speed: Sequence[float]) -> Array:
    v = np.array(speed, dtype=np.float64)
    if v.shape != (2,) or not (np.isfinite(v).all() and (v > 0).all()):
        raise ParameterError(f"speed={speed!r}; needed are two positive numbers.")
    return v


def _next_side(z: Array, v: Array) -> float:
    return float(((1.0 - z) / v).min())


def _wrap(z: Array) -> Array:
    return np.where(z > 1.0 - 1e-9, 0.0, z)
