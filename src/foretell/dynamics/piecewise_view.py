"""Analysis of a learned piecewise-linear field, in the units and the time of the recordings.

The searches run on the standardised field, where all units are of order one; the results are then
carried over exactly. Observed variable n of a latent state z is mean_n + scale_n z_n, one unit of
model time is ``time_scale_`` of data time, and unobserved units keep their values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import ParameterError
from foretell.solve.piecewise import (
    EquilibriumSet,
    LimitCycle,
    LyapunovSpectrum,
    PiecewiseLinearField,
    equilibria,
    limit_cycles,
    lyapunov_spectrum,
)

if TYPE_CHECKING:
    from foretell.data import Scaler
    from foretell.dynamics.layout import Layout

Array = NDArray[np.float64]


class PiecewiseView:
    """The analysis that every learner with a piecewise-linear field offers."""

    if TYPE_CHECKING:
        scaler_: Scaler
        layout_: Layout
        time_scale_: float
        A_: Array
        W_: Array
        h_: Array
        C_: Array
        L_: Array
        n_relu: int

        def _check_fitted(self) -> None: ...

    @property
    def field_(self) -> PiecewiseLinearField:
        """The learned field in standardised variables and model time."""
        self._check_fitted()
        C = self.C_ if self.layout_.n_controls else None
        return PiecewiseLinearField(self.A_, self.W_, self.h_, int(self.n_relu), C)

    @property
    def data_field_(self) -> PiecewiseLinearField:
        """The learned field in data units and data time.

        With x = mean + scale z in the observed units, W and A of a unit that is not rectified
        scale like matrices, and the means and the scaling of the controls move into h.

        Raises
        ------
        ParameterError
            When observed units are rectified: their threshold is the mean of the variable, which
            this form of the field cannot express.
        """
        field, N = self.field_, self.layout_.n_observed
        if N > field.n_units - field.n_relu:
            raise ParameterError(
                f"{field.n_relu} of {field.n_units} units are rectified, observed ones among "
                f"them, so the field has no exact form in data units. Use model.field_ "
                f"(standardised variables), or fit with n_relu={field.n_units - N} or less."
            )
        scale, mean = self._affine()
        tau = self.time_scale_
        W = scale[:, None] * field.W / scale / tau
        h = scale * field.h / tau - W @ mean - field.A * mean / tau
        C = None
        if field.C is not None:
            C = scale[:, None] * field.C / self.scaler_.control_scale / tau
            h = h - C @ self.scaler_.control_mean
        return PiecewiseLinearField(field.A / tau, W, h, field.n_relu, C)

    def vector_field(self, states: ArrayLike, control: ArrayLike | None = None) -> Array:
        """Velocity at latent states (..., M), in data units and data time.

        ``control`` (K,) is in data units; without it the mean input acts.
        """
        scale, mean = self._affine()
        z = (np.asarray(states, dtype=np.float64) - mean) / scale
        return np.asarray(scale * self.field_(z, self._control(control)) / self.time_scale_)

    def equilibria(self, *, control: ArrayLike | None = None, **options: Any) -> EquilibriumSet:
        """Equilibria of the learned field.

        Parameters
        ----------
        control : array (K,), optional
            Constant input in data units; the mean input when the model has inputs and none is
            given.
        **options
            Passed to `foretell.solve.piecewise.equilibria` (method, box, ...); ``box`` counts
            standard deviations.

        Returns
        -------
        EquilibriumSet
            States with the observed units in data units; eigenvalues per data time.
        """
        found = equilibria(self.field_, control=self._control(control), **options)
        scale, mean = self._affine()
        tau = self.time_scale_
        return replace(
            found,
            items=tuple(
                replace(
                    point,
                    state=mean + scale * point.state,
                    eigenvalues=point.eigenvalues / tau,
                    sides=tuple(
                        replace(side, eigenvalues=side.eigenvalues / tau) for side in point.sides
                    ),
                )
                for point in found.items
            ),
            continua=tuple(
                replace(
                    flat,
                    state=mean + scale * flat.state,
                    directions=_orthonormal(flat.directions * scale),
                    eigenvalues=flat.eigenvalues / tau,
                )
                for flat in found.continua
            ),
        )

    def limit_cycles(
        self, *, control: ArrayLike | None = None, **options: Any
    ) -> tuple[LimitCycle, ...]:
        """Limit cycles of the learned field, period in data time.

        `foretell.solve.piecewise.limit_cycles` takes the ``options``; ``starts`` (S, M) are in
        data units and ``periods`` (S,) in data time, as the results are.

        Raises
        ------
        ParameterError
            When observed units are rectified, see ``data_field_``.
        """
        data_field = self.data_field_
        u = self._control(control)
        if options.get("starts") is not None:
            centre, width = self._affine()[::-1]
            options["starts"] = (np.asarray(options["starts"], dtype=np.float64) - centre) / width
        if options.get("periods") is not None:
            options["periods"] = np.asarray(options["periods"]) / self.time_scale_
        found = limit_cycles(self.field_, control=u, **options)
        scale, mean = self._affine()
        tau = self.time_scale_
        drive = data_field.drive(self._data_control(control))
        folded = PiecewiseLinearField(data_field.A, data_field.W, drive, data_field.n_relu)
        unit_scale = scale / tau
        return tuple(
            replace(
                cycle,
                state=mean + scale * cycle.state,
                nodes=mean + scale * cycle.nodes,
                period=cycle.period * tau,
                exponents=cycle.exponents / tau,
                transversality=cycle.transversality * float(unit_scale[-1])
                if cycle.n_crossings
                else cycle.transversality,
                events=replace(
                    cycle.events,
                    times=cycle.events.times * tau,
                    states=mean + scale * cycle.events.states,
                ),
                field=folded,
            )
            for cycle in found
        )

    def lyapunov_spectrum(
        self, *, control: ArrayLike | None = None, **options: Any
    ) -> LyapunovSpectrum:
        """Lyapunov exponents per data time, along a free run from the centre of the data.

        ``options`` may hold ``duration`` and ``transient`` in data time (default: 20 000 and
        1 000 samples), ``n_exponents``, and ``x0`` (N,), where the run starts, in data units.
        """
        tau = self.time_scale_
        duration = options.pop("duration", 20_000 * tau) / tau
        transient = options.pop("transient", 1_000 * tau) / tau
        u = self._control(control)
        field = self.field_
        x0 = options.pop("x0", None)
        x = np.full(self.layout_.n_observed, 0.1)
        if x0 is not None:
            x = self.scaler_.transform_values(np.reshape(x0, -1))
        z0 = np.concatenate([x, self.L_ @ x])
        found = lyapunov_spectrum(field, z0, duration, transient=transient, control=u, **options)
        scale, mean = self._affine()
        return replace(
            found,
            exponents=found.exponents / tau,
            standard_errors=found.standard_errors / tau,
            duration=found.duration * tau,
            mean_divergence=found.mean_divergence / tau,
            sum_error=None if found.sum_error is None else found.sum_error / tau,
            state=mean + scale * found.state,
        )

    # ------------------------------------------------------------------ coordinates
    def _affine(self) -> tuple[Array, Array]:
        """(scale, mean) with data state = mean + scale * latent state, both (M,)."""
        M, N = self.layout_.n_units, self.layout_.n_observed
        scale, mean = np.ones(M), np.zeros(M)
        scale[:N], mean[:N] = self.scaler_.scale, self.scaler_.mean
        return scale, mean

    def _data_control(self, control: ArrayLike | None) -> Array | None:
        if self.layout_.n_controls == 0:
            if control is not None:
                raise ParameterError("this model was fitted without controls; leave control out.")
            return None
        if control is None:
            return self.scaler_.control_mean
        given = np.asarray(control, dtype=np.float64).reshape(-1)
        if given.size != self.layout_.n_controls or not np.isfinite(given).all():
            raise ParameterError(
                f"control={control!r}; needed are {self.layout_.n_controls} finite numbers, one "
                "for each input of the model."
            )
        return given

    def _control(self, control: ArrayLike | None) -> Array | None:
        u = self._data_control(control)
        return None if u is None else self.scaler_.transform_controls(u)


def _orthonormal(directions: Array) -> Array:
    q, _ = np.linalg.qr(directions.T)
    return np.asarray(q.T)
