"""A torch module with a loss as a ``TrainTask``: AdamW, cosine rate, clipped gradient.

All parameters of the module become views of one flat tensor, so that a step of the optimiser is a
handful of operations whatever the number of layers. The loss is given the step and a generator
that is made from (seed, step, shard): a resumed training draws the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from foretell.core import ArtifactError, MissingExtraError, ParameterError
from foretell.train import Gradient, shard_generator
from foretell.train.task import State

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train this learner") from error

_BETAS, _EPSILON = (0.9, 0.999), 1e-8
Loss = Callable[[int, np.random.Generator], Tensor]


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread: small products are not worth sharing.

    Where other processes use the cores, threads that wait for each other take fifty times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class ModuleTask:
    """Train a module by AdamW on a loss that draws its own batches.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters, all of one dtype, are trained in place.
    loss : callable
        ``loss(step, generator)`` returns the scalar loss of a batch drawn with the generator only.
    n_steps : int
        Length of the cosine schedule.
    lr, final_lr : float
        Learning rate at the first and at the last step.
    clip : float
        Longest gradient; longer ones are scaled down.
    weight_decay : float
        Decoupled decay of all parameters.
    seed : int
        Seed of the batches.

    Examples
    --------
    >>> import torch
    >>> from foretell.train import train
    >>> torch.manual_seed(0) and None
    >>> line = torch.nn.Linear(1, 1, dtype=torch.float64)
    >>> def loss(step, generator):
    ...     x = torch.from_numpy(generator.normal(size=(16, 1)))
    ...     return ((line(x) - 3 * x - 1) ** 2).mean()
    >>> run = train(ModuleTask(line, loss, n_steps=300, lr=0.05), 300)
    >>> round(line.weight.item(), 2), round(line.bias.item(), 2)
    (3.0, 1.0)
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        *,
        n_steps: int,
        lr: float = 2e-3,
        final_lr: float = 1e-5,
        clip: float = 2.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.module, self.loss, self.n_steps, self.seed = module, loss, n_steps, seed
        self.lr, self.final_lr, self.clip = lr, final_lr, clip
        own = [p for p in module.parameters() if p.requires_grad]
        if not own or len({p.dtype for p in own}) != 1:
            raise ParameterError(
                "the module needs parameters, all of one dtype; it has "
                f"{sorted({str(p.dtype) for p in own}) or 'none'}. Call module.float()."
            )
        self._flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in own]))
        self._flat.grad = torch.zeros_like(self._flat)
        start = 0
        for p in own:
            stop = start + p.numel()
            p.data = self._flat.data[start:stop].view_as(p)
            p.grad = self._flat.grad[start:stop].view_as(p)
            start = stop
        # By hand: the optimisers of torch import its compiler at their first step, for seconds.
        self.weight_decay = weight_decay
        self._mean, self._square = torch.zeros(2, self._flat.numel(), dtype=self._flat.dtype)
        self._taken = 0

    def parameters(self) -> NDArray[np.floating]:
        """All parameters as one flat array, a copy."""
        return np.array(self._flat.detach().numpy())

    def n_shards(self, step: int) -> int:
        """One: the whole batch."""
        return 1

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of the loss of that step."""
        assert self._flat.grad is not None
        self._flat.grad.zero_()
        value = self.loss(step, shard_generator(self.seed, step, shard))
        value.backward()  # type: ignore[no-untyped-call,unused-ignore]
        return Gradient(float(value.detach()), self._flat.grad.numpy())

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        """One step of AdamW along the clipped gradient."""
        assert self._flat.grad is not None
        given = torch.from_numpy(np.asarray(gradient))
        if given.data_ptr() != self._flat.grad.data_ptr():
            self._flat.grad.copy_(given)
        length = float(torch.linalg.vector_norm(self._flat.grad))
        if length > self.clip:
            self._flat.grad.mul_(self.clip / length)
        self._step(self._flat.grad, self.rate(step))

    @torch.no_grad()
    def _step(self, g: Tensor, lr: float) -> None:
        """AdamW; source: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019)."""
        self._taken += 1
        self._mean.lerp_(g, 1 - _BETAS[0])
        self._square.mul_(_BETAS[1]).addcmul_(g, g, value=1 - _BETAS[1])
        scale = math.sqrt(1 - _BETAS[1] ** self._taken)
        spread = (self._square.sqrt() / scale).add_(_EPSILON)
        self._flat.mul_(1 - lr * self.weight_decay)
        self._flat.addcdiv_(self._mean, spread, value=-lr / (1 - _BETAS[0] ** self._taken))

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        share = min(step / max(self.n_steps - 1, 1), 1.0)
        return self.final_lr + (self.lr - self.final_lr) * 0.5 * (1 + math.cos(math.pi * share))

    def state(self) -> State:
        """Parameters and moments, as copies."""
        return {
            "theta": self.parameters(),
            "exp_avg": np.array(self._mean.numpy()),
            "exp_avg_sq": np.array(self._square.numpy()),
            "step": np.array([self._taken]),
        }

    def restore(self, state: State) -> None:
        """Take over what ``state`` returned; parameters alone begin with moments of zero."""
        with torch.no_grad():
            self._flat.copy_(torch.from_numpy(state["theta"]))
            for moment, name in ((self._mean, "exp_avg"), (self._square, "exp_avg_sq")):
                moment.copy_(torch.from_numpy(state[name])) if name in state else moment.zero_()
        self._taken = int(state["step"][0]) if "step" in state else 0


def module_arrays(module: nn.Module, prefix: str = "") -> dict[str, NDArray[np.generic]]:
    """Parameters and buffers of a module as named arrays, for an Artifact.

    Examples
    --------
    >>> sorted(module_arrays(torch.nn.Linear(2, 3), "encoder."))
    ['encoder.bias', 'encoder.weight']
    """
    return {prefix + name: np.array(t.numpy()) for name, t in module.state_dict().items()}


def fill_module(
    module: nn.Module, arrays: Mapping[str, NDArray[np.generic]], prefix: str = ""
) -> None:
    """Put back what ``module_arrays`` took out.

    Raises
    ------
    ArtifactError
        The arrays are those of another architecture.
    """
    own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    try:
        module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in own.items()})
    except RuntimeError as error:
        raise ArtifactError(
            "the weights do not fit the network that the parameters describe: "
            f"{str(error).splitlines()[-1].strip()} Fit and save the model again."
        ) from error


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Build a module with torch's default initialisation from a seed; no global seed is moved.

    Examples
    --------
    >>> one, two = (seeded(lambda: torch.nn.Linear(2, 2), 7) for _ in range(2))
    >>> bool((one.weight == two.weight).all())
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
