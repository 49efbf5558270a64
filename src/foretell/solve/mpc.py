"""Model predictive control of a linear model: condensed, prepared once, a small program each step.

    z+ = A z + B (u + d),  y = C z
    minimise over u_1 .. u_H    sum |y_k - r_k|^2_Q + |u_k - u_ref|^2_R + |u_k - u_{k-1}|^2_S
    subject to                  bounds on u, on its change from step to step, and on y

The states are written as a linear function of start and inputs, so that the program has H K
variables. Bounds on inputs and rates are hard. Bounds on outputs are soft, with a penalty that is
exact: they hold whenever that is possible and the penalty is above their price, and otherwise they
are exceeded as little as possible, which the result reports. So every step has an answer.

The last active set, moved on by one step, is where the next search starts.

Sources: Rawlings, Mayne and Diehl, "Model Predictive Control", 2nd ed. (2017); exact penalties:
Kerrigan and Maciejowski, UKACC Control 2000.

Legend: H steps, Z states, K inputs, N outputs; X_HNZ and the like carry their shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError
from foretell.solve.qp import PreparedQP

Array = NDArray[np.float64]

_TOUCHES = 1e-7  # a bound is called violated beyond this share of its scale


@dataclass(frozen=True, eq=False)
class MPCPlan:
    """Inputs for the whole horizon, and what the model predicts of them.

    Attributes
    ----------
    inputs : array (H, K)
        Row 0 is the one to apply now.
    outputs : array (H, N)
        Predicted outputs after each of them.
    violation : float
        Most that an output lies beyond its bounds; zero when the bounds can be kept.
    cost : float
        Value of the objective without the penalty.
    iterations : int
        Changes of the active set.
    """

    inputs: Array
    outputs: Array
    violation: float
    cost: float
    iterations: int

    def __repr__(self) -> str:
        kept = "bounds kept" if self.violation == 0 else f"violation {self.violation:.3g}"
        return f"MPCPlan({len(self.inputs)} steps, cost {self.cost:.4g}, {kept})"


class ResponseMPC:
    """Controller of outputs that respond linearly to inputs: y = free + Gam U.

    The matrices are prepared once; only the free response changes from step to step. For a model
    given by A, B, C use `LinearMPC`.

    Parameters
    ----------
    response : array (H, N, H, K)
        Gam: change of output h by the input at step j, zero for j > h.
    Q, R, S, final, u_min, u_max, du_max, y_min, y_max, soft_penalty
        As in `LinearMPC`.

    Examples
    --------
    >>> response = np.tril(np.ones((3, 3)))[:, None, :, None]  # an integrator
    >>> plan = ResponseMPC(response, R=1e-6, u_max=0.6).plan(np.zeros((3, 1)), reference=1.0)
    >>> plan.outputs.ravel().round(2).tolist()
    [0.6, 1.0, 1.0]
    """

    def __init__(
        self,
        response: ArrayLike,
        *,
        Q: ArrayLike = 1.0,
        R: ArrayLike = 0.1,
        S: ArrayLike = 0.0,
        final: ArrayLike | None = None,
        u_min: ArrayLike | None = None,
        u_max: ArrayLike | None = None,
        du_max: ArrayLike | None = None,
        y_min: ArrayLike | None = None,
        y_max: ArrayLike | None = None,
        soft_penalty: float | None = None,
    ) -> None:
        Gam = np.asarray(response, dtype=np.float64)
        if Gam.ndim != 4 or Gam.shape[0] != Gam.shape[2] or not np.isfinite(Gam).all():
            raise ParameterError(
                f"response has shape {Gam.shape}; needed are finite numbers of shape (H, N, H, K)."
            )
        H, N, _, K = Gam.shape
        if H < 2:
            raise ParameterError(f"horizon={H}; needed is a whole number of 2 or more.")
        self.horizon, self.n_outputs, self.n_inputs = H, N, K
        self._Gam = Gam.reshape(H * N, H * K)
        self.Q, self.R = weight(Q, N, "Q"), weight(R, K, "R", positive=True)
        self.S = weight(S, K, "S")
        self._final = self.Q if final is None else weight(final, N, "final")
        self.u_min, self.u_max = bounds(u_min, u_max, K, "u")
        self.y_min, self.y_max = bounds(y_min, y_max, N, "y")
        self.du_max = np.full(K, np.inf) if du_max is None else _entries(du_max, K, "du_max")
        if not (self.du_max > 0).all():
            raise ParameterError(f"du_max={du_max!r}; an input must be able to change: > 0.")
        largest = float(max(self.Q.max(), self._final.max(), 1e-3))
        self._soft = 1e3 * largest if soft_penalty is None else float(soft_penalty)
        if not 0 < self._soft < np.inf:
            raise ParameterError(f"soft_penalty={soft_penalty!r}; needed is a positive number.")
        self._weigh()
        self._prepare()
        self._last: tuple[int, ...] = ()

    # ------------------------------------------------------------------ using
    def plan(
        self,
        free: ArrayLike,
        *,
        reference: ArrayLike = 0.0,
        u_reference: ArrayLike = 0.0,
        u_before: ArrayLike | None = None,
    ) -> MPCPlan:
        """The best inputs, given the outputs (H, N) that would follow without any.

        Parameters
        ----------
        free : array (H, N)
        reference, u_reference, u_before
            As in `LinearMPC.plan`.
        """
        H, N, K = self.horizon, self.n_outputs, self.n_inputs
        rest = np.asarray(free, float).reshape(H * N)
        r = np.broadcast_to(np.asarray(reference, float), (H, N)).ravel()
        u_ref = np.broadcast_to(np.asarray(u_reference, float), (H, K)).ravel()
        before = self._before(u_before)
        slope = self._GamQ @ (rest - r) - self._R_all @ u_ref
        slope[:K] -= self.S @ before
        q = np.concatenate([2.0 * slope, np.full(self._n_slack, self._soft)])
        solution = self._qp.solve(q, self._right(before, rest), start=self._moved())
        self._last = solution.active
        U = solution.x[: H * K]
        low, high = np.tile(self.u_min, H), np.tile(self.u_max, H)
        U = np.clip(U, low, high)
        y = rest + self._Gam @ U
        cost = self.cost(y, U, reference=r, u_reference=u_ref, u_before=before)
        return MPCPlan(
            U.reshape(H, K), y.reshape(H, N), self._violation(y), cost, solution.iterations
        )

    def cost(
        self,
        outputs: ArrayLike,
        inputs: ArrayLike,
        *,
        reference: ArrayLike = 0.0,
        u_reference: ArrayLike = 0.0,
        u_before: ArrayLike = 0.0,
        penalised: bool = False,
    ) -> float:
        """Value of the objective at given outputs (H, N) and inputs (H, K).

        ``penalised`` adds the price of exceeding output bounds.
        """
        H, N, K = self.horizon, self.n_outputs, self.n_inputs
        y, U = np.asarray(outputs, float).reshape(H, N), np.asarray(inputs, float).reshape(H, K)
        off, du = y - _spread(reference, H, N), U - _spread(u_reference, H, K)
        before = np.broadcast_to(np.asarray(u_before, float), K)
        steps = np.diff(np.concatenate([before[None], U]), axis=0)
        value = (
            np.einsum("hn,nm,hm->", off[:-1], self.Q, off[:-1]) + off[-1] @ self._final @ off[-1]
        )
        value += np.einsum("hk,kl,hl->", du, self.R, du)
        value += np.einsum("hk,kl,hl->", steps, self.S, steps)
        if penalised:
            over = np.maximum(np.maximum(y - self.y_max, self.y_min - y), 0.0)
            value += self._soft * (over.sum() + 0.5 * (over**2).sum())
        return float(value)

    def forget(self) -> None:
        """Drop the active set of the last step, at the start of another run."""
        self._last = ()

    # ------------------------------------------------------------------ preparing
    def _weigh(self) -> None:
        """Weights on all outputs and inputs of the horizon."""
        H, N, K = self.horizon, self.n_outputs, self.n_inputs
        Q_all = np.kron(np.eye(H), self.Q)
        Q_all[-N:, -N:] = self._final
        self._GamQ = self._Gam.T @ Q_all
        self._R_all = np.kron(np.eye(H), self.R)
        self._D = np.eye(H * K) - np.eye(H * K, k=-K)  # inputs to their changes

    def _prepare(self) -> None:
        """The matrices of the program: Hessian, and rows for inputs, rates, outputs, slacks."""
        H, K = self.horizon, self.n_inputs
        S_all = self._D.T @ np.kron(np.eye(H), self.S) @ self._D
        hessian = 2.0 * (self._GamQ @ self._Gam + self._R_all + S_all)
        eye = np.eye(H * K)
        self._rows_u = [_rows(self.u_max, H), _rows(-self.u_min, H)]
        self._rows_d = _rows(self.du_max, H)
        self._rows_y = [_rows(self.y_max, H), _rows(-self.y_min, H)]
        bounded = np.union1d(*self._rows_y)
        self._n_slack, n = len(bounded), H * K
        A = [eye[self._rows_u[0]], -eye[self._rows_u[1]]]
        A += [self._D[self._rows_d], -self._D[self._rows_d]]
        A += [self._Gam[self._rows_y[0]], -self._Gam[self._rows_y[1]], np.zeros((len(bounded), n))]
        stacked = np.vstack(A)
        slack = np.zeros((len(stacked), len(bounded)))
        begin = len(stacked) - sum(map(len, self._rows_y)) - len(bounded)
        for i, row in enumerate(np.concatenate(self._rows_y)):
            slack[begin + i, np.searchsorted(bounded, row)] = -1.0
        slack[len(stacked) - len(bounded) :] = -np.eye(len(bounded))
        P = np.zeros((n + len(bounded),) * 2)
        P[:n, :n] = 0.5 * (hessian + hessian.T)
        P[n:, n:] = self._soft * np.eye(len(bounded))
        self._qp = PreparedQP(P, np.hstack([stacked, slack]))

    def _right(self, before: Array, rest: Array) -> Array:
        H, K = self.horizon, self.n_inputs
        high, low = self._rows_u
        first = np.zeros(H * K)
        first[:K] = before
        rate = np.tile(self.du_max, H)
        above, below = self._rows_y
        return np.concatenate(
            [
                np.tile(self.u_max, H)[high], -np.tile(self.u_min, H)[low],
                (rate + first)[self._rows_d], (rate - first)[self._rows_d],
                (np.tile(self.y_max, H) - rest)[above], (rest - np.tile(self.y_min, H))[below],
                np.zeros(self._n_slack),
            ]
        )  # fmt: skip

    def _before(self, u_before: ArrayLike | None) -> Array:
        K = self.n_inputs
        if u_before is None:
            if np.isfinite(self.du_max).any():
                raise ParameterError(
                    "du_max bounds the change from the input applied last; give u_before=array "
                    f"of {K}."
                )
            return np.zeros(K)
        before = _entries(u_before, K, "u_before")
        # From outside of its bounds an input must be able to return, whatever the rate.
        return np.clip(before, self.u_min - 0.999 * self.du_max, self.u_max + 0.999 * self.du_max)

    def _violation(self, y: Array) -> float:
        H = self.horizon
        over = np.maximum(y - np.tile(self.y_max, H), np.tile(self.y_min, H) - y)
        most = float(over.max(initial=0.0))
        return most if most > _TOUCHES * max(1.0, float(np.abs(y).max())) else 0.0

    def _moved(self) -> tuple[int, ...]:
        """The last active set one step earlier, row by row of the kinds of constraints."""
        sizes = [*map(len, self._rows_u), *[len(self._rows_d)] * 2, *map(len, self._rows_y)]
        sizes.append(self._n_slack)
        ends = np.cumsum(sizes)
        moved = []
        for row in self._last:
            kind = int(np.searchsorted(ends, row, side="right"))
            begin, each = ends[kind] - sizes[kind], sizes[kind] // self.horizon
            moved.append(row - each if row - each >= begin else row)
        return tuple(dict.fromkeys(moved))


class LinearMPC(ResponseMPC):
    """Controller of a linear model.

    Parameters
    ----------
    A, B, C : arrays (Z, Z), (Z, K), (N, Z)
        The model; C is the identity when left out.
    horizon : int
        H, steps looked ahead.
    Q : number, array (N,) or (N, N)
        Weight of the outputs' distance from the reference.
    R : number, array (K,) or (K, K)
        Weight of the inputs, positive definite.
    S : number, array (K,) or (K, K)
        Weight of changes of the input; zero without.
    final : array like Q, optional
        Weight of the last output, Q if left out.
    u_min, u_max : numbers or arrays (K,), optional
        Bounds on the inputs.
    du_max : number or array (K,), optional
        Most that an input may change from one step to the next.
    y_min, y_max : numbers or arrays (N,), optional
        Soft bounds on the outputs; infinite entries are none.
    soft_penalty : float, optional
        Price of exceeding them, per unit and per unit squared; by default a thousand times the
        largest weight.

    Raises
    ------
    ParameterError
        Shapes do not fit, bounds are reversed, or the horizon is below 2.

    Examples
    --------
    >>> mpc = LinearMPC([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]], [[1.0, 0.0]], horizon=30,
    ...                 Q=1.0, R=0.01, u_min=-1.0, u_max=1.0)
    >>> plan = mpc.plan([1.0, 0.0])
    >>> plan.inputs.shape, round(float(plan.inputs[0, 0]), 6)
    ((30, 1), -1.0)
    """

    def __init__(
        self,
        A: ArrayLike,
        B: ArrayLike,
        C: ArrayLike | None = None,
        *,
        horizon: int,
        **options: Any,
    ) -> None:
        self.A, self.B = np.atleast_2d(np.asarray(A, float)), np.asarray(B, float)
        self.C = np.eye(len(self.A)) if C is None else np.atleast_2d(np.asarray(C, float))
        self._check_model(horizon)
        self._F, response = self._condensed(int(horizon))
        super().__init__(response, **options)

    def plan(  # type: ignore[override,unused-ignore]
        self,
        z: ArrayLike,
        *,
        reference: ArrayLike = 0.0,
        u_reference: ArrayLike = 0.0,
        u_before: ArrayLike | None = None,
        disturbance: ArrayLike = 0.0,
    ) -> MPCPlan:
        """The best inputs from a state.

        Parameters
        ----------
        z : array (Z,)
        reference : number, array (N,) or (H, N)
            Where the outputs should be.
        u_reference : number or array (K,)
            Where the inputs should rest.
        u_before : array (K,), optional
            The input applied last; needed for ``du_max``, and zero for S if left out.
        disturbance : number or array (K,)
            d, which acts like an additional input.

        Raises
        ------
        ParameterError
            A shape does not fit, or ``u_before`` is missing beside ``du_max``.
        """
        free = self._F @ _entries(z, len(self.A), "z")
        d = np.broadcast_to(np.asarray(disturbance, float), self.n_inputs)
        if d.any():
            free = free + self._Gam @ np.tile(d, self.horizon)
        return super().plan(free, reference=reference, u_reference=u_reference, u_before=u_before)

    def _check_model(self, horizon: int) -> None:
        Z = len(self.A)
        fits = self.A.shape == (Z, Z) and self.B.ndim == 2 and len(self.B) == Z
        if not (fits and self.C.ndim == 2 and self.C.shape[1] == Z and self.B.shape[1] > 0):
            raise ParameterError(
                f"A, B, C have shapes {self.A.shape}, {self.B.shape}, {self.C.shape}; needed are "
                "(Z, Z), (Z, K) and (N, Z)."
            )
        if not all(np.isfinite(x).all() for x in (self.A, self.B, self.C)):
            raise ParameterError("A, B or C has entries that are not finite.")
        if not (isinstance(horizon, (int, np.integer)) and horizon >= 2):
            raise ParameterError(f"horizon={horizon!r}; needed is a whole number of 2 or more.")

    def _condensed(self, H: int) -> tuple[Array, Array]:
        """F (H N, Z) and the response (H, N, H, K) to inputs."""
        N, K = len(self.C), self.B.shape[1]
        F, pulse = np.empty((H, N, len(self.A))), np.empty((H, N, K))
        row = self.C
        for h in range(H):
            pulse[h] = row @ self.B
            row = row @ self.A
            F[h] = row
        response = np.zeros((H, N, H, K))
        for h in range(H):
            for j in range(h + 1):
                response[h, :, j] = pulse[h - j]
        return F.reshape(H * N, -1), response


def weight(value: ArrayLike, size: int, name: str, *, positive: bool = False) -> Array:
    """A symmetric weight (size, size) from a number, a diagonal or a matrix.

    Examples
    --------
    >>> weight(2.0, 2, "Q")
    array([[2., 0.],
           [0., 2.]])
    """
    given = np.asarray(value, dtype=np.float64)
    matrix = given if given.ndim == 2 else np.diag(np.broadcast_to(given, size)) * 1.0
    fits = matrix.shape == (size, size) and np.isfinite(matrix).all()
    least = float(np.linalg.eigvalsh(matrix).min()) if fits else -1.0
    if not fits or not np.allclose(matrix, matrix.T) or least < (1e-300 if positive else -1e-12):
        kind = "positive definite" if positive else "positive semidefinite"
        raise ParameterError(
            f"{name}={value!r}; needed is a number, {size} numbers, or a symmetric {kind} matrix "
            f"of shape ({size}, {size})."
        )
    return matrix


def bounds(
    low: ArrayLike | None, high: ArrayLike | None, size: int, name: str
) -> tuple[Array, Array]:
    """Lower and upper bounds of shape (size,), infinite where there are none."""
    least = np.full(size, -np.inf) if low is None else _entries(low, size, f"{name}_min", True)
    most = np.full(size, np.inf) if high is None else _entries(high, size, f"{name}_max", True)
    if (least > most).any():
        n = int(np.argmax(least > most))
        raise ParameterError(
            f"{name}_min={least[n]:.6g} is above {name}_max={most[n]:.6g} (entry {n}); the lower "
            "bound comes first."
        )
    return least, most


def _entries(value: ArrayLike, size: int, name: str, infinite: bool = False) -> Array:
    given = np.asarray(value, dtype=np.float64)
    if given.ndim == 0:
        given = np.full(size, float(given))
    if given.shape != (size,) or np.isnan(given).any():
        raise ParameterError(f"{name} has shape {given.shape}; needed are {size} numbers.")
    if not (infinite or name == "du_max" or np.isfinite(given).all()):
        raise ParameterError(f"{name} has entries that are not finite.")
    return given


def _spread(value: ArrayLike, horizon: int, size: int) -> Array:
    """A number, one row or all rows, as (horizon, size)."""
    given = np.asarray(value, dtype=np.float64)
    if given.size == horizon * size:
        return given.reshape(horizon, size)
    return np.broadcast_to(given, (horizon, size))


def _rows(limit: Array, horizon: int) -> NDArray[np.int64]:
    """Positions of finite limits among horizon * size entries."""
    return np.flatnonzero(np.isfinite(np.tile(limit, horizon))).astype(np.int64)
