"""Pictures of regulated exposure; matplotlib is imported when one is drawn.

Each returns the axes, so that titles and files stay with the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from foretell.core import MissingExtraError
from foretell.trust.excitation import ExcitationModel
from foretell.trust.loop_run import LoopRun

_COLOURS = ("#444444", "#c1272d", "#e08214", "#7b3294", "#1b7837", "#2166ac")
_MARKERS = ("s", "^", "D", "v", "o", "P")


def plot_pareto(curves: Mapping[str, Sequence[tuple[float, float]]], *, axes: Any = None) -> Any:
    """Clicks against violations, one line for each policy along its knob.

    Parameters
    ----------
    curves : mapping of str to list of (violation rate, clicks)
        The settings of each policy, in the order of its knob.
    axes : matplotlib axes, optional

    Examples
    --------
    >>> curves = {"MMR": [(0.3, 80.0), (0.2, 78.0)], "dual": [(0.05, 79.0)]}
    >>> axes = plot_pareto(curves)
    >>> [line.get_label() for line in axes.lines]
    ['MMR', 'dual']
    """
    axes = _axes(axes)
    for n, (name, points) in enumerate(curves.items()):
        x, y = np.array(points, dtype=float).T
        style = {"color": _COLOURS[n % 6], "marker": _MARKERS[n % 6], "markersize": 6}
        axes.plot(x, y, label=name, linewidth=1.2, **style)
    axes.set_xlabel("steps above the limit, as a share (fewer is better)")
    axes.set_ylabel("clicks per user (more is better)")
    axes.legend(frameon=False)
    return axes


def plot_saturation(run: LoopRun, user: int = 0, *, axes: Any = None) -> Any:
    """D / L of one user of a run over time; dots where the policy changed the slate.

    Parameters
    ----------
    run : LoopRun
    user : int
        Column of the run.
    axes : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.trust import LoopRun
    >>> flat = np.zeros((4, 1), dtype=np.int64)  # four steps of one user, the second above L = 1
    >>> run = LoopRun(np.array([0]), flat, np.array([[0.5], [1.2], [0.9], [0.6]]), np.ones(1),
    ...               flat[..., None], np.zeros(3), np.zeros((4, 1)), n_categories=2)
    >>> plot_saturation(run).get_ylabel()
    'D / L'
    """
    axes = _axes(axes)
    relative = run.saturation[:, user] / run.limit[user]
    steps = np.arange(relative.size)
    changed = run.changed[:, user] > 0
    axes.plot(steps, relative, color=_COLOURS[5], linewidth=1.2, label="saturation / limit")
    axes.plot(steps[changed], relative[changed], ".", color=_COLOURS[2], label="slate changed")
    axes.axhline(1.0, color=_COLOURS[1], linewidth=0.8)
    axes.set_xlabel("step")
    axes.set_ylabel("D / L")
    axes.legend(frameon=False)
    return axes


def plot_excitation(
    model: ExcitationModel, names: Sequence[str] | None = None, *, axes: Any = None
) -> Any:
    """What one engagement with a category (column) adds to each category (row).

    Parameters
    ----------
    model : ExcitationModel
        Fitted.
    names : list of str, optional
        Names of the categories.
    axes : matplotlib axes, optional

    Examples
    --------
    >>> from foretell.trust import EventLog
    >>> log = EventLog.from_columns([1] * 800, [0, 0, 0, 0, 1, 1, 1, 1] * 100)
    >>> axes = plot_excitation(ExcitationModel(decay=1.0).fit(log), ["drama", "comedy"])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['drama', 'comedy']
    """
    axes = _axes(axes)
    image = axes.imshow(model.excitation_, cmap="viridis", vmin=0.0)
    axes.figure.colorbar(image, ax=axes, label="excitation")
    axes.set_xlabel("engaged with")
    axes.set_ylabel("becomes likelier")
    if names is not None:
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
    return axes


def plot_recovery(runs: Mapping[str, LoopRun], *, axes: Any = None) -> Any:
    """Lengths of the stretches above the limit, one histogram for each policy.

    Parameters
    ----------
    runs : mapping of str to LoopRun
    axes : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.trust import LoopRun
    >>> flat = np.zeros((4, 1), dtype=np.int64)  # four steps of one user, the second above L = 1
    >>> run = LoopRun(np.array([0]), flat, np.array([[0.5], [1.2], [0.9], [0.6]]), np.ones(1),
    ...               flat[..., None], np.zeros(3), np.zeros((4, 1)), n_categories=2)
    >>> axes = plot_recovery({"dual": run})
    >>> axes.get_legend().get_texts()[0].get_text()
    'dual'
    """
    axes = _axes(axes)
    lengths = {name: _stretches(run.violated) for name, run in runs.items()}
    longest = max((int(x.max()) for x in lengths.values() if x.size), default=1)
    bins = np.arange(0.5, longest + 1.5)
    for n, (name, x) in enumerate(lengths.items()):
        axes.hist(x, bins, histtype="step", color=_COLOURS[n % 6], label=name)
    axes.set_xlabel("steps above the limit in one go")
    axes.set_ylabel("stretches")
    axes.set_yscale("symlog")
    axes.legend(frameon=False)
    return axes


def _stretches(violated: Any) -> Any:
    """Length of every maximal run of violations, of all users."""
    padded = np.pad(violated.astype(np.int64), ((1, 1), (0, 0)))
    change = np.diff(padded, axis=0).T
    starts, stops = np.nonzero(change == 1)[1], np.nonzero(change == -1)[1]
    return stops - starts


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "draw pictures") from error
    return Figure(figsize=(6.4, 4.4), layout="constrained").subplots()
