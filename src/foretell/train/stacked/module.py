"""A PyTorch module and its optimiser as they are, in a training that outlives its workers.

All gradients are views of one flat tensor, so a unit is added up in one pass, and the optimiser
works on its own parameters as ever. Before each unit torch is seeded from (seed, step, unit):
batches drawn by ``torch.randint`` and dropout are then the same on whichever worker computes it.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from foretell.core import ArtifactError, MissingExtraError, ParameterError
from foretell.train.stacked.exact import UnitSum
from foretell.train.stacked.worker import Worker, current_worker
from foretell.train.task import Gradient, State, shard_generator

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a module of yours") from error


@dataclass(frozen=True)
class Unit:
    """A part of the batch of a step: what a loss is asked for.

    Parameters
    ----------
    step, index, count : int
        The step, which unit of it this is, and of how many.
    seed : int
        Of the training.
    """

    step: int
    index: int
    count: int
    seed: int = 0

    def generator(self) -> np.random.Generator:
        """NumPy's, made from (seed, step, unit)."""
        return shard_generator(self.seed, self.step, self.index)

    def rows(self, n_rows: int, batch: int) -> NDArray[np.int64]:
        """The rows of this unit, of a data set that is gone through in a new order every epoch.

        Parameters
        ----------
        n_rows : int
            Of the data set.
        batch : int
            Rows of a unit.

        Returns
        -------
        int array (batch,)
            No row comes a second time in an epoch. The few that do not fill a step are left out.

        Examples
        --------
        >>> sorted(int(i) for u in range(2) for i in Unit(0, u, 2).rows(6, 3))
        [0, 1, 2, 3, 4, 5]
        """
        steps = n_rows // (batch * self.count)
        if steps < 1:
            raise ParameterError(
                f"{n_rows} rows are fewer than the {batch * self.count} of a step: {self.count} "
                f"units of {batch}. Use a smaller batch, for instance {n_rows // self.count}."
            )
        epoch, place = divmod(self.step, steps)
        order = shard_generator(self.seed, epoch, 2**31 - 1).permutation(n_rows)
        start = (place * self.count + self.index) * batch
        return order[start : start + batch]


UnitLoss = Callable[[Unit], Tensor]


class MaskedDataParallel:
    """Trains a module together with other workers; failures are masked inside the step.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters, on one device and of one floating-point type. Its loss must be a pure
        function of parameters and unit: no batch normalisation, no buffers that change, no kernels
        whose sums depend on chance. Gradients are rounded and added up on the CPU; with
        ``backend = "torchft"`` on the GPU, and between GPUs by NCCL.
    optimizer : torch.optim.Optimizer
        Of the parameters of the model.
    schedules : sequence
        Learning-rate schedules, ``Every``, or whatever else has ``step``, ``state_dict`` and
        ``load_state_dict``. They are stepped here, after the optimiser: a worker that takes the
        state of another one over would step them twice if its loop did.
    clip : float, optional
        Longest mean gradient; a longer one is scaled down, on the reduced gradient.
    units : int, optional
        Into how many units the batch of a step is cut; default as the job says, workers times
        ``micro``. The result depends on it, and not on the number of workers.
    worker : Worker, optional
        By default what ``foretell train`` made of this process, or one that is alone.

    Source: SPARe, arXiv 2603.00357; exact sums and units are ours.

    Examples
    --------
    >>> import torch
    >>> torch.manual_seed(0) and None
    >>> line = torch.nn.Linear(1, 1)
    >>> train = MaskedDataParallel(line, torch.optim.SGD(line.parameters(), lr=0.1), units=4)
    >>> def loss(unit):
    ...     x = torch.randn(16, 1)
    ...     return ((line(x) - 3 * x - 1) ** 2).mean()
    >>> for step in train.steps(200):
    ...     value = train.step(loss)
    >>> round(line.weight.item(), 2), round(line.bias.item(), 2)
    (3.0, 1.0)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        schedules: Sequence[Any] = (),
        clip: float | None = None,
        units: int | None = None,
        worker: Worker | None = None,
    ) -> None:
        self._worker = worker or current_worker()
        spec = self._worker.spec
        self._task = _ModuleTask(
            model, optimizer, tuple(schedules), clip, spec.seed, by_nccl=spec.backend == "torchft"
        )
        self._task.count = units or spec.units or spec.n_workers * spec.micro
        if not isinstance(self._task.count, int) or self._task.count < 1:
            raise ParameterError(f"units={units!r}; needed is a whole number of at least 1.")
        if spec.exact:
            _refuse_batch_norm(model)
        self._loop = self._worker.begin(self._task)
        self._n_steps = 0

    def steps(self, n_steps: int | None = None) -> Iterator[int]:
        """The numbers of the steps that are to be taken, from the checkpoint on if there is one.

        Parameters
        ----------
        n_steps : int, optional
            Default: those of the job.
        """
        self._n_steps = self._worker.spec.steps if n_steps is None else n_steps
        if self._n_steps < 1:
            raise ParameterError("steps() needs a number of steps, or a job that has one.")
        yield from self._worker.steps(self._n_steps)

    def step(self, loss: UnitLoss) -> float:
        """One step of the optimiser along the mean gradient of all units.

        Parameters
        ----------
        loss : callable
            ``loss(unit)`` gives the mean loss of a unit, a scalar tensor.

        Returns
        -------
        float
            The loss, smoothed over about fifty steps; the same on every worker.

        Raises
        ------
        WipeoutError, MinorityError, NumericalError
            As ``StackedLoop.run``; ``foretell train`` turns them into its exit code.
        """
        self._task.loss = loss
        self._loop.advance(self._n_steps)
        return self._loop.loss

    @property
    def leader(self) -> bool:
        """Whether this worker is the one that should print and write files."""
        return self._worker.leader

    def state_digest(self) -> str:
        """SHA-256 of parameters, buffers, optimiser and step."""
        return self._loop.state_digest()

    def state_dict(self) -> State:
        """Parameters, buffers and optimiser as NumPy arrays."""
        return self._task.state()

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned."""
        self._task.restore(state)


