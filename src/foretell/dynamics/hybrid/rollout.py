"""Roll a latent state out along its field, as one differentiable operation of torch.

``roll_out`` for the network field calls the compiled kernels; ``roll_out_eagerly`` is the same
scheme for any field, written in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import MissingExtraError
from foretell.dynamics.hybrid import _kernels_rollout

if TYPE_CHECKING:
    from foretell.dynamics.hybrid.modules import NetworkField

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a HybridLatentODE") from error

Whole = NDArray[np.int64]

_forward: Any = _kernels_rollout.forward
_backward: Any = _kernels_rollout.backward
_MOST_SHAPES = 8  # of working arrays that are kept


class _RollOut(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(
        ctx: Any, z0: Tensor, dt: Tensor, drive: Tensor, W_in: Tensor, W_mid: Tensor,
        b_mid: Tensor, W_out: Tensor, b_out: Tensor, substeps: Whole,
    ) -> Tensor:  # fmt: skip
        """States (T+1,B,m) from z0 (B,m), intervals dt (T,B) and the drive (T or 1, B or 1, h)."""
        z, d, u, *weights = (
            np.ascontiguousarray(v.detach().numpy())
            for v in (z0, dt, drive, W_in, W_mid, b_mid, W_out, b_out)
        )
        (T, B), m, h, L = d.shape, z.shape[1], u.shape[2], weights[1].shape[0] + 1
        S = int(substeps.sum())
        states = np.empty((T + 1, B, m), np.float32)
        stages = np.empty((S, 4, B, m), np.float32)
        work = _take_work((3, L, S, 4, B, h))
        gates, hidden, _ = work
        _forward(z, d, u, *weights, substeps, states, stages, gates, hidden)
        ctx.kept = d, u.shape, weights, substeps, stages, work
        return torch.from_numpy(states)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Adjoints of everything that ``forward`` was given."""
        d, drive_shape, weights, substeps, stages, work = ctx.kept
        gates, hidden, deltas = work
        W_in, W_mid, _, W_out, _ = weights
        T = len(d)
        slopes = np.empty_like(stages)
        lam = _backward(
            np.ascontiguousarray(grad.numpy()), d, *(_transposed(W) for W in (W_in, W_mid, W_out)),
            substeps, gates, hidden, slopes, deltas,
        )  # fmt: skip
        y, k, a, x = (torch.from_numpy(v) for v in (stages, slopes, deltas, hidden))
        L = len(a)

        def product(left: Tensor, right: Tensor) -> Tensor:
            return left.reshape(-1, left.shape[-1]).t() @ right.reshape(-1, right.shape[-1])

        mid = [product(x[n - 1], a[n]) for n in range(1, L)]
        b_mid = [a[n].sum(dim=(0, 1, 2)) for n in range(1, L)]
        first = a[0].sum(dim=1)
        if len(first) != T:
            of_step = torch.from_numpy(np.repeat(np.arange(T), substeps))
            first = first.new_zeros(T, *first.shape[1:]).index_add(0, of_step, first)
        for axis in (0, 1):
            if drive_shape[axis] == 1:
                first = first.sum(dim=axis, keepdim=True)
        h = W_in.shape[1]
        gradients = (
            torch.from_numpy(lam), None, first, product(y, a[0]),
            torch.stack(mid) if mid else torch.empty(0, h, h),
            torch.stack(b_mid) if b_mid else torch.empty(0, h),
            product(x[L - 1], k), k.sum(dim=(0, 1, 2)), None,
        )  # fmt: skip
        _give_work(work)
        return gradients


def roll_out(
    field: NetworkField, z0: Tensor, dt: Tensor, u: Tensor | None, substeps: Whole
) -> Tensor:
    """States (T+1,B,m) of the network field from z0 (B,m) over intervals dt (T,B).

    ``u`` (T,B,K) holds the input of each interval, ``substeps`` (T,) its number of steps.
    """
    apply: Any = _RollOut.apply
    layers: Any = field.layers
    W_in, b_in = layers[0].weight, layers[0].bias
    m = z0.shape[1]
    if u is None:
        drive = b_in[None, None]
    else:
        drive = torch.nn.functional.linear(u, W_in[:, m:], b_in)
    inner = layers[1:-1]
    h = W_in.shape[0]
    W_mid = torch.stack([v.weight.t() for v in inner]) if len(inner) else z0.new_empty(0, h, h)
    b_mid = torch.stack([v.bias for v in inner]) if len(inner) else z0.new_empty(0, h)
    last = layers[-1]
    states: Tensor = apply(
        z0, dt, drive, W_in[:, :m].t(), W_mid, b_mid, last.weight.t(), last.bias, substeps
    )
    return states


def roll_out_eagerly(
    field: Callable[[Tensor, Tensor | None], Tensor],
    z0: Tensor,
    dt: Tensor,
    u: Tensor | None,
    substeps: Whole,
) -> Tensor:
    """The same for any field, operation by operation."""
    z, states = z0, [z0]
    for t in range(dt.shape[0]):
        d, held = dt[t, :, None] / int(substeps[t]), None if u is None else u[t]
        for _ in range(substeps[t]):
            k1 = field(z, held)
            k2 = field(z + 0.5 * d * k1, held)
            k3 = field(z + 0.5 * d * k2, held)
            k4 = field(z + d * k3, held)
            z = z + d / 6 * (k1 + 2 * (k2 + k3) + k4)
        states.append(z)
    return torch.stack(states)


_work: dict[tuple[int, ...], list[NDArray[np.float32]]] = {}


def _take_work(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A large array to fill; fresh memory costs more than what is written to it."""
    free = _work.get(shape)
    return free.pop() if free else np.empty(shape, np.float32)


def _give_work(array: NDArray[np.float32]) -> None:
    if len(_work) > _MOST_SHAPES:
        _work.clear()
    free = _work.setdefault(array.shape, [])
    if not free:
        free.append(array)


def _transposed(weights: Any) -> Any:
    return np.ascontiguousarray(np.swapaxes(weights, -1, -2))
