"""Holes of a point cloud, counted by persistent homology with two coefficient fields.

A torus has two independent loops whatever the coefficients; a Klein bottle has two modulo 2 and one
modulo 3. The rule that reads a rank off a diagram is fixed: of the longest intervals, as many as
come before the largest ratio of neighbouring lengths; none, when the longest is less than a tenth
of the radius of the cloud.

Source: Bauer, "Ripser: efficient computation of Vietoris-Rips persistence barcodes" (2021), through
the package ripser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.core import MissingExtraError, ParameterError

Array = NDArray[np.float64]

_CONSIDERED = 8  # longest intervals
_TOO_SHORT = 0.1  # of the radius of the cloud
_NOISE = 0.05  # of the radius: shorter ones count as equally short


@dataclass(frozen=True)
class Betti:
    """Number of independent loops for each prime.

    Parameters
    ----------
    primes : tuple of int
        Coefficients are whole numbers modulo these.
    ranks : tuple of int
        Loops (rank of the first homology) for each.
    lengths : tuple of arrays
        The longest persistence intervals behind each, longest first.
    """

    primes: tuple[int, ...]
    ranks: tuple[int, ...]
    lengths: tuple[Array, ...]

    def __repr__(self) -> str:
        shown = ", ".join(f"{r} mod {p}" for p, r in zip(self.primes, self.ranks, strict=True))
        return f"Betti(loops: {shown})"


def farthest_points(points: Array, count: int) -> NDArray[np.int64]:
    """Numbers of so many points, each the farthest from those before it, the first being 0."""
    chosen = np.zeros(min(count, len(points)), dtype=np.int64)
    away = np.linalg.norm(points - points[0], axis=1)
    for k in range(1, len(chosen)):
        chosen[k] = int(away.argmax())
        away = np.minimum(away, np.linalg.norm(points - points[chosen[k]], axis=1))
    return chosen


def loop_rank(lengths: Array, radius: float) -> int:
    """Rank from the lengths of persistence intervals, by the rule of this module.

    Examples
    --------
    >>> loop_rank(np.array([1.1, 1.0, 0.1, 0.09]), radius=1.0)
    2
    """
    longest = np.sort(np.asarray(lengths))[::-1][: _CONSIDERED + 1]
    if longest.size == 0 or longest[0] < _TOO_SHORT * radius:
        return 0
    padded = np.zeros(_CONSIDERED + 1)
    padded[: longest.size] = longest
    padded = np.maximum(padded, _NOISE * radius)
    return int(np.argmax(padded[:-1] / padded[1:])) + 1


def betti_numbers(
    points: Array, *, n_points: int = 400, primes: Sequence[int] = (2, 3), standardise: bool = True
) -> Betti:
    """Loops of a cloud of points (S, m).

    Parameters
    ----------
    points : array (S, m)
        Latent states, for instance.
    n_points : int
        Farthest points that stand for all of them.
    primes : sequence of int
        Coefficients.
    standardise : bool
        Bring every coordinate to unit variance first.

    Raises
    ------
    MissingExtraError
        ripser is not installed.
    """
    try:
        from ripser import ripser
    except ImportError as error:
        raise MissingExtraError(
            "ripser", "topology", "count the loops of a latent space"
        ) from error
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or len(x) < 20 or not np.isfinite(x).all():
        raise ParameterError(
            f"points have shape {x.shape}; needed are at least 20 finite points, shape (S, m)."
        )
    if standardise:
        x = x / np.maximum(x.std(axis=0), 1e-12)
    few = x[farthest_points(x, n_points)]
    radius = float(np.linalg.norm(few - few.mean(axis=0), axis=1).max())
    lengths = []
    for prime in primes:
        births, deaths = ripser(few, maxdim=1, coeff=int(prime))["dgms"][1].T
        finite = np.where(np.isfinite(deaths), deaths, 2 * radius)
        lengths.append(np.sort(finite - births)[::-1][: _CONSIDERED + 1])
    return Betti(
        tuple(int(p) for p in primes), tuple(loop_rank(v, radius) for v in lengths), tuple(lengths)
    )