class _ModuleTask:
    """The module as a ``TrainTask``."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedules: tuple[Any, ...],
        clip: float | None,
        seed: int,
        by_nccl: bool = False,
    ) -> None:
        self.model, self.optimizer, self.seed = model, optimizer, seed
        self.schedules, self._left_at = schedules, self._schedule_states(schedules)
        self.clip, self.count = clip, 1
        self.loss: UnitLoss | None = None
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.own = [p for _, p in named]
        self.names = [n for n, _ in named]
        _check_parameters(self.own, optimizer)
        self.starts = np.cumsum([0, *(p.numel() for p in self.own)]).tolist()
        size, kind, self.device = self.starts[-1], self.own[0].dtype, self.own[0].device
        self.flat = torch.zeros(size, dtype=kind, device=self.device)
        stays = _on_host(self.device) or by_nccl
        self.host = self.flat if stays else torch.zeros(size, dtype=kind)
        self.on_device = by_nccl and not _on_host(self.device)  # whether sums are made there
        # Where the loop may put the mean gradient.
        self.gradient_room: Any = self.host if self.on_device else self.host.numpy()
        self._attach()

    def unit_sum(self, n_parameters: int, **settings: Any) -> UnitSum:
        """What adds the gradients up."""
        if self.on_device:
            from foretell.train.stacked.on_device import DeviceSum

            return DeviceSum(n_parameters, self.device, **settings)
        return UnitSum(n_parameters, **settings)

    @staticmethod
    def _schedule_states(schedules: tuple[Any, ...]) -> list[str]:
        return [json.dumps(s.state_dict(), sort_keys=True, default=_plain) for s in schedules]

    def _attach(self) -> None:
        for p, start in zip(self.own, self.starts, strict=False):
            p.grad = self.flat[start : start + p.numel()].view_as(p)

    def parameters(self) -> NDArray[np.floating]:
        """All parameters, flat."""
        with torch.no_grad():
            return cast(
                "NDArray[np.floating]", torch.cat([p.reshape(-1) for p in self.own]).cpu().numpy()
            )

    def n_shards(self, step: int) -> int:
        """Units of a step."""
        return self.count

    def name_of(self, index: int) -> str:
        """The parameter in which an entry of the flat gradient lies."""
        return self.names[bisect_right(self.starts, index) - 1]

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of a unit."""
        assert self.loss is not None
        if self._schedule_states(self.schedules) != self._left_at:
            raise ParameterError(
                "a schedule was stepped outside, or what it remembers was changed there. Leave "
                "schedule.step() out of the loop: step() does it, so that a worker that heals "
                "does not do it twice."
            )
        self.flat.zero_()
        torch.manual_seed(_mixed(self.seed, step, shard))
        value = self.loss(Unit(step, shard, self.count, self.seed))
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise ParameterError(
                f"the loss of a unit is {_described(value)}; needed is one scalar tensor that "
                "depends on the parameters. Return it before backward()."
            )
        value.backward()  # type: ignore[no-untyped-call]
        if self.own[0].grad is None or self.own[0].grad.data_ptr() != self.flat.data_ptr():
            raise ParameterError(
                "the gradients of the module were replaced while the loss was computed. Leave "
                "zero_grad(), backward() and optimizer.step() out: step() does them."
            )
        if self.host is not self.flat:
            self.host.copy_(self.flat)
        return Gradient(float(value.detach()), self.gradient_room)

    def apply(self, step: int, gradient: NDArray[np.floating]) -> None:
        """One step of the optimiser."""
        if gradient is not self.gradient_room:
            self.host.copy_(torch.as_tensor(gradient))
        if self.host is not self.flat:
            self.flat.copy_(self.host)
        if self.clip is not None:
            length = float(torch.linalg.vector_norm(self.flat.double()))
            if length > self.clip:
                self.flat.mul_(self.clip / length)
        self._attach()
        self.optimizer.step()
        for schedule in self.schedules:
            schedule.step()
        self._left_at = self._schedule_states(self.schedules)

    def state(self) -> State:
        """Parameters, buffers, optimiser and what else is kept."""
        arrays = {f"model.{k}": _array(v) for k, v in self.model.state_dict().items()}
        inner = self.optimizer.state_dict()
        plain: dict[str, Any] = {"groups": inner["param_groups"], "state": {}}
        for index, values in inner["state"].items():
            for key, value in values.items():
                if isinstance(value, Tensor):
                    arrays[f"optimizer.{index}.{key}"] = _array(value)
                else:
                    plain["state"].setdefault(str(index), {})[key] = value
        plain["schedules"] = [json.loads(text) for text in self._schedule_states(self.schedules)]
        text = json.dumps(plain, sort_keys=True, default=_plain).encode()
        arrays["optimizer.json"] = np.frombuffer(text, dtype=np.uint8)
        return arrays

    def restore(self, state: State) -> None:
        """Take over what ``state`` returned."""
        own = self.model.state_dict()
        given = {k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")}
        if set(own) != set(given):
            odd = sorted(set(own) ^ set(given))[0]
            raise ArtifactError(
                f"the state is that of another module: {odd!r} is in one of them only. Build the "
                "module with the same arguments."
            )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(_tensor(given[name], tensor.dtype))
        plain = json.loads(np.asarray(state["optimizer.json"]).tobytes())
        inner: dict[int, dict[str, Any]] = {int(k): dict(v) for k, v in plain["state"].items()}
        for name, array in state.items():
            if name.startswith("optimizer.") and name != "optimizer.json":
                _, index, key = name.split(".", 2)
                inner.setdefault(int(index), {})[key] = torch.from_numpy(np.array(array))
        self.optimizer.load_state_dict({"state": inner, "param_groups": plain["groups"]})
        for schedule, saved in zip(self.schedules, plain["schedules"], strict=True):
            schedule.load_state_dict(saved)
        self._left_at = self._schedule_states(self.schedules)
        self._attach()


def _check_parameters(own: list[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    if not own:
        raise ParameterError("the module has no parameters that require a gradient.")
    kinds = sorted({str(p.dtype) for p in own})
    if len(kinds) > 1 or own[0].dtype not in (torch.float32, torch.float64):
        raise ParameterError(
            f"the parameters are of {', '.join(kinds)}; needed is float32 or float64, one for all. "
            "Call model.float()."
        )
    devices = sorted({str(p.device) for p in own})
    if len(devices) > 1:
        raise ParameterError(
            f"the parameters are on {', '.join(devices)}; needed is one device for all. Call "
            f"model.to({devices[0]!r})."
        )
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not known <= {id(p) for p in own}:
        raise ParameterError(
            "the optimiser has parameters that are not the module's. Make it from "
            "model.parameters()."
        )


def _on_host(device: torch.device) -> bool:
    """Whether gradients are where they are added up."""
    return device.type == "cpu"


def _refuse_batch_norm(model: nn.Module) -> None:
    for name, part in model.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:
            raise ParameterError(
                f"{name or 'the module'} is a {type(part).__name__}: what it keeps depends on who "
                "computed what before, so no update can be exact. Use GroupNorm or LayerNorm, or "
                "call eval() on it."
            )


def _mixed(seed: int, step: int, unit: int) -> int:
    """63 bits from three numbers."""
    text = f"{seed} {step} {unit}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, requires_grad={value.requires_grad}"
    return repr(value)[:60]


def _array(tensor: Tensor) -> NDArray[np.generic]:
    found = tensor.detach().cpu()
    if found.dtype == torch.bfloat16:
        found = found.view(torch.int16)
    return np.array(found.numpy())


def _tensor(array: NDArray[np.generic], dtype: torch.dtype) -> Tensor:
    found = torch.from_numpy(np.array(array))
    return found.view(torch.bfloat16) if dtype == torch.bfloat16 else found


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    raise ArtifactError(
        f"the state of the optimiser or schedule holds a {type(value).__name__}, which cannot be "
        "kept; needed are tensors, numbers and text."
    )
