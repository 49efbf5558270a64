"""Small parts of a training, and a kernel whose loss is a parabola, to test the trainer alone."""

from dataclasses import dataclass, field

import numpy as np

from foretell.dynamics.fitting import train
from foretell.dynamics.forced_task import Settings
from foretell.dynamics.free_run_score import FreeRunScore
from foretell.dynamics.layout import Layout
from foretell.dynamics.sequences import Sequences, WindowSampler

LAYOUT = Layout(3, 2, 0)
SETTINGS = {
    "forcing": "stf", "forcing_interval": 4, "sequence_length": 10, "batch_size": 3,
    "max_updates": 40, "lr": 0.05, "final_lr": 1e-3, "noise": 0.05, "grad_clip": 10.0,
}  # fmt: skip


def settings(**changes):
    return Settings(**{**SETTINGS, **changes})


def sequences(*lengths, seed=0, controls=False):
    """Recordings whose first variable counts rows, so that a window tells where it is from."""
    rng = np.random.default_rng(seed)
    values, start = [], 0
    for n in lengths:
        values.append(np.column_stack([np.arange(start, start + n), rng.normal(size=n)]))
        start += n
    dt = tuple(rng.uniform(0.5, 1.5, n - 1) for n in lengths)
    inputs = tuple(v[:, :1].copy() for v in values) if controls else None
    return Sequences(tuple(map(np.asarray, values)), dt, inputs)


@dataclass
class Gradient:
    loss: float
    dA: np.ndarray
    dW: np.ndarray
    dh: np.ndarray
    dC: np.ndarray
    dL: np.ndarray


@dataclass
class Parabola:
    """Loss |theta - 1|^2 whatever the data; remembers how it was asked."""

    bad: frozenset = frozenset()
    asked: list = field(default_factory=list)

    def loss_and_gradient(self, A, W, h, C, L, x, u, dt, *, forcing_interval, alpha):
        self.asked.append((forcing_interval, alpha, float(np.nansum(x))))
        scale = np.nan if len(self.asked) in self.bad else 1.0
        parts = [2 * scale * (v - 1.0) for v in (A, W, h, C, L)]
        return Gradient(scale * sum(((v - 1.0) ** 2).sum() for v in (A, W, h, C, L)), *parts)

    def free_run(self, A, W, h, C, z0, u, dt):
        return np.zeros((len(z0), dt.shape[1] + 1, z0.shape[1])) + A


def run(kernel=None, *, seed=0, score=None, data=None, rng=None, **options):
    """Train; options of Settings and of train may be mixed."""
    chosen = settings(**{k: options.pop(k) for k in list(options) if k in SETTINGS})
    data = sequences(60, 40) if data is None else data
    sampler = WindowSampler(data, chosen.sequence_length, chosen.batch_size, chosen.noise)
    if score is None:
        score = FreeRunScore(sequences(80), LAYOUT)
    if not hasattr(score, "confirms"):
        score.confirms = lambda kernel, theta, score, start: True
    theta = np.random.default_rng(seed).normal(size=LAYOUT.size)
    return train(
        kernel or Parabola(), LAYOUT, theta, sampler, score, chosen,
        rng or np.random.default_rng(seed), **options,
    )  # fmt: skip
