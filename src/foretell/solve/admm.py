"""ADMM for the convex programme of a two-layer ReLU network, with a certificate of its answer.

The programme (`relu_programme`) is split as u = v (norms of groups) and G u = s >= 0 (cones):

    1  u <- minimise  majoriser of the loss at F u, + rho/2 |u - v + lam|^2 + rho/2 |G u - s + nu|^2
    2  v <- shrink groups of a u + (1-a) v + lam by beta / rho
    3  s <- max(0, a G u + (1-a) s + nu)
    4  lam, nu += what is left over

with relaxation a = 1.8. Step 1 is exact for the squared loss. For the logistic loss the quadratic
of curvature 1/2 that lies above it is minimised instead, with the factorisation of the squared
loss: ADMM with a positive semidefinite proximal term.

A point r = -gradient of the loss and multipliers mu = -rho nu >= 0 of the cones, scaled until

    |X'(D_p r + E_p mu_1p)| <= beta   and   |X'(-D_p r + E_p mu_2p)| <= beta   for all p,

is a dual point, whose value no feasible u can beat. The gap between it and the objective at v, and
how far v is outside its cones, are the stopping test and are returned.

Sources: Boyd et al., "Distributed optimization and statistical learning via ADMM", 2011; Feng,
Frangella and Pilanci, arXiv:2411.01088; Deng and Yin (2016) for the proximal term.

Legend: as in `relu_programme`; lam, nu are scaled multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foretell.core.errors import ParameterError
from foretell.solve.relu_programme import Array, Loss, Programme

RELAXATION = 1.8
_CHECK_EVERY = 10
_BALANCE_UNTIL = (
    400  # iterations in which rho may move; it stays afterwards, so that ADMM converges
)
_UNBALANCED, _STEP = 2.0, 2.0
_LEAN = 10.0  # the cones converge last, so the primal residual is held to a tenth of the dual one
_RHO = 1.0  # to begin with
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class State:
    """Where the iteration stands; a start for a similar programme.

    Parameters
    ----------
    v, lam : array (r, K, 2, P)
    s, nu : array (n, K, 2, P)
    z : array (n, K)
        Outputs F u, where the loss is majorised.
    rho : float
    """

    v: Array
    lam: Array
    s: Array
    nu: Array
    z: Array
    rho: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The weights, and how good they are.

    Attributes
    ----------
    v : array (d, K, 2, P)
        Groups in the coordinates of the columns of X; many are zero.
    objective : float
        Of the programme at v.
    dual : float
        No point of the programme lies below it.
    violation : float
        The largest amount by which a row is on the wrong side of a cone, in the unit of y.
    n_iter : int
    converged : bool
        Whether the gap and the violation are within the tolerance.
    history : list of tuple
        (iteration, objective, dual, violation) at every check.
    state : State
    """

    v: Array
    objective: float
    dual: float
    violation: float
    n_iter: int
    converged: bool
    history: list[tuple[int, float, float, float]]
    state: State

    @property
    def gap(self) -> float:
        """Objective less dual value; at most this far from the minimum, up to the violation."""
        return self.objective - self.dual

    def __repr__(self) -> str:
        return (
            f"Solution(objective {self.objective:.6g}, gap {self.gap:.2g}, violation "
            f"{self.violation:.2g}, {self.n_iter} iterations)"
        )


def largest_useful_beta(programme: Programme, loss: Loss) -> float:
    """From this beta on all weights are certainly zero: max |X' D_p r| at zero outputs.

    Exact for the programme without cones, and an upper bound with them.
    """
    slope = loss.slope(np.zeros((programme.n_rows, _n_outputs(loss, programme))))
    pulled = programme.back(slope[:, :, None] * programme.D[:, None, :])
    return float(np.sqrt(np.sum(pulled**2, axis=0)).max())


def solve(
    programme: Programme,
    loss: Loss,
    beta: float,
    *,
    rho: float | None = None,
    max_iter: int = 500,
    tol: float = 1e-4,
    start: State | None = None,
    on_check: Callable[[int, float, float, float], None] | None = None,
) -> Solution:
    """Minimise the programme.

    Parameters
    ----------
    programme : Programme
    loss : SquaredLoss or LogisticLoss
        Of scaled rows, like those of the programme.
    beta : float
        Price of the norms; positive.
    rho : float, optional
        Penalty, kept as it is. By default it is chosen, and balanced in the first iterations.
    max_iter : int
    tol : float
        Relative gap, and violation in the unit of y, to stop at. Scale y to about 1.
    start : State, optional
        That of a solution with another beta.
    on_check : callable, optional
        Called with (iteration, objective, dual, violation) at every check.

    Examples
    --------
    >>> from foretell.solve.relu_programme import SquaredLoss, draw_gates
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(24, 4))
    >>> programme = Programme(X, draw_gates(X, 6, rng))
    >>> found = solve(programme, SquaredLoss(np.abs(X[:, :1])), beta=0.5)
    >>> found.converged
    True
    """
    if not (np.isfinite(beta) and beta > 0):
        raise ParameterError(
            f"beta={beta!r} is not a positive number. Write for instance beta=0.1."
        )
    run = _Run(programme, loss, beta, rho, start)
    history: list[tuple[int, float, float, float]] = []
    converged, iteration = False, 0
    while iteration < max_iter and not converged:
        run.step()
        iteration += 1
        if iteration % _CHECK_EVERY and iteration < max_iter:
            continue
        objective, dual, violation = run.certificate()
        history.append((iteration, objective, dual, violation))
        if on_check is not None:
            on_check(iteration, objective, dual, violation)
        small = abs(objective - dual) <= tol * max(abs(objective), np.finfo(float).tiny)
        converged = small and violation <= tol
        if rho is None and not converged and iteration <= _BALANCE_UNTIL:
            run.balance()
    _, objective, dual, violation = history[-1]
    v = np.tensordot(programme.V, run.v, axes=1)
    return Solution(v, objective, dual, violation, iteration, converged, history, run.state())


