"""Plans for any model that can be run: shooting by a sequence of quadratic programs.

The outputs are linearised along the current inputs by finite differences, the program of `mpc`
proposes better ones, and a step along them is taken that lowers the true objective. It ends at a
local optimum; several first guesses can be given.

Source: Nocedal and Wright, "Numerical Optimization", 2nd ed. (2006), chapter 18.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.mpc import MPCPlan, ResponseMPC

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]

_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)


def shoot(
    predict: Predict,
    guesses: Sequence[ArrayLike],
    *,
    reference: ArrayLike = 0.0,
    u_reference: ArrayLike = 0.0,
    u_before: ArrayLike | None = None,
    n_iterations: int = 20,
    tolerance: float = 1e-6,
    perturbation: float = 1e-4,
    **options: Any,
) -> MPCPlan:
    """The best inputs found for a model that is only run.

    Parameters
    ----------
    predict : callable
        ``predict(U)`` gives outputs (B, H, N) for inputs U (B, H, K); NaN where a run escapes.
    guesses : sequence of arrays (H, K)
        Where to begin; the best result counts.
    reference, u_reference, u_before
        As in `LinearMPC.plan`.
    n_iterations : int
        Most programs for each guess.
    tolerance : float
        Stop when the objective falls by less than this share.
    perturbation : float
        Step of the finite differences.
    **options
        Weights and bounds of `ResponseMPC`.

    Raises
    ------
    ParameterError
        No guess, or shapes that do not fit.
    NumericalError
        The model escapes for every guess.

    Examples
    --------
    >>> plan = shoot(lambda U: np.sin(U).cumsum(axis=1), [np.zeros((4, 1))], reference=1.0, R=1e-6)
    >>> plan.outputs.ravel().round(2).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    if not len(guesses):
        raise ParameterError("there is no guess to begin with. Give guesses=[np.zeros((H, K))].")
    aims: dict[str, Any] = {"reference": reference, "u_reference": u_reference}
    found: list[tuple[float, MPCPlan]] = []
    for guess in guesses:
        U = np.array(guess, dtype=np.float64)
        y = predict(U[None])[0]
        if not np.isfinite(y).all():
            continue
        found.append(
            _descend(predict, U, y, aims, u_before, n_iterations, tolerance, perturbation, options)
        )
    if not found:
        raise NumericalError(
            "the model leaves its range for every guess of the inputs. Shorten the horizon, or "
            "begin with inputs that it knows."
        )
    return min(found, key=lambda pair: pair[0])[1]


def _descend(
    predict: Predict, U: Array, y: Array, aims: dict[str, Any], u_before: ArrayLike | None,
    n_iterations: int, tolerance: float, perturbation: float, options: dict[str, Any],
) -> tuple[float, MPCPlan]:  # fmt: skip
    before = np.zeros(U.shape[1]) if u_before is None else np.asarray(u_before, float)
    best = np.inf
    for _ in range(max(n_iterations, 1)):
        response = linearised(predict, U, y, perturbation)
        program = ResponseMPC(response, **options)
        best = program.cost(y, U, u_before=before, penalised=True, **aims)
        free = y - np.einsum("hnjk,jk->hn", response, U)
        goal = program.plan(free, u_before=u_before, **aims).inputs
        steps = np.array([U + share * (goal - U) for share in _SHARES])
        tried = predict(steps)
        values = [
            program.cost(out, inputs, u_before=before, penalised=True, **aims)
            if np.isfinite(out).all()
            else np.inf
            for out, inputs in zip(tried, steps, strict=True)
        ]
        n = int(np.argmin(values))
        if not values[n] < best:
            break
        fall, best = best - values[n], values[n]
        U, y = steps[n], tried[n]
        if fall <= tolerance * abs(best):
            break
    violation = float(np.maximum(np.maximum(y - program.y_max, program.y_min - y), 0.0).max())
    cost = program.cost(y, U, u_before=before, **aims)
    return best, MPCPlan(U, y, violation if violation > 1e-7 else 0.0, cost, n_iterations)


def linearised(predict: Predict, U: Array, y: Array, perturbation: float) -> Array:
    """Derivative (H, N, H, K) of the outputs by the inputs, by forward differences."""
    H, K = U.shape
    moved = np.repeat(U[None], H * K, axis=0)
    moved.reshape(H * K, H * K)[np.diag_indices(H * K)] += perturbation
    change = (predict(moved) - y) / perturbation
    response = change.reshape(H, K, H, -1).transpose(2, 3, 0, 1)
    return np.ascontiguousarray(np.nan_to_num(response))
