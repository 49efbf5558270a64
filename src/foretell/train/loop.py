"""The training loop: progress, Ctrl-C, checkpoints, resuming, early stop, non-finite gradients.

It knows a ``TrainTask`` and nothing else. A training that was interrupted and resumed ends with the
same bits as one that was not, because a step depends on nothing that is not in the checkpoint.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import Artifact, ArtifactError, NumericalError, ParameterError, Progress
from foretell.core.interrupts import interrupts_wait
from foretell.train.task import State, TrainTask, mean_gradient

OnStep = Callable[[Progress], None]
Score = Callable[[], float]

_CHECKPOINT = "train-loop"
_FORMER = "training-state"  # of the learners that had a loop of their own
_MOST_SKIPS = 10  # steps in a row without a finite gradient
_SLICE_SECONDS = 20.0  # a checkpoint is written about this often
_REPORTS = 400  # progress reports in one training
_SMOOTHING = 0.02  # share of the newest loss in the loss that is shown
_REMEDY = "Lower the learning rate, or look for extreme values in the data."


@dataclass
class TrainRun:
    """How a training went.

    Parameters
    ----------
    step : int
        Steps done.
    loss : float
        Loss, smoothed over about fifty steps.
    steps, losses, scores : list
        Steps at which the task was scored, with the smoothed loss and the score there.
    best_step, best_score : int, float
        The look whose state was kept; 0 and minus infinity without a finite score.
    skipped : int
        Steps whose gradient was not finite.
    seconds : float
        Time spent, that of resumed parts included.
    """

    step: int = 0
    loss: float = float("nan")
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_step: int = 0
    best_score: float = -np.inf
    skipped: int = 0
    skips_in_a_row: int = 0
    seconds: float = 0.0

    def __repr__(self) -> str:
        return (
            f"TrainRun({self.step} steps, loss {self.loss:.3g}, best score {self.best_score:.3g} "
            f"at step {self.best_step}, {self.seconds:.1f} s)"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which ``from_dict`` makes the same run."""
        return {k: _as_json(v) for k, v in vars(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> TrainRun:
        """The run that ``to_dict`` described."""
        kinds = vars(cls())
        return cls(**{k: _from_json(content[k], kinds[k]) for k in kinds})


Finish = Callable[[TrainRun, threading.Event], None]


def train(
    task: TrainTask,
    n_steps: int,
    *,
    score: Score | None = None,
    n_scores: int = 20,
    keep_best: bool = True,
    patience: int | None = None,
    on_step: OnStep | None = None,
    finish: Finish | None = None,
    remedy: str = _REMEDY,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    identity: str = "",
) -> TrainRun:
    """Run a task for a number of steps and leave it in its best state.

    Parameters
    ----------
    task : TrainTask
        What to train; changed in place.
    n_steps : int
        Steps planned.
    score : callable, optional
        Higher is better; asked ``n_scores`` times, evenly spread.
    keep_best : bool
        Whether the task ends in the state with the best score; otherwise, and without a score, it
        ends in the last one.
    patience : int, optional
        Stop after so many scores in a row without a new best one.
    on_step : callable, optional
        Receives a ``Progress`` now and then.
    finish : callable, optional
        ``finish(run, interrupted)`` is called after the last step. It should return soon once the
        event ``interrupted`` is set, which Ctrl-C does; the training is kept then, and a resumed
        one finishes again.
    remedy : str
        What the error says to do when ten steps in a row give no finite gradient.
    checkpoint : path, optional
        A folder in which the training is kept every 20 s and when Ctrl-C ends it.
    resume : bool
        Go on from ``checkpoint``; the result is that of an uninterrupted training.
    identity : str
        Names data and settings; a checkpoint of another identity is refused.

    Raises
    ------
    NumericalError
        Ten steps in a row gave no finite gradient.
    ArtifactError
        The checkpoint is missing, broken or of another training.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.train import Gradient, train
    >>> class Parabola:
    ...     x = np.array([4.0])
    ...     def parameters(self): return self.x.copy()
    ...     def n_shards(self, step): return 1
    ...     def gradient(self, step, shard): return Gradient(float(self.x[0] ** 2), 2 * self.x)
    ...     def apply(self, step, gradient): self.x = self.x - 0.1 * gradient
    ...     def state(self): return {"x": self.x.copy()}
    ...     def restore(self, state): self.x = state["x"]
    >>> task = Parabola()
    >>> run = train(task, 100)
    >>> bool(abs(task.x[0]) < 1e-6), run.step
    (True, 100)
    """
    run, best = TrainRun(), None
    if resume:
        run, best = _restore(task, checkpoint, identity)
    clock = _Clock(run)
    every = max(1, n_steps // n_scores)
    report = max(1, n_steps // _REPORTS)
    saved = time.monotonic()
    with interrupts_wait() as interrupted:
        while run.step < n_steps and (patience is None or not _stale(run, patience)):
            _advance(task, run, remedy)
            last = run.step == n_steps
            if score is not None and (run.step % every == 0 or last):
                if _look(run, float(score())) and keep_best:
                    best = task.state()
            if on_step is not None and (run.step % report == 0 or last):
                try:
                    on_step(clock.progress(n_steps))
                except KeyboardInterrupt:
                    interrupted.set()
            due = checkpoint is not None and time.monotonic() - saved > _SLICE_SECONDS
            if due or interrupted.is_set():
                run.seconds = clock.seconds()
                if checkpoint is not None:
                    _save(Path(checkpoint), task, run, best, identity)
                    saved = time.monotonic()
                if interrupted.is_set():
                    raise KeyboardInterrupt
        run.seconds = clock.seconds()
        if finish is not None:
            finish(run, interrupted)
            if checkpoint is not None and interrupted.is_set():
                _save(Path(checkpoint), task, run, best, identity)
    if best is not None:
        task.restore(best)
    return run


def _advance(task: TrainTask, run: TrainRun, remedy: str) -> None:
    gradient = mean_gradient(task, run.step)
    run.step += 1
    if not (math.isfinite(gradient.loss) and _finite(gradient.values)):
        run.skipped += 1
        run.skips_in_a_row += 1
        if run.skips_in_a_row >= _MOST_SKIPS:
            raise NumericalError(
                f"{_MOST_SKIPS} steps in a row gave no finite gradient (step {run.step}). {remedy}"
            )
        return
    run.skips_in_a_row = 0
    new = gradient.loss
    run.loss = new if math.isnan(run.loss) else run.loss + _SMOOTHING * (new - run.loss)
    task.apply(run.step - 1, gradient.values)


def _finite(values: NDArray[np.floating]) -> bool:
    """Whether all are finite; one product says so of nearly every gradient, and at less cost."""
    return math.isfinite(values.dot(values)) or bool(np.isfinite(values).all())


def _look(run: TrainRun, value: float) -> bool:
    """Note a score; whether it is the best so far."""
    run.steps.append(run.step)
    run.losses.append(run.loss)
    run.scores.append(value)
    if not value > run.best_score:
        return False
    run.best_step, run.best_score = run.step, value
    return True


def _stale(run: TrainRun, patience: int | None) -> bool:
    if patience is None or run.best_step == 0:
        return False
    return len(run.steps) - 1 - run.steps.index(run.best_step) >= patience


def _save(path: Path, task: TrainTask, run: TrainRun, best: State | None, identity: str) -> None:
    arrays = {f"now.{k}": v for k, v in task.state().items()}
    arrays |= {f"best.{k}": v for k, v in (best or {}).items()}
    fields = {"identity": identity, "run": run.to_dict()}
    Artifact(model_class=_CHECKPOINT, arrays=arrays, fields=fields).save(path)


def _restore(
    task: TrainTask, checkpoint: str | os.PathLike[str] | None, identity: str
) -> tuple[TrainRun, State | None]:
    if checkpoint is None:
        raise ParameterError("resume=True needs checkpoint=FOLDER, the state to go on from.")
    path = Path(checkpoint)
    if not path.exists():
        raise ArtifactError(
            f"there is no checkpoint {path} to resume from. Start with resume=False; a training "
            "that is interrupted leaves one there."
        )
    artifact = Artifact.open(path, classes=[_CHECKPOINT, _FORMER])
    if artifact.model_class == _FORMER:
        raise ArtifactError(
            f"{path} was saved by an older version of foretell, whose trainings cannot be gone on "
            "with. Start anew with resume=False."
        )
    fields: dict[str, Any] = dict(artifact.fields)
    if fields["identity"] != identity:
        raise ArtifactError(
            f"{path} was saved by a training with other data or settings. Go on with the same "
            "data and the same arguments, or start anew with resume=False."
        )
    now, best = (
        {k.removeprefix(p): v for k, v in artifact.arrays.items() if k.startswith(p)}
        for p in ("now.", "best.")
    )
    task.restore(now)
    return TrainRun.from_dict(fields["run"]), best or None


def _as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_json(v) for v in value]
    return repr(value) if isinstance(value, float) else value


def _from_json(value: Any, like: Any) -> Any:
    if isinstance(like, list):
        return [float(v) if isinstance(v, str) else v for v in value]
    return float(value) if isinstance(like, float) else value


class _Clock:
    """Seconds since the training began, earlier parts of a resumed one counted in."""

    def __init__(self, run: TrainRun) -> None:
        self._run, self._before, self._begin = run, run.seconds, time.monotonic()
        # The first step may compile; once there was a report, the pace is measured from it.
        self._mark, self._mark_step, self._reported = self._begin, run.step, False

    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def progress(self, total: int) -> Progress:
        run, now = self._run, time.monotonic()
        pace = (now - self._mark) / max(run.step - self._mark_step, 1)
        if not self._reported:
            self._reported, self._mark, self._mark_step = True, now, run.step
        return Progress(
            step=run.step,
            total=total,
            loss=run.loss,
            score=run.scores[-1] if run.scores else None,
            seconds=self.seconds(),
            eta=pace * (total - run.step),
        )
