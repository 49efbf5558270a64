"""Every learner of torch ends with the bits of a plain loop: what the shared one adds costs none.

Each is fitted as usual, and the parameters after every step are kept. Then the same loss is
followed by the loop below, from the same beginning: backward, clip, AdamW, a cosine rate.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="torch is not installed")

from foretell.dynamics import module_task  # noqa: E402
from foretell.dynamics.hybrid import HybridLatentODE, training  # noqa: E402
from foretell.dynamics.koopman import (  # noqa: E402
    AlternatingKoopman,
    JointKoopman,
    KoopmanQP,
    learning,
)
from foretell.dynamics.lifting import (  # noqa: E402
    EngressionTransition,
    FlowMatchingTransition,
    GaussianTransition,
    StochasticLifting,
    network_sampler,
)

STEPS = 8
HYBRID: dict[str, Any] = {
    "latent_dim": 3, "hidden": 4, "horizons": (2, 4), "updates_per_horizon": 4, "batch_size": 4,
}  # fmt: skip
KOOPMAN: dict[str, Any] = {
    "n_observables": 2, "hidden": (4,), "horizon": 4, "max_steps": STEPS, "batch_size": 4,
}  # fmt: skip
LIFTING: dict[str, Any] = {"width": 4, "depth": 1, "max_steps": STEPS, "batch_size": 8}
LEARNERS = [
    (HybridLatentODE, HYBRID),
    (KoopmanQP, KOOPMAN),
    (AlternatingKoopman, KOOPMAN),
    (JointKoopman, KOOPMAN),
    (GaussianTransition, LIFTING),
    (EngressionTransition, {**LIFTING, "noise_dim": 2}),
    (FlowMatchingTransition, LIFTING),
    (StochasticLifting, {**LIFTING, "mean_steps": 4, "label_dim": 2}),
]


class Watched(module_task.ModuleTask):
    """Keeps the parameters before the first step and after each."""

    made: list["Watched"]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.trail = [self.parameters()]
        self.made.append(self)

    def apply(self, step: int, gradient: Any) -> None:
        super().apply(step, gradient)
        self.trail.append(self.parameters())


def plainly(task: Watched) -> list[np.ndarray]:
    """The same training without a task and without a loop of ours."""
    own = [p for p in task.module.parameters() if p.requires_grad]
    theta = torch.from_numpy(task.trail[0].copy())
    mean, square = torch.zeros_like(theta), torch.zeros_like(theta)
    trail = [task.trail[0]]
    for step in range(len(task.trail) - 1):
        start = 0
        for p in own:
            p.data = theta[start : start + p.numel()].view_as(p).clone()
            p.grad = None
            start += p.numel()
        seeds = np.random.SeedSequence([task.seed, step, 0])
        task.loss(step, np.random.Generator(np.random.Philox(seeds))).backward()
        g = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in own])
        length = float(g.norm())
        if length > task.clip:
            g *= task.clip / length
        mean = torch.lerp(mean, g, 1 - 0.9)
        square = torch.addcmul(0.999 * square, g, g, value=1 - 0.999)
        turn = math.cos(math.pi * min(step / max(task.n_steps - 1, 1), 1.0))
        rate = task.final_lr + (task.lr - task.final_lr) * 0.5 * (1 + turn)
        spread = square.sqrt() / math.sqrt(1 - 0.999 ** (step + 1)) + 1e-8
        theta = theta * (1 - rate * task.weight_decay)
        theta = torch.addcdiv(theta, mean, spread, value=-rate / (1 - 0.9 ** (step + 1)))
        trail.append(theta.numpy().copy())
    return trail


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("learner", "settings"), LEARNERS, ids=[m.__name__ for m, _ in LEARNERS])
def test_a_learner_ends_with_the_bits_of_a_plain_loop(learner, settings, monkeypatch) -> None:
    Watched.made = []
    for place in (training, learning, network_sampler):
        monkeypatch.setattr(place, "ModuleTask", Watched)
    t = 0.2 * np.arange(80)
    x = np.column_stack([np.sin(t) + 0.1 * np.sin(3 * t), np.cos(t)])
    learner(**settings, random_state=0).fit(x, t)
    assert sum(len(task.trail) - 1 for task in Watched.made) >= STEPS
    for task in Watched.made:
        assert not np.array_equal(task.trail[0], task.trail[-1])
        for mine, plain in zip(task.trail, plainly(task), strict=True):
            assert_array_equal(mine, plain)
