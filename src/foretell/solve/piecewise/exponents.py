"""Lyapunov spectrum along the exact flow.

The flow gives the sequence of regions and stays; the tangent dynamics in each stay is linear, so
a frame Q of k directions is carried by region propagators and re-orthonormalised at equal
intervals. Propagators over base 2^j are tabulated once per region; a stay of any duration is a
product of them and a short Taylor series for the rest, so that long runs need no matrix
exponentials.

Legend: M units, k exponents, J table levels, U regions in the table, n pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from foretell.core.errors import NumericalError, ParameterError
from foretell.solve.piecewise.certified import Flow, flow
from foretell.solve.piecewise.field import Array, PiecewiseLinearField

N_BLOCKS = 32  # blocks for the standard errors
SPREAD = 10.0  # log of the condition number allowed between orthonormalisations
REMAINDER = 2.0**-6  # ||W_s|| base, so that 7 Taylor terms reach rounding
TAYLOR_TERMS = 7
TABLE_BYTES = 256e6
MOST_STEPS_PER_BLOCK = 20_000  # outputs held in memory at once


@dataclass(frozen=True, eq=False)
class LyapunovSpectrum:
    """Lyapunov exponents of one orbit.

    Attributes
    ----------
    exponents : array of shape (k,)
        In 1 / time unit, the largest first.
    standard_errors : array of shape (k,)
        From averages over 32 blocks of time; 0 where the orbit stays in one region.
    duration : float
        Averaging time, transient not included.
    mean_divergence : float
        Average of the trace of W_s, which the sum of all M exponents must equal.
    sum_error : float or None
        |sum of exponents - mean_divergence|; None unless all M exponents were asked for.
    n_crossings, n_regions : int
        Boundary crossings and different regions during the averaging time.
    state : array of shape (M,)
        Where the run ended.
    """

    exponents: Array
    standard_errors: Array
    duration: float
    mean_divergence: float
    sum_error: float | None
    n_crossings: int
    n_regions: int
    state: Array

    @property
    def kaplan_yorke_dimension(self) -> float | None:
        """Kaplan-Yorke dimension; None when too few exponents were computed to tell."""
        sums = np.cumsum(self.exponents)
        if self.exponents[0] < 0:
            return 0.0
        below = np.flatnonzero(sums < 0)
        if not below.size:
            return float(self.state.size) if self.exponents.size == self.state.size else None
        j = int(below[0])
        return float(j + sums[j - 1] / abs(self.exponents[j]))

    def __repr__(self) -> str:
        pairs = zip(self.exponents[:6], self.standard_errors[:6], strict=True)
        shown = ", ".join(f"{value:.4g} +- {error:.1g}" for value, error in pairs)
        return (
            f"LyapunovSpectrum({shown}{', ...' if self.exponents.size > 6 else ''}; "
            f"duration {self.duration:g}, {self.n_crossings} crossings, "
            f"{self.n_regions} regions)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files."""
        return {
            "exponents": self.exponents.tolist(),
            "standard_errors": self.standard_errors.tolist(),
            "duration": self.duration,
            "mean_divergence": self.mean_divergence,
            "sum_error": self.sum_error,
            "n_crossings": self.n_crossings,
            "n_regions": self.n_regions,
            "kaplan_yorke_dimension": self.kaplan_yorke_dimension,
        }


