"""Random training problems for the dyadic engine."""

from dataclasses import dataclass, replace

import numpy as np

from foretell.solve.piecewise.dyadic import DyadicFlow
from foretell.solve.piecewise.reference import reference_gradient, reference_run

NAMES = ("A", "W", "h", "C", "L")


@dataclass(frozen=True)
class Problem:
    A: np.ndarray
    W: np.ndarray
    h: np.ndarray
    C: np.ndarray
    L: np.ndarray
    x: np.ndarray
    u: np.ndarray
    dt: np.ndarray
    n_relu: int
    n_levels: int = 4
    interval: int = 4
    alpha: float = 1.0

    def engine(self):
        return DyadicFlow(
            n_units=self.A.size,
            n_relu=self.n_relu,
            n_controls=self.C.shape[1],
            n_levels=self.n_levels,
        )

    def parameters(self):
        return tuple(getattr(self, name) for name in NAMES)

    def fast(self, engine=None, **options):
        u = self.u if self.C.shape[1] else None
        return (engine or self.engine()).loss_and_gradient(
            *self.parameters(), self.x, u, self.dt, forcing_interval=self.interval,
            alpha=self.alpha, **options,
        )  # fmt: skip

    def slow(self):
        return reference_gradient(
            *self.parameters(), self.x, self.u, self.dt, n_relu=self.n_relu,
            n_levels=self.n_levels, forcing_interval=self.interval, alpha=self.alpha,
        )  # fmt: skip

    def starts(self):
        return np.concatenate([self.x[:, 0], self.x[:, 0] @ self.L.T], axis=1)

    def fast_run(self, engine=None, **options):
        u = self.u if self.C.shape[1] else None
        A, W, h, C, _ = self.parameters()
        return (engine or self.engine()).free_run(A, W, h, C, self.starts(), u, self.dt, **options)

    def slow_run(self):
        A, W, h, C, _ = self.parameters()
        return np.array(
            [
                reference_run(A, W, h, C, *z_u_dt, n_relu=self.n_relu, n_levels=self.n_levels)
                for z_u_dt in zip(self.starts(), self.u, self.dt, strict=True)
            ]
        )

    def but(self, **changes):
        return replace(self, **changes)


def problem(
    seed, *, M=7, N=3, P=3, K=0, B=2, T=9, missing=0.0, irregular=True, gain=2.0, **others
):  # fmt: skip
    """A field that oscillates and crosses boundaries often, and data for it."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(M, M))
    x = rng.normal(size=(B, T + 1, N))
    x[:, 1:][rng.random((B, T, N)) < missing] = np.nan
    return Problem(
        A=-rng.uniform(0.2, 0.9, M),
        W=gain * (R - R.T) / np.sqrt(2 * M) + 0.3 * R / np.sqrt(M),
        h=0.5 * rng.normal(size=M),
        C=rng.normal(size=(M, K)),
        L=rng.normal(size=(M - N, N)),
        x=x,
        u=rng.normal(size=(B, T, K)),
        dt=rng.uniform(0.1, 2.5, (B, T)) if irregular else np.ones((B, T)),
        n_relu=P,
        **others,
    )


def gradients(result):
    return np.concatenate([getattr(result, f"d{name}").ravel() for name in NAMES])
