"""One worker of what spare_peers measures beside ours: torchft, or DDP that torchrun restarts.

The units of a step are those of MaskedDataParallel: two for each of four workers, drawn from (seed,
step, unit). Every committed step is a line in the folder: worker, step, units, wall clock.
"""

import contextlib
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from _text_transformer import Transformer, batch, loss_of, text

from foretell.train.stacked.module import _mixed


def wanted(job: dict, worker: int, life: int, step: int) -> bool:
    """Whether this worker is to die in this step; each kill comes once."""
    return life == 0 and [worker, step] in job["kills"]


nothing = contextlib.nullcontext


class Units:
    """The units of a worker, in the order of their numbers."""

    def __init__(self, job: dict, worker: int, life: int) -> None:
        self.job, self.worker, self.life, self.data = job, worker, life, text()

    def backward(self, model: torch.nn.Module, step: int) -> None:
        """Add up the mean gradient of this worker's units, and die where that is asked for."""
        micro = self.job["units"] // self.job["workers"]
        for k in range(micro):
            torch.manual_seed(_mixed(0, step, self.worker * micro + k))
            last = k == micro - 1
            waits = contextlib.nullcontext() if last else getattr(model, "no_sync", nothing)()
            with waits:
                x, y = batch(self.data, self.job["size"], self.job["context"])
                if last and wanted(self.job, self.worker, self.life, step):
                    os.kill(os.getpid(), signal.SIGKILL)
                (loss_of(model, x, y) / micro).backward()


def fresh(job: dict) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(job["width"], job["layers"], job["context"])
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def tell(job: dict, worker: int, step: int, units: int) -> None:
    line = json.dumps([worker, step, units, time.monotonic()]) + "\n"
    with Path(job["folder"], "steps").open("a") as out:
        out.write(line)


def keep(job: dict, model: torch.nn.Module) -> None:
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    np.save(Path(job["folder"], "weights.npy"), flat)


def torchft(job: dict, worker: int, life: int) -> None:
    """A replica group of one process under a lighthouse, with torchft's usual settings.

    Gradients go through ``Manager.allreduce`` in one piece. Its DistributedDataParallel is not
    used: in version 0.2.0 beside torch 2.13 its hook ends with a failed assertion on every survivor
    of a kill.
    """
    from torchft import Manager, Optimizer, ProcessGroupGloo

    model, adam = fresh(job)
    Path(job["folder"], f"ready{worker}").touch()
    while len(list(Path(job["folder"]).glob("ready*"))) < job["workers"]:
        time.sleep(0.01)  # else the first quorums are of those who were quick
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    patience = timedelta(seconds=job["timeout_s"])
    manager = Manager(
        pg=ProcessGroupGloo(timeout=patience), min_replica_size=2, replica_id=f"worker{worker}-",
        load_state_dict=lambda s: (model.load_state_dict(s["model"]),
                                   adam.load_state_dict(s["adam"])),
        state_dict=lambda: {"model": model.state_dict(), "adam": adam.state_dict()},
        store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1,
        lighthouse_addr=job["lighthouse"], timeout=patience, hostname="127.0.0.1",
    )  # fmt: skip
    optimizer = Optimizer(manager, adam)
    units = Units(job, worker, life)
    while manager.current_step() < job["steps"]:
        step = manager.current_step()
        optimizer.zero_grad()
        units.backward(model, step)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in grads])
        manager.allreduce(flat).wait()
        for g, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
            g.copy_(part.view_as(g))
        optimizer.step()
        if manager.current_step() > step:
            each = job["units"] // job["workers"]
            tell(job, worker, manager.current_step(), each * manager.num_participants())
    keep(job, model)
    manager.shutdown(wait=False)
    os._exit(0)


def restarted(job: dict) -> None:
    """DDP over gloo under torchrun; rank 0 writes a checkpoint now and then."""
    model, adam = fresh(job)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    worker, life = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    path, start = Path(job["folder"], "checkpoint"), 0
    if path.exists():
        found = torch.load(path)
        model.load_state_dict(found["model"])
        adam.load_state_dict(found["adam"])
        start = found["step"]
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    units = Units(job, worker, 0)
    units.job = {**job, "kills": job["kills"][life : life + 1]}  # one in each life
    for step in range(start, job["steps"]):
        adam.zero_grad()
        units.backward(parallel, step)
        adam.step()
        tell(job, worker, step + 1, job["units"])
        if worker == 0 and (step + 1) % job["every"] == 0:
            state = {"model": model.state_dict(), "adam": adam.state_dict(), "step": step + 1}
            torch.save(state, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)
    if worker == 0:
        keep(job, model)
    dist.destroy_process_group()


if __name__ == "__main__":
    content = json.loads(Path(sys.argv[2]).read_text())
    if sys.argv[1] == "torchft":
        torchft(content, int(sys.argv[3]), int(sys.argv[4]))
    else:
        restarted(content)