def lyapunov_spectrum(
    field: PiecewiseLinearField,
    z0: ArrayLike,
    duration: float,
    *,
    transient: float | None = None,
    n_exponents: int | None = None,
    control: ArrayLike | None = None,
    max_norm: float = 1e6,
) -> LyapunovSpectrum:
    """Lyapunov exponents of the orbit from one state.

    Parameters
    ----------
    field : PiecewiseLinearField
    z0 : array of shape (M,)
        Start of the transient.
    duration : float
        Averaging time, in time units of the field.
    transient : float, optional
        Time before averaging, in which state and directions settle; default duration / 10.
    n_exponents : int, optional
        How many of the largest exponents; default all M.
    control : array of shape (K,), optional
        Constant input.
    max_norm : float
        An orbit beyond this norm has escaped.

    Returns
    -------
    LyapunovSpectrum

    Raises
    ------
    ParameterError
        For a duration that is not positive, or an impossible number of exponents.
    NumericalError
        When the orbit escapes: it has no long-run exponents.

    Notes
    -----
    An orbit that crosses no boundary while averaging has the real parts of its region's
    eigenvalues for exponents, and these are returned without error.
    A finite average has a bias of order 1 / duration besides its standard error.

    Examples
    --------
    >>> field = PiecewiseLinearField([-1.0, -3.0], [[0, 0], [0, 0]], [0.0, 0.0], 0)
    >>> lyapunov_spectrum(field, [1.0, 1.0], 100.0).exponents
    array([-1., -3.])
    """
    M = field.n_units
    transient = 0.1 * duration if transient is None else transient
    k = M if n_exponents is None else n_exponents
    if not (np.isfinite(duration) and duration > 0 and np.isfinite(transient) and transient >= 0):
        raise ParameterError(
            f"duration={duration} must be positive and transient={transient} not negative."
        )
    if not 1 <= k <= M:
        raise ParameterError(f"n_exponents={k} is not between 1 and the {M} latent units.")
    frozen = PiecewiseLinearField(field.A, field.W, field.drive(control), field.n_relu)
    run = _TangentRun(frozen, np.array(z0, dtype=np.float64), k, max_norm)
    run.advance(transient)
    run.reset()
    blocks = np.array([run.advance(duration / N_BLOCKS) for _ in range(N_BLOCKS)])
    blocks /= duration / N_BLOCKS
    exponents, errors = blocks.mean(axis=0), blocks.std(axis=0, ddof=1) / np.sqrt(N_BLOCKS)
    if run.n_crossings == 0:
        values = np.linalg.eigvals(frozen.matrix(frozen.code(run.state))).real
        exponents, errors = np.sort(values)[::-1][:k].copy(), np.zeros(k)
    order = np.argsort(-exponents, kind="stable")
    exponents, errors = exponents[order], errors[order]
    divergence = run.divergence / duration
    return LyapunovSpectrum(
        exponents=exponents,
        standard_errors=errors,
        duration=float(duration),
        mean_divergence=divergence,
        sum_error=abs(float(exponents.sum()) - divergence) if k == M else None,
        n_crossings=run.n_crossings,
        n_regions=len(run.regions),
        state=run.state,
    )


