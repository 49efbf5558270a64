"""A continuous piecewise-linear vector field.

    dz/dt = A z + W phi(z) + h + C u,    phi(z)_i = z_i           for the first M - P units
                                         phi(z)_i = max(z_i, 0)   for the last P units

Legend: M latent units, P of them rectified, K inputs; A is diagonal and stored as (M,).
Region code: s_i = [z_i > 0] for the P rectified units. Inside one region the field is affine,
dz/dt = W_s z + h + C u with W_s = diag(A) + W D_s, and it is continuous across every boundary.

Source: Braendle, Eisenmann, Goetz, Durstewitz, "Continuous-time piecewise-linear recurrent
neural networks", ICML 2026, arXiv 2602.15649.
"""

from __future__ import annotations

from dataclasses import dataclass, field as dataclass_field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core.errors import ParameterError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PiecewiseLinearField:
    """A continuous piecewise-linear vector field with M units, the last P of them rectified.

    Parameters
    ----------
    A : array of shape (M,)
        Diagonal decay rates, in 1 / time unit.
    W : array of shape (M, M)
        Coupling; column j multiplies unit j (rectified where j >= M - P).
    h : array of shape (M,)
        Constant drive.
    n_relu : int
        P, the number of rectified units.
    C : array of shape (M, K), optional
        Input matrix; the input u is held constant between samples.

    Examples
    --------
    >>> W = [[0.0, 1.0], [0.0, 0.0]]
    >>> field = PiecewiseLinearField(A=[-1.0, -1.0], W=W, h=[0.0, 0.5], n_relu=1)
    >>> field([2.0, -3.0])
    array([-2. ,  3.5])
    """

    A: Array
    W: Array
    h: Array
    n_relu: int
    C: Array | None = dataclass_field(default=None)

    def __init__(
        self, A: ArrayLike, W: ArrayLike, h: ArrayLike, n_relu: int, C: ArrayLike | None = None
    ) -> None:
        A_M, W_MM, h_M = (np.array(v, dtype=np.float64, order="C") for v in (A, W, h))
        M = A_M.size
        if A_M.shape != (M,) or W_MM.shape != (M, M) or h_M.shape != (M,):
            raise ParameterError(
                f"A, W and h have shapes {A_M.shape}, {W_MM.shape} and {h_M.shape}; "
                "needed are (M,), (M, M) and (M,) with one M."
            )
        if not 0 <= n_relu <= M:
            raise ParameterError(f"n_relu={n_relu} is not between 0 and the {M} latent units.")
        C_MK = None if C is None else np.array(C, dtype=np.float64, order="C")
        if C_MK is not None and (C_MK.ndim != 2 or C_MK.shape[0] != M):
            raise ParameterError(f"C has shape {C_MK.shape}; needed is ({M}, number of inputs).")
        for name, value in (("A", A_M), ("W", W_MM), ("h", h_M), ("C", C_MK)):
            if value is not None and not np.isfinite(value).all():
                raise ParameterError(f"{name} has entries that are not finite.")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_relu", int(n_relu))

    @property
    def n_units(self) -> int:
        """M, the number of latent units."""
        return int(self.A.size)

    @property
    def n_inputs(self) -> int:
        """K, the number of inputs (0 without C)."""
        return 0 if self.C is None else int(self.C.shape[1])

    @cached_property
    def relu_units(self) -> NDArray[np.intp]:
        """Indices of the rectified units, M - P .. M - 1."""
        return np.arange(self.n_units - self.n_relu, self.n_units)

    def drive(self, control: ArrayLike | None = None) -> Array:
        """The constant part h + C u of the field, shape (M,)."""
        if control is None or self.C is None:
            return self.h
        drive: Array = self.h + self.C @ np.asarray(control, dtype=np.float64)
        return drive

    def code(self, state: ArrayLike) -> NDArray[np.bool_]:
        """Region code [z_i > 0] of the rectified units, shape (..., P)."""
        positive: NDArray[np.bool_] = np.asarray(state)[..., self.n_units - self.n_relu :] > 0
        return positive

    def matrix(self, code: ArrayLike) -> Array:
        """W_s = diag(A) + W D_s of one region, shape (M, M)."""
        on = np.ones(self.n_units)
        on[self.n_units - self.n_relu :] = np.asarray(code, dtype=np.float64)
        matrix: Array = np.diag(self.A) + self.W * on
        return matrix

    def __call__(self, state: ArrayLike, control: ArrayLike | None = None) -> Array:
        """dz/dt at one state (M,) or at many (..., M), with one input u (K,)."""
        z = np.asarray(state, dtype=np.float64)
        rectified = z.copy()
        first = self.n_units - self.n_relu
        rectified[..., first:] = np.maximum(z[..., first:], 0.0)
        velocity: Array = self.A * z + rectified @ self.W.T + self.drive(control)
        return velocity
