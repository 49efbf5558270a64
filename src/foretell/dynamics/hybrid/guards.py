"""Jumps that a fitted model makes: when, where (the guard) and to where (the reset).

Where the two largest logits of the decoder are equal, the chosen head changes; the two heads there
are the states before and after the jump. Points of that kind sample the learned guard and reset;
`read_guards` fits planes and affine maps to them.

Legend: B starts, T samples, S points, n columns, N observed variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError
from foretell.dynamics.hybrid.latent_model import LatentModel, n_substeps

Array = NDArray[np.float64]

FINER = 4  # looks within each step
_HALVINGS = 30
_TRIALS = 300  # planes tried for each guard
_OFF_PLANE = 0.05  # standard deviations within which a point is on a plane
_FEWEST = 0.1  # share of the points that a guard needs


@dataclass(frozen=True)
class JumpEvent:
    """One jump of a free run.

    Parameters
    ----------
    time : float
        In data time.
    before, after : arrays (N,)
        States around it, in data units.
    """

    time: float
    before: Array
    after: Array

    def __repr__(self) -> str:
        before, after = (np.array2string(v, precision=3) for v in (self.before, self.after))
        return f"JumpEvent(t={self.time:.6g}: {before} -> {after})"


@dataclass(frozen=True)
class GuardSamples:
    """Points of the learned guard, with what the learned reset makes of them.

    Parameters
    ----------
    before, after : arrays (S, N)
        In data units.
    latent : array (S, m)
        Where in the latent space.
    share : float
        Share of the jumps of the recordings across which the decoder changes its head.
    """

    before: Array
    after: Array
    latent: Array
    share: float

    def __repr__(self) -> str:
        return f"GuardSamples({len(self.before)} points, {self.share:.0%} of the jumps)"


@dataclass(frozen=True)
class GuardReset:
    """A plane at which the system jumps, and the affine map by which it does.

    Parameters
    ----------
    normal : array (N,)
        In data units; its largest entry is 1 in size.
    level : float
        The guard is normal . x = level.
    off_plane : float
        Root mean square distance of the points from the plane, in standard deviations.
    reset_matrix, reset_offset : arrays (N, N), (N,)
        x goes to reset_matrix x + reset_offset, fitted on the guard; what it says about states off
        the guard is arbitrary.
    off_reset : float
        Root mean square error of that map, in standard deviations.
    n_points : int
        Points behind it.
    centre : array (N,)
        Their mean, in data units.
    extent : float
        How far they spread along the plane, in standard deviations. Where that is little, the
        plane through them is arbitrary.
    """

    normal: Array
    level: float
    off_plane: float
    reset_matrix: Array
    reset_offset: Array
    off_reset: float
    n_points: int
    centre: Array
    extent: float

    def __repr__(self) -> str:
        plane = " ".join(f"{v:+.3g} x{k}" for k, v in enumerate(self.normal))
        return (
            f"GuardReset({plane} = {self.level:.3g}, {self.n_points} points, off the plane "
            f"{self.off_plane:.2g}, reset off {self.off_reset:.2g} standard deviations)"
        )


@dataclass(frozen=True)
class Switches:
    """Changes of head along latent runs: run, time since its start, latent state, the two heads."""

    run: NDArray[np.int64]
    after: Array
    latent: Array
    old: NDArray[np.int64]
    new: NDArray[np.int64]


def head_switches(
    model: LatentModel, z0: Array, dt: Array, u: Array | None, substeps: int
) -> Switches:
    """Follow runs (B, T) from z0 (B, m) and locate every change of the chosen head."""
    fine_dt = np.repeat(dt / FINER, FINER, axis=1)
    fine_u = None if u is None else np.repeat(u, FINER, axis=1)
    z = model.roll_out(z0, fine_dt, fine_u, int(n_substeps(np.array([1.0]), substeps)[0]))
    z = np.where(np.abs(z) < 1e6, z, 0.0)
    chosen = model.heads(z)[1].argmax(axis=-1)
    run, step = np.nonzero(chosen[:, 1:] != chosen[:, :-1])
    low, high = z[run, step], z[run, step + 1]
    old, new = chosen[run, step], chosen[run, step + 1]
    share, rows = np.zeros(len(run)), np.arange(len(run))
    width = 0.5
    for _ in range(_HALVINGS):
        middle = low + (share + width)[:, None] * (high - low)
        logits = model.heads(middle)[1]
        still = logits[rows, old] > logits[rows, new]
        share = np.where(still, share + width, share)
        width /= 2
    passed = np.concatenate([np.zeros((len(dt), 1)), np.cumsum(fine_dt, axis=1)], axis=1)
    return Switches(
        run, passed[run, step] + share * fine_dt[run, step], low + share[:, None] * (high - low),
        old, new,
    )  # fmt: skip


def need_heads(model: LatentModel) -> None:
    """Refuse a decoder that cannot jump."""
    if model.n_heads == 1:
        raise ParameterError(
            "the decoder of this model has one head and cannot jump, so it has no guard to read. "
            "Fit with decoder_heads=3."
        )


def read_guards(before: Array, after: Array, scale: Array, *, most: int = 6) -> list[GuardReset]:
    """Planes and affine resets through points before and after jumps (S, N).

    One plane after the other takes the points within 0.05 standard deviations of it, the fullest
    first, as long as a tenth of the points is left for one. ``scale`` (N,) are the standard
    deviations.
    """
    x, y = before / scale, after / scale
    left = np.arange(len(x))
    found: list[GuardReset] = []
    rng = np.random.default_rng(0)
    enough = max(int(_FEWEST * len(x)), 2 * x.shape[1] + 2)
    while len(left) >= enough and len(found) < most:
        on = _fullest_plane(x[left], rng)
        if on.sum() < enough:
            break
        found.append(_guard(x[left[on]], y[left[on]], scale))
        left = left[~on]
    return found


def _fullest_plane(x: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    S, N = x.shape
    best = np.zeros(S, dtype=bool)
    for _ in range(_TRIALS if N > 1 else S):
        some = x[rng.choice(S, size=N, replace=False)]
        normal = np.linalg.svd(some - some.mean(axis=0))[2][-1]
        on = np.abs((x - some.mean(axis=0)) @ normal) < _OFF_PLANE
        if on.sum() > best.sum():
            best = on
    for _ in range(3):  # the plane through all of them takes a few more
        centre = x[best].mean(axis=0)
        normal = np.linalg.svd(x[best] - centre, full_matrices=True)[2][-1]
        best = np.abs((x - centre) @ normal) < _OFF_PLANE
    return best


def _guard(x: Array, y: Array, scale: Array) -> GuardReset:
    centre = x.mean(axis=0)
    normal = np.linalg.svd(x - centre, full_matrices=True)[2][-1]
    off_plane = float(np.sqrt((((x - centre) @ normal) ** 2).mean()))
    design = np.column_stack([x - centre, np.ones(len(x))])
    # Across the plane the points do not vary; the least-norm solution ignores that direction.
    solution = np.linalg.lstsq(design, y, rcond=3 * _OFF_PLANE)[0]
    off_reset = float(np.sqrt(((design @ solution - y) ** 2).sum(axis=1).mean()))
    R = solution[:-1].T
    matrix = scale[:, None] * R / scale
    offset = scale * (solution[-1] - R @ centre)
    plane = normal / scale
    size = plane[np.abs(plane).argmax()]
    level = float(normal @ centre / size)
    extent = float(np.sqrt(((x - centre) ** 2).sum(axis=1).mean()))
    return GuardReset(
        plane / size, level, off_plane, matrix, offset, off_reset, len(x), scale * centre, extent
    )
