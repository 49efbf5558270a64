"""Training on sequences by sparse or generalised teacher forcing. Shared by three learners.

The learners have the same parameters (A, W, h, C, L) and differ in how one sample leads to the
next. That step, with its adjoint, is a ``SequenceKernel``; here are forcing schedule, learning
rate, clipping and free-run selection. Windows come from ``sequences``, checkpoints from
``training_state``.

Sparse teacher forcing moves the observed units to the data every ``forcing_interval`` samples;
generalised forcing moves them part of the way at every sample, by a share that decays.
The parameters that are kept are the ones with the best free run on the validation part, never the
ones with the lowest loss: a low loss with a free run at rest is common early in training. They have
to pass longer runs from other places as well: a run may move for long and then come to rest.

Sources: Mikhaeil et al., NeurIPS 2022 (sparse forcing); Hess et al., ICML 2023 (generalised);
Braendle et al., ICML 2026 (settings).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core import NumericalError, ParameterError, Progress
from foretell.core.interrupts import interrupts_wait
from foretell.dynamics.longrun import state_space_divergence, state_space_divergence_gmm
from foretell.dynamics.sequences import Sequences, WindowSampler, complete_rows
from foretell.dynamics.training_state import History, TrainingState

Array = NDArray[np.float64]
OnStep = Callable[[Progress], None]

_MOST_HISTOGRAM = 3  # variables up to which a histogram of states is filled
_SMOOTHING = 0.1  # variance of the Gaussians above that, in variances of the data
SLACK_ON_TRAINING_DATA = 0.5  # see Settings
_MOST_RUNS = 3  # recordings from which a free run starts
_CONFIRMING_RUNS, _LONGEST_RUN = 4, 100_000  # longer runs that a look has to pass, and their steps
_MOST_CANDIDATES = 6  # looks that are tried before the best one is kept with a warning
_MOST_SKIPS = 10  # batches in a row without a finite gradient
_SLICE_SECONDS = 20.0  # a checkpoint is written about this often
_REPORTS = 400  # progress reports in one training
OUT_OF_RANGE = 1e6  # standard deviations; a free run that goes there has escaped


@dataclass(frozen=True)
class Layout:
    """Where A (M,), W (M, M), h (M,), C (M, K) and L (M-N, N) lie in one flat array."""

    n_units: int
    n_observed: int
    n_controls: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        M, N, K = self.n_units, self.n_observed, self.n_controls
        return M + M * M + M + M * K + (M - N) * N

    def views(self, theta: Array) -> tuple[Array, Array, Array, Array, Array]:
        """A, W, h, C, L as views into ``theta``."""
        M, N, K = self.n_units, self.n_observed, self.n_controls
        ends = np.cumsum([M, M * M, M, M * K, (M - N) * N])
        A, W, h, C, L = (
            theta[stop - size : stop]
            for stop, size in zip(ends, (M, M * M, M, M * K, (M - N) * N), strict=True)
        )
        return A, W.reshape(M, M), h, C.reshape(M, K), L.reshape(M - N, N)


class LossAndGradient(Protocol):
    """What a kernel returns for a batch; the loss is not finite when a state escaped."""

    @property
    def loss(self) -> float:
        """Mean squared error of the batch."""
        ...

    @property
    def dA(self) -> Array:
        """Gradient by A."""
        ...

    @property
    def dW(self) -> Array:
        """Gradient by W."""
        ...

    @property
    def dh(self) -> Array:
        """Gradient by h."""
        ...

    @property
    def dC(self) -> Array:
        """Gradient by C."""
        ...

    @property
    def dL(self) -> Array:
        """Gradient by L."""
        ...


class SequenceKernel(Protocol):
    """One learner's step from sample to sample, with its adjoint."""

    def loss_and_gradient(
        self, A: Array, W: Array, h: Array, C: Array, L: Array, x: Array, u: Array | None,
        dt: Array, *, forcing_interval: int, alpha: float,
    ) -> LossAndGradient:  # fmt: skip
        """Forced mean squared error over x (B, T+1, N) and its gradient."""
        ...

    def free_run(
        self, A: Array, W: Array, h: Array, C: Array, z0: Array, u: Array | None, dt: Array
    ) -> Array:
        """States (B, T+1, M) from z0 (B, M); NaN after an escape."""
        ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train; the learners' constructor arguments, resolved.

    ``slack`` is the share of the best score by which another one may be worse without a meaning.
    Where a free run is compared with the data that it was trained on, as there are no others, it
    is not zero: a later look, with its smaller steps, is preferred unless it is clearly worse.
    """

    forcing: str
    forcing_interval: int
    sequence_length: int
    batch_size: int
    max_updates: int
    lr: float
    final_lr: float
    noise: float
    grad_clip: float
    n_scores: int = 20
    slack: float = 0.0


@dataclass(frozen=True)
class Trained:
    """Parameters with the best free run, and how training went."""

    theta: Array
    best_step: int
    best_score: float
    history: History
    seconds: float
    confirmed: bool


def forcing_share(settings: Settings, step: int) -> tuple[int, float]:
    """(forcing interval, share alpha) of an update."""
    if settings.forcing == "stf":
        return settings.forcing_interval, 1.0
    return 1, 0.05 ** (step / settings.max_updates)


class FreeRunScore:
    """How well a free run agrees with the part of the recordings kept for validation.

    Without inputs it is minus the state-space divergence: a histogram up to three variables,
    Gaussians around the samples above, where nearly every cell of a histogram would be empty.
    With inputs the run can follow the recording, and it is minus the root mean square error in
    standard deviations, after the first ``lead`` samples (at most half of a recording), in which
    the hidden units find their state. 0 is perfect, minus infinity is an escape.
    """

    def __init__(self, sequences: Sequences, layout: Layout, lead: int = 0) -> None:
        self._sequences, self._layout, self._lead = sequences, layout, lead
        values = np.concatenate(sequences.values)
        self._truth = values[complete_rows(values)]
        self._bins = int(np.clip(round(len(self._truth) ** (1 / 2)), 6, 30))
        self._n_steps = int(np.clip(10 * len(self._truth), 2_000, 50_000))

    def __call__(self, kernel: SequenceKernel, theta: Array) -> float:
        """Score of the parameters."""
        runs = self._runs(kernel, theta)
        if any(not (np.abs(run) < OUT_OF_RANGE).all() for _, run in runs):
            return -np.inf
        if self._sequences.driven:
            counted = [min(self._lead, len(seen) // 2) for seen, _ in runs]
            errors = np.concatenate(
                [(run - seen)[n:] ** 2 for n, (seen, run) in zip(counted, runs, strict=True)]
            )
            return -float(np.sqrt(np.nanmean(errors)))
        return self._agreement([run for _, run in runs])

    def confirms(self, kernel: SequenceKernel, theta: Array, score: float, start: int) -> bool:
        """Whether a run twice as long, from another place, scores about as well.

        A chaotic transient can last for a whole run and end in another one: at rest, say. ``start``
        counts 0 .. 3 through places spread over the validation part.
        """
        if self._sequences.controls is not None:  # the run follows them, there is no longer one
            return True
        A, W, h, C, L = self._layout.views(theta)
        x0 = self._truth[start * len(self._truth) // _CONFIRMING_RUNS]
        dt = np.ones((1, min(2 * self._n_steps, _LONGEST_RUN)))
        z0 = np.concatenate([x0, L @ x0])[None]
        run = kernel.free_run(A, W, h, C, z0, None, dt)[0, :, : self._layout.n_observed]
        return self._agreement([run]) >= 2 * score - 1

    def _agreement(self, runs: list[Array]) -> float:
        if any(not (np.abs(run) < OUT_OF_RANGE).all() for run in runs):
            return -np.inf
        cloud = np.concatenate([run[len(run) // 10 :] for run in runs])
        if self._layout.n_observed > _MOST_HISTOGRAM:
            return -state_space_divergence_gmm(
                self._truth, cloud, variance=_SMOOTHING, max_points=1000, n_draws=500
            )
        return -float(state_space_divergence(self._truth, cloud, bins=self._bins))

    def _runs(self, kernel: SequenceKernel, theta: Array) -> list[tuple[Array, Array]]:
        """(recording, free run) of the observed units from the first complete rows on."""
        A, W, h, C, L = self._layout.views(theta)
        runs = []
        for n, values in enumerate(self._sequences.values):
            complete = np.flatnonzero(complete_rows(values))
            if complete.size == 0:
                continue
            first = complete[0]
            x0 = values[first]
            if self._sequences.controls is None:
                dt, u = np.ones((1, self._n_steps)), None
            else:
                dt = self._sequences.dt[n][None, first:]
                u = self._sequences.controls[n][None, first:-1]
            z0 = np.concatenate([x0, L @ x0])[None]
            run = kernel.free_run(A, W, h, C, z0, u, dt)[0, :, : self._layout.n_observed]
            runs.append((values[first:], run))
            if self._sequences.controls is None and len(runs) == _MOST_RUNS:
                break
        return runs


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
    state = TrainingState(theta.copy(), rng)
    if resume:
        if checkpoint is None:
            raise ParameterError("resume=True needs checkpoint=FOLDER, the state to go on from.")
        state.restore(Path(checkpoint), identity)
    clock = _Clock(state)
    saved = time.monotonic()
    every = max(1, settings.max_updates // settings.n_scores)
    report = max(1, settings.max_updates // _REPORTS)
    with interrupts_wait() as interrupted:
        while state.step < settings.max_updates:
            _update(state, kernel, layout, sampler, settings)
            last = state.step == settings.max_updates
            if state.step % every == 0 or last:
                state.look(score(kernel, state.theta), settings.slack)
            try:
                if on_step is not None and (state.step % report == 0 or last):
                    on_step(clock.progress(state, settings.max_updates))
            except KeyboardInterrupt:
                interrupted.set()
            if checkpoint is not None and (
                interrupted.is_set() or time.monotonic() - saved > _SLICE_SECONDS
            ):
                state.save(Path(checkpoint), identity, clock.seconds())
                saved = time.monotonic()
            if interrupted.is_set():
                raise KeyboardInterrupt
        confirmed = _confirm(state, score, kernel, interrupted)
        if interrupted.is_set() and checkpoint is not None:
            state.save(Path(checkpoint), identity, clock.seconds())
    return Trained(
        state.best_theta,
        state.best_step,
        state.best_score,
        state.history,
        clock.seconds(),
        confirmed,
    )


def _confirm(
    state: TrainingState, score: FreeRunScore, kernel: SequenceKernel, stop: threading.Event
) -> bool:
    """Prefer the best look that passes longer runs from other places; say whether one does."""
    candidates = state.candidates()[:_MOST_CANDIDATES]
    for look in candidates:
        theta, own = state.looked_at[look], state.history.scores[look]
        passed = 0
        while (
            passed < _CONFIRMING_RUNS
            and not stop.is_set()
            and score.confirms(kernel, theta, own, passed)
        ):
            passed += 1
        if stop.is_set():
            return False
        if passed == _CONFIRMING_RUNS:
            state.choose(look)
            return True
    return not candidates  # escapes at every look have their own warning


def _update(
    state: TrainingState,
    kernel: SequenceKernel,
    layout: Layout,
    sampler: WindowSampler,
    settings: Settings,
) -> None:
    """Draw one batch, follow its gradient."""
    x, u, dt = sampler.draw(state.rng)
    interval, alpha = forcing_share(settings, state.step)
    result = kernel.loss_and_gradient(
        *layout.views(state.theta), x, u, dt, forcing_interval=interval, alpha=alpha
    )
    gradient = np.concatenate(
        [g.ravel() for g in (result.dA, result.dW, result.dh, result.dC, result.dL)]
    )
    norm = float(np.sqrt(gradient @ gradient))
    share = state.step / max(settings.max_updates - 1, 1)
    rate = settings.lr * (settings.final_lr / settings.lr) ** share
    state.take(result.loss, gradient, norm, settings.grad_clip, rate)
    if state.skips_in_a_row >= _MOST_SKIPS:
        raise NumericalError(
            f"{_MOST_SKIPS} batches in a row gave no finite gradient (update {state.step}). "
            f"Lower the learning rate, for instance lr={settings.lr / 5:.2g}, or shorten "
            f"forcing_interval (now {settings.forcing_interval})."
        )


class _Clock:
    """Seconds since the training began, earlier parts of a resumed one counted in."""

    def __init__(self, state: TrainingState) -> None:
        self._before, self._begin = state.seconds, time.monotonic()
        # The first update may compile; once there was a report, the pace is measured from it.
        self._mark, self._mark_step = self._begin, state.step
        self._reported = False

    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def progress(self, state: TrainingState, total: int) -> Progress:
        now = time.monotonic()
        pace = (now - self._mark) / max(state.step - self._mark_step, 1)
        if not self._reported:
            self._reported, self._mark, self._mark_step = True, now, state.step
        return Progress(
            step=state.step,
            total=total,
            loss=state.loss,
            score=state.history.scores[-1] if state.history.scores else None,
            seconds=self.seconds(),
            eta=pace * (total - state.step),
        )
