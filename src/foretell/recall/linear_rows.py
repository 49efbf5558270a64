"""Decoders that are linear in the bits and in the query, and their exact error.

A linear decoder is a matrix A (m, d): rho_hat = sum_j b_j (A q)_j. It has the vector
a = A' b in place of the document, rho_hat = <a, q>. Turn x and q at random together, keeping
their cosine rho, and the error is

    Var = rho^2 Var<a, x> + (1 - rho^2) (E|a|^2 - E<a, x>^2) / (d - 1)

with every moment in closed form, because signs and products of Gaussian pairs are. The two
choices of A are the rows themselves ("linear") and the rows after removing the correlation of the
bits, C_jk = 2/pi arcsin<g_j, g_k> ("decorrelated"). The second also divides by the slope of its own
query, s(q) = q'Bq with mean one, which to first order subtracts rho (s - 1).

Ours; the arcsine law is J. H. Van Vleck's (Proc. IEEE 54, 1966).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RIDGE = 1e-4


class LinearDecoding:
    """Weights and errors of one linear decoder for unit rows (m, d)."""

    def __init__(self, unit: Array, kind: str) -> None:
        self.unit, self.kind = unit, kind
        self.m, self.d = unit.shape

    @cached_property
    def rows(self) -> Array:
        """A up to scale, (m, d)."""
        if self.kind == "linear":
            return self.unit
        from scipy.linalg import cho_factor, cho_solve

        correlation = self._correlation + _RIDGE * np.eye(self.m)
        return np.asarray(cho_solve(cho_factor(correlation), self.unit))

    @cached_property
    def gain(self) -> float:
        """E<a, x> of the rows: dividing by it makes the decoder unbiased."""
        return mean_absolute_coordinate(self.d) * float((self.rows * self.unit).sum())

    def weights(self, queries: Array, projections: Array) -> tuple[Array, Array]:
        """Weights (nq, m) and scales (nq,); `projections` are those on the unit rows."""
        root = np.sqrt(self.d)
        if self.kind == "linear":
            return projections * root, np.full(len(queries), 1 / self.gain / root)
        W = queries @ self.rows.T
        # The mean of a vote grows with rho at a slope that the query's own projections tell.
        slope = mean_absolute_coordinate(self.d) * self.d * (W * projections).sum(axis=1)
        return W * root, 1 / slope / root

    def variance(self, rho: Array) -> Array:
        """Variance of the estimate at cosines rho, averaged over directions."""
        along, total = self._moments
        across = max(total - along - 1.0, 0.0) / max(self.d - 1, 1)
        plain = rho**2 * along + (1 - rho**2) * across
        if self.kind == "linear":
            return np.asarray(plain)
        own, mixed, spread = self._slope_moments
        rest = (1 - rho**2) / max(self.d - 1, 1)
        joint = rho * (rho**2 * own + rest * (self.d - own)) + 2 * rho * rest * (mixed - own)
        return np.asarray(np.maximum(plain - 2 * rho * (joint - rho) + rho**2 * spread, 0.0))

    @cached_property
    def _slope_moments(self) -> tuple[float, float, float]:
        """E<a, x> x'Bx, E<a, Bx> and Var q'Bq for the slope q'Bq of mean one."""
        A, G, d = self.rows / self.gain, self.unit, self.d
        B = A.T @ G
        B = (B + B.T) * (d / 2 / np.trace(B))
        gB = G @ B
        alpha = (A * G).sum(axis=1)
        gBa, gBg = (gB * A).sum(axis=1), (gB * G).sum(axis=1)
        root = np.sqrt(2 / np.pi)
        # For standard normal x: E<a, x> x'Bx = E<a, x> tr B + sum_j Cov(b_j (A x)_j, x'Bx).
        normal = root * (d * alpha.sum() + (2 * gBa - alpha * gBg).sum())
        own = normal / (2**1.5 * math.exp(math.lgamma((d + 3) / 2) - math.lgamma(d / 2)))
        mixed = mean_absolute_coordinate(d) * gBa.sum()
        spread = 2 * ((B**2).sum() - d) / (d * (d + 2))
        return float(own), float(mixed), float(spread)

    @property
    def _gram(self) -> Array:
        gram: Array = np.clip(self.unit @ self.unit.T, -1.0, 1.0)
        np.fill_diagonal(gram, 1.0)
        return gram

    @property
    def _correlation(self) -> Array:
        return np.asarray(2 / np.pi * np.arcsin(self._gram))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Var<a, x> and E|a|^2 of the unbiased decoder, x uniform on the sphere."""
        r, A = self._gram, self.rows / self.gain
        C = 2 / np.pi * np.arcsin(r)
        # z_j = <g_j, x>, v_j = (A x)_j with x standard normal; the sphere is that over |x|^2 ~ d.
        # v_j = alpha z_j + beta z_k + rest, and the rest is independent of both signs.
        cross = A @ self.unit.T  # E v_j z_k
        own = np.diag(cross)[:, None]  # E v_j z_j
        s2 = 1 - r**2
        safe = np.where(s2 > 1e-12, s2, 1.0)
        alpha = (own - r * cross) / safe
        beta = (cross - r * own) / safe
        rest = A @ A.T - (
            alpha * cross.T + beta * own.T
        )  # E v_j v_k minus the part explained by z_j and z_k
        square = 2 / np.pi * (np.arcsin(r) + r * np.sqrt(s2))  # E s_j s_k z_j^2
        mixed = 2 / np.pi * (np.sqrt(s2) + r * np.arcsin(r))  # E |z_j| |z_k|
        # v_k in its own pair: alpha' z_k + beta' z_j with j and k exchanged.
        second = (
            (alpha * beta.T + beta * alpha.T) * square
            + (alpha * alpha.T + beta * beta.T) * mixed
            + rest * C
        )
        same = s2 <= 1e-12  # identical or opposite rows, the diagonal among them
        second[same] = ((A @ A.T) * np.sign(r))[same]
        along = float(second.sum()) / self.d - 1.0
        total = float((C * (A @ A.T)).sum())
        return max(along, 0.0), total


def mean_absolute_coordinate(d: int) -> float:
    """E|u_1| of a uniformly random unit vector in d dimensions; sqrt(2 / (pi d)) for large d."""
    return float(math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / np.sqrt(np.pi))
