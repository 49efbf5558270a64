"""Pictures of a plan; matplotlib is imported when one is drawn.

Each returns the axes, so that titles and files stay with the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from foretell.core.errors import MissingExtraError
from foretell.train.plan.endurance import EnduranceModel
from foretell.train.plan.overhead import OverheadModel
from foretell.train.plan.placement import StackPlacement
from foretell.train.plan.redundancy import Prediction

_COLOURS = ("#1b7837", "#2166ac", "#c1272d", "#e08214", "#7b3294")
_HIGHEST = 8.0  # of the ratios that are drawn


def plot_time_ratio(
    curves: Mapping[str, Sequence[Prediction]],
    *,
    best: Prediction | None = None,
    levels: Mapping[str, float] | None = None,
    axes: Any = None,
) -> Any:
    """Predicted time to train against the hosts of a shard, one line for each kind of policy.

    Parameters
    ----------
    curves : mapping of str to list of Prediction
    best : Prediction, optional
        Marked, with its number of hosts.
    levels : mapping of str to float, optional
        Ratios of policies that have no number of hosts, as horizontal lines.
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    for n, (name, points) in enumerate(curves.items()):
        good = [p for p in points if p.time_ratio < _HIGHEST]
        x, y = [p.redundancy for p in good], [p.time_ratio for p in good]
        axes.plot(x, y, "o-", color=_COLOURS[n % 5], markersize=4, label=name)
    for n, (name, ratio) in enumerate((levels or {}).items(), len(curves)):
        axes.axhline(ratio, color=_COLOURS[n % 5], linestyle="--", linewidth=1.2, label=name)
    if best is not None:
        here = (best.redundancy, best.time_ratio)
        axes.plot(*here, "o", markersize=11, markerfacecolor="none", markeredgecolor="black")
        text = f"{best.redundancy} hosts: {best.time_ratio:.2f}"
        axes.annotate(
            text, here, (0, -10), textcoords="offset points", ha="center", va="top"
        )  # fmt: skip
    axes.set_xlabel("hosts of a shard")
    axes.set_ylabel("predicted time / failure-free time")
    axes.set_ylim(0.75, axes.get_ylim()[1])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, loc="upper right")
    return axes


def plot_load(placement: StackPlacement, micro: Sequence[int] = (8, 1), *, axes: Any = None) -> Any:
    """Stacks of a step against the number of failures, with the chance to be still running.

    Parameters
    ----------
    placement : StackPlacement
    micro : list of int
        Units of a shard, one line for each.
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    model = EnduranceModel(placement)
    k = np.arange(max(2, model.quantile(0.999)))
    for n, q in enumerate(micro):
        load = OverheadModel(placement, q).load(k)
        name = "whole stacks" if q == 1 else f"micro-stacks, {q} units"
        axes.step(k, load, where="post", color=_COLOURS[n % 5], label=name)
    axes.set_xlabel("failures since the start")
    axes.set_ylabel("stacks a step")
    other = axes.twinx()
    other.plot(k, model.survival(k), color="#777777", linewidth=1.2, linestyle=":")
    other.set_ylabel("chance that all of them are masked (dotted)", color="#777777")
    axes.legend(frameon=False, loc="center left")
    return axes


def plot_survival(
    placement: StackPlacement, n_trials: int = 2000, *, random_state: int = 0, axes: Any = None
) -> Any:
    """P(K > k) by formula, and by Monte Carlo.

    Parameters
    ----------
    placement : StackPlacement
    n_trials : int
        Of the Monte Carlo.
    random_state : int
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    model = EnduranceModel(placement)
    k = np.arange(placement.n_groups + 1)
    fatal = np.sort(model.simulate(n_trials, random_state))
    share = 1.0 - np.searchsorted(fatal, k, side="right") / n_trials
    axes.step(k, share, where="post", color=_COLOURS[1], label=f"{n_trials} trials")
    axes.plot(k, model.survival(k), color="#444444", linewidth=1.0, label="formula")
    axes.set_xlabel("failures")
    axes.set_ylabel("chance that all of them are masked")
    axes.legend(frameon=False)
    return axes


def panels(n: int) -> list[Any]:
    """Axes beside each other in a new figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw pictures") from error
    figure = Figure(figsize=(5.5 * n + 0.9, 4.4), layout="constrained")
    return list(figure.subplots(1, n, squeeze=False)[0])


def _axes(axes: Any) -> Any:
    return panels(1)[0] if axes is None else axes
