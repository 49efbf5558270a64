"""Arithmetic of a lifted linear model: features, least squares, rollouts.

    z+ = W phi(z, u),   phi = [z; u]            (linear)
                        phi = [z; u; z u_1; ..; z u_K]   (bilinear)

Legend: Z lifted states, K inputs, Q features; W (Z, Q); any leading axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core import NumericalError
from foretell.solve.qp import factor

Array = NDArray[np.float64]


def features(z: Array, u: Array, bilinear: bool) -> Array:
    """phi (.., Q) of z (.., Z) and u (.., K)."""
    parts = [z, u]
    if bilinear:
        parts += [z * u[..., i, None] for i in range(u.shape[-1])]
    return np.concatenate(parts, axis=-1)


def refuse_dependent(G: Array) -> None:
    """Refuse mean squares of features (Q, Q), with the ridge, that have no inverse."""
    values = np.linalg.eigvalsh(G)
    if values[0] <= 1e-14 * values[-1]:
        raise NumericalError(
            "the observables are linearly dependent on these data, so that the regression has no "
            "unique solution. Give ridge=1e-6, fewer observables, or richer inputs."
        )


@dataclass(frozen=True)
class Moments:
    """Sums over pairs of samples: phi phi' (Q, Q), z+ phi' (Z, Q), and the sum of their weights.

    Sums of parts add up, so that data can be spread over time or machines.
    """

    phi_phi: Array
    z_phi: Array
    n: float

    @classmethod
    def of(cls, phi: Array, z_next: Array) -> Moments:
        """The sums of phi (.., Q) and z+ (.., Z)."""
        p, z = phi.reshape(-1, phi.shape[-1]), z_next.reshape(-1, z_next.shape[-1])
        return cls(p.T @ p, z.T @ p, len(p))

    def then(self, phi: Array, z_next: Array, forget: float) -> Moments:
        """With further pairs (T, Q) and (T, Z), each weighing ``forget`` as much as the next."""
        if forget == 1.0:
            return self + Moments.of(phi, z_next)
        T = len(phi)
        weight = forget ** np.arange(T - 1, -1, -1)
        p, left = phi * weight[:, None], forget**T
        return Moments(
            left * self.phi_phi + p.T @ phi,
            left * self.z_phi + z_next.T @ p,
            left * self.n + float(weight.sum()),
        )

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.phi_phi + other.phi_phi, self.z_phi + other.z_phi, self.n + other.n)

    def gram(self, ridge: float) -> Array:
        """G = (1/n) sum phi phi' + ridge I."""
        return np.asarray(self.phi_phi / self.n + ridge * np.eye(len(self.phi_phi)))

    def least_squares(self, ridge: float) -> Array:
        """W = S G^-1, the solution of the regression with that ridge.

        Raises
        ------
        NumericalError
            ridge is zero and the features are linearly dependent.
        """
        G, S = self.gram(ridge), self.z_phi / self.n
        refuse_dependent(G)
        L = factor(G)
        return np.asarray(np.linalg.solve(L.T, np.linalg.solve(L, S.T)).T)


def rollout(W: Array, z0: Array, u: Array, bilinear: bool, noise: Array | None = None) -> Array:
    """States (B, T+1, Z) from z0 (B, Z) under u (B, T, K); ``noise`` (B, T, Z) is added."""
    z, states = z0, [z0]
    for k in range(u.shape[1]):
        z = features(z, u[:, k], bilinear) @ W.T
        if noise is not None:
            z = z + noise[:, k]
        states.append(z)
    return np.stack(states, axis=1)


def split(W: Array, n_inputs: int) -> tuple[Array, Array, Array]:
    """A (Z, Z), B (Z, K) and N (K, Z, Z), the last one with no entries for a linear model."""
    Z, K = len(W), n_inputs
    rest = W[:, Z + K :]
    N = rest.reshape(Z, -1, Z).transpose(1, 0, 2) if rest.size else np.zeros((0, Z, Z))
    return W[:, :Z].copy(), W[:, Z : Z + K].copy(), N.copy()


def clipped(W: Array, limit: float = 1.0) -> Array:
    """W with the moduli of the eigenvalues of A at most ``limit``, in a real Schur form.

    Examples
    --------
    >>> clipped(np.array([[1.5, 0.0], [0.0, 0.5]])).round(12)
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    from scipy.linalg import schur

    Z = len(W)
    T, U = schur(W[:, :Z], output="real")
    i = 0
    while i < Z:
        pair = i + 1 < Z and T[i + 1, i] != 0
        block = T[i : i + 2, i : i + 2] if pair else T[i : i + 1, i : i + 1]
        modulus = float(np.abs(np.linalg.eigvals(block)).max())
        if modulus > limit:
            block *= limit / modulus
        i += 2 if pair else 1
    return np.hstack([U @ T @ U.T, W[:, Z:]])


def markov_parameters(A: Array, B: Array, C: Array, n_steps: int) -> Array:
    """Response (H, N, H, K) of y after each step to the input at each step: C A^(h - j) B.

    Examples
    --------
    >>> markov_parameters(np.array([[0.5]]), np.array([[1.0]]), np.array([[1.0]]), 3)[:, 0, 0, 0]
    array([1.  , 0.5 , 0.25])
    """
    effect, powers = B, []
    for _ in range(n_steps):
        powers.append(C @ effect)
        effect = A @ effect
    response = np.zeros((n_steps, len(C), n_steps, B.shape[1]))
    for j in range(n_steps):
        response[j:, :, j] = powers[: n_steps - j]
    return response
