"""Three ways to the region codes that may hold an equilibrium.

Legend: B codes in a batch, C codes found, M units, P rectified. Every function returns codes
(C, P) whose regions are then inspected one by one; a code too many costs time, not truth.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from foretell.solve.piecewise.regions import Codes, RegionSolver

INNER_LIMIT = 50  # virtual solutions followed from one restart of SCYFI


def exhaustive_codes(solver: RegionSolver) -> Codes:
    """Solve all 2^P regions, batch by batch."""
    P = solver.field.n_relu
    found = []
    for start in range(0, 1 << P, solver.batch_size):
        numbers = np.arange(start, min(start + solver.batch_size, 1 << P))
        codes_BP = (numbers[:, None] >> np.arange(P) & 1).astype(bool)
        found.append(codes_BP[solver.candidates(codes_BP)])
    return np.concatenate(found)


def scyfi_codes(solver: RegionSolver, n_restarts: int, rng: np.random.Generator) -> Codes:
    """Follow virtual solutions from region to region, all restarts in one batch.

    A restart ends at a consistent code, at a singular region, on a code that some restart has
    already solved, or after 50 regions.
    """
    P, first = solver.field.n_relu, solver.field.n_units - solver.field.n_relu
    found: set[bytes] = set()
    seen: set[bytes] = set()
    codes_BP = rng.random((n_restarts, P)) < 0.5
    codes_BP[0] = False
    codes_BP[-1] = True
    for _ in range(INNER_LIMIT):
        codes_BP = _unseen(codes_BP, seen)
        if not len(codes_BP):
            break
        z_BM, regular_B = solver.solve(codes_BP)
        hit_B = ~regular_B | solver.consistent(z_BM, codes_BP)
        found.update(code.tobytes() for code in codes_BP[hit_B])
        codes_BP = z_BM[~hit_B, first:] > 0
    listed = [np.frombuffer(code, dtype=bool) for code in sorted(found)]
    return np.array(listed, dtype=bool).reshape(len(listed), P)


def milp_codes(
    solver: RegionSolver, box: float, known_CP: Codes, time_limit: float
) -> tuple[Codes, bool]:
    """Enumerate codes by mixed-integer feasibility with no-good cuts.

    Variables are z_lin, u, v >= 0 and binary s with z_R = u - v, u <= box s, v <= box (1 - s).
    Each code found is cut off. Infeasibility proves that no equilibrium is left in the box.

    Returns
    -------
    codes : bool array (C, P), the known ones included
    proved : bool
        Whether the last programme was infeasible before the time was up.
    """
    P = solver.field.n_relu
    if P == 0:
        return np.zeros((1, 0), dtype=bool), True
    rows, bounds, integrality = _programme(solver, box)
    codes = [code.copy() for code in known_CP]
    deadline = time.monotonic() + time_limit
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return np.array(codes, dtype=bool).reshape(-1, P), False
        answer = milp(
            np.zeros(integrality.size),
            constraints=[*rows, *_cuts(codes, integrality)],
            bounds=bounds,
            integrality=integrality,
            options={"time_limit": left},
        )
        solver.n_solves += 1
        if answer.x is None:
            proved = answer.status == 2
            return np.array(codes, dtype=bool).reshape(-1, P), proved
        codes.append(answer.x[integrality == 1] > 0.5)


def _programme(
    solver: RegionSolver, box: float
) -> tuple[list[LinearConstraint], Bounds, NDArray[np.int_]]:
    field, drive_M = solver.field, solver.drive
    M, P = field.n_units, field.n_relu
    first = M - P
    total_MM = np.diag(field.A) + field.W
    # columns: z_lin (M - P), u (P), v (P), s (P)
    balance = np.hstack([total_MM, -np.diag(field.A)[:, first:], np.zeros((M, P))])
    size_M = np.abs(balance).max(axis=1)
    size_M[size_M == 0] = 1.0
    eye, zero = np.eye(P), np.zeros((P, P))
    lin = np.zeros((P, first))
    links = np.vstack(
        [np.hstack([lin, eye, zero, -box * eye]), np.hstack([lin, zero, eye, box * eye])]
    )
    target_M = -drive_M / size_M
    rows = [
        LinearConstraint(csr_array(balance / size_M[:, None]), target_M, target_M),
        LinearConstraint(csr_array(links), -np.inf, np.r_[np.zeros(P), np.full(P, box)]),
    ]
    low = np.r_[np.full(first, -box), np.zeros(3 * P)]
    high = np.r_[np.full(first + 2 * P, box), np.ones(P)]
    integrality = np.r_[np.zeros(M + P, dtype=int), np.ones(P, dtype=int)]
    return rows, Bounds(low, high), integrality


def _cuts(codes: list[Codes], integrality: NDArray[np.int_]) -> list[LinearConstraint]:
    """Each code found must differ from the next one in at least one bit."""
    if not codes:
        return []
    codes_CP = np.array(codes)
    rows = np.zeros((len(codes), integrality.size))
    rows[:, integrality == 1] = np.where(codes_CP, -1.0, 1.0)
    return [LinearConstraint(csr_array(rows), 1.0 - codes_CP.sum(axis=1), np.inf)]


def _unseen(codes_BP: Codes, seen: set[bytes]) -> Codes:
    """The codes that were not met before, each once; they count as met from now on."""
    fresh = []
    for code in codes_BP:
        key = code.tobytes()
        if key not in seen:
            seen.add(key)
            fresh.append(code)
    return np.array(fresh, dtype=bool).reshape(len(fresh), codes_BP.shape[1])
