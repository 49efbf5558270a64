"""Whether an encoder glues: gaps of position and velocity at jumps, and the rank of its image.

Two conditions make the latent motion a flow with a continuous field: at every jump x -> r(x) the
encoder has to satisfy f(x) = f(r(x)) (positions meet) and Df(x) V(x) = Df(r(x)) V(r(x))
(velocities meet). ``position_gaps`` and ``velocity_gaps`` ask any encoder with exact pre- and
post-jump states; `measured_gaps` asks a model with samples on either side of a jump.

Legend: S jumps, n columns, m latent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.hybrid.latent_model import LatentModel
from foretell.dynamics.hybrid.windows import find_jumps
from foretell.dynamics.sequences import Sequences, complete_rows

Array = NDArray[np.float64]
Encoder = Callable[[Array], Array]

_NEAR = 1e-5  # step of a directional derivative
_PAIRS = 2000


def position_gaps(encode: Encoder, before: Array, after: Array) -> Array:
    """|f(x) - f(r(x))| (S,) for states before and after jumps (S, n).

    Examples
    --------
    >>> def circle(x):
    ...     return np.hstack([np.cos(2 * np.pi * x), np.sin(2 * np.pi * x)])
    >>> position_gaps(circle, np.array([[1.0]]), np.array([[0.0]])).round(12)
    array([0.])
    """
    return np.asarray(np.linalg.norm(encode(before) - encode(after), axis=-1))


def velocity_gaps(encode: Encoder, field: Encoder, before: Array, after: Array) -> Array:
    """|Df(x) V(x) - Df(r(x)) V(r(x))| (S,), by central differences along the field."""

    def pushed(x: Array) -> Array:
        v = field(x)
        return (encode(x + _NEAR * v) - encode(x - _NEAR * v)) / (2 * _NEAR)

    return np.asarray(np.linalg.norm(pushed(before) - pushed(after), axis=-1))


@dataclass(frozen=True)
class SeamGaps:
    """How well held-out jumps are glued.

    Parameters
    ----------
    position : float
        Median distance between where the flow goes across a jump and where the next sample is
        encoded, in usual latent steps: well below 1 when glued.
    velocity : float
        Median change of the encoded velocity across a jump, in usual latent speeds.
    usual_velocity : float
        The same across steps that are no jumps: what the curvature of the motion makes of it.
    n_jumps : int
        Held-out jumps that were asked; 0 gives NaN.
    """

    position: float
    velocity: float
    usual_velocity: float
    n_jumps: int

    def __repr__(self) -> str:
        return (
            f"SeamGaps(position {self.position:.3g} steps, velocity {self.velocity:.3g} speeds "
            f"(elsewhere {self.usual_velocity:.3g}), {self.n_jumps} jumps)"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which ``from_dict`` makes the same gaps."""
        return {k: repr(v) if isinstance(v, float) else v for k, v in vars(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> SeamGaps:
        """What ``to_dict`` described."""
        return cls(
            float(content["position"]), float(content["velocity"]),
            float(content["usual_velocity"]), int(content["n_jumps"]),
        )  # fmt: skip


@dataclass(frozen=True)
class LatentRank:
    """How far the latent states spread.

    Parameters
    ----------
    singular_values : tuple of float
        Of the centred latent states, as standard deviations along the principal directions,
        largest first.
    needed : int
        Directions that an embedding needs at least: the dimension of the flow (one more where
        glued states close up to a loop or a surface).
    inverse_lipschitz : float
        Smallest latent distance per distance of states, over sampled pairs, going through jumps
        where that is nearer. Zero means that different states are encoded alike.
    """

    singular_values: tuple[float, ...]
    needed: int
    inverse_lipschitz: float

    @property
    def collapsed(self) -> bool:
        """Whether a direction that an embedding needs carries less than 1 % of the largest one."""
        s = self.singular_values
        return s[min(self.needed, len(s)) - 1] < 0.01 * s[0]

    def __repr__(self) -> str:
        values = ", ".join(f"{v:.3g}" for v in self.singular_values[: self.needed + 2])
        return (
            f"LatentRank(standard deviations {values}; {'collapsed' if self.collapsed else 'fine'},"
            f" inverse Lipschitz ratio {self.inverse_lipschitz:.3g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which ``from_dict`` makes the same rank."""
        return {
            "singular_values": list(self.singular_values),
            "needed": self.needed,
            "inverse_lipschitz": repr(self.inverse_lipschitz),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> LatentRank:
        """What ``to_dict`` described."""
        return cls(
            tuple(content["singular_values"]), content["needed"],
            float(content["inverse_lipschitz"]),
        )  # fmt: skip


def seam_pairs(sequences: Sequences, flags: tuple[NDArray[np.bool_], ...]) -> dict[str, Array]:
    """Samples before and after each jump (S, n), the interval between (S,), inputs (S, K)."""
    rows = [np.flatnonzero(f) for f in flags]
    pairs = {
        "before": np.concatenate([v[r] for v, r in zip(sequences.values, rows, strict=True)]),
        "after": np.concatenate([v[r + 1] for v, r in zip(sequences.values, rows, strict=True)]),
        "dt": np.concatenate([d[r] for d, r in zip(sequences.dt, rows, strict=True)]),
    }
    if sequences.controls is not None:
        pairs["u"] = np.concatenate([c[r] for c, r in zip(sequences.controls, rows, strict=True)])
    fine = np.isfinite(pairs["before"]).all(axis=1) & np.isfinite(pairs["after"]).all(axis=1)
    return {name: array[fine] for name, array in pairs.items()}


def measured_gaps(
    model: LatentModel, sequences: Sequences, threshold: float, substeps: int
) -> SeamGaps:
    """Gaps at the jumps of recordings (standardised columns in model time)."""
    flags = find_jumps(sequences, threshold).flags
    apart: list[Array] = []
    turns: dict[bool, list[Array]] = {True: [], False: []}
    steps, speeds = [], []
    for k, (x, dt, flag) in enumerate(zip(sequences.values, sequences.dt, flags, strict=True)):
        z = model.encode(np.where(np.isfinite(x), x, np.nan))
        u = None if sequences.controls is None else sequences.controls[k][:-1]
        v = np.diff(z, axis=0) / dt[:, None]
        quiet = ~flag & np.isfinite(v).all(axis=1)
        steps.append(np.linalg.norm(v[quiet] * dt[quiet, None], axis=1))
        speeds.append(np.linalg.norm(v[quiet], axis=1))
        if flag.any():
            held = None if u is None else u[flag]
            gone = model.step(z[:-1][flag], dt[flag], held, substeps)
            apart.append(np.linalg.norm(gone - z[1:][flag], axis=1))
        if len(v) >= 3:
            turn = np.linalg.norm(v[2:] - v[:-2], axis=1)
            beside = ~flag[2:] & ~flag[:-2]
            for jump in (True, False):
                turns[jump].append(turn[(flag[1:-1] == jump) & beside])
    usual_step, usual_speed = _median(steps), _median(speeds)
    return SeamGaps(
        _median(apart) / usual_step,
        _median(turns[True]) / usual_speed,
        _median(turns[False]) / usual_speed,
        sum(len(a) for a in apart),
    )


def latent_rank(
    model: LatentModel,
    sequences: Sequences,
    pairs: dict[str, Array],
    flow_dimension: int,
) -> LatentRank:
    """Rank and inverse Lipschitz ratio of the encoder on recordings."""
    x = np.concatenate([v[complete_rows(v)] for v in sequences.values])
    z = model.encode(x)
    values = np.linalg.svd(z - z.mean(axis=0), compute_uv=False) / np.sqrt(len(z))
    rng = np.random.default_rng(0)
    one, two = rng.integers(len(x), size=(2, _PAIRS))
    far = quotient_distances(x[one], x[two], pairs["before"], pairs["after"])
    seen = far > 0.1
    ratio = float("nan")
    if seen.any():
        ratio = float((np.linalg.norm(z[one] - z[two], axis=1)[seen] / far[seen]).min())
    return LatentRank(tuple(float(v) for v in values), flow_dimension, ratio)


def quotient_distances(x: Array, y: Array, before: Array, after: Array) -> Array:
    """Distances (P,) of states (P, n) where one jump may be used on the way, either direction.

    ``before`` and ``after`` (S, n) are states that the jumps glue; at most 300 of them are used.

    Examples
    --------
    >>> one, two = np.array([[0.05]]), np.array([[0.95]])
    >>> quotient_distances(one, two, np.array([[1.0]]), np.array([[0.0]])).round(12)
    array([0.1])
    """
    best = np.linalg.norm(x - y, axis=1)
    chosen = np.unique(np.linspace(0, len(before) - 1, min(len(before), 300)).astype(int))
    for b, a in zip(before[chosen], after[chosen], strict=True):
        for one, two in ((x, y), (y, x)):
            through = np.linalg.norm(one - b, axis=1) + np.linalg.norm(two - a, axis=1)
            best = np.minimum(best, through)
    return np.asarray(best)


def _median(parts: list[Array]) -> float:
    every = np.concatenate(parts) if parts else np.zeros(0)
    every = every[np.isfinite(every)]
    return float(np.median(every)) if every.size else float("nan")