def solve_path(
    programme: Programme, loss: Loss, betas: Sequence[float], **options: object
) -> list[Solution]:
    """Solutions for several beta, each started from the one before; see `solve`."""
    found: list[Solution] = []
    for beta in betas:
        start = found[-1].state if found else None
        found.append(solve(programme, loss, beta, start=start, **options))  # type: ignore[arg-type]
    return found


class _Run:
    """The iteration."""

    def __init__(
        self,
        programme: Programme,
        loss: Loss,
        beta: float,
        rho: float | None,
        start: State | None,
    ) -> None:
        self.programme, self.loss = programme, loss
        self.beta = beta
        n, K, P = programme.n_rows, _n_outputs(loss, programme), programme.n_gates
        self.E = programme.E[:, None, None, :]
        programme.forget_start()
        groups = (programme.n_axes, K, 2, P)
        if start is None:
            self.rho = _RHO if rho is None else rho
            self.v, self.lam = np.zeros(groups), np.zeros(groups)
            self.s, self.nu = np.zeros((n, K, 2, P)), np.zeros((n, K, 2, P))
            self.z = np.zeros((n, K))
        else:
            self.rho = start.rho
            self.v, self.lam, self.s, self.nu = start.v, start.lam, start.s, start.nu
            self.z = start.z
            if rho is not None:
                self._set_rho(rho)

    def step(self) -> None:
        programme, c, a = self.programme, self.loss.curvature, RELAXATION
        rho = self.rho / c  # the majoriser is c/2 |F u - y|^2
        y = self.z + self.loss.slope(self.z) / c
        t = self.E * (self.s - self.nu) + programme.spread(y / rho)
        u, images, self.z = programme.minimise_quadratic(self.v - self.lam, t, rho)
        mixed = a * u + (1 - a) * self.v + self.lam
        mixed_s = a * (self.E * images) + (1 - a) * self.s + self.nu
        self.before_v, self.before_s = self.v, self.s
        norms = np.sqrt(np.sum(mixed**2, axis=0))
        shrink = np.maximum(0.0, 1.0 - (self.beta / self.rho) / np.maximum(norms, _TINY))
        self.v, self.s = mixed * shrink, np.maximum(mixed_s, 0.0)
        self.lam, self.nu = mixed - self.v, mixed_s - self.s
        self.u, self.images = u, images

    def certificate(self) -> tuple[float, float, float]:
        """Objective at v, the best dual value at hand, and the violation at v."""
        programme = self.programme
        images = programme.images(self.v)
        norms = np.sqrt(np.sum(self.v**2, axis=0))
        z = programme.outputs(images)
        objective = float(self.loss.value(z).sum() + self.beta * norms.sum())
        outside = (-self.E * images).max(axis=(1, 2, 3)) / programme.roots
        slope = self.loss.slope(self.z)
        mu = -self.rho * self.nu
        pulled = programme.back(programme.spread(slope) + self.E * mu)
        longest = np.sqrt(np.sum(pulled**2, axis=0)).max(axis=(1, 2))
        room = self.beta / np.maximum(longest, _TINY)
        return objective, float(self.loss.dual(slope, room).sum()), max(0.0, float(outside.max()))

    def balance(self) -> None:
        """Move rho where the primal residual is much larger than the dual one, or smaller."""
        programme, rho = self.programme, self.rho
        off_cone = np.linalg.norm(self.E * self.images - self.s)
        primal = np.hypot(np.linalg.norm(self.u - self.v), off_cone)
        moved = programme.back(self.E * (self.s - self.before_s)) + self.v - self.before_v
        dual = rho * np.linalg.norm(moved)
        size_p = np.hypot(np.linalg.norm(self.v), np.linalg.norm(self.s)) + _TINY
        size_d = rho * np.linalg.norm(self.lam) + _TINY
        ratio = float(_LEAN * (primal / size_p) / (dual / size_d + _TINY))
        if ratio > _UNBALANCED:
            self._set_rho(rho * _STEP)
        elif ratio < 1 / _UNBALANCED:
            self._set_rho(rho / _STEP)

    def state(self) -> State:
        return State(self.v, self.lam, self.s, self.nu, self.z, self.rho)

    def _set_rho(self, rho: float) -> None:
        self.lam, self.nu = self.lam * (self.rho / rho), self.nu * (self.rho / rho)
        self.rho = rho


def _n_outputs(loss: Loss, programme: Programme) -> int:
    return int(loss.slope(np.zeros((programme.n_rows, 1))).shape[1])
