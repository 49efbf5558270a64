"""Pictures of ensembles; matplotlib is imported when one is drawn.

Each returns the axes, so that titles and files stay with the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from foretell.core import MissingExtraError
from foretell.dynamics.longrun.ensembles import rank_histogram, spread_skill

_COLOURS = ("#2166ac", "#c1272d", "#1b7837", "#e08214", "#7b3294", "#444444")
_SHARES = (0.5, 0.8, 0.95)


def plot_fan(
    times: ArrayLike, runs: ArrayLike, observed: ArrayLike | None = None, *, axes: Any = None
) -> Any:
    """Bands that hold 50, 80 and 95 % of an ensemble, its median, and what happened.

    Parameters
    ----------
    times : array (T,)
    runs : array (S, T)
        One variable of all members.
    observed : array (T,), optional
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    t, values = np.asarray(times, float), np.asarray(runs, float)
    for share, alpha in zip(reversed(_SHARES), (0.15, 0.25, 0.35), strict=True):
        low, high = np.quantile(values, [0.5 - share / 2, 0.5 + share / 2], axis=0)
        axes.fill_between(t, low, high, color=_COLOURS[0], alpha=alpha, linewidth=0,
                          label=f"{100 * share:.0f} % of the runs")  # fmt: skip
    axes.plot(t, np.median(values, axis=0), color=_COLOURS[0], linewidth=1.2, label="median")
    if observed is not None:
        axes.plot(
            t, np.asarray(observed, float), color=_COLOURS[5], linewidth=1.2, label="recorded"
        )
    axes.set_xlabel("time")
    axes.legend(frameon=False)
    return axes


def plot_ranks(
    ensembles: Mapping[str, tuple[ArrayLike, ArrayLike]], *, n_bins: int = 10, axes: Any = None
) -> Any:
    """Rank histograms, one line for each ensemble; 1 is flat.

    Parameters
    ----------
    ensembles : mapping of str to (draws (B, S, n), observed (B, n))
    n_bins : int
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    for n, (name, (draws, observed)) in enumerate(ensembles.items()):
        found = rank_histogram(draws, observed, n_bins=n_bins)
        height = found.counts / found.counts.mean()
        axes.stairs(height, edges, color=_COLOURS[n % 6], label=name)
    axes.axhline(1.0, color=_COLOURS[5], linewidth=0.8)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("rank of what happened among the draws")
    axes.set_ylabel("share, relative to flat")
    axes.legend(frameon=False)
    return axes


def plot_spread_skill(
    times: ArrayLike, runs: ArrayLike, observed: ArrayLike, *, axes: Any = None
) -> Any:
    """Width of ensembles and error of their means against lead time.

    Parameters
    ----------
    times : array (T,)
        Lead times.
    runs : array (B, S, T, n)
    observed : array (B, T, n)
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    t = np.asarray(times, float)
    F, y = np.asarray(runs, float), np.asarray(observed, float)
    found = [spread_skill(F[:, :, k], y[:, k]) for k in range(1, t.size)]
    axes.plot(t[1:], [f.spread for f in found], color=_COLOURS[0], label="spread")
    axes.plot(t[1:], [f.skill for f in found], color=_COLOURS[5], label="error of the mean")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("lead time")
    axes.legend(frameon=False)
    return axes


def plot_density(values: Mapping[str, ArrayLike], *, bins: int = 40, axes: Any = None) -> Any:
    """Densities of a quantity of interest, one line for each law.

    Parameters
    ----------
    values : mapping of str to array (P,)
    bins : int
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    joined = np.concatenate([np.ravel(np.asarray(v, float)) for v in values.values()])
    low, high = np.quantile(joined, [0.001, 0.999])
    edges = np.linspace(float(low), float(high), bins + 1)
    for n, (name, v) in enumerate(values.items()):
        height, _ = np.histogram(np.ravel(np.asarray(v, float)), edges, density=True)
        axes.stairs(height, edges, color=_COLOURS[n % 6], label=name)
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return axes


def plot_interpolation(model: Any, *, axes: Any = None) -> Any:
    """Error ratio and generated spread while the label network of a model was trained.

    Parameters
    ----------
    model : StochasticLifting
        Fitted.
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    step, ratio, spread = np.asarray(model.interpolation_).T
    axes.plot(step, ratio, color=_COLOURS[1], label="error / variance of the targets")
    axes.plot(step, spread, color=_COLOURS[0], label="generated spread / wanted")
    axes.axhline(1.0, color=_COLOURS[5], linewidth=0.8)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("update of the label network")
    axes.legend(frameon=False)
    return axes


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw pictures") from error
    return Figure(figsize=(6.4, 4.4), layout="constrained").subplots()
