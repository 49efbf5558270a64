"""A module as a task: the same bits after resuming, one AdamW as torch's, weights to and fro."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from foretell.core import ArtifactError, Progress  # noqa: E402
from foretell.dynamics.module_task import (  # noqa: E402
    ModuleTask,
    fill_module,
    module_arrays,
    seeded,
)
from foretell.train import TrainTask, train  # noqa: E402


def build(seed: int = 0) -> "torch.nn.Module":
    return seeded(
        lambda: torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        ),
        seed,
    )  # fmt: skip


def task_of(module: "torch.nn.Module", n_steps: int = 60) -> ModuleTask:
    def loss(step: int, generator: np.random.Generator) -> "torch.Tensor":
        x = torch.from_numpy(generator.normal(size=(8, 2)).astype(np.float32))
        return ((module(x)[:, 0] - x[:, 0] * x[:, 1]) ** 2).mean()

    return ModuleTask(module, loss, n_steps=n_steps, lr=0.01, weight_decay=0.01)


def test_resuming_gives_the_same_bits(tmp_path: Path) -> None:
    whole = task_of(build())
    assert isinstance(whole, TrainTask)
    train(whole, 60)

    def stop(progress: Progress) -> None:
        if progress.step == 23:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(task_of(build()), 60, on_step=stop, checkpoint=tmp_path / "c")
    again = task_of(build(1))
    train(again, 60, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(again.parameters(), whole.parameters())


def test_a_step_is_that_of_torch() -> None:
    mine, theirs = build(), build()
    task = task_of(mine, n_steps=10)
    adam = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.01)
    for step in range(10):
        task.apply(step, task.gradient(step, 0).values)
        adam.zero_grad()
        x = torch.from_numpy(
            np.random.Generator(np.random.Philox(np.random.SeedSequence([0, step, 0])))
            .normal(size=(8, 2)).astype(np.float32)
        )  # fmt: skip
        for p in theirs.parameters():
            p.grad = None
        ((theirs(x)[:, 0] - x[:, 0] * x[:, 1]) ** 2).mean().backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 2.0)
        adam.param_groups[0]["lr"] = task.rate(step)
        adam.step()
    for one, two in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


def test_weights_come_back_and_another_network_is_refused() -> None:
    one, two = build(0), build(1)
    fill_module(two, module_arrays(one, "net."), "net.")
    assert all((a == b).all() for a, b in zip(one.parameters(), two.parameters(), strict=True))
    with pytest.raises(ArtifactError, match="do not fit"):
        fill_module(torch.nn.Linear(2, 8), module_arrays(one))


def test_seeded_moves_no_global_seed() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state().clone()
    build(3)
    assert (torch.get_rng_state() == before).all()
