"""The section on the jumps of a model: its words and its figure."""

from __future__ import annotations

import numpy as np

from foretell.app.jumps import FoundJumps
from foretell.app.report.figures import axis, time_axis
from foretell.app.report.plot import Plot, padded
from foretell.app.study import Study
from foretell.app.words import count, number

_GLUED, _ROUGH = 0.5, 1.5  # latent steps
_TOGETHER = 0.15  # standard deviations


def jump_words(study: Study) -> tuple[str, ...]:
    """What the model says about jumps, in sentences; nothing for a model without them."""
    found = study.jumps
    if found is None:
        return ()
    said = [
        f"The training part jumps {count(found.n_recorded, 'time')} "
        f"({100 * found.share:.2g}\u00a0% of its steps). On held-out stretches the model, started "
        f"from their first row and left alone, jumps {count(found.n_predicted, 'time')} where the "
        f"recording jumps {count(found.n_held_out, 'time')}; the agreement (F1, within three "
        f"sampling intervals) is {number(found.f1, 2)}"
        + (
            f", and matched jumps are {number(found.timing, 2)} intervals apart."
            if np.isfinite(found.timing)
            else "."
        ),
        _gluing(found),
    ]
    if found.n_heads == 1:
        said.append(
            "Long runs were better with a decoder that cannot jump, so what it jumps across is "
            "smeared over a few samples, and there is no guard to read."
        )
    return (*said, *(_guard(found, k) for k in range(len(found.guards))))


def _gluing(found: FoundJumps) -> str:
    gap = found.position_gap
    if not np.isfinite(gap):
        return "The part held back during the training has no jump, so the gluing is not judged."
    verdict = (
        "closely glued"
        if gap < _GLUED
        else "roughly glued; longer runs may miss jumps"
        if gap < _ROUGH
        else "not glued yet: train longer (a higher effort) before you rely on long runs"
    )
    return (
        f"In the latent space, states before and after a jump are {number(gap, 2)} usual steps "
        f"apart ({verdict}), and the velocity turns there by {number(found.velocity_gap, 2)} usual "
        f"speeds (elsewhere by {number(found.usual_gap, 2)})."
    )


def _guard(found: FoundJumps, k: int) -> str:
    guard = found.guards[k]
    if guard.extent < _TOGETHER:
        place, goes = (
            ", ".join(
                f"{name} {number(float(v), 2)}" for name, v in zip(found.names, x, strict=True)
            )
            for x in (guard.centre, guard.reset_matrix @ guard.centre + guard.reset_offset)
        )
        return (
            f"It jumps from about {place} to {goes} ({guard.n_points} points that lie together, so "
            "the surface at which it jumps cannot be told)."
        )
    parts = [
        f"{'−' if w < 0 else '+'} {number(abs(float(w)), 2)} {name}"
        for w, name in zip(guard.normal, found.names, strict=True)
        if abs(w) > 1e-2 * np.abs(guard.normal).max()
    ]
    plane = " ".join(parts).removeprefix("+ ")
    rows = []
    for i, name in enumerate(found.names):
        row = [
            f"{'−' if w < 0 else '+'} {number(abs(float(w)), 2)} {other}"
            for w, other in zip(guard.reset_matrix[i], found.names, strict=True)
            if abs(w) > 0.02
        ]
        offset = float(guard.reset_offset[i])
        row += [f"{'−' if offset < 0 else '+'} {number(abs(offset), 2)}"] if row == [] else []
        rows.append(f"{name} → {' '.join(row).removeprefix('+ ')}")
    return (
        f"It jumps where {plane} = {number(guard.level, 2)} ({guard.n_points} points, "
        f"{number(guard.off_plane, 2)} standard deviations off this plane), and there "
        f"{'; '.join(rows)} (off by {number(guard.off_reset, 2)} standard deviations)."
    )


def jump_figure(study: Study) -> str:
    """One held-out stretch and the model's run along it, with the moments of its jumps."""
    found = study.jumps
    if found is None:
        return ""
    held = study.held_out.observed
    fine = found.run[np.isfinite(found.run)]
    plot = Plot(
        (float(found.times[0]), float(found.times[-1])),
        padded([found.observed, fine]),
        x_label=time_axis(held),
        y_label=axis(held.names[found.variable], held.units[found.variable]),
        title="A held-out stretch and the model's run along it",
        height=230,
    )
    plot.line(found.times, found.observed, "data wide", "recorded")
    plot.line(found.times, found.run, "model", "model")
    for time in found.events[:40]:
        plot.rule(float(time), "muted")
    return plot.html()
