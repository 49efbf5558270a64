"""What all lifted linear models share: lift, predict, simulate, score, save, load. NumPy only.

Legend: B starts, T stamps, N variables, K inputs, F numbers of a state with delays, Z lifted ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import (
    DataError,
    ParameterError,
    as_generator,
)
from foretell.data import Scaler, Trajectories
from foretell.dynamics.checks import (
    as_trajectories,
    check_seed,
    check_validation,
    checked_controls,
    checked_starts,
    checked_times,
    positive,
    whole,
)
from foretell.dynamics.koopman.horizon_errors import HorizonErrors
from foretell.dynamics.koopman.lifts import Lift, kind_of, lift_from
from foretell.dynamics.koopman.linear import features, markov_parameters, rollout, split
from foretell.dynamics.koopman.measured import MeasuredStates
from foretell.dynamics.koopman.windows import States, Windows, check_recordings, states_of
from foretell.dynamics.reachability import (
    Reachability,
    by_differences,
    check_steerable,
    checked_horizon,
    operating_point,
)

Array = NDArray[np.float64]

OUT_OF_RANGE = 1e6  # standard deviations; a run that goes there has escaped
_KEPT_RESIDUALS = 100  # windows
_DIVERGED = 2.0  # standard deviations; a forecast further off than that is no forecast


@dataclass(frozen=True, eq=False)
class _Pending:
    """What a fit knows of its recordings before it has learned anything."""

    data: Trajectories
    step: float
    scaler: Scaler


class KoopmanModel(MeasuredStates):
    """Base of the lifted linear models; use KoopmanQP or EDMDc.

    A fitted model has ``A_`` (Z, Z), ``B_`` (Z, K), ``C_`` (N, Z), for a bilinear input ``N_``
    (K, Z, Z), ``eigenvalues_`` and ``step_``, the time between samples. They act on standardised
    variables: ``scaler_`` leads there and back.
    """

    citations: ClassVar[tuple[str, ...]] = ("qpko", "koopman-mpc")
    fitted_mark = "W_"
    when_lost_at_once = "Look at eigenvalues_, and fit again with stable=True or a longer horizon."
    when_lost = "The model has eigenvalues outside of the unit circle. Fit with stable=True."
    horizon: int
    input: str
    ridge: float

    # ------------------------------------------------------------------ using
    def lift(self, x: ArrayLike, past_controls: ArrayLike | None = None) -> Array:
        """Lifted states (B, Z) of measured ones.

        Parameters
        ----------
        x : array (N,), (B, N), or with delays (d + 1, N) or (B, d + 1, N)
            In data units, oldest row first.
        past_controls : array (d, K) or (B, d, K), optional
            The inputs between those rows, needed for a model with delays and inputs.
        """
        self._check_fitted()
        return np.asarray(self._lift(self._states(x, past_controls)))

    def predict(
        self,
        X0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        past_controls: ArrayLike | None = None,
        relift_every: int | None = None,
    ) -> Array:
        """Values (B, T, N) of runs from X0 at ``times``; NaN where a run escaped.

        ``controls`` is (T, K), the same for all starts, or (B, T, K). ``relift_every`` lifts the
        prediction anew after so many samples, as a nonlinear model would.
        """
        self._check_fitted()
        stamps = checked_times(times)
        if relift_every is not None and not whole(relift_every, 1):
            raise ParameterError(f"relift_every={relift_every!r}; needed is a whole number >= 1.")
        s0 = self._states(X0, past_controls)
        u = self._controls(controls, stamps.size, len(s0))
        elapsed = (stamps - stamps[0]) / self.step_
        n_steps = max(int(np.ceil(elapsed[-1] - 1e-6)), 1)
        row = np.searchsorted(elapsed, np.arange(n_steps) + 1e-6) - 1
        z = self._run(s0, u[:, row], relift_every)
        values = self._values(z)
        left = np.minimum((elapsed + 1e-9).astype(int), n_steps - 1)
        share = np.clip(elapsed - left, 0.0, 1.0)
        share = np.where(np.abs(share - share.round()) < 1e-6, share.round(), share)[:, None]
        out = np.where(share > 0, (1.0 - share) * values[:, left], values[:, left])
        out = np.where(share > 0, out + share * values[:, left + 1], out)
        if not self.n_delays:
            out[:, 0] = checked_starts(X0, self.names_)
        return np.asarray(out)

    def simulate(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        *,
        controls: ArrayLike | None = None,
        n_samples: int = 1,
        random_state: int | np.random.Generator | None = None,
        past_controls: ArrayLike | None = None,
        relift_every: int | None = None,
    ) -> Trajectories:
        """Run freely, without data, from one or several starts.

        Parameters
        ----------
        x0 : array (N,) or (B, N)
            State at ``times[0]``, in data units; with delays (d + 1, N) or (B, d + 1, N).
        times : array (T,)
            Increasing stamps; between samples of ``step_`` the run is interpolated.
        controls : array (T, K), optional
            Inputs; row k holds from ``times[k]`` to ``times[k + 1]``.
        n_samples : int
            Copies of each start; they are equal. For runs that differ see ``ensemble``.
        random_state : int, Generator or None
            Accepted for the interface; there is nothing random.

        Raises
        ------
        ParameterError
            The start, the times or the controls do not fit the model.
        NumericalError
            A run leaves the range of the model at once.
        """
        self._check_samples(n_samples)
        if controls is not None and np.ndim(controls) == 3:
            raise ParameterError("controls of simulate are (T, K), the same for all starts.")
        stamps, u, runs = self._free_runs(x0, times, controls, past_controls, relift_every)
        return self._recorded(runs, stamps, u, int(n_samples))

    def _free_runs(
        self,
        x0: ArrayLike | Trajectories,
        times: ArrayLike,
        controls: ArrayLike | None,
        past_controls: ArrayLike | None = None,
        relift_every: int | None = None,
    ) -> tuple[Array, Array | None, Array]:
        """Checked stamps and controls, and values (B, T, N) in data units, NaN from an escape."""
        stamps = checked_times(times)
        runs = self.predict(
            x0, stamps, controls=controls, past_controls=past_controls, relift_every=relift_every
        )
        return stamps, checked_controls(controls, stamps.size, self.control_names_), runs

    def ensemble(
        self,
        x0: ArrayLike | Trajectories,
        controls: ArrayLike,
        *,
        n_samples: int = 200,
        past_controls: ArrayLike | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> Array:
        """Values (n_samples, T + 1, N) of runs that differ like the model differs from the data.

        Every run adds one-step residuals of recordings held back from training, in stretches as
        they occurred. The error of a forecast is a linear function of such residuals, so that its
        law is reproduced as far as they are typical.

        Parameters
        ----------
        x0 : array (N,), or with delays (d + 1, N)
        controls : array (T, K)
            Inputs, one row a sample.
        """
        self._check_fitted()
        self._check_samples(n_samples)
        rng = as_generator(random_state)
        s0 = self._states(x0, past_controls)[:1]
        u = np.asarray(controls, dtype=np.float64).reshape(len(np.atleast_1d(controls)), -1)
        u = self._controls(u if self.control_names_ else None, len(u), 1)[0]
        blocks, length = self.residuals_, self.residuals_.shape[1]
        n_blocks = -(-len(u) // length)
        drawn = blocks[rng.integers(len(blocks), size=(n_samples, n_blocks))]
        noise = drawn.reshape(n_samples, n_blocks * length, -1)[:, : len(u)]
        z0 = np.repeat(self._lift(s0), n_samples, axis=0)
        z = rollout(self.W_, z0, np.broadcast_to(u, (n_samples, *u.shape)), self._bilinear, noise)
        return self._values(z)

    def horizon_errors(
        self,
        X: Trajectories | ArrayLike,
        times: ArrayLike | None = None,
        *,
        horizon: int | None = None,
        most: int = 4000,
    ) -> HorizonErrors:
        """Errors of forecasts from every measured state, lifted anew each time.

        Parameters
        ----------
        X : Trajectories or arrays
        horizon : int, optional
            Steps ahead; the horizon of training if left out.
        most : int
            Windows looked at, evenly spread.
        """
        self._check_fitted()
        data = as_trajectories(X, times)
        steps = self.horizon if horizon is None else horizon
        if not whole(steps, 1):
            raise ParameterError(f"horizon={horizon!r}; needed is a whole number >= 1.")
        return self._errors(self._known(data, int(steps)).windows(int(steps), most=most))

    def input_response(
        self,
        x0: ArrayLike | None = None,
        n_steps: int = 40,
        *,
        control: ArrayLike | None = None,
        step: float | None = None,
    ) -> Reachability:
        """What the inputs do to the variables; exact, and the same everywhere, for linear inputs.

        Parameters
        ----------
        x0 : array (N,), optional
            Where a bilinear model is linearised, at rest; the mean of the recordings without it.
        n_steps : int
            H.
        control : array (K,), optional
            The constant inputs there, in data units; their mean without it.
        step : float, optional
            Not used; a step is that of the recordings.

        Raises
        ------
        ParameterError
            The model has no inputs, or a shape does not fit.
        NumericalError
            The run leaves the range of the model.
        """
        self._check_fitted()
        check_steerable(self.control_names_)
        H, scaler, N = checked_horizon(n_steps), self.scaler_, len(self.names_)
        if not self._bilinear:
            response = markov_parameters(self.A_, self.B_, self.C_, H)
        else:
            x, u = operating_point(self, scaler, x0, control, scaler.mean)
            rest = scaler.transform_controls(u)
            z0 = self._lift(self._at_rest(scaler.transform_values(x), rest))

            def run(v: Array) -> Array:
                z = rollout(self.W_, z0, v[None], True)[0, 1:, :N]
                return np.where(np.abs(z) < OUT_OF_RANGE, z, np.nan)

            response = by_differences(run, rest, np.ones(len(rest)), H)
        response = response * scaler.scale[:, None, None] / scaler.control_scale
        times = np.asarray(self.step_ * np.arange(1, H + 1), dtype=np.float64)
        return Reachability(
            times, response, scaler.scale, scaler.control_scale, self.names_, self.control_names_
        )

    def score(self, X: Trajectories | ArrayLike, times: ArrayLike | None = None) -> float:
        """How well forecasts up to the horizon agree with recordings: minus their mean nRMSE.

        Higher is better, 0 is perfect; each forecast starts from a measured state.
        """
        return -self.horizon_errors(X, times).mean()

    @property
    def eigenvalues_(self) -> NDArray[np.complex128]:
        """Eigenvalues of A, largest modulus first."""
        self._check_fitted()
        values = np.linalg.eigvals(self.A_).astype(np.complex128)
        return np.asarray(values[np.argsort(-np.abs(values))])

    @property
    def spectral_radius_(self) -> float:
        """Largest modulus of an eigenvalue of A; above 1, forecasts grow without bound."""
        return float(np.abs(self.eigenvalues_[0]))

    # ------------------------------------------------------------------ keeping
    @classmethod
    def _arguments(cls, parameters: Any) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}

    def _kept(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        fields = {
            "step": self.step_,
            "lift": kind_of(self.lift_),
            "scaler": self.scaler_.to_dict(),
            "residuals_held_back": self.residuals_held_back_,
            "facts": self.facts_,
        }
        lift = {f"lift.{k}": v for k, v in self.lift_.arrays.items()}
        return {"W": self.W_, "residuals": self.residuals_, **lift}, fields

    def _take_over(self, arrays: dict[str, NDArray[Any]], fields: dict[str, Any]) -> None:
        self.step_ = float(fields["step"])
        self.scaler_ = Scaler.from_dict(fields["scaler"])
        self.facts_ = dict(fields["facts"])
        self.residuals_ = arrays["residuals"]
        self.residuals_held_back_ = bool(fields["residuals_held_back"])
        lift = {k.removeprefix("lift."): v for k, v in arrays.items() if k.startswith("lift.")}
        self._adopt(arrays["W"], lift_from(fields["lift"], lift))

    # ------------------------------------------------------------------ for the models
    @property
    def _bilinear(self) -> bool:
        return self.input == "bilinear"

    def _prepare(self, data: Trajectories) -> States:
        """Check recordings, measure their scale, and remember what they were."""
        step = check_recordings(data, int(self.horizon), int(self.n_delays))
        scaled, scaler = data.standardise()
        self._pending = _Pending(data, step, scaler)
        return states_of(scaled, int(self.n_delays))

    def _finish(self, W: Array, lift: Lift, held: Windows, held_back: bool) -> None:
        """Take over what was learned; ``held`` gives the residuals of ``ensemble``."""
        self._note(self._pending.data)
        self.step_, self.scaler_ = self._pending.step, self._pending.scaler
        self.facts_ = {**self.facts_, "control_range": control_range(self._pending.data)}
        del self._pending
        self._adopt(W, lift)
        self._renew_residuals(held, W)
        self.residuals_held_back_ = held_back

    def _renew_residuals(self, held: Windows, W: Array) -> None:
        z = self.lift_(held.s)
        e = z[:, 1:] - features(z[:, :-1], held.u, self._bilinear) @ W.T
        every = max(1, len(e) // _KEPT_RESIDUALS)
        self.residuals_ = np.ascontiguousarray(e[::every][:_KEPT_RESIDUALS])

    def _adopt(self, W: Array, lift: Lift) -> None:
        self.W_, self.lift_ = np.ascontiguousarray(W), lift  # the layout decides the last bit
        self.n_features_in_ = len(self.scaler_.mean)
        self.A_, self.B_, self.N_ = split(W, len(self.control_names_))
        self.C_ = np.eye(self.n_features_in_, len(W))

    def _lift(self, s: Array) -> Array:
        return self.lift_(s)

    def _values(self, z: Array) -> Array:
        """Data units (B, T, N) of lifted states, NaN from where a run escaped."""
        N = self.n_features_in_
        outside = np.array(~(np.abs(z) < OUT_OF_RANGE).all(axis=2))
        outside[:, 0] = False
        values = self.scaler_.inverse_values(z[..., :N])
        values[np.logical_or.accumulate(outside, axis=1)] = np.nan
        return values

    def _run(self, s0: Array, u: Array, relift_every: int | None = None) -> Array:
        """Lifted states (B, T + 1, Z) in standard units."""
        F = s0.shape[1]
        z = self._lift(s0)
        every = relift_every or u.shape[1]
        parts = [z[:, None]]
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(0, u.shape[1], every):
                run = rollout(self.W_, z, u[:, k : k + every], self._bilinear)[:, 1:]
                parts.append(run)
                z = self._lift(run[:, -1, :F])
        return np.concatenate(parts, axis=1)

    def _errors(self, windows: Windows) -> HorizonErrors:
        N = self.n_features_in_
        z = self._run(windows.s[:, 0], windows.u)
        with np.errstate(over="ignore", invalid="ignore"):
            error = z[:, 1:, :N] - windows.s[:, 1:, :N]
            error = np.where(np.isfinite(error), np.clip(error, -1e100, 1e100), 1e100)
            square = (error**2).mean(axis=0)
            last = np.sqrt((error[:, -1] ** 2).mean(axis=1))
        return HorizonErrors(
            np.sqrt(square) * self.scaler_.scale, np.sqrt(square.mean(axis=1)),
            float((last > _DIVERGED).mean()), len(windows),
        )  # fmt: skip

    # ------------------------------------------------------------------ checks
    def _check_common(self) -> None:
        """Refuse impossible arguments that all models have."""
        if not whole(self.horizon, 2):
            raise ParameterError(f"horizon={self.horizon!r}; needed is a whole number >= 2.")
        if not whole(self.n_delays, 0):
            raise ParameterError(f"n_delays={self.n_delays!r}; needed is a whole number >= 0.")
        if self.input not in ("linear", "bilinear"):
            raise ParameterError(f'input={self.input!r} is not known; use "linear" or "bilinear".')
        if not (positive(self.ridge) or self.ridge == 0):
            raise ParameterError(f"ridge={self.ridge!r}; needed is a number >= 0, 1e-6 is usual.")
        check_validation(self)
        check_seed(self)

    def _known(self, data: Trajectories, horizon: int) -> States:
        """States of recordings that must be of the kind that the model was fitted to."""
        self._check_columns(data)
        step = check_recordings(data, horizon, int(self.n_delays))
        if abs(step - self.step_) > 1e-2 * self.step_:
            raise DataError(
                f"the recordings have a sample every {step:.6g}, the model was fitted to "
                f"{self.step_:.6g}. Bring them to its grid: "
                f"foretell.dynamics.interpolate(recordings, {self.step_:.6g})."
            )
        return states_of(self.scaler_.transform(data), int(self.n_delays))


def control_range(data: Trajectories) -> list[list[float]]:
    """Smallest and largest value of each input."""
    used = np.concatenate(data.controls) if data.controls is not None else np.zeros((1, 0))
    return [used.min(axis=0).tolist(), used.max(axis=0).tolist()]
