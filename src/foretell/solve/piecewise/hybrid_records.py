"""What a piecewise-affine system with jumps is made of, and what a run of it gives.

Legend: M state variables, K output times, E events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


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


def check_guard(k: int, guard: Guard, M: int, n_modes: int) -> None:
    """Refuse guard number `k` where it does not fit M variables and n_modes modes."""
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
