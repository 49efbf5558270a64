"""A plant under a controller that sees its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.solve.mpc import weight

Array = NDArray[np.float64]


class Controller(Protocol):
    """Something that answers a measured state with an input."""

    def control(self, x: Array) -> Array:
        """Input (K,) for the state x (N,)."""
        ...


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A run of a plant under a controller.

    Attributes
    ----------
    states : array (T + 1, N)
    inputs : array (T, K)
    seconds : array (T,)
        Time that the controller took for each answer.
    """

    states: Array
    inputs: Array
    seconds: Array

    def cost(
        self, Q: ArrayLike, R: ArrayLike, reference: ArrayLike = 0.0, u_reference: ArrayLike = 0.0
    ) -> float:
        """Sum over the run of (x - reference)'Q(x - reference) + (u - u_reference)'R(..)."""
        x = self.states[1:] - np.asarray(reference, float)
        u = self.inputs - np.asarray(u_reference, float)
        W, V = weight(Q, x.shape[1], "Q"), weight(R, u.shape[1], "R")
        value = np.einsum("tn,nm,tm->", x, W, x) + np.einsum("tk,kl,tl->", u, V, u)
        return float(value) if np.isfinite(value) else float("inf")

    def __repr__(self) -> str:
        return (
            f"ClosedLoop({len(self.inputs)} steps, median {1e3 * np.median(self.seconds):.2f} ms "
            "a step)"
        )


def closed_loop(
    plant: Any,
    controller: Any,
    x0: ArrayLike,
    steps: int,
    *,
    reference: ArrayLike | None = None,
    u_min: ArrayLike | None = None,
    u_max: ArrayLike | None = None,
) -> ClosedLoop:
    """Run a plant under a controller that sees its state.

    Parameters
    ----------
    plant : Plant, or callable
        Something with ``advance(x, u)``, or a function of x (N,) and u (K,) giving the next x.
    controller : Controller
        Something with ``control(x)``.
    x0 : array (N,)
    steps : int
    reference : array (N,) or (steps + H, N), optional
        Passed on to a KoopmanMPC; of a long one it sees the part ahead.
    u_min, u_max : optional
        What the actuator can do; inputs are clipped to it.
    """
    advance: Callable[[Array, Array], Array] = getattr(plant, "advance", plant)
    x = np.asarray(x0, dtype=np.float64)
    if hasattr(controller, "reset"):
        controller.reset()
    aim = None if reference is None else np.asarray(reference, float)
    states, inputs, seconds = [x], [], []
    for k in range(steps):
        began = time.process_time()
        if aim is None:
            u = controller.control(x)
        else:
            ahead = aim[k + 1 : k + 1 + controller.horizon] if aim.ndim == 2 else aim
            u = controller.control(x, ahead)
        seconds.append(time.process_time() - began)
        if u_min is not None or u_max is not None:
            u = np.clip(u, u_min, u_max)
        x = np.asarray(advance(x, u))
        states.append(x)
        inputs.append(u)
    return ClosedLoop(np.array(states), np.array(inputs), np.array(seconds))
