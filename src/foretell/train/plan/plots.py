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


def plot_time_ratio(curves: Mapping[str, Sequence[Prediction]], *, axes: Any = None) -> Any:
    """Predicted time to train against the hosts of a shard, one line for each kind of policy.

    Parameters
    ----------
    curves : mapping of str to list of Prediction
    axes : matplotlib axes, optional
    """
    axes = _axes(axes)
    for n, (name, points) in enumerate(curves.items()):
        good = [p for p in points if np.isfinite(p.time_ratio)]
        x, y = [p.redundancy for p in good], [p.time_ratio for p in good]
        axes.plot(x, y, "o-", color=_COLOURS[n % 5], markersize=4, label=name)
    axes.set_xlabel("hosts of a shard")
    axes.set_ylabel("predicted time / failure-free time")
    axes.set_ylim(1.0, min(axes.get_ylim()[1], 8.0))
    axes.legend(frameon=False)
    return axes


def plot_load(placement: StackPlacement, micro: Sequence[int] = (1, 8), *, axes: Any = None) -> Any:
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
        axes.step(k, load, where="post", color=_COLOURS[n % 5], label=f"{q} units a shard")
    axes.set_xlabel("failures since the start")
    axes.set_ylabel("stacks a step")
    other = axes.twinx()
    other.plot(k, model.survival(k), color="#888888", linewidth=1.0)
    other.set_ylabel("chance that all of them are masked", color="#888888")
    axes.legend(frameon=False)
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


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw pictures") from error
    return Figure(figsize=(6.4, 4.4), layout="constrained").subplots()
