"""Training on sequences by sparse or generalised teacher forcing. Shared by three learners.

The learners have the same parameters (A, W, h, C, L) and differ in how one sample leads to the
next. That step, with its adjoint, is a ``SequenceKernel``; everything else is here: windows,
noise, forcing schedule, learning rate, clipping, free-run selection, checkpoints.

Sparse teacher forcing moves the observed units to the data every ``forcing_interval`` samples;
generalised forcing moves them part of the way at every sample, by a share that decays.
The parameters that are kept are the ones with the best free run on the validation part, never the
ones with the lowest loss: a low loss with a free run at rest is common early in training.

Sources: Mikhaeil et al., NeurIPS 2022 (sparse forcing); Hess et al., ICML 2023 (generalised);
Braendle et al., ICML 2026 (settings).
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.core import Artifact, ArtifactError, NumericalError, ParameterError, Progress
from foretell.dynamics.longrun import state_space_divergence
from foretell.dynamics.optimise import RAdam

Array = NDArray[np.float64]
OnStep = Callable[[Progress], None]

_MOST_SKIPS = 10  # batches in a row without a finite gradient
_SLICE_SECONDS = 20.0  # a checkpoint is written about this often
_REPORTS = 400  # progress reports in one training


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


@dataclass(frozen=True)
class Sequences:
    """Standardised recordings in model time (one unit is about one sample).

    Attributes: ``values`` (T_i, N), NaN where unobserved; ``dt`` (T_i - 1,); ``controls``
    (T_i, K) or None.
    """

    values: tuple[Array, ...]
    dt: tuple[Array, ...]
    controls: tuple[Array, ...] | None

    @property
    def n_controls(self) -> int:
        """Number of inputs."""
        return 0 if self.controls is None else int(self.controls[0].shape[1])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train; the learners' constructor arguments, resolved."""

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


@dataclass(frozen=True)
class History:
    """Steps at which the model was looked at, with the smoothed loss and the free-run score."""

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    skipped: int = 0


@dataclass(frozen=True)
class Trained:
    """Parameters with the best free run, and how training went."""

    theta: Array
    best_step: int
    best_score: float
    history: History
    seconds: float


def forcing_share(settings: Settings, step: int) -> tuple[int, float]:
    """(forcing interval, share alpha) of an update."""
    if settings.forcing == "stf":
        return settings.forcing_interval, 1.0
    return 1, 0.05 ** (step / settings.max_updates)


class WindowSampler:
    """Draws batches of windows with noise from recordings.

    A window never crosses from one recording into another and starts at a complete row.
    """

    def __init__(self, sequences: Sequences, length: int, batch: int, noise: float) -> None:
        self._values = np.concatenate(sequences.values)
        ends = np.cumsum([v.shape[0] for v in sequences.values])
        self._dt = np.concatenate([np.append(dt, np.nan) for dt in sequences.dt])
        self._controls = None if sequences.controls is None else np.concatenate(sequences.controls)
        starts = [
            end - v.shape[0] + np.flatnonzero(np.isfinite(v[: len(v) - length]).all(axis=1))
            for v, end in zip(sequences.values, ends, strict=True)
            if v.shape[0] > length
        ]
        self._starts = np.concatenate(starts) if starts else np.zeros(0, np.intp)
        self._offsets = np.arange(length + 1)
        self._batch, self._noise = batch, noise

    @property
    def n_windows(self) -> int:
        """Number of different windows."""
        return int(self._starts.size)

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array | None, Array]:
        """One batch: x (B, T+1, N) with noise, u (B, T, K) or None, dt (B, T)."""
        start = self._starts[rng.integers(self._starts.size, size=self._batch)]
        rows = start[:, None] + self._offsets
        x = self._values[rows]
        if self._noise > 0.0:
            x = x + self._noise * rng.standard_normal(x.shape)
        inner = rows[:, :-1]
        u = None if self._controls is None else self._controls[inner]
        return x, u, self._dt[inner]


