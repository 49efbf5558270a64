"""What a search for equilibria returns.

Legend: M units, P rectified, d dimensions of a continuum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from foretell.solve.piecewise.field import Array
from foretell.solve.piecewise.regions import Codes
from foretell.solve.piecewise.stability import Complex

Completeness = Literal["complete", "complete in box", "heuristic"]


@dataclass(frozen=True, eq=False)
class Side:
    """The linearisation in one of the regions that meet at a boundary equilibrium.

    Attributes
    ----------
    code : bool array of shape (P,)
    eigenvalues : complex array of shape (M,)
    kind : str
    """

    code: Codes
    eigenvalues: Complex
    kind: str


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """A point where the field vanishes.

    Attributes
    ----------
    state : array of shape (M,)
    code : bool array of shape (P,)
        Its region; a unit exactly on its boundary counts as off.
    eigenvalues : complex array of shape (M,)
        Of W_s, in 1 / time unit, by descending real part.
    kind : str
        In words, for instance "stable focus" or "saddle"; see ``classify``.
    unstable_dimension : int
        Directions that grow; at a boundary the largest number among the sides.
    stable : bool
        Asymptotically stable. At a boundary the eigenvalues alone do not decide: True then
        means that one quadratic Lyapunov function was found for all sides.
    status : "real" or "boundary"
    sides : tuple of Side
        At a boundary, the linearisation of every adjoining region; else empty.
    """

    state: Array
    code: Codes
    eigenvalues: Complex
    kind: str
    unstable_dimension: int
    stable: bool
    status: Literal["real", "boundary"]
    sides: tuple[Side, ...] = ()

    def __repr__(self) -> str:
        where = "" if self.status == "real" else " on a region boundary"
        lead = self.eigenvalues[0]
        return (
            f"Equilibrium({self.kind}{where}, unstable dimension {self.unstable_dimension}, "
            f"leading eigenvalue {lead:.4g}, state {_short(self.state)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files; complex numbers as [re, im]."""
        return {
            "state": self.state.tolist(),
            "code": [int(bit) for bit in self.code],
            "eigenvalues": _pairs(self.eigenvalues),
            "kind": self.kind,
            "unstable_dimension": self.unstable_dimension,
            "stable": self.stable,
            "status": self.status,
            "sides": [
                {
                    "code": [int(bit) for bit in side.code],
                    "eigenvalues": _pairs(side.eigenvalues),
                    "kind": side.kind,
                }
                for side in self.sides
            ],
        }


@dataclass(frozen=True, eq=False)
class EquilibriumContinuum:
    """A flat of equilibria in a region whose matrix is singular.

    Attributes
    ----------
    state : array of shape (M,)
        A point of the flat inside the region, as far from its boundaries as possible.
    directions : array of shape (d, M)
        Orthonormal directions along which every point is an equilibrium.
    code : bool array of shape (P,)
    eigenvalues : complex array of shape (M,)
    status : "real" or "boundary"
    """

    state: Array
    directions: Array
    code: Codes
    eigenvalues: Complex
    status: Literal["real", "boundary"]

    def __repr__(self) -> str:
        return (
            f"EquilibriumContinuum({len(self.directions)}-dimensional, "
            f"through {_short(self.state)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files."""
        return {
            "state": self.state.tolist(),
            "directions": self.directions.tolist(),
            "code": [int(bit) for bit in self.code],
            "eigenvalues": _pairs(self.eigenvalues),
            "status": self.status,
        }


@dataclass(frozen=True, eq=False)
class EquilibriumSet:
    """The equilibria of a field, and how far the list can be trusted.

    Attributes
    ----------
    items : tuple of Equilibrium
        Isolated equilibria, the most stable first.
    continua : tuple of EquilibriumContinuum
        Flats of equilibria, where a region's matrix is singular.
    completeness : "complete", "complete in box" or "heuristic"
    method : "exhaustive", "milp" or "scyfi"
    n_solves : int
        Linear systems or mixed-integer programmes solved.
    n_singular : int
        Singular regions that were met.
    box : float or None
        The bound on every |z_i| within which "complete in box" holds.
    """

    items: tuple[Equilibrium, ...]
    completeness: Completeness
    method: Literal["exhaustive", "milp", "scyfi"]
    n_solves: int
    continua: tuple[EquilibriumContinuum, ...] = ()
    n_singular: int = 0
    box: float | None = None

    @property
    def statement(self) -> str:
        """The completeness in words, with the box where it matters."""
        if self.completeness == "complete in box":
            return f"complete in box |z| <= {self.box:g}"
        return self.completeness

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Equilibrium]:
        return iter(self.items)

    def __getitem__(self, index: int) -> Equilibrium:
        return self.items[index]

    def __repr__(self) -> str:
        noun = "equilibrium" if len(self) == 1 else "equilibria"
        head = f"EquilibriumSet({len(self)} {noun}, {self.statement}, {self.n_solves} solves)"
        return "\n  ".join([head, *map(repr, self.items), *map(repr, self.continua)])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for reports and files."""
        return {
            "items": [item.to_dict() for item in self.items],
            "continua": [item.to_dict() for item in self.continua],
            "completeness": self.completeness,
            "statement": self.statement,
            "method": self.method,
            "n_solves": self.n_solves,
            "n_singular": self.n_singular,
            "box": self.box,
        }


def _pairs(values: Complex) -> list[list[float]]:
    return [[float(v.real), float(v.imag)] for v in values]


def _short(state: Array) -> str:
    shown = ", ".join(f"{v:.4g}" for v in state[:6])
    return f"[{shown}{', ...' if state.size > 6 else ''}]"
