"""Controllers on a lifted linear model, in the units of the recordings. NumPy only.

Every step lifts the measured state, z_0 = psi(x), and solves a small convex program in the inputs.
With a bilinear model the program is that of the model linearised along the last plan.

Sources: Korda and Mezic, Automatica 93 (2018); offset-free control by an input disturbance:
Pannocchia and Rawlings, AIChE Journal 49 (2003).

Legend: H steps, N variables, K inputs, Z lifted states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError
from foretell.dynamics.koopman.base import KoopmanModel
from foretell.dynamics.koopman.linear import features, rollout
from foretell.dynamics.reachability import check_steerable
from foretell.solve.lqr import regulator
from foretell.solve.mpc import LinearMPC, MPCPlan, ResponseMPC, bounds, weight

Array = NDArray[np.float64]

_SWEEPS = 2  # linearisations of a bilinear model in one step


@dataclass(frozen=True, eq=False, repr=False)
class ControlPlan(MPCPlan):
    """Inputs for the whole horizon and what the model predicts of them, in data units.

    Attributes
    ----------
    inputs : array (H, K)
        Row 0 is the one to apply now.
    outputs : array (H, N)
        Predicted values after each of them.
    violation : float
        Most that a variable lies beyond its bounds, in its standard deviations; zero when they
        can be kept.
    cost : float
    iterations : int
        Changes of the active set.
    """

    def __repr__(self) -> str:
        kept = "bounds kept" if self.violation == 0 else f"violation {self.violation:.3g} std"
        return f"ControlPlan({len(self.inputs)} steps, cost {self.cost:.4g}, {kept})"


class KoopmanMPC:
    """Model predictive control on a KoopmanQP or EDMDc.

    Parameters
    ----------
    model : KoopmanModel
        Fitted, with inputs.
    horizon : int
        Steps looked ahead.
    Q, R : numbers, arrays or matrices
        Weights of (x - reference) and of the inputs, in data units.
    S : number, array or matrix
        Weight of changes of the input.
    final : like Q, optional
        Weight of the last step.
    u_min, u_max : numbers or arrays (K,), optional
        Hard bounds on the inputs.
    du_max : number or array (K,), optional
        Hard bound on their change from step to step.
    x_min, x_max : numbers or arrays (N,), optional
        Soft bounds on the variables; infinite entries are none.
    offset_free : bool
        Estimate a constant disturbance of the inputs from the prediction errors, and cancel it.
    soft_penalty : float, optional
        See `LinearMPC`.

    Raises
    ------
    ParameterError
        The model has no inputs, bounds are reversed, or the horizon is below 2.

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> from foretell.dynamics.koopman import EDMDc, closed_loop
    >>> data = duffing().recordings(40, 60, random_state=0)
    >>> model = EDMDc(n_centres=30, random_state=0).fit(data)
    >>> mpc = KoopmanMPC(model, horizon=20, Q=[1.0, 0.1], R=0.01, u_min=-1.0, u_max=1.0)
    >>> run = closed_loop(duffing(), mpc, [1.2, 0.0], 100)
    >>> bool(np.abs(run.states[-1]).max() < 0.05)
    True
    """

    def __init__(
        self,
        model: KoopmanModel,
        *,
        horizon: int = 20,
        Q: ArrayLike = 1.0,
        R: ArrayLike = 0.1,
        S: ArrayLike = 0.0,
        final: ArrayLike | None = None,
        u_min: ArrayLike | None = None,
        u_max: ArrayLike | None = None,
        du_max: ArrayLike | None = None,
        x_min: ArrayLike | None = None,
        x_max: ArrayLike | None = None,
        offset_free: bool = False,
        soft_penalty: float | None = None,
    ) -> None:
        model._check_fitted()
        check_steerable(model.control_names_)
        self.model, self.horizon, self.offset_free = model, int(horizon), offset_free
        scaler, N, K = model.scaler_, len(model.names_), len(model.control_names_)
        self._scale, self._u_scale = scaler.scale, scaler.control_scale
        self._u_mean = scaler.control_mean
        low, high = bounds(u_min, u_max, K, "u")
        x_low, x_high = bounds(x_min, x_max, N, "x")
        D, E = np.diag(self._scale), np.diag(self._u_scale)
        self._options: dict[str, Any] = {
            "Q": D @ weight(Q, N, "Q") @ D,
            "R": E @ weight(R, K, "R", positive=True) @ E,
            "S": E @ weight(S, K, "S") @ E,
            "final": None if final is None else D @ weight(final, N, "final") @ D,
            "u_min": (low - self._u_mean) / self._u_scale,
            "u_max": (high - self._u_mean) / self._u_scale,
            "du_max": None if du_max is None else np.asarray(du_max, float) / self._u_scale,
            "y_min": (x_low - scaler.mean) / self._scale,
            "y_max": (x_high - scaler.mean) / self._scale,
            "soft_penalty": soft_penalty,
        }
        self._mpc = LinearMPC(model.A_, model.B_, model.C_, horizon=horizon, **self._options)
        self.reset()

    def reset(self) -> None:
        """Forget the last input, the last plan and the estimated disturbance."""
        K = len(self._u_scale)
        self._mpc.forget()
        self.disturbance_ = np.zeros(K)
        self._applied: Array | None = None
        self._expected: Array | None = None
        self._plan = np.zeros((self.horizon, K))

    def control(
        self,
        x: ArrayLike,
        reference: ArrayLike | None = None,
        *,
        u_reference: ArrayLike = 0.0,
        past_controls: ArrayLike | None = None,
    ) -> Array:
        """The input (K,) to apply now, in data units; see `plan`."""
        plan = self.plan(x, reference, u_reference=u_reference, past_controls=past_controls)
        self._applied = (plan.inputs[0] - self._u_mean) / self._u_scale
        return np.asarray(plan.inputs[0])

    def plan(
        self,
        x: ArrayLike,
        reference: ArrayLike | None = None,
        *,
        u_reference: ArrayLike = 0.0,
        u_before: ArrayLike | None = None,
        past_controls: ArrayLike | None = None,
    ) -> ControlPlan:
        """Inputs for the whole horizon.

        Parameters
        ----------
        x : array (N,), or with delays (d + 1, N)
            Measured now, in data units.
        reference : array (N,) or (H, N), optional
            Where the variables should be; zero if left out.
        u_reference : number or array (K,)
            The input that costs nothing.
        u_before : array (K,), optional
            The input applied last, where it is not the one that ``control`` returned.
        past_controls : array (d, K), optional
            Inputs between the rows of x, for a model with delays.
        """
        scaler = self.model.scaler_
        z = self.model.lift(x, past_controls)[0]
        if not np.isfinite(z).all():
            raise ParameterError("x has entries that are not finite; a start must be complete.")
        aim = np.zeros(len(self._scale)) if reference is None else np.asarray(reference, float)
        aims: dict[str, Any] = {
            "reference": scaler.transform_values(aim),
            "u_reference": (np.asarray(u_reference, float) - self._u_mean) / self._u_scale,
            "u_before": self._before(u_before),
        }
        if self.offset_free:
            self._estimate(z)
        if self.model._bilinear:
            found, inputs = self._bilinear_plan(z, aims)
        else:
            found = self._mpc.plan(z, disturbance=self.disturbance_, **aims)
            inputs = found.inputs
        self._plan = inputs
        self._expected = self._next(z, inputs[0] + self.disturbance_)
        return ControlPlan(
            inputs * self._u_scale + self._u_mean, scaler.inverse_values(found.outputs),
            found.violation, found.cost, found.iterations,
        )  # fmt: skip

    def _before(self, u_before: ArrayLike | None) -> Array:
        if u_before is not None:
            return np.asarray((np.asarray(u_before, float) - self._u_mean) / self._u_scale)
        rest = -self._u_mean / self._u_scale
        return rest if self._applied is None else self._applied

    def _next(self, z: Array, u: Array) -> Array:
        return np.asarray(features(z, u, self.model._bilinear) @ self.model.W_.T)

    def _estimate(self, z: Array) -> None:
        """Move the disturbance by half of what explains the last prediction error best."""
        if self._expected is None:
            return
        N = len(self._scale)
        error = (z - self._expected)[:N]
        self.disturbance_ = self.disturbance_ + 0.5 * np.linalg.lstsq(self._gain(z)[:N], error)[0]

    def _gain(self, z: Array) -> Array:
        """Effect (Z, K) of the inputs on the next lifted state."""
        if not self.model._bilinear:
            return self.model.B_
        return np.asarray(self.model.B_ + np.einsum("kyz,z->yk", self.model.N_, z))

    def _bilinear_plan(self, z: Array, aims: dict[str, Any]) -> tuple[Any, Array]:
        model, H, d = self.model, self.horizon, self.disturbance_
        U = np.vstack([self._plan[1:], self._plan[-1:]])
        found = None
        for _ in range(_SWEEPS):
            states = rollout(model.W_, z[None], (U + d)[None], True)[0]
            response = np.zeros((H, len(model.C_), H, U.shape[1]))
            for j in range(H):
                effect = self._gain(states[j])
                for h in range(j, H):
                    response[h, :, j] = model.C_ @ effect
                    if h + 1 < H:
                        step = model.A_ + np.einsum("k,kyz->yz", U[h + 1] + d, model.N_)
                        effect = step @ effect
            free = states[1:] @ model.C_.T - np.einsum("hnjk,jk->hn", response, U)
            found = ResponseMPC(response, **self._options).plan(free, **aims)
            U = found.inputs
        return found, U


class KoopmanLQR:
    """Linear quadratic regulator on a lifted linear model; no bounds.

    Parameters
    ----------
    model : KoopmanModel
    Q, R : weights in data units, as in `KoopmanMPC`
    reference : array (N,), optional
        Where to stay, zero if left out; the input that holds it is found by least squares.
    discount : float
        Future costs weigh less by this factor each step. A little below 1 allows for modes that
        cannot be steered and do not decay, a constant observable for instance.

    Raises
    ------
    NumericalError
        A mode that does not decay cannot be steered, so that no regulator exists.

    Examples
    --------
    >>> from foretell.data.controlled_systems import duffing
    >>> from foretell.dynamics.koopman import EDMDc
    >>> model = EDMDc(degree=1, n_centres=0).fit(duffing().recordings(40, 60, random_state=0))
    >>> KoopmanLQR(model, Q=1.0, R=0.1).gain.shape
    (1, 2)
    """

    def __init__(
        self,
        model: KoopmanModel,
        *,
        Q: ArrayLike = 1.0,
        R: ArrayLike = 0.1,
        reference: ArrayLike | None = None,
        discount: float = 1.0,
    ) -> None:
        model._check_fitted()
        check_steerable(model.control_names_)
        if model._bilinear:
            raise ParameterError(
                'a regulator needs input="linear"; this model is bilinear. Use KoopmanMPC.'
            )
        if not 0 < discount <= 1:
            raise ParameterError(f"discount={discount!r}; needed is a number in (0, 1].")
        self.model = model
        scaler, N, K = model.scaler_, len(model.names_), len(model.control_names_)
        D, E = np.diag(scaler.scale), np.diag(scaler.control_scale)
        Q_z = model.C_.T @ (D @ weight(Q, N, "Q") @ D) @ model.C_
        R_z = E @ weight(R, K, "R", positive=True) @ E
        A, B = np.sqrt(discount) * model.A_, np.sqrt(discount) * model.B_
        self.gain = regulator(A, B, Q_z, R_z)
        x = np.zeros(N) if reference is None else np.asarray(reference, float)
        rest = np.tile(x, (int(model.n_delays) + 1, 1)) if model.n_delays else x
        past = np.tile(scaler.control_mean, (int(model.n_delays), 1)) if model.n_delays else None
        self._z = model.lift(rest, past)[0]
        push = self._z - model.A_ @ self._z
        self._u = np.linalg.lstsq(model.B_[:N], push[:N])[0]

    def control(self, x: ArrayLike, past_controls: ArrayLike | None = None) -> Array:
        """The input (K,) to apply now, in data units."""
        z = self.model.lift(x, past_controls)[0]
        u = self._u - self.gain @ (z - self._z)
        scaler = self.model.scaler_
        return np.asarray(u * scaler.control_scale + scaler.control_mean)
