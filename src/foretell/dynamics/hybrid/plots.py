"""Pictures of systems that jump; matplotlib is imported when one is drawn.

Each returns the axes, so that titles and files stay with the caller. A curve is never drawn across
a jump as if the system had been there: jumps are dashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import MissingExtraError
from foretell.dynamics.hybrid.guards import GuardSamples
from foretell.dynamics.hybrid.topology import Betti
from foretell.dynamics.hybrid.windows import Jumps

Array = NDArray[np.float64]

_BLUE, _RED, _GREY = "#2166ac", "#c1272d", "#777777"


def plot_run(values: ArrayLike, jump_after: ArrayLike, *, axes: Any = None) -> Any:
    """A run in the plane of two variables, solid where it flows and dashed where it jumps.

    Parameters
    ----------
    values : array (T, 2)
    jump_after : int array
        Samples after which it jumps.
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    x = np.asarray(values, dtype=float)
    index = np.asarray(jump_after, dtype=int)
    for piece in np.split(x, index + 1):
        axes.plot(piece[:, 0], piece[:, 1], color=_BLUE, linewidth=1.2)
    for k in index:
        axes.plot(x[k : k + 2, 0], x[k : k + 2, 1], "--", color=_RED, linewidth=0.8)
    return axes


def plot_latent(z: ArrayLike, until_jump: ArrayLike, *, axes: Any = None) -> Any:
    """Latent states (S, m) in their two main directions, coloured by the time to the next jump."""
    axes = _axes(axes)
    states = np.asarray(z, dtype=float)
    centred = states - states.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    drawn = axes.scatter(plane[:, 0], plane[:, 1], c=np.asarray(until_jump), s=4, cmap="viridis")
    axes.figure.colorbar(drawn, ax=axes, label="time to the next jump")
    return axes


def plot_guard(
    samples: GuardSamples, variables: tuple[int, int] = (0, 1), *, axes: Any = None
) -> Any:
    """Points of the learned guard and what the learned reset makes of them, joined by chords."""
    axes = _axes(axes)
    i, j = variables
    for one, two in zip(samples.before, samples.after, strict=True):
        axes.plot([one[i], two[i]], [one[j], two[j]], "--", color=_GREY, linewidth=0.3)
    axes.scatter(samples.before[:, i], samples.before[:, j], s=6, color=_BLUE, label="before")
    axes.scatter(samples.after[:, i], samples.after[:, j], s=6, color=_RED, label="after")
    axes.legend(frameon=False)
    return axes


def plot_residuals(jumps: Jumps, *, axes: Any = None) -> Any:
    """Histogram of the residuals of all steps with the threshold above which one is a jump."""
    axes = _axes(axes)
    every = np.concatenate(jumps.residuals)
    every = np.maximum(every[np.isfinite(every)], 1e-6)
    axes.hist(every, bins=np.geomspace(every.min(), every.max() * 1.01, 60), color=_BLUE)
    axes.axvline(jumps.threshold, color=_RED, label="threshold")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("residual of a step (standard deviations)")
    axes.legend(frameon=False)
    return axes


def plot_loops(betti: Betti, *, axes: Any = None) -> Any:
    """Lengths of the longest persistence intervals for each prime; counted ones are filled."""
    axes = _axes(axes)
    for row, (prime, rank, lengths) in enumerate(
        zip(betti.primes, betti.ranks, betti.lengths, strict=True)
    ):
        place = np.arange(len(lengths)) + 0.4 * row
        axes.bar(place[:rank], lengths[:rank], 0.35, color=(_BLUE, _RED)[row % 2],
                 label=f"modulo {prime}: {rank}")  # fmt: skip
        axes.bar(place[rank:], lengths[rank:], 0.35, fill=False, edgecolor=(_BLUE, _RED)[row % 2])
    axes.set_xlabel("loop")
    axes.set_ylabel("persistence")
    axes.legend(frameon=False)
    return axes


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw this") from error
    return pyplot.subplots()[1]
