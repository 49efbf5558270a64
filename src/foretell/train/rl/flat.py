"""Trainable weights as one vector, and AdamW on it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from foretell.core.errors import ArtifactError, MissingExtraError, ParameterError
from foretell.train.task import State

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error


class FlatAdamW:
    """The trainable weights of a module with decoupled weight decay and a clipped gradient.

    Parameters
    ----------
    module : torch.nn.Module
    lr : float
    betas : (float, float)
    weight_decay : float
    clip : float
        Longest gradient; longer ones are scaled down.

    Examples
    --------
    >>> line = nn.Linear(1, 1)
    >>> adam = FlatAdamW(line, lr=0.1)
    >>> before, length = adam.get(), adam.step(torch.tensor([1.0, 0.0]))
    >>> [round(x, 4) for x in (before - adam.get()).tolist()]
    [0.1, 0.0]
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
        clip: float = 1.0,
    ) -> None:
        self.weights = [p for p in module.parameters() if p.requires_grad]
        if not self.weights:
            raise ParameterError("The module has no weights to train. Set requires_grad on some.")
        self.lr, self.betas, self.weight_decay, self.clip = lr, betas, weight_decay, clip
        self.size = sum(p.numel() for p in self.weights)
        self.mean = torch.zeros(self.size, device=self.weights[0].device)
        self.square = torch.zeros_like(self.mean)
        self.count = 0

    def get(self) -> Tensor:
        """All weights, a copy, float32."""
        return torch.cat([p.detach().reshape(-1).float() for p in self.weights])

    def set(self, values: Tensor) -> None:
        """Replace all weights.

        Raises
        ------
        ParameterError
            Their number is another one.
        """
        if values.shape != (self.size,):
            raise ParameterError(
                f"{tuple(values.shape)} values for {self.size} weights; needed is one for each."
            )
        start = 0
        with torch.no_grad():
            for weight in self.weights:
                weight.copy_(values[start : start + weight.numel()].view_as(weight))
                start += weight.numel()

    def gradient(self, loss: Tensor) -> Tensor:
        """The derivative of a loss by all weights; 0 where it does not depend on one."""
        parts = torch.autograd.grad(loss, self.weights, allow_unused=True)
        return torch.cat(
            [
                torch.zeros(p.numel(), device=p.device) if g is None else g.reshape(-1).float()
                for p, g in zip(self.weights, parts, strict=True)
            ]
        )

    def step(self, gradient: Tensor) -> float:
        """Follow a gradient; returns its length before it was clipped."""
        length = float(torch.linalg.vector_norm(gradient.double()))
        g = gradient.float() * min(1.0, self.clip / max(length, 1e-12))
        self.count += 1
        first, second = self.betas
        self.mean.mul_(first).add_(g, alpha=1 - first)
        self.square.mul_(second).addcmul_(g, g, value=1 - second)
        size = (self.square / (1 - second**self.count)).sqrt() + 1e-8
        step = self.lr / (1 - first**self.count) * self.mean / size
        weights = self.get()
        self.set(weights * (1 - self.lr * self.weight_decay) - step)
        return length

    def state(self, name: str) -> State:
        """Weights and moments as arrays."""
        parts = {"weights": self.get(), "mean": self.mean, "square": self.square}
        arrays: State = {f"{name}.{key}": value.cpu().numpy() for key, value in parts.items()}
        arrays[f"{name}.count"] = torch.tensor(self.count).numpy()
        return arrays

    def restore(self, name: str, state: State) -> None:
        """Take over what ``state`` gave.

        Raises
        ------
        ArtifactError
            It is of a module of another size.
        """
        size = state[f"{name}.weights"].size if f"{name}.weights" in state else 0
        if size != self.size:
            raise ArtifactError(
                f"The checkpoint holds {size} weights of the {name}, and the module has "
                f"{self.size}. Load it into the same kind of model."
            )
        parts = ("weights", "mean", "square")
        values = {k: torch.from_numpy(state[f"{name}.{k}"].copy()) for k in parts}
        self.set(values["weights"].to(self.mean.device))
        self.mean.copy_(values["mean"])
        self.square.copy_(values["square"])
        self.count = int(state[f"{name}.count"])


def weights_hash(weights: Iterable[Tensor]) -> str:
    """SHA-256 of weights, in their order."""
    found = hashlib.sha256()
    for weight in weights:
        data = weight.detach().cpu().contiguous().reshape(-1)
        found.update(data.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
