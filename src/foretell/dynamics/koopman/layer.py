"""A quadratic program with elastic bounds as a layer of a network.

Forward, the program is solved to machine precision by `foretell.solve.qp_elastic`; backward, its
exact adjoint costs one more solve with the same matrix. See there for the program.

Sources: Amos and Kolter, "OptNet", ICML 2017 (programs as layers). The elimination of the slacks
and the active set in place of an interior point are ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from foretell.core.errors import MissingExtraError, ParameterError
from foretell.solve.qp_elastic import ElasticSolution, solve_elastic

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "use a quadratic program as a layer") from error

BACKENDS = ("active_set", "qpth")


class ElasticQPLayer(nn.Module):
    """w = argmin 1/2 w'Pw - q'w + mu/(2m) sum relu(|Mw + c| - delta)^2, with P = kron(I, G).

    Parameters
    ----------
    backend : {"active_set", "qpth"}
        ``"qpth"`` solves the program with slacks by the interior point of that package, which has
        to be installed; it serves for cross-checks.

    Shapes
    ------
    G (g, g), q (n,) with g a divisor of n, M (m, n), c (m,), delta (m,); returns (n,). A leading
    axis is a batch of programs, each solved on its own.

    Examples
    --------
    >>> layer = ElasticQPLayer()
    >>> q = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> w = layer(one[None], q, one[None], 0 * one, one, mu=1.0)
    >>> round(w.item(), 9), round(torch.autograd.grad(w.sum(), q)[0].item(), 9)
    (2.0, 0.5)
    """

    def __init__(self, backend: str = "active_set") -> None:
        super().__init__()
        if backend not in BACKENDS:
            raise ParameterError(f"backend={backend!r} is not known; use one of {BACKENDS}.")
        self.backend = backend
        self.last: ElasticSolution | None = None

    def forward(
        self, G: Tensor, q: Tensor, M: Tensor, c: Tensor, delta: Tensor, mu: float = 1.0
    ) -> Tensor:
        """Solve one program, or a batch of them."""
        if q.ndim == 2:
            return torch.stack(
                [self(*parts, mu=mu) for parts in zip(G, q, M, c, delta, strict=True)]
            )
        if self.backend == "qpth":
            return _interior_point(G, q, M, c, delta, mu)
        w: Tensor = _Solve.apply(self, mu, G, q, M, c, delta)  # type: ignore[no-untyped-call]
        return w


class _Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: ElasticQPLayer, mu: float, *given: Tensor) -> Tensor:
        G, q, M, c, delta = (t.detach().numpy().astype(np.float64) for t in given)
        ctx.solution = layer.last = solve_elastic(0.5 * (G + G.T), q, M, c, delta, mu=mu)
        ctx.dtype = given[1].dtype
        return torch.from_numpy(ctx.solution.w).to(ctx.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (dw,) = gradients
        found = ctx.solution.gradient(dw.numpy().astype(np.float64))
        parts = (found.G, found.q, found.M, found.c, found.delta)
        return (None, None, *(torch.from_numpy(p).to(ctx.dtype) for p in parts))


def _interior_point(G: Tensor, q: Tensor, M: Tensor, c: Tensor, delta: Tensor, mu: float) -> Tensor:
    """The same program with slacks as variables, by qpth in double precision."""
    try:
        from qpth.qp import QPFunction  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ParameterError(
            'backend="qpth" needs the package qpth: pip install qpth. The default backend needs '
            "nothing and gives the same solution."
        ) from error
    n, m = q.numel(), c.numel()
    eye, zero = torch.eye(m, dtype=q.dtype), torch.zeros(m, n, dtype=q.dtype)
    P = torch.kron(torch.eye(n // len(G), dtype=q.dtype), G)
    top = torch.cat([P, zero.T], dim=1)
    P = torch.cat([top, torch.cat([zero, mu / m * eye], dim=1)])
    rows = torch.cat(
        [torch.cat([M, -eye], 1), torch.cat([-M, -eye], 1), torch.cat([zero, -eye], 1)]
    )
    right = torch.cat([delta - c, delta + c, torch.zeros_like(c)])
    none = torch.zeros(0, dtype=q.dtype)
    solve = QPFunction(verbose=-1, eps=1e-13, maxIter=40)
    found: Tensor = solve(P, torch.cat([-q, torch.zeros_like(c)]), rows, right, none, none)
    return found.reshape(-1)[:n]
