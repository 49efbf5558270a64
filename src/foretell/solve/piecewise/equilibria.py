"""Equilibria of a piecewise-linear field, with a named degree of completeness.

In region s an equilibrium solves W_s z = -(h + C u); it is real if and only if it lies in its
own region. Three searches give the same objects:

- ``exhaustive`` solves all 2^P regions: the answer is "complete";
- ``milp`` writes z_R = u - v with binary codes and cuts found codes off until nothing is left:
  the answer is "complete in box" |z_i| <= box;
- ``scyfi`` follows the code of each virtual solution to the next region, from many random codes:
  fast, and "heuristic".

Source: Eisenmann, Monfared, Goering, Durstewitz, "Bifurcations and loss jumps in RNN training",
NeurIPS 2023 (SCYFI); the mixed-integer certificate is our own.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from foretell.core.errors import ParameterError
from foretell.solve.piecewise.equilibrium_set import (
    Completeness,
    Equilibrium,
    EquilibriumContinuum,
    EquilibriumSet,
    Side,
)
from foretell.solve.piecewise.field import Array, PiecewiseLinearField
from foretell.solve.piecewise.region_search import (
    exhaustive_codes,
    milp_codes,
    scyfi_codes,
)
from foretell.solve.piecewise.regions import Codes, RegionFinding, RegionSolver, inspect_region
from foretell.solve.piecewise.stability import (
    classify,
    share_quadratic_lyapunov_function,
    sorted_eigenvalues,
    unstable_dimension,
)

Method = Literal["auto", "exhaustive", "scyfi", "milp"]

AUTO_EXHAUSTIVE = 14  # largest P for which "auto" solves every region
LARGEST_EXHAUSTIVE = 20  # largest P for which every region is solved at all
MOST_SIDES = 64  # regions listed around a boundary equilibrium


def equilibria(
    field: PiecewiseLinearField,
    *,
    method: Method = "auto",
    box: float = 50.0,
    control: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    n_restarts: int = 200,
    time_limit: float = 60.0,
) -> EquilibriumSet:
    """Find the equilibria of a piecewise-linear field.

    Parameters
    ----------
    field : PiecewiseLinearField
    method : "auto", "exhaustive", "scyfi" or "milp"
        "auto" is exhaustive up to 14 rectified units; above, it searches by SCYFI and then tries
        to prove by mixed-integer programming that nothing is missing.
    box : float
        Bound on every |z_i| for the mixed-integer certificate, in state units.
    control : array of shape (K,), optional
        Constant input.
    random_state : int or Generator, optional
        For the restarts of SCYFI; None uses 0, so that the result can be repeated.
    n_restarts : int
        Random first codes of SCYFI.
    time_limit : float
        Seconds for the whole certificate; when they run out the result says "heuristic".

    Returns
    -------
    EquilibriumSet

    Raises
    ------
    ParameterError
        For an unknown method, or too many rectified units for an exhaustive search.

    Examples
    --------
    >>> field = PiecewiseLinearField([-1.0], [[3.0]], [-0.5], n_relu=1)  # bistable: z = -0.5, 0.25
    >>> for point in equilibria(field):
    ...     print(point.kind, point.state)
    stable node [-0.5]
    unstable node [0.25]
    """
    P = field.n_relu
    if method not in ("auto", "exhaustive", "scyfi", "milp"):
        raise ParameterError(
            f"method={method!r} is unknown; needed is 'auto', 'exhaustive', 'scyfi' or 'milp'."
        )
    if not (np.isfinite(box) and box > 0):
        raise ParameterError(f"box={box} must be a positive finite bound on |z|.")
    if n_restarts < 1:
        raise ParameterError(f"n_restarts={n_restarts} must be at least 1.")
    if method == "exhaustive" and P > LARGEST_EXHAUSTIVE:
        raise ParameterError(
            f"An exhaustive search over 2^{P} regions is too long (largest is "
            f"2^{LARGEST_EXHAUSTIVE}). Use method='milp' for a proof within a box, or 'scyfi'."
        )
    drive = field.drive(control)
    solver = RegionSolver(field, drive)
    rng = np.random.default_rng(0 if random_state is None else random_state)
    completeness: Completeness
    used: Literal["exhaustive", "milp", "scyfi"]
    if method == "exhaustive" or (method == "auto" and P <= AUTO_EXHAUSTIVE):
        codes, used, completeness = exhaustive_codes(solver), "exhaustive", "complete"
    else:
        codes, used, completeness = np.zeros((0, P), dtype=bool), "scyfi", "heuristic"
        if method != "milp":
            codes = scyfi_codes(solver, n_restarts, rng)
        if method != "scyfi":
            codes, proved = milp_codes(solver, box, codes, time_limit)
            used, completeness = "milp", "complete in box" if proved else "heuristic"
    items, continua, n_singular = _collect(field, drive, codes)
    return EquilibriumSet(
        items=items,
        completeness=completeness,
        method=used,
        n_solves=solver.n_solves,
        continua=continua,
        n_singular=n_singular,
        box=float(box) if used == "milp" else None,
    )


def _collect(
    field: PiecewiseLinearField, drive_M: Array, codes_CP: Codes
) -> tuple[tuple[Equilibrium, ...], tuple[EquilibriumContinuum, ...], int]:
    """Inspect candidate regions one by one, and merge what they share at boundaries."""
    points: list[Equilibrium] = []
    flats: list[EquilibriumContinuum] = []
    at_boundary: list[Array] = []
    n_singular = 0
    for code in codes_CP:
        finding = inspect_region(field, drive_M, code)
        n_singular += finding.singular
        if finding.kind == "point":
            if finding.on_boundary.any():
                if any(_near(finding.state, other) for other in at_boundary):
                    continue
                at_boundary.append(finding.state)
            points.append(_equilibrium(field, code, finding))
        elif finding.kind == "flat":
            flat = _continuum(field, code, finding)
            if not any(_same_flat(flat, other) for other in flats):
                flats.append(flat)
    points.sort(key=lambda p: (p.unstable_dimension, *np.round(p.state, 6)))
    return tuple(points), tuple(flats), n_singular


def _equilibrium(field: PiecewiseLinearField, code_P: Codes, found: RegionFinding) -> Equilibrium:
    if not found.on_boundary.any():
        values = sorted_eigenvalues(field.matrix(code_P))
        kind = classify(values)
        return Equilibrium(
            state=found.state,
            code=code_P.copy(),
            eigenvalues=values,
            kind=kind,
            unstable_dimension=unstable_dimension(values),
            stable=kind.startswith("stable"),
            status="real",
        )
    state = found.state.copy()
    state[field.relu_units[found.on_boundary]] = 0.0
    sides, proved = _sides(field, code_P & ~found.on_boundary, found.on_boundary)
    kinds = sorted({side.kind for side in sides})
    dimension = max(unstable_dimension(side.eigenvalues) for side in sides)
    undecided = "" if proved or dimension else ", stability not decided by the eigenvalues"
    return Equilibrium(
        state=state,
        code=sides[0].code,
        eigenvalues=sides[0].eigenvalues,
        kind=" | ".join(kinds) + undecided,
        unstable_dimension=dimension,
        stable=proved,
        status="boundary",
        sides=sides,
    )


def _sides(
    field: PiecewiseLinearField, code_P: Codes, on_boundary_P: Codes
) -> tuple[tuple[Side, ...], bool]:
    """Linearise every region that meets at the point, and try to prove stability."""
    units = np.flatnonzero(on_boundary_P)
    n_sides = 1 << min(units.size, 62)
    sides, matrices = [], []
    for number in range(min(n_sides, MOST_SIDES)):
        code = code_P.copy()
        code[units] = [bool(number >> bit & 1) for bit in range(units.size)]
        matrix = field.matrix(code)
        values = sorted_eigenvalues(matrix)
        sides.append(Side(code, values, classify(values)))
        matrices.append(matrix)
    listed_all = n_sides <= MOST_SIDES
    return tuple(sides), listed_all and share_quadratic_lyapunov_function(np.array(matrices))


def _continuum(
    field: PiecewiseLinearField, code_P: Codes, found: RegionFinding
) -> EquilibriumContinuum:
    return EquilibriumContinuum(
        state=found.state,
        directions=found.directions_dM,
        code=code_P.copy(),
        eigenvalues=sorted_eigenvalues(field.matrix(code_P)),
        status="boundary" if found.on_boundary.any() else "real",
    )


def _near(a_M: Array, b_M: Array) -> bool:
    size = max(float(np.abs(a_M).max()), float(np.abs(b_M).max()))
    return bool(np.abs(a_M - b_M).max() <= 1e-8 * size)


def _same_flat(a: EquilibriumContinuum, b: EquilibriumContinuum) -> bool:
    """Two boundary flats are one when each lies in the span of the other."""
    if a.directions.shape != b.directions.shape or "real" in (a.status, b.status):
        return False
    gap = np.vstack([a.directions, a.state - b.state])
    outside = gap - gap @ b.directions.T @ b.directions
    return bool(np.abs(outside).max() <= 1e-8 * max(1.0, float(np.abs(a.state).max())))
