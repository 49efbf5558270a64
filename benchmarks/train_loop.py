"""What the shared training loop costs beside a loop of four lines, on the same task.

Both sides take the same steps from the same state in one process, in turns and in alternating
order. The CPU time of the thread inside and outside the task's two calls is told apart: whole steps
differ by far more than the loops do on a shared machine. Two small learners, whose steps take
about a millisecond: cPLRNN (compiled), and a torch module (a field with one hidden layer of 64).
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _common import median_interval, run_jobs, shown, write_result

from foretell.dynamics import CPLRNN
from foretell.dynamics.module_task import ModuleTask
from foretell.dynamics.shared_task import SharedTask
from foretell.train import Gradient, TrainTask, train
from foretell.train.task import mean_gradient

PAIRS, STEPS = 12, {"cPLRNN": 250, "torch module": 250}
TIME = np.arange(4000) * 0.05
SERIES = np.column_stack([np.sin(TIME), np.cos(TIME), np.sin(0.3 * TIME)])


def bare(task: TrainTask, n_steps: int) -> None:
    for step in range(n_steps):
        gradient = mean_gradient(task, step)
        task.apply(step, gradient.values)


def shared(task: TrainTask, n_steps: int) -> None:
    train(task, n_steps)


def cplrnn(n_steps: int) -> TrainTask:
    model = CPLRNN(latent_dim=10, n_relu=3, sequence_length=50, max_updates=n_steps, random_state=0)
    return SharedTask(model.prepare_training(SERIES, TIME), shards=1)


def torch_module(n_steps: int) -> TrainTask:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    field = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
    x = torch.from_numpy(SERIES).float()
    rates = (x[1:] - x[:-1]) / 0.05

    def loss(step: int, generator: np.random.Generator) -> torch.Tensor:
        at = torch.from_numpy(generator.integers(len(rates), size=256))
        return ((field(x[at]) - rates[at]) ** 2).mean()

    return ModuleTask(field, loss, n_steps=n_steps)


class Timed:
    """A task, and the CPU seconds that its gradients and updates took."""

    def __init__(self, task: TrainTask) -> None:
        self.task, self.inside = task, 0.0
        self.parameters, self.n_shards = task.parameters, task.n_shards
        self.state, self.restore = task.state, task.restore

    def gradient(self, step: int, shard: int) -> Gradient:
        began = time.thread_time()
        found = self.task.gradient(step, shard)
        self.inside += time.thread_time() - began
        return found

    def apply(self, step: int, gradient: np.ndarray) -> None:
        began = time.thread_time()
        self.task.apply(step, gradient)
        self.inside += time.thread_time() - began


def in_turns(learner: str, pairs: int, steps: int) -> dict[str, Any]:
    """CPU seconds inside the task and outside it for both loops, and whether the bits are equal."""
    task = Timed({"cPLRNN": cplrnn, "torch module": torch_module}[learner](steps))
    start = task.state()
    loops: dict[str, Callable[[TrainTask, int], None]] = {"bare": bare, "shared": shared}
    spent: dict[str, list[list[float]]] = {name: [] for name in loops}
    ends: dict[str, bytes] = {}
    for n in range(pairs + 1):
        for name in sorted(loops, reverse=bool(n % 2)):
            task.restore(start)
            task.inside, began = 0.0, time.thread_time()
            loops[name](task, steps)
            spent[name].append([task.inside, time.thread_time() - began - task.inside])
            ends[name] = task.parameters().tobytes()
    return {**{k: v[1:] for k, v in spent.items()}, "same": ends["bare"] == ends["shared"]}


def main() -> None:
    jobs = [{"learner": k, "pairs": PAIRS, "steps": n} for k, n in STEPS.items()]
    rows: list[list[Any]] = []
    for job, run in zip(jobs, run_jobs("train_loop_apart", in_turns, jobs, workers=1), strict=True):
        own, ours = (np.array(run[k]) / job["steps"] for k in ("bare", "shared"))
        ratio = median_interval(1 + (ours[:, 1] - own[:, 1]) / own.sum(1))
        met, same = ("yes" if x else "NO" for x in (ratio[2] <= 1.02, run["same"]))
        step, outside = (
            1e3 * np.median(own.sum(1)),
            1e6 * np.median([own[:, 1], ours[:, 1]], axis=1),
        )
        rows.append([job["learner"], round(float(step), 3), *outside.round(1).tolist(),
                     shown(ratio, 4), "<= 1.02", met, same])  # fmt: skip
    write_result(
        "train_loop",
        {"pairs": PAIRS, "steps": STEPS},
        {
            "train-loop": {
                "columns": ["learner", "a step of the bare loop, CPU ms",
                            "outside the task, microseconds a step, bare", "shared",
                            "shared loop / bare loop", "bar", "met at the upper end",
                            "same bits at the end"],
                "rows": rows,
                "note": f"Median of {PAIRS} pairs of {job['steps']} steps with 95 % interval, one "
                "process, in turns. Progress, told 400 times in a training at most, is left out.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
