"""Low-rank adapters: linear layers of a frozen model get a trainable product of two thin matrices.

Source: Hu et al. 2022, "LoRA" (arXiv 2106.09685).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from foretell.core.errors import MissingExtraError, ParameterError

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

_off = threading.local()  # adapters are switched off for one thread only


class LoRALinear(nn.Module):  # type: ignore[misc,unused-ignore]
    """A frozen linear layer plus scale * up(down(x)); ``up`` begins at zero."""

    def __init__(
        self, base: nn.Linear, rank: int, scale: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        # Inner values are then as large as inputs, whatever the width; a first step is small.
        down = torch.randn(rank, base.in_features, generator=generator) / math.sqrt(
            base.in_features
        )
        self.down = nn.Parameter(down.to(base.weight))
        self.up = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """The layer with its adapter, unless adapters are off in this thread."""
        y: Tensor = self.base(x)
        if getattr(_off, "depth", 0):
            return y
        return y + self.scale * (x @ self.down.T @ self.up.T)


def add_lora(
    model: nn.Module, *, rank: int = 8, scale: float = 2.0, names: Sequence[str] = (), seed: int = 0
) -> nn.Module:
    """Freeze a model and give its linear layers adapters; changes it in place and returns it.

    Parameters
    ----------
    model : torch.nn.Module
    rank : int
        Inner width of the adapters.
    scale : float
        What the adapters are multiplied with.
    names : sequence of str
        Last parts of the names of the layers, for instance "q_proj"; by default all linear
        layers but the head.
    seed : int

    Raises
    ------
    ParameterError
        No layer has such a name.

    Examples
    --------
    >>> model = add_lora(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), rank=1, names=["0"])
    >>> sum(p.numel() for p in model.parameters() if p.requires_grad)
    8
    """
    if rank < 1:
        raise ParameterError(f"rank={rank!r}; needed is at least 1.")
    generator = torch.Generator().manual_seed(seed)
    found = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
        and (name.split(".")[-1] in names if names else not name.endswith("head"))
    }
    if not found:
        raise ParameterError(
            f"The model has no linear layer named {', '.join(names) or '...'}. Look at "
            "[name for name, _ in model.named_modules()]."
        )
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for name, layer in found.items():
        above, _, last = name.rpartition(".")
        holder = model.get_submodule(above) if above else model
        setattr(holder, last, LoRALinear(layer, rank, scale, generator))
    return model


def has_lora(model: nn.Module) -> bool:
    """Whether some layer has an adapter."""
    return any(isinstance(layer, LoRALinear) for layer in model.modules())


@contextmanager
def adapters_off() -> Iterator[None]:
    """Run models as they were before their adapters, in this thread."""
    _off.depth = getattr(_off, "depth", 0) + 1
    try:
        yield
    finally:
        _off.depth -= 1