class _TangentRun:
    """A state and a frame of tangent directions, carried along the flow."""

    def __init__(self, field: PiecewiseLinearField, state: Array, k: int, max_norm: float) -> None:
        self.field, self.state, self.max_norm = field, state, max_norm
        M = field.n_units
        self.frame = np.linalg.qr(np.random.default_rng(0).normal(size=(M, k)))[0]
        self.time, self.divergence, self.n_crossings = 0.0, 0.0, 0
        self.regions: set[bytes] = set()
        norm = float(np.abs(field.A).max() + np.linalg.norm(field.W, 2))
        self._base = REMAINDER / norm if norm > 0 else 1.0
        self._tables: dict[bytes, tuple[Array, Array]] = {}
        self._spread = max(_spread(field.matrix(field.code(state))), 1e-3 * norm, 1e-300)
        reach = SPREAD / (self._spread * self._base)
        self._levels = int(np.ceil(np.log2(max(reach, 1.0)))) + 2

    def reset(self) -> None:
        """Forget what was counted in the transient."""
        self.divergence, self.n_crossings, self.regions = 0.0, 0, set()

    def advance(self, duration: float) -> Array:
        """Carry on for a time; return the logarithms of growth (k,)."""
        growth = np.zeros(self.frame.shape[1])
        left = duration
        while left > 1e-12 * duration:
            step = min(SPREAD / self._spread, left)
            n = int(min(np.ceil(left / step - 1e-9), MOST_STEPS_PER_BLOCK))
            length = left if n * step >= left * (1 - 1e-9) else n * step
            growth += self._stretch(length, max(n, 1))
            left -= length
        return growth

    def _stretch(self, length: float, n: int) -> Array:
        grid = np.linspace(0.0, length, n + 1)
        run = flow(self.field, self.state, grid, max_norm=self.max_norm)
        if run.escaped_at is not None:
            raise NumericalError(
                f"The orbit leaves |z| < {self.max_norm:g} at t={self.time + run.escaped_at:.6g}: "
                "it escapes, and has no long-run exponents. Start inside the basin of an "
                "attractor, or raise max_norm."
            )
        regions, durations, renew, keys = _pieces(run, grid)
        matrices, tables = self._table(keys)
        finer = int(np.ceil(length * self._spread / SPREAD - 1e-9))
        if finer > n:  # a region was met whose directions grow apart faster than any before
            return self._stretch(length, finer)
        for u in range(len(keys)):
            stay = float(durations[regions == u].sum())
            self.divergence += float(np.trace(matrices[u])) * stay
        growth: Array
        self.frame, growth = _carry(
            self.frame, matrices, tables, regions, durations, renew, self._base
        )
        self.state, self.time = run.states[-1], self.time + length
        self.n_crossings += len(run.events)
        self.regions.update(keys)
        return growth

    def _table(self, keys: list[bytes]) -> tuple[Array, Array]:
        """Matrices (U, M, M) and propagators (U, J, M, M) over base 2^j of the regions met.

        Levels longer than the interval between orthonormalisations are never used, and stay 0.
        """
        M = self.field.n_units
        if len(self._tables) * self._levels * M * M * 8 > TABLE_BYTES:
            self._tables.clear()
        for key in keys:
            if key not in self._tables:
                matrix = self.field.matrix(np.frombuffer(key, dtype=bool))
                self._spread = max(self._spread, _spread(matrix))
                table = np.zeros((self._levels, M, M))
                table[0] = expm(matrix * self._base)
                for j in range(1, self._levels):
                    if self._base * 2.0**j > 1.01 * SPREAD / self._spread:
                        break
                    table[j] = table[j - 1] @ table[j - 1]
                self._tables[key] = (matrix, table)
        matrices = np.array([self._tables[key][0] for key in keys])
        return matrices, np.array([self._tables[key][1] for key in keys])


def _spread(matrix_MM: Array) -> float:
    """How fast directions of one region grow apart, kept clear of overflow as well."""
    values = np.linalg.eigvals(matrix_MM).real
    return max(float(np.ptp(values)), float(np.abs(values).max()) / 20.0)


def _pieces(
    run: Flow, grid: Array
) -> tuple[NDArray[np.int64], Array, NDArray[np.bool_], list[bytes]]:
    """Cut a run at crossings and at grid times: regions (n,), durations (n,), renewals (n,)."""
    events = run.events
    at, rows = np.unique(events.times, return_index=True)
    codes = np.concatenate([run.codes[:1], events.codes_after[rows]])
    codes, which = np.unique(codes, axis=0, return_inverse=True)
    ends = np.union1d(at, grid[1:])
    durations = np.diff(np.concatenate([grid[:1], ends]))
    starts = ends - durations
    stay = np.searchsorted(at, starts + 0.5 * durations)
    regions = which.reshape(-1)[stay].astype(np.int64)
    return regions, durations, np.isin(ends, grid), [code.tobytes() for code in codes]


@njit(cache=True)
def _carry(
    frame: Array,
    matrices: Array,
    tables: Array,
    regions: NDArray[np.int64],
    durations: Array,
    renew: NDArray[np.bool_],
    base: float,
) -> tuple[Array, Array]:
    """Carry the frame over all pieces; return it and the summed logarithms of growth."""
    k = frame.shape[1]
    growth = np.zeros(k)
    Q = np.ascontiguousarray(frame)
    for p in range(regions.size):
        u = regions[p]
        units = int(np.floor(durations[p] / base))
        rest = durations[p] - units * base
        for j in range(tables.shape[1]):
            if units >> j & 1:
                Q = np.dot(tables[u, j], Q)
        term = Q * rest
        for order in range(1, TAYLOR_TERMS + 1):
            term = np.dot(matrices[u], term) * (1.0 if order == 1 else rest / order)
            Q = Q + term
        if renew[p]:
            Q, R = np.linalg.qr(Q)
            Q = np.ascontiguousarray(Q)
            for i in range(k):
                growth[i] += np.log(abs(R[i, i]))
    return Q, growth
