"""A limit cycle and the evidence for it.

Legend: M units, P rectified, m shooting nodes, R stays in regions.
"""

from __future__ import annotations

from dataclasses import dataclass, field as dataclass_field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ParameterError
from foretell.solve.piecewise.certified import Events, flow
from foretell.solve.piecewise.field import Array, PiecewiseLinearField

Complex = NDArray[np.complex128]
Codes = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LimitCycle:
    """A periodic orbit and the evidence for it.

    Attributes
    ----------
    state : array of shape (M,)
        A point of the cycle, inside a region; time 0 of ``events`` and ``orbit``.
    period : float
        Minimal period, in time units of the field.
    events : Events
        Boundary crossings within one period.
    codes : bool array of shape (R, P)
        Regions in the order visited.
    multipliers : complex array of shape (M,)
        Floquet multipliers, the trivial one first, then by descending modulus.
    exponents : complex array of shape (M,)
        log(multipliers) / period, exact also where a multiplier underflows to 0.
    residual : float
        Largest defect of closure at the shooting nodes, in state units.
    trivial_error : float
        |mu - 1| of the multiplier along the orbit.
    liouville_error : float
        Relative difference of the product of multipliers from exp(integral of the divergence).
    transversality : float
        Smallest |dz_i/dt| with which a unit crosses its boundary; inf without crossings.
    n_crossings : int
    rank : int
        Rank of [Phi - I, F]; M for an isolated cycle.
    stable : bool
        All multipliers but the trivial one lie inside the unit circle.
    kind : "stable", "unstable", "saddle" or "neutral"
    quality : "good" or "check"
    warnings : tuple of str
        Why the quality is "check".
    nodes : array of shape (m, M)
        Shooting nodes at equal fractions of the period.
    field : PiecewiseLinearField
        The field with its input folded into the drive.
    """

    state: Array
    period: float
    events: Events
    codes: Codes
    multipliers: Complex
    exponents: Complex
    residual: float
    trivial_error: float
    liouville_error: float
    transversality: float
    n_crossings: int
    rank: int
    stable: bool
    kind: Literal["stable", "unstable", "saddle", "neutral"]
    quality: Literal["good", "check"]
    warnings: tuple[str, ...]
    nodes: Array = dataclass_field(repr=False)
    field: PiecewiseLinearField = dataclass_field(repr=False)

    @property
    def rank_ok(self) -> bool:
        """Whether the cycle is isolated, as far as linearisation tells."""
        return self.rank == self.state.size

    def orbit(self, n: int = 200) -> tuple[Array, Array]:
        """States along one period.

        Parameters
        ----------
        n : int
            Number of samples, at times 0, T/n, .. (n-1) T/n.

        Returns
        -------
        times : array of shape (n,)
        states : array of shape (n, M)

        Raises
        ------
        ParameterError
            For n < 1.
        """
        if n < 1:
            raise ParameterError(f"n={n} samples of the orbit; needed is at least 1.")
        times = even_times(self.period, n)
        return times, states_along(self.field, self.nodes, self.period, times)

    def __repr__(self) -> str:
        largest = self.multipliers[1:3]
        shown = ", ".join(f"{mu.real:.4g}" if mu.imag == 0 else f"{mu:.4g}" for mu in largest)
        crossings = "crossing" if self.n_crossings == 1 else "crossings"
        text = (
            f"LimitCycle({self.kind}, period {self.period:.10g}, {self.n_crossings} {crossings}, "
            f"multipliers 1, {shown or 'none'}{', ...' if self.state.size > 3 else ''}; "
            f"residual {self.residual:.1e}, trivial error {self.trivial_error:.1e}, "
            f"quality {self.quality})"
        )
        return "\n  ".join([text, *self.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files; complex numbers as [re, im]."""
        plain = ("period", "residual", "trivial_error", "liouville_error", "n_crossings", "rank")
        words = ("stable", "kind", "quality", "rank_ok")
        return {
            **{name: getattr(self, name) for name in (*plain, *words)},
            "transversality": self.transversality if self.n_crossings else None,
            "state": self.state.tolist(),
            "multipliers": [[float(v.real), float(v.imag)] for v in self.multipliers],
            "exponents": [[float(v.real), float(v.imag)] for v in self.exponents],
            "event_times": self.events.times.tolist(),
            "event_units": self.events.units.tolist(),
            "codes": self.codes.astype(int).tolist(),
            "warnings": list(self.warnings),
        }


def even_times(period: float, n: int) -> Array:
    """Times 0, period/n .. (n-1) period/n, shape (n,)."""
    return np.asarray(np.arange(n) * (period / n), dtype=np.float64)


def states_along(
    field: PiecewiseLinearField, nodes_mM: Array, period: float, times: Array
) -> Array:
    """States of a cycle at times in [0, period], each followed from the node before it."""
    m = len(nodes_mM)
    index = np.minimum((times * (m / period) + 1e-12).astype(int), m - 1)
    states = np.empty((times.size, nodes_mM.shape[1]))
    for j in np.unique(index):
        here = np.flatnonzero(index == j)
        ahead = np.maximum(times[here] - j * (period / m), 0.0)
        grid, inverse = np.unique(np.append(0.0, ahead), return_inverse=True)
        states[here] = flow(field, nodes_mM[j], grid, max_norm=np.inf).states[inverse[1:]]
    return states
