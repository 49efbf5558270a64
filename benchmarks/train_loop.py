"""What the shared training loop costs beside a loop of four lines, on the same task.

Both sides take the same steps from the same state in one process, in turns and in alternating
order; process CPU time; paired ratios. Two learners: cPLRNN (compiled) and a torch module (a vector
field with one hidden layer of 64).
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _common import median_interval, run_jobs, shown, write_result

from foretell.core import Progress
from foretell.dynamics import CPLRNN
from foretell.dynamics.module_task import ModuleTask
from foretell.dynamics.shared_task import SharedTask
from foretell.train import TrainTask, train
from foretell.train.task import mean_gradient

PAIRS, STEPS = 60, {"cPLRNN": 30, "torch module": 300}
TIME = np.arange(4000) * 0.05
SERIES = np.column_stack([np.sin(TIME), np.cos(TIME), np.sin(0.3 * TIME)])


def bare(task: TrainTask, n_steps: int) -> None:
    for step in range(n_steps):
        gradient = mean_gradient(task, step)
        task.apply(step, gradient.values)


def shared(task: TrainTask, n_steps: int) -> None:
    seen: list[Progress] = []
    train(task, n_steps, on_step=seen.append)


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


def in_turns(learner: str, pairs: int, steps: int) -> dict[str, Any]:
    """Process CPU seconds of both loops, pair by pair, and whether they end in the same bits."""
    task = {"cPLRNN": cplrnn, "torch module": torch_module}[learner](steps)
    start = task.state()
    loops: dict[str, Callable[[TrainTask, int], None]] = {"bare": bare, "shared": shared}
    spent: dict[str, list[float]] = {name: [] for name in loops}
    ends: dict[str, bytes] = {}
    for n in range(pairs + 1):
        for name in sorted(loops, reverse=bool(n % 2)):
            task.restore(start)
            began = time.process_time()
            loops[name](task, steps)
            spent[name].append(time.process_time() - began)
            ends[name] = task.parameters().tobytes()
    return {**{k: v[1:] for k, v in spent.items()}, "same": ends["bare"] == ends["shared"]}


def main() -> None:
    jobs = [{"learner": k, "pairs": PAIRS, "steps": n} for k, n in STEPS.items()]
    rows: list[list[Any]] = []
    for job, run in zip(jobs, run_jobs("train_loop", in_turns, jobs, workers=1), strict=True):
        ratio = median_interval(np.array(run["shared"]) / run["bare"])
        each = 1e3 * float(np.median(run["bare"])) / job["steps"]
        met, same = ("yes" if x else "NO" for x in (ratio[2] <= 1.02, run["same"]))
        rows.append([job["learner"], round(each, 3), shown(ratio, 4), "<= 1.02", met, same])
    write_result(
        "train_loop",
        {"pairs": PAIRS, "steps": STEPS},
        {
            "train-loop": {
                "columns": ["learner", "a step of the bare loop, CPU ms", "shared loop / bare loop",
                            "bar", "met at the upper end", "same bits at the end"],
                "rows": rows,
                "note": f"Median of {PAIRS} paired ratios with 95 % interval, one process, in "
                "turns; the shared loop reports progress as foretell fit does.",
            }
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
