"""The exact flow of a piecewise-linear field, with certified crossings.

Source: Braendle, Eisenmann, Goetz, Durstewitz, "Continuous-time piecewise-linear recurrent neural
networks", ICML 2026, arXiv 2602.15649.

Inside one region the flow is affine and is evaluated as the action of the exponential of the
augmented generator [[W_s, h], [0, 0]], expanded to rounding. A step is accepted only with a
certificate that no rectified unit changes sign within it: with |d2z_i/dt2| <= K_i on a piece of
length D, the unit has no zero where both ends have one sign and exceed K_i D^2 / 8 in size. Pieces
without certificate are halved; where the unit is monotone the zero is found to rounding. The region
code is carried as discrete state: at a crossing z_i becomes exactly 0 and bit i flips, so nothing
has to be nudged across a boundary, and a zero at the start of a step is divided out of the series.
Stiff fields that stay long in one region are crossed in certified leaps by repeated squaring.

Differs from the paper in: no eigen-decomposition (singular and defective regions need no
perturbation), no interval Newton, no time nudge, no division by dz_i/dt at crossings.

Legend: M units, P rectified, K output times, E events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.certified_kernel import ESCAPED, STALLED, advance
from foretell.solve.piecewise.field import PiecewiseLinearField

Array = NDArray[np.float64]
Codes = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Events:
    """Boundary crossings in order of time; units that cross together have rows of equal time.

    Attributes
    ----------
    times : array (E,)
        Crossing times.
    units : int array (E,)
        The unit that changed sign.
    states : array (E, M)
        State at the crossing; the crossing units are exactly 0.
    codes_before, codes_after : bool array (E, P)
        Region left and region entered (the same for all rows of one time).
    """

    times: Array
    units: NDArray[np.int64]
    states: Array
    codes_before: Codes
    codes_after: Codes

    def __len__(self) -> int:
        return int(self.times.size)

    def __repr__(self) -> str:
        return f"Events({len(self)} crossings of units {sorted(set(self.units.tolist()))})"


@dataclass(frozen=True, eq=False)
class Flow:
    """A trajectory of a piecewise-linear field.

    Attributes
    ----------
    times : array (K,)
        The requested times.
    states : array (K, M)
        State at each of them; NaN from the escape on.
    codes : bool array (K, P)
        Region code at each of them (after the crossings at that time).
    events : Events
        Crossings in (times[0], times[-1]].
    escaped_at : float or None
        When the Euclidean norm of the state passed `max_norm`; None when it did not.
    """

    times: Array
    states: Array
    codes: Codes
    events: Events
    escaped_at: float | None

    def __repr__(self) -> str:
        end = "" if self.escaped_at is None else f", escaped at {self.escaped_at:.6g}"
        return f"Flow({self.times.size} times, {len(self.events)} crossings{end})"


def flow(
    field: PiecewiseLinearField,
    z0: ArrayLike,
    times: ArrayLike,
    *,
    controls: ArrayLike | None = None,
    max_norm: float = 1e6,
    tol: float = 1e-12,
) -> Flow:
    """Follow a piecewise-linear field exactly, with every boundary crossing.

    Parameters
    ----------
    field : PiecewiseLinearField
        The vector field.
    z0 : array of shape (M,)
        State at times[0].
    times : array of shape (K,)
        Strictly increasing output times; they have no influence on the solution.
    controls : array of shape (K, n_inputs), optional
        Row k is the input on [times[k], times[k + 1]); the last row is not used. A single row
        (n_inputs,) is held throughout.
    max_norm : float
        The run stops, without an error, where the norm of the state passes this value.
    tol : float
        A dip across a boundary shallower than `tol` times the size of the terms that make up the
        unit is a touch and not a crossing. It does not limit the accuracy of crossing times.

    Raises
    ------
    ParameterError
        For shapes that do not fit, values that are not finite, or times that do not increase.
    NumericalError
        When the rates are so fast that time does not advance in double precision.

    Examples
    --------
    >>> field = PiecewiseLinearField(
    ...     A=[-1.0, 0.0], W=[[0.0, 1.0], [0.0, 0.0]], h=[0.0, 1.0], n_relu=1
    ... )
    >>> run = flow(field, [0.0, -1.0], [0.0, 1.0, 2.0])
    >>> run.states.round(6)
    array([[ 0.      , -1.      ],
           [ 0.      ,  0.      ],
           [ 0.367879,  1.      ]])
    >>> run.events.times
    array([1.])
    """
    z0_M, times_K, drives = _checked(field, z0, times, controls)
    if not max_norm > 0 or not tol > 0:
        raise ParameterError(f"max_norm={max_norm} and tol={tol} must both be positive.")
    M, P, K = field.n_units, field.n_relu, times_K.size
    states, codes = np.full((K, M), np.nan), np.zeros((K, P), dtype=np.bool_)
    status, t, _, n_flips, log = advance(
        field.A,
        field.W,
        drives,
        field.code(z0_M),
        z0_M,
        times_K,
        float(max_norm),
        float(tol),
        states,
        codes,
    )
    if status == STALLED:
        raise NumericalError(
            f"Time does not advance beyond t={t}: the rates of the field (entries of W up to "
            f"{np.abs(field.W).max():.3g}) are too fast for double precision at this time. "
            "Start the clock at zero: flow(field, z0, times - times[0])."
        )
    events = _grouped(field, log[:n_flips])
    escaped = float(t) if status == ESCAPED else None
    return Flow(times_K, states, codes, events, escaped)


def _checked(
    field: PiecewiseLinearField, z0: ArrayLike, times: ArrayLike, controls: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """The arguments as arrays, and the drive h + C u per interval (one row when constant)."""
    z0_M = np.array(z0, dtype=np.float64, order="C")
    times_K = np.array(times, dtype=np.float64, order="C")
    M = field.n_units
    if z0_M.shape != (M,):
        raise ParameterError(f"z0 has shape {z0_M.shape}; the field needs ({M},).")
    if not np.isfinite(z0_M).all():
        raise ParameterError(f"z0[{int(np.argmin(np.isfinite(z0_M)))}] is not finite.")
    if times_K.ndim != 1 or times_K.size == 0:
        raise ParameterError(f"times has shape {times_K.shape}; needed is (K,) with K >= 1.")
    if not np.isfinite(times_K).all():
        raise ParameterError(f"times[{int(np.argmin(np.isfinite(times_K)))}] is not finite.")
    if (np.diff(times_K) <= 0).any():
        k = int(np.argmax(np.diff(times_K) <= 0)) + 1
        raise ParameterError(
            f"times[{k}]={times_K[k]} does not come after times[{k - 1}]={times_K[k - 1]}; "
            "times must increase strictly: np.unique(times) sorts and merges them."
        )
    if controls is None:
        return z0_M, times_K, field.h[None, :]
    u = np.array(controls, dtype=np.float64, order="C")
    if field.C is None:
        raise ParameterError("controls were given, but the field has no input matrix C.")
    held = u.ndim == 1
    if u.shape != ((field.n_inputs,) if held else (times_K.size, field.n_inputs)):
        raise ParameterError(
            f"controls has shape {u.shape}; needed is ({times_K.size}, {field.n_inputs}), one row "
            f"per time, or ({field.n_inputs},) for an input that is held throughout."
        )
    used = u if held else u[: max(times_K.size - 1, 1)]
    if not np.isfinite(used).all():
        raise ParameterError("controls has entries that are not finite.")
    drives = field.h + np.atleast_2d(u) @ field.C.T
    return z0_M, times_K, drives if held or (drives[:-1] != drives[0]).any() else drives[:1]


def _grouped(field: PiecewiseLinearField, log: Array) -> Events:
    """Single flips as events: flips at one time share the region left and the region entered."""
    M, n, rows = field.n_units, len(log), np.arange(len(log))
    at, units, states = log[:, 0].copy(), log[:, 1].astype(np.int64), log[:, 2 : 2 + M].copy()
    before = log[:, 2 + M :].astype(np.bool_)
    after, bit = before.copy(), units - (M - field.n_relu)
    after[rows, bit] ^= True
    _, start, group = np.unique(at, return_index=True, return_inverse=True)
    if start.size < n:
        last = np.append(start[1:], n) - 1
        before, after, states = before[start][group], after[last][group], states[last][group]
        changed = np.flatnonzero(before[rows, bit] != after[rows, bit])
        _, kept = np.unique(np.stack((group, units))[:, changed], axis=1, return_index=True)
        keep = changed[kept]
        at, units, states = at[keep], units[keep], states[keep]
        before, after = before[keep], after[keep]
    return Events(at, units, states, before, after)
