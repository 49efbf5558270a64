"""A small transformer that learns the text of the licence: what the workers of spare_* train."""

import contextlib
import ctypes
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from foretell.train.stacked import MaskedDataParallel
from foretell.train.stacked.worker import current_worker

TEXT = (Path(__file__).resolve().parent.parent / "LICENSE").read_bytes()


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, context: int) -> None:
        super().__init__()
        self.token = nn.Embedding(128, width)
        self.place = nn.Parameter(0.02 * torch.randn(context, width))
        layer = nn.TransformerEncoderLayer(
            width, max(width // 32, 1), 4 * width, 0.1, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.token(x) + self.place[: x.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.body(h, mask=mask, is_causal=True))


def text() -> torch.Tensor:
    return torch.tensor(list(TEXT)).clamp(max=127)


def batch(data: torch.Tensor, size: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - context - 1, (size,))
    rows = starts[:, None] + torch.arange(context + 1)
    return data[rows[:, :-1]], data[rows[:, 1:]]


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x).reshape(-1, 128), y.reshape(-1))


def inside(name: str, **settings) -> None:
    """The same in the network namespace of this worker, ``<name><worker>``."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/var/run/netns/{name}{current_worker().spec.me}") as namespace:
        if libc.setns(namespace.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
    main(**settings)


def in_turns(folder: str, port: int, units: int, size: int, width: int, layers: int,
             context: int) -> None:  # fmt: skip
    """Takes steps of plain DDP and of MaskedDataParallel in turns, in the same two processes.

    Writes CPU and wall seconds of every step of both to a file of this worker.
    """
    rank, data = current_worker().spec.me, text()
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    plain = DistributedDataParallel(Transformer(width, layers, context))
    adam = torch.optim.AdamW(plain.parameters(), lr=3e-3)
    model = Transformer(width, layers, context)
    train = MaskedDataParallel(model, torch.optim.AdamW(model.parameters(), lr=3e-3), units=units)

    def ddp() -> None:
        adam.zero_grad(set_to_none=False)
        for k in range(units // 2):
            with contextlib.nullcontext() if k == units // 2 - 1 else plain.no_sync():
                (2 * loss_of(plain, *batch(data, size, context)) / units).backward()
        adam.step()

    def ours() -> None:
        train.step(lambda unit: loss_of(model, *batch(data, size, context)))

    spent: dict[str, list] = {"DDP": [], "ours": []}
    for n in train.steps():
        for name, step in (("DDP", ddp), ("ours", ours))[:: 1 if n % 2 else -1]:
            dist.barrier()
            cpu, wall = time.process_time(), time.monotonic()
            step()
            spent[name].append([time.process_time() - cpu, time.monotonic() - wall])
    Path(folder, str(rank)).write_text(json.dumps(spent))


def kept(folder: str, size: int, width: int, layers: int, context: int) -> None:
    """Trains, and leaves the final weights in the folder."""
    model, data = Transformer(width, layers, context), text()
    train = MaskedDataParallel(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    for _ in train.steps():
        train.step(lambda unit: loss_of(model, *batch(data, size, context)))
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()
    np.save(Path(folder, f"{current_worker().spec.me}.npy"), flat)
    Path(folder, f"{current_worker().spec.me}.npy").replace(Path(folder, "weights.npy"))


def main(width: int = 32, layers: int = 2, context: int = 32, size: int = 4, pause: float = 0.0,
         units: int | None = None) -> None:  # fmt: skip
    """Trains; the units of a step take at least ``pause`` seconds each."""
    model = Transformer(width, layers, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    train, data = MaskedDataParallel(model, optimizer, schedules=[schedule], units=units), text()

    def unit_loss(unit):
        if pause:
            time.sleep(pause)
        return loss_of(model, *batch(data, size, context))

    for _ in train.steps():
        train.step(unit_loss)
