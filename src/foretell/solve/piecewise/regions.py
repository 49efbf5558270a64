"""Equilibria of single regions: many regions at once, and one region carefully.

Legend: B regions in a batch, M units, P rectified, d dimensions of a null space.

W_s differs between regions in P columns only, W_s = W_r + W[:, R] (D_s - D_r). With one well
conditioned reference region r every other region costs one P x P system instead of M x M:

    (I + K (D_s - D_r)) z_R = (W_r^-1 (-h))_R,      K = (W_r^-1 W[:, R])_R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foretell.solve.piecewise.field import Array, PiecewiseLinearField

Codes = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
BOUNDARY = 1e-10  # |z_i| below this fraction of max|z| lies on a boundary
REFERENCE_CONDITION = 1e8  # a worse reference region is not used
SUSPECT = 1e-9  # a smaller ratio of singular values is looked at on its own
BATCH_FLOATS = 4_000_000  # at most 32 MB in one batch of matrices


class RegionSolver:
    """Solves W_s z = -(h + C u) for batches of region codes, in bounded memory."""

    def __init__(self, field: PiecewiseLinearField, drive_M: Array) -> None:
        self.field, self.drive = field, drive_M
        self.n_solves = 0
        self._reference: Codes | None = None
        reference = self._best_reference()
        if reference is not None:
            self._reference = reference
            W_ref = field.matrix(reference)
            first = field.n_units - field.n_relu
            self._z_ref = np.asarray(np.linalg.solve(W_ref, -drive_M), dtype=np.float64)
            self._K_MP = np.asarray(np.linalg.solve(W_ref, field.W[:, first:]), dtype=np.float64)

    @property
    def batch_size(self) -> int:
        """How many regions fit into one batch."""
        width = self.field.n_units if self._reference is None else self.field.n_relu
        return int(min(8192, max(1, BATCH_FLOATS // max(1, 3 * width * width))))

    def solve(self, codes_BP: Codes) -> tuple[Array, Codes]:
        """Solutions (B, M), real or virtual, and which regions are safely regular (B,)."""
        states, regular = [], []
        for start in range(0, len(codes_BP), self.batch_size):
            z_BM, regular_B = self._solve_batch(codes_BP[start : start + self.batch_size])
            states.append(z_BM)
            regular.append(regular_B)
        self.n_solves += len(codes_BP)
        return np.concatenate(states), np.concatenate(regular)

    def candidates(self, codes_BP: Codes) -> Codes:
        """Which codes may hold an equilibrium: consistent within a margin, or suspect (B,)."""
        z_BM, regular_B = self.solve(codes_BP)
        return ~regular_B | self.consistent(z_BM, codes_BP)

    def consistent(self, z_BM: Array, codes_BP: Codes) -> Codes:
        """Whether each solution lies in its region, up to a margin for later refinement."""
        scale_B1 = np.abs(z_BM).max(axis=1, initial=0.0)[:, None]
        zR_BP = z_BM[:, self.field.n_units - self.field.n_relu :]
        inside: Codes = (np.where(codes_BP, zR_BP, -zR_BP) >= -1e-6 * scale_B1).all(axis=1)
        return inside

    def _best_reference(self) -> Codes | None:
        P = self.field.n_relu
        tries = [np.zeros(P, bool), np.ones(P, bool)]
        if P > 1:
            tries.extend(np.random.default_rng(0).random((6, P)) < 0.5)
        conditions = [float(np.linalg.cond(self.field.matrix(code))) for code in tries]
        best = int(np.argmin(np.nan_to_num(conditions, nan=np.inf)))
        return tries[best] if conditions[best] < REFERENCE_CONDITION else None

    def _solve_batch(self, codes_BP: Codes) -> tuple[Array, Codes]:
        if self._reference is None:
            return self._solve_full(codes_BP)
        P = self.field.n_relu
        if P == 0:
            return np.tile(self._z_ref, (len(codes_BP), 1)), np.ones(len(codes_BP), bool)
        first = self.field.n_units - P
        delta_BP = codes_BP.astype(np.float64) - self._reference
        S_BPP = np.eye(P) + self._K_MP[first:] * delta_BP[:, None, :]
        regular_B = _regular(S_BPP)
        S_BPP[~regular_B] = np.eye(P)
        zR_BP = np.linalg.solve(S_BPP, np.tile(self._z_ref[first:], (len(S_BPP), 1))[..., None])
        z_BM: Array = self._z_ref - (delta_BP * zR_BP[..., 0]) @ self._K_MP.T
        return z_BM, regular_B

    def _solve_full(self, codes_BP: Codes) -> tuple[Array, Codes]:
        M, P = self.field.n_units, self.field.n_relu
        on_BM = np.ones((len(codes_BP), M))
        on_BM[:, M - P :] = codes_BP
        W_BMM = np.diag(self.field.A) + self.field.W * on_BM[:, None, :]
        regular_B = _regular(W_BMM)
        W_BMM[~regular_B] = np.eye(M)
        drives_BM1 = np.tile(-self.drive, (len(W_BMM), 1))[..., None]
        return np.asarray(np.linalg.solve(W_BMM, drives_BM1)[..., 0], np.float64), regular_B


@dataclass(frozen=True, eq=False)
class RegionFinding:
    """What one region holds: a point, a flat of points, or nothing.

    ``kind`` is "point", "flat", "virtual" (the solution lies in another region) or "none"
    (singular, and no solution at all). ``directions_dM`` spans a flat.
    """

    kind: Literal["point", "flat", "virtual", "none"]
    state: Array
    directions_dM: Array
    on_boundary: Codes
    singular: bool


def inspect_region(field: PiecewiseLinearField, drive_M: Array, code_P: Codes) -> RegionFinding:
    """Solve one region carefully, singular matrices included.

    A regular matrix gives a point, refined once. A singular one gives a flat of solutions
    through the least-squares point, or none; a flat counts only if it meets the region.
    """
    M, P = field.n_units, field.n_relu
    W_MM = field.matrix(code_P)
    U, s, Vt = np.linalg.svd(W_MM)
    null = s <= 8 * M * EPS * s[0]
    kept = ~null
    z = np.zeros(M)
    for _ in range(2):  # solve, and refine once
        z = z - Vt[kept].T @ ((U[:, kept].T @ (W_MM @ z + drive_M)) / s[kept])
    sign_P = np.where(code_P, 1.0, -1.0)
    if not null.any():
        scale = float(np.abs(z).max())
        tol = max(BOUNDARY, min(1e-6, 16 * EPS * float(s[0] / s[-1]))) * scale
        inside = bool((sign_P * z[M - P :] >= -tol).all())
        on_boundary = np.abs(z[M - P :]) <= tol
        return RegionFinding("point" if inside else "virtual", z, Vt[:0], on_boundary, False)
    size = float(np.abs(drive_M).max() + s[0] * np.abs(z).max())
    if np.abs(W_MM @ z + drive_M).max() > 1e-9 * size:
        return RegionFinding("none", z, Vt[:0], np.zeros(P, bool), True)
    return _meet_region(z, Vt[null], sign_P)


def _meet_region(z_M: Array, N_dM: Array, sign_P: Array) -> RegionFinding:
    """The part of the flat z + N^T c inside the closed region, by its most interior point."""
    P = sign_P.size
    start = z_M.size - P
    tol = BOUNDARY * max(1.0, float(np.abs(z_M).max()))
    if P == 0:
        return RegionFinding("flat", z_M, N_dM, np.zeros(0, bool), True)
    a_P, B_Pd = sign_P * z_M[start:], sign_P[:, None] * N_dM[:, start:].T
    found = _inside_line(a_P, B_Pd[:, 0], tol) if len(N_dM) == 1 else _inside_flat(a_P, B_Pd, tol)
    if found is None:
        return RegionFinding("virtual", z_M, N_dM[:0], np.zeros(P, bool), True)
    point = z_M + found.coefficients @ N_dM
    on_boundary = np.abs(point[start:]) <= tol
    if found.single:
        return RegionFinding("point", point, N_dM[:0], on_boundary, True)
    return RegionFinding("flat", point, N_dM, on_boundary, True)


@dataclass(frozen=True, eq=False)
class _Inside:
    coefficients: Array
    single: bool


def _inside_line(a_P: Array, b_P: Array, tol: float) -> _Inside | None:
    """Find c with a + b c >= 0, in the middle of its interval."""
    flat = np.abs(b_P) <= 1e-12
    if (a_P[flat] < -tol).any():
        return None
    ends = -a_P[~flat] / b_P[~flat]
    low = float(np.max(ends[b_P[~flat] > 0], initial=-np.inf))
    high = float(np.min(ends[b_P[~flat] < 0], initial=np.inf))
    if low > high + tol:
        return None
    if np.isfinite(low) and np.isfinite(high):
        c = 0.5 * (low + high)
    elif np.isfinite(low):
        c = max(0.0, low + 1.0)
    else:
        c = min(0.0, high - 1.0) if np.isfinite(high) else 0.0
    return _Inside(np.array([c]), single=high - low <= tol)


def _inside_flat(a_P: Array, B_Pd: Array, tol: float) -> _Inside | None:
    """Find c with a + B c >= t for the largest t <= 1, by a linear programme."""
    from scipy.optimize import linprog

    P, d = B_Pd.shape
    reach = 1e6 * max(1.0, float(np.abs(a_P).max()))
    answer = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.c_[-B_Pd, np.ones(P)],
        b_ub=a_P,
        bounds=[(-reach, reach)] * d + [(None, 1.0)],
        method="highs",
    )
    if not answer.success or answer.x[-1] < -max(tol, 1e-9):
        return None
    return _Inside(np.asarray(answer.x[:-1]), single=False)


def _regular(matrices_BNN: Array) -> Codes:
    s_BN = np.linalg.svd(matrices_BNN, compute_uv=False)
    regular: Codes = s_BN[:, -1] > SUSPECT * s_BN[:, 0]
    return regular
