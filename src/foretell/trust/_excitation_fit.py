"""The arithmetic of fitting an excitation model: decayed counts, one EM pass, curvature.

Everything reduces to two statistics of a pass over the events, so a pass is two products of a
matrix with a vector for each category, and every shape of the excitation matrix shares them:

    G[k, q] = sum over events t with mark k of S_q(t) / lam_k(t)
    h[q]    = sum over all events t of S_q(t) / sum_k lam_k(t)

Legend: N events, U users, C categories, R rank; alpha_CC[k, q] is what an engagement with q adds to
the intensity of k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.trust.event_log import EventLog

Array = NDArray[np.float64]
Index = NDArray[np.int64]

PRIOR_COUNT, PRIOR_EXPOSURE = 0.05, 1.0  # a0, b0 of the Gamma prior on each excitation
_LARGEST_INFORMATION = 1600  # entries of alpha whose joint curvature is still inverted


def decayed_counts(
    log: EventLog, decay: float, start_UC: Array | None = None
) -> tuple[Array, Array]:
    """S just before each event, shape (N, C), and after the last event of each user, (U, C)."""
    sizes = np.diff(log.starts)
    by_size = np.argsort(-sizes, kind="stable")
    starts, sizes = log.starts[:-1][by_size], sizes[by_size]
    before = np.empty((log.categories.size, log.n_categories))
    S = np.zeros((log.n_users, log.n_categories)) if start_UC is None else start_UC[by_size]
    ranks = np.arange(log.n_users)
    fade = np.exp(-decay * log.waits)
    active = log.n_users
    for position in range(int(sizes[0])):
        while sizes[active - 1] <= position:
            active -= 1
        rows = starts[:active] + position
        S[:active] *= fade[rows, None]
        before[rows] = S[:active]
        S[ranks[:active], log.categories[rows]] += log.engaged[rows]
    last = np.empty_like(S)
    last[by_size] = S
    return before, last


@dataclass(frozen=True)
class Marks:
    """Events sorted by category: S before each, and the usual intensity of its own mark."""

    S: Array  # (N, C)
    usual: Array  # (N,), mu of the mark
    bounds: Index  # (C + 1,)

    @classmethod
    def of(cls, S: Array, usual: Array, categories: Index, n_categories: int) -> Marks:
        order = np.argsort(categories, kind="stable")
        sizes = np.bincount(categories, minlength=n_categories)
        return cls(S[order], usual[order], np.concatenate([[0], np.cumsum(sizes)]))

    def intensities(self, alpha_CC: Array) -> tuple[Array, Array]:
        """Intensity of the mark that occurred, and the sum over all marks, both (N,)."""
        own = self.usual.copy()
        for k, (start, stop) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
            own[start:stop] += self.S[start:stop] @ alpha_CC[k]
        return own, 1.0 + self.S @ alpha_CC.sum(0)

    def statistics(self, alpha_CC: Array) -> tuple[Array, Array]:
        """G (C, C) and h (C,) at the present excitation."""
        own, total = self.intensities(alpha_CC)
        weight = 1.0 / own
        G = np.empty_like(alpha_CC)
        for k, (start, stop) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
            G[k] = weight[start:stop] @ self.S[start:stop]
        return G, (1.0 / total) @ self.S

    def objective(self, alpha_CC: Array) -> float:
        """Log likelihood of the marks plus the log prior of a full matrix, which EM climbs."""
        own, total = self.intensities(alpha_CC)
        prior = PRIOR_COUNT * np.log(alpha_CC).sum() - PRIOR_EXPOSURE * alpha_CC.sum()
        return float(np.log(own).sum() - np.log(total).sum() + prior)


@dataclass(frozen=True)
class Excitation:
    """Excitation as a full matrix, a diagonal, one number on the diagonal, or diagonal + rank R."""

    kind: str
    diagonal: Array  # (C,)
    full: Array | None = None  # (C, C)
    rise: Array | None = None  # (C, R)
    cause: Array | None = None  # (R, C)

    @classmethod
    def start(cls, kind: str, C: int, rank: int, rng: np.random.Generator) -> Excitation:
        diagonal = np.full(C, 0.05)
        if kind == "full":
            return cls(kind, diagonal, full=np.full((C, C), 0.01) + 0.04 * np.eye(C))
        if kind == "diag+lowrank":
            spread = np.sqrt(0.01 / rank)
            factors = spread * rng.uniform(0.5, 1.5, (2, C, rank))
            return cls(kind, diagonal, rise=factors[0], cause=factors[1].T)
        return cls(kind, diagonal)

    @property
    def matrix(self) -> Array:
        if self.full is not None:
            return self.full
        if self.rise is not None and self.cause is not None:
            return np.asarray(np.diag(self.diagonal) + self.rise @ self.cause)
        return np.diag(self.diagonal)

    def improved(self, marks: Marks) -> Excitation:
        """One step of EM: the penalised likelihood does not fall."""
        G, h = marks.statistics(self.matrix)
        if self.full is not None:
            return Excitation(self.kind, self.diagonal, full=maximised(self.full * G, h))
        own = np.diagonal(G)
        if self.kind == "tied":
            one = (self.diagonal @ own + PRIOR_COUNT) / (h.sum() + PRIOR_EXPOSURE)
            return Excitation(self.kind, np.full(own.size, one))
        diagonal = (self.diagonal * own + PRIOR_COUNT) / (h + PRIOR_EXPOSURE)
        if self.rise is None or self.cause is None:
            return Excitation(self.kind, diagonal)
        rise = (self.rise * (G @ self.cause.T) + PRIOR_COUNT) / (self.cause @ h + PRIOR_EXPOSURE)
        half = Excitation(self.kind, diagonal, rise=rise, cause=self.cause)
        G, h = marks.statistics(half.matrix)
        taken = self.cause * (rise.T @ G) + PRIOR_COUNT
        cause = taken / (rise.sum(0)[:, None] * h + PRIOR_EXPOSURE)
        return Excitation(self.kind, diagonal, rise=rise, cause=cause)


def maximised(counted: Array, exposure: Array) -> Array:
    """Excitation from expected counts (C, C) and exposure (C,): the M step of a full matrix."""
    return (counted + PRIOR_COUNT) / (exposure + PRIOR_EXPOSURE)


def fitted(
    marks: Marks, kind: str, rank: int, n_iterations: int, rng: np.random.Generator
) -> Excitation:
    """EM from the same start for every data set."""
    excitation = Excitation.start(kind, marks.bounds.size - 1, rank, rng)
    for _ in range(n_iterations):
        excitation = excitation.improved(marks)
    return excitation


def mark_losses(S: Array, mu_NC: Array, alpha_CC: Array, categories: Index) -> Array:
    """Negative log probability of the category of each event, shape (N,)."""
    lam = S @ alpha_CC.T + mu_NC
    own = lam[np.arange(lam.shape[0]), categories]
    return np.asarray(np.log(lam.sum(1)) - np.log(own))


def standard_errors(marks: Marks, alpha_CC: Array, free: NDArray[np.bool_]) -> Array:
    """Standard errors of the free entries, shape (C, C), 0 elsewhere, usual intensities as given.

    The inverse of the observed information of the penalised likelihood, jointly for all entries;
    above 40 categories, or where it cannot be inverted, its complete-data diagonal, which is
    smaller than it should be.
    """
    C = alpha_CC.shape[0]
    own, total = marks.intensities(alpha_CC)
    weighted = marks.S / total[:, None]
    shared = weighted.T @ weighted
    errors = np.zeros((C, C))
    if int(free.sum()) <= _LARGEST_INFORMATION:
        information = -np.tile(shared, (C, C))
        for k, (start, stop) in enumerate(zip(marks.bounds, marks.bounds[1:], strict=False)):
            block = marks.S[start:stop] / own[start:stop, None]
            information[k * C : (k + 1) * C, k * C : (k + 1) * C] += block.T @ block
        information[np.diag_indices(C * C)] += PRIOR_COUNT / alpha_CC.ravel() ** 2
        kept = np.flatnonzero(free.ravel())
        try:
            inverse = np.linalg.inv(information[np.ix_(kept, kept)])
        except np.linalg.LinAlgError:
            inverse = np.full((kept.size, kept.size), np.nan)
        variance = np.diagonal(inverse)
        if (variance > 0).all():
            errors.flat[kept] = np.sqrt(variance)
            return errors
    G, _ = marks.statistics(alpha_CC)
    complete = (alpha_CC * G + PRIOR_COUNT) / alpha_CC**2
    errors[free] = 1.0 / np.sqrt(complete[free])
    return errors
