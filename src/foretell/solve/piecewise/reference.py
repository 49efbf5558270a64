"""Engine R3 once more, slowly: the dyadic flow and its adjoint in plain NumPy, for the tests.

The same pieces in the same order as ``dyadic``, written to be read: one sequence at a time, a
list as the tape, a dictionary of regions, derivatives of the power series term by term.

Legend: B sequences, T intervals, M units, P rectified, N observed, K inputs, w = [1, u] drive
weights (Q = K + 1), H = [h, C] drive columns (M, Q).

Source: Braendle et al., ICML 2026, arXiv 2602.15649 (model, training); scaling and squaring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.solve.piecewise.dyadic import SAME_TIME, SequenceGradient

Array = NDArray[np.float64]


class _Entry(NamedTuple):
    """One map on the tape: a piece of 2^level time units, or (level None) the rest in time."""

    region: _Region
    level: int | None
    state: Array
    w: Array
    rest: float = 0.0


class _Region:
    """Maps z -> E_l z + G_l w for the durations 2^l u, and the gradients they collect."""

    def __init__(self, W_s: Array, H: Array, n_levels: int, on: Array) -> None:
        self.u, self.on, self.W_s, self.H = 2.0**-n_levels, on, W_s, H
        self.X = self.u * W_s
        power = [np.linalg.matrix_power(self.X, k) for k in range(5)]
        self.E = [np.asarray(sum(power[k] / factorial(k) for k in range(5)))]
        self.G = [self.u * np.asarray(sum(power[k] / factorial(k + 1) for k in range(4))) @ H]
        for _ in range(n_levels):
            self.G.append(self.G[-1] + self.E[-1] @ self.G[-1])
            self.E.append(self.E[-1] @ self.E[-1])
        self.dE = [np.zeros_like(W_s) for _ in self.E]
        self.dG = [np.zeros_like(H) for _ in self.G]
        self.dW_s, self.dH = np.zeros_like(W_s), np.zeros_like(H)

    def velocities(self, z: Array, w: Array) -> list[Array]:
        """First, second and third derivative of the state by time."""
        first = self.W_s @ z + self.H @ w
        return [first, self.W_s @ first, self.W_s @ (self.W_s @ first)]

    def back(self, entry: _Entry, lam: Array) -> Array:
        """Collect the gradients of one map; the adjoint before it."""
        if entry.level is not None:
            self.dE[entry.level] += np.outer(lam, entry.state)
            self.dG[entry.level] += np.outer(lam, entry.w)
            return np.asarray(self.E[entry.level].T @ lam)
        v1, v2, _ = self.velocities(entry.state, entry.w)
        a3 = entry.rest**3 / 6 * lam
        a2 = entry.rest**2 / 2 * lam + self.W_s.T @ a3
        a1 = entry.rest * lam + self.W_s.T @ a2
        self.dW_s += np.outer(a3, v2) + np.outer(a2, v1) + np.outer(a1, entry.state)
        self.dH += np.outer(a1, entry.w)
        return np.asarray(lam + self.W_s.T @ a1)

    def unwind(self) -> None:
        """Bring the gradients of all maps down to W_s and H."""
        for level in range(len(self.E) - 1, 0, -1):
            E, G, dE, dG = self.E[level - 1], self.G[level - 1], self.dE[level], self.dG[level]
            self.dE[level - 1] += dE @ E.T + E.T @ dE + dG @ G.T
            self.dG[level - 1] += dG + E.T @ dG
        XT, dX = self.X.T, np.zeros_like(self.X)

        def power_back(d: Array, k: int) -> Array:
            """Gradient by X of the inner product of d with X^k."""
            matrix_power = np.linalg.matrix_power
            terms = (matrix_power(XT, i) @ d @ matrix_power(XT, k - 1 - i) for i in range(k))
            return np.asarray(sum(terms, np.zeros_like(d)))

        for k in range(5):
            dX += power_back(self.dE[0], k) / factorial(k)
        for k in range(4):
            share = self.u / factorial(k + 1)
            dX += share * power_back(self.dG[0] @ self.H.T, k)
            self.dH += share * np.linalg.matrix_power(XT, k) @ self.dG[0]
        self.dW_s += self.u * dX


@dataclass
class _Engine:
    """The regions visited with one set of parameters."""

    A: Array
    W: Array
    H: Array
    n_relu: int
    n_levels: int
    regions: dict[tuple[bool, ...], _Region] = field(default_factory=dict)

    def code(self, z: Array) -> tuple[bool, ...]:
        return tuple(bool(v > 0) for v in z[z.size - self.n_relu :])

    def region(self, z: Array) -> _Region:
        code = self.code(z)
        if code not in self.regions:
            on = np.append(np.ones(z.size - self.n_relu), np.array(code, dtype=float))
            W_s = np.diag(self.A) + self.W * on
            self.regions[code] = _Region(W_s, self.H, self.n_levels, on)
        return self.regions[code]

    def advance(self, z: Array, w: Array, dt: float, tape: list[_Entry]) -> Array:
        """Cross an interval by the largest pieces that keep the region; halve where one fails."""
        top, unit = self.n_levels, 2.0**-self.n_levels
        pieces = round(dt / unit)
        rest = dt - pieces * unit
        region, cap = self.region(z), top
        while pieces > 0:
            level = cap
            while 2**level > pieces:
                level -= 1
            while True:
                ahead = region.E[level] @ z + region.G[level] @ w
                stays = self.code(ahead) == self.code(z)
                if stays or level == 0:
                    break
                level -= 1
                cap = level
            tape.append(_Entry(region, level, z, w))
            z, pieces = ahead, pieces - 2**level
            if not stays:
                region, cap = self.region(z), top
            elif cap < top:
                cap = level - 1 if level > 0 else top
        if abs(rest) >= SAME_TIME * max(1.0, dt):
            tape.append(_Entry(region, None, z, w, rest))
            v1, v2, v3 = region.velocities(z, w)
            z = z + rest * v1 + rest**2 / 2 * v2 + rest**3 / 6 * v3
        return z


def reference_gradient(
    A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array, dt: Array, *,
    n_relu: int, n_levels: int, forcing_interval: int, alpha: float = 1.0,
) -> SequenceGradient:  # fmt: skip
    """What `DyadicFlow.loss_and_gradient` computes, for states that stay finite."""
    engine = _Engine(A, W, np.column_stack([h, C]), n_relu, n_levels)
    M, N, n_steps = A.size, x.shape[2], dt.shape[1]
    n_seen = int(np.isfinite(x[:, 1:]).sum())
    loss, dL, n_maps = 0.0, np.zeros((M - N, N)), 0
    for x_TN, u_TK, dt_T in zip(x, u, dt, strict=True):
        z = np.concatenate([x_TN[0], L @ x_TN[0]])
        tapes: list[list[_Entry]] = []
        residuals: list[Array] = []
        for k in range(1, n_steps + 1):
            tapes.append([])
            z = engine.advance(z, np.append(1.0, u_TK[k - 1]), dt_T[k - 1], tapes[-1])
            seen = np.isfinite(x_TN[k])
            residuals.append(np.where(seen, z[:N] - x_TN[k], 0.0))
            if k % forcing_interval == 0:
                z = z.copy()
                z[:N][seen] = (1 - alpha) * z[:N][seen] + alpha * x_TN[k][seen]
        loss += float(sum(r @ r for r in residuals)) / max(n_seen, 1)
        n_maps += sum(3 if entry.level is None else 1 for tape in tapes for entry in tape)
        lam = np.zeros(M)
        for k in range(n_steps, 0, -1):
            if k % forcing_interval == 0:
                lam[:N][np.isfinite(x_TN[k])] *= 1 - alpha
            lam[:N] += 2 / max(n_seen, 1) * residuals[k - 1]
            for entry in reversed(tapes[k - 1]):
                lam = entry.region.back(entry, lam)
        dL += np.outer(lam[N:], x_TN[0])
    dA, dW, dH = np.zeros(M), np.zeros((M, M)), np.zeros_like(engine.H)
    for region in engine.regions.values():
        region.unwind()
        dA += np.diag(region.dW_s)
        dW += region.dW_s * region.on
        dH += region.dH
    return SequenceGradient(
        loss=loss, dA=dA, dW=dW, dh=dH[:, 0], dC=dH[:, 1:], dL=dL, escaped=False,
        n_regions=len(engine.regions), n_maps=n_maps,
    )  # fmt: skip


def reference_run(
    A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array, dt: Array, *,
    n_relu: int, n_levels: int,
) -> Array:  # fmt: skip
    """What `DyadicFlow.free_run` computes for one sequence: states (T + 1, M)."""
    engine = _Engine(A, W, np.column_stack([h, C]), n_relu, n_levels)
    states = [z0]
    for u_K, step in zip(u, dt, strict=True):
        states.append(engine.advance(states[-1], np.append(1.0, u_K), float(step), []))
    return np.array(states)
