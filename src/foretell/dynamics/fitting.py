"""Training by teacher forcing, and which of its parameters are kept. Shared by three learners.

``foretell.train`` runs the updates of a ``ForcedTask``. The parameters that are kept are the ones
with the best free run on the validation part, never the ones with the lowest loss: a low loss with
a free run at rest is common early in training. They have to pass longer runs from other places as
well: a run may move for long and then come to rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.dynamics.forced_task import ForcedTask, Settings
from foretell.dynamics.free_run_score import CONFIRMING_RUNS, FreeRunScore
from foretell.dynamics.history import History
from foretell.dynamics.layout import Layout, SequenceKernel
from foretell.dynamics.sequences import WindowSampler
from foretell.train import loop
from foretell.train.loop import OnStep, TrainRun

Array = NDArray[np.float64]

SLACK_ON_TRAINING_DATA = 0.5  # see Settings
_MOST_CANDIDATES = 6  # looks that are tried before the best one is kept with a warning


@dataclass(frozen=True)
class Trained:
    """Parameters with the best free run, and how training went."""

    theta: Array
    best_step: int
    best_score: float
    history: History
    seconds: float
    confirmed: bool


def train(
    kernel: SequenceKernel,
    layout: Layout,
    theta: Array,
    sampler: WindowSampler,
    score: FreeRunScore,
    settings: Settings,
    rng: np.random.Generator,
    *,
    on_step: OnStep | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    identity: str = "",
) -> Trained:
    """Run the updates and return the parameters with the best free run.

    ``identity`` names data and settings; a checkpoint of another identity is refused.
    """
    task = ForcedTask(kernel, layout, theta, sampler, settings, rng)
    chosen = (0, False)  # the look that is kept, and whether longer runs confirm it

    def look() -> float:
        value = score(kernel, task.theta)
        task.looked_at.append(task.theta.copy())
        return value

    def choose(run: TrainRun, interrupted: threading.Event) -> None:
        nonlocal chosen
        best = best_look(run.scores, settings.slack)
        passed = _confirmed(run.scores, best, task.looked_at, score, kernel, interrupted)
        chosen = (best if passed is None else passed, passed is not None)
        if passed is None and not preferred(run.scores, best):
            chosen = (best, True)  # escapes at every look have their own warning

    run = loop.train(
        task, settings.max_updates, score=look, n_scores=settings.n_scores, keep_best=False,
        on_step=on_step, finish=choose, checkpoint=checkpoint, resume=resume, identity=identity,
        remedy=(
            f"Lower the learning rate, for instance lr={settings.lr / 5:.2g}, or shorten "
            f"forcing_interval (now {settings.forcing_interval})."
        ),
    )  # fmt: skip
    n, confirmed = chosen
    history = History(run.steps, run.losses, run.scores, run.skipped)
    return Trained(task.looked_at[n], run.steps[n], run.scores[n], history, run.seconds, confirmed)


def best_look(scores: Sequence[float], slack: float = 0.0) -> int:
    """The look whose parameters are the best.

    Of equal scores (all escaped, say), and of those within ``slack`` times the best one so far,
    the later is the better.

    Examples
    --------
    >>> best_look([-3.0, -0.10, -0.14, -0.40], slack=0.5)
    2
    """
    best, top = 0, -np.inf
    for n, score in enumerate(scores):
        top = max(top, score)
        if not np.isfinite(top) or score >= top - slack * abs(top):
            best = n
    return best


def preferred(scores: Sequence[float], best: int) -> list[int]:
    """Which looks to try: the best one, then the others by score; none that escaped.

    Examples
    --------
    >>> preferred([-3.0, -np.inf, -0.10, -0.14], best=3)
    [3, 2, 0]
    """
    found = np.asarray(scores, dtype=np.float64)
    order = [int(n) for n in np.argsort(-found, kind="stable") if np.isfinite(found[n])]
    return [n for n in order if n == best] + [n for n in order if n != best]


def _confirmed(
    scores: Sequence[float], best: int, looked_at: Sequence[Array], score: FreeRunScore,
    kernel: SequenceKernel, stop: threading.Event,
) -> int | None:  # fmt: skip
    """The first of the preferred looks that passes longer runs from other places."""
    for look in preferred(scores, best)[:_MOST_CANDIDATES]:
        passed = 0
        while (
            passed < CONFIRMING_RUNS
            and not stop.is_set()
            and score.confirms(kernel, looked_at[look], scores[look], passed)
        ):
            passed += 1
        if stop.is_set():
            return None
        if passed == CONFIRMING_RUNS:
            return look
    return None
