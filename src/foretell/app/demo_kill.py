"""The part of the demo in which a worker is killed: three train, two finish, with the same bits."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foretell.data import Trajectories
from foretell.dynamics.shared_task import learner_task
from foretell.train.stacked.loop import StackedLoop
from foretell.train.stacked.spec import WorkerSpec, placement_for
from foretell.train.stacked.supervisor import Supervisor

WORKERS, STEPS = 3, 40
_TASK = "foretell.dynamics.shared_task:learner_task"
_SIZE = {"latent_dim": 8, "n_relu": 2, "sequence_length": 50, "batch_size": 12}


@dataclass(frozen=True)
class Killed:
    """How it went."""

    step: int
    failures: int
    seconds: float
    identical: bool

    def __str__(self) -> str:
        answer = "yes" if self.identical else "no"
        return (
            f"Worker 1 of {WORKERS} was killed by SIGKILL at step {self.step} of {STEPS}; the "
            f"others finished ({self.seconds:.1f} s). Identical to the failure-free run, bit for "
            f"bit: {answer}."
        )


def kill_a_worker(data: Trajectories, step: int = 15) -> Killed:
    """Train a small CPLRNN with three processes, kill one, and compare with one process."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "pulse.csv"
        rows = np.column_stack([data.times[0], data.values[0]])[:2000]
        np.savetxt(file, rows, delimiter=",", header="t,pulse", comments="", fmt="%.9g")
        arguments = {
            "file": str(file), "time": "t", "steps": STEPS, "shards": 6, "settings": _SIZE,
        }  # fmt: skip
        spec = WorkerSpec(
            target=_TASK, arguments=arguments, steps=STEPS, survive=1, faults=f"kill:1@{step}"
        )
        alone = StackedLoop(learner_task(**arguments), placement_for(1, 0))  # type: ignore[arg-type]
        alone.run(STEPS)
        outcome = Supervisor(spec, WORKERS, replace_dead=False).run()
    same = outcome.status == "done" and outcome.sha256 == alone.state_digest()
    return Killed(step, outcome.failures, outcome.seconds, same)
