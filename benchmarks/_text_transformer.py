"""A small transformer that learns the text of the licence: what the workers of spare_* train."""

import ctypes
import json
import time
from pathlib import Path

import torch
from torch import nn

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


def timed(folder: str, units: int, size: int, width: int, layers: int, context: int) -> None:
    """Trains, and writes CPU and wall seconds of every step to a file of this worker."""
    model = Transformer(width, layers, context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    train, data, spent = MaskedDataParallel(model, optimizer, units=units), text(), []
    for _ in train.steps():
        cpu, wall = time.process_time(), time.monotonic()
        train.step(lambda unit: loss_of(model, *batch(data, size, context)))
        spent.append([time.process_time() - cpu, time.monotonic() - wall])
    Path(folder, str(current_worker().spec.me)).write_text(json.dumps(spent))


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