class FreeRunScore:
    """Minus D_stsp between a free run and the part of the recordings kept for validation."""

    def __init__(self, sequences: Sequences, layout: Layout, n_steps: int = 50_000) -> None:
        self._sequences, self._layout = sequences, layout
        self._n_steps = n_steps
        values = np.concatenate(sequences.values)
        self._truth = values[np.isfinite(values).all(axis=1)]
        self._bins = int(np.clip(round(self._truth.shape[0] ** (1 / 2)), 6, 30))

    def __call__(self, kernel: SequenceKernel, theta: Array) -> float:
        """Score of the parameters; minus infinity when the run escapes."""
        cloud = self.cloud(kernel, theta)
        if cloud is None:
            return -np.inf
        return -float(state_space_divergence(self._truth, cloud, bins=self._bins))

    def cloud(self, kernel: SequenceKernel, theta: Array) -> Array | None:
        """Observed part of the free run after its transient, or None when it escaped."""
        A, W, h, C, L = self._layout.views(theta)
        runs = []
        for n, values in enumerate(self._sequences.values):
            complete = np.flatnonzero(np.isfinite(values).all(axis=1))
            if complete.size == 0:
                continue
            first = complete[0]
            x0 = values[first]
            if self._sequences.controls is None:
                dt, u, drop = np.ones((1, self._n_steps)), None, self._n_steps // 10
            else:
                dt = self._sequences.dt[n][None, first:]
                u = self._sequences.controls[n][None, first:-1]
                drop = 0
            z0 = np.concatenate([x0, L @ x0])[None]
            run = kernel.free_run(A, W, h, C, z0, u, dt)[0, drop:, : self._layout.n_observed]
            if not np.isfinite(run).all():
                return None
            runs.append(run)
            if self._sequences.controls is None and len(runs) == 3:
                break
        return np.concatenate(runs)


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
    state = _State(theta.copy(), rng)
    if resume:
        if checkpoint is None:
            raise ParameterError("resume=True needs checkpoint=FOLDER, the state to go on from.")
        state.restore(Path(checkpoint), identity)
    clock = _Clock(state.seconds)
    saved = time.monotonic()
    every = max(1, settings.max_updates // settings.n_scores)
    report = max(1, settings.max_updates // _REPORTS)
    with _interrupts_wait() as interrupted:
        while state.step < settings.max_updates:
            _update(state, kernel, layout, sampler, settings)
            last = state.step == settings.max_updates
            if state.step % every == 0 or last:
                state.look(score(kernel, state.theta))
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
    return Trained(
        state.best_theta, state.best_step, state.best_score, state.history, clock.seconds()
    )


def _update(
    state: _State,
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


@contextmanager
def _interrupts_wait() -> Iterator[threading.Event]:
    """Let Ctrl-C take effect between two updates; a second one at once. Main thread only."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set() and callable(before):
            before(number, frame)
        interrupted.set()

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, remember)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


class _State:
    """Everything that a resumed training needs to go on to the same result."""

    def __init__(self, theta: Array, rng: np.random.Generator) -> None:
        self.theta, self.rng = theta, rng
        self.optimiser = RAdam(theta.size)
        self.step, self.loss, self.seconds = 0, float("nan"), 0.0
        self.skips_in_a_row = 0
        self.history = History()
        self.best_theta, self.best_step, self.best_score = theta.copy(), 0, -np.inf

    def take(self, loss: float, gradient: Array, norm: float, clip: float, rate: float) -> None:
        self.step += 1
        if not (np.isfinite(loss) and np.isfinite(norm)):
            self.skips_in_a_row += 1
            self.history = History(
                self.history.steps,
                self.history.losses,
                self.history.scores,
                self.history.skipped + 1,
            )
            return
        self.skips_in_a_row = 0
        self.loss = loss if np.isnan(self.loss) else self.loss + 0.02 * (loss - self.loss)
        if norm > clip:
            gradient *= clip / norm
        self.optimiser.update(self.theta, gradient, learning_rate=rate)

    def look(self, score: float) -> None:
        self.history.steps.append(self.step)
        self.history.losses.append(self.loss)
        self.history.scores.append(score)
        if score > self.best_score or self.best_step == 0:
            self.best_theta, self.best_step, self.best_score = self.theta.copy(), self.step, score

    def save(self, path: Path, identity: str, seconds: float) -> None:
        fields = {
            "identity": identity,
            "step": self.step,
            "loss": repr(self.loss),
            "seconds": seconds,
            "skips_in_a_row": self.skips_in_a_row,
            "best_step": self.best_step,
            "best_score": repr(float(self.best_score)),
            "history": {
                "steps": self.history.steps,
                "losses": [repr(float(v)) for v in self.history.losses],
                "scores": [repr(float(v)) for v in self.history.scores],
                "skipped": self.history.skipped,
            },
            "generator": json.dumps(self.rng.bit_generator.state),
        }
        arrays = {
            "theta": self.theta,
            "mean": self.optimiser.mean,
            "square": self.optimiser.square,
            "best_theta": self.best_theta,
            "optimiser_step": np.array([self.optimiser.step]),
        }
        Artifact(model_class=_CHECKPOINT, arrays=arrays, fields=fields).save(path)

    def restore(self, path: Path, identity: str) -> None:
        artifact = Artifact.open(path, classes=[_CHECKPOINT])
        fields: dict[str, Any] = dict(artifact.fields)
        if fields["identity"] != identity:
            raise ArtifactError(
                f"{path} was saved by a training with other data or settings. Go on with the same "
                "file and the same arguments, or start anew with resume=False."
            )
        arrays = artifact.arrays
        self.theta, self.best_theta = arrays["theta"], arrays["best_theta"]
        self.optimiser.mean, self.optimiser.square = arrays["mean"], arrays["square"]
        self.optimiser.step = int(arrays["optimiser_step"][0])
        self.step, self.loss = fields["step"], float(fields["loss"])
        self.seconds = fields["seconds"]
        self.skips_in_a_row = fields["skips_in_a_row"]
        self.best_step, self.best_score = fields["best_step"], float(fields["best_score"])
        past = fields["history"]
        self.history = History(
            past["steps"],
            [float(v) for v in past["losses"]],
            [float(v) for v in past["scores"]],
            past["skipped"],
        )
        self.rng.bit_generator.state = json.loads(fields["generator"])


_CHECKPOINT = "training-state"


class _Clock:
    """Seconds since the training began, earlier parts of a resumed one counted in."""

    def __init__(self, before: float) -> None:
        self._before, self._begin = before, time.monotonic()
        self._first_step: int | None = None

    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def progress(self, state: _State, total: int) -> Progress:
        if self._first_step is None:
            self._first_step = state.step
            self._mark = time.monotonic()
        done = max(state.step - self._first_step, 1)
        rate = (time.monotonic() - self._mark) / done if state.step > self._first_step else 0.0
        return Progress(
            step=state.step,
            total=total,
            loss=state.loss,
            score=state.history.scores[-1] if state.history.scores else None,
            seconds=self.seconds(),
            eta=rate * (total - state.step),
        )
