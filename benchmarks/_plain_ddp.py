"""One rank of plain data-parallel training, for spare_overhead: DDP of torch over gloo."""

import contextlib
import json
import sys
import time

import torch
import torch.distributed as dist
from _text_transformer import Transformer, batch, loss_of, text
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, world: int, port: int, job: dict) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    model = DistributedDataParallel(Transformer(job["width"], job["layers"], job["context"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data, micro, spent = text(), job["units"] // world, []
    torch.manual_seed(rank)
    for _ in range(job["steps"]):
        cpu, wall = time.process_time(), time.monotonic()
        optimizer.zero_grad(set_to_none=False)
        for k in range(micro):
            with contextlib.nullcontext() if k == micro - 1 else model.no_sync():
                x, y = batch(data, job["size"], job["context"])
                (loss_of(model, x, y) / micro).backward()
        optimizer.step()
        spent.append([time.process_time() - cpu, time.monotonic() - wall])
    print(json.dumps(spent))


if __name__ == "__main__":
    main(*(int(w) for w in sys.argv[1:4]), json.loads(sys.argv[4]))
