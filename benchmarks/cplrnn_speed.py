"""Cost of one update (loss and gradient) on the same field, the same batch, in one process.

16 windows of 200 Lorenz samples, M=20, P=10, sparse forcing every 16 samples. Ours: the dyadic
flow (float64). Peers: the same field through torchdiffeq's rk4 and dopri5 (eager torch, float32,
their usual precision), and, at equal level of implementation, our fused RK4 and AL-RNN kernels.
The parameters come from 2,000 updates of training, so that the regions are the usual ones.
Sides alternate; process CPU time, one thread.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _common import ratio_interval, shown, write_result
from torchdiffeq import odeint

from foretell.data import systems
from foretell.dynamics import CPLRNN
from foretell.dynamics._reference_kernels import ALRNNKernel, RK4Kernel
from foretell.dynamics.sequences import WindowSampler

ROUNDS, TAU, M, P, N = 25, 16, 20, 10, 3


def data() -> tuple[CPLRNN, Any]:
    values = systems.lorenz63(20_000, step=0.01, random_state=1).values[0]
    model = CPLRNN(
        latent_dim=M, n_relu=P, forcing_interval=TAU, max_updates=2000, random_state=0
    ).fit(values)
    scaled = model._known_sequences(_trajectories(values))
    batch = WindowSampler(scaled, 200, 16, 0.05).draw(np.random.default_rng(0))
    return model, batch


def _trajectories(values: np.ndarray) -> Any:
    from foretell.data import Trajectories

    return Trajectories.from_arrays(values)


def ours(model: CPLRNN, batch: Any) -> Callable[[], Any]:
    return _kernel(model._kernel(model.layout_), model, batch)


def _kernel(kernel: Any, model: CPLRNN, batch: Any) -> Callable[[], Any]:
    x, u, dt = batch

    def update() -> Any:
        return kernel.loss_and_gradient(
            model.A_, model.W_, model.h_, model.C_, model.L_, x, u, dt,
            forcing_interval=TAU, alpha=1.0,
        )  # fmt: skip

    return update


def peer(model: CPLRNN, batch: Any, method: str) -> Callable[[], float]:
    """The update in eager torch: odeint between forcings, autograd through the solver."""
    x = torch.tensor(batch[0], dtype=torch.float32)
    names = ("A_", "W_", "h_", "L_")
    A, W, h, L = (
        torch.tensor(getattr(model, n), dtype=torch.float32, requires_grad=True) for n in names
    )
    options = {} if method == "rk4" else {"rtol": 1e-5, "atol": 1e-5}

    def field(_t: Any, z: Any) -> Any:
        phi = torch.cat([z[:, : M - P], torch.relu(z[:, M - P :])], dim=1)
        return z * A + phi @ W.T + h

    def update() -> float:
        for parameter in (A, W, h, L):
            parameter.grad = None
        z = torch.cat([x[:, 0], x[:, 0] @ L.T], dim=1)
        total = torch.zeros(())
        steps = x.shape[1] - 1
        for begin in range(0, steps, TAU):
            n = min(TAU, steps - begin)
            path = odeint(field, z, torch.arange(n + 1.0), method=method, **options)
            seen = x[:, begin + 1 : begin + n + 1].transpose(0, 1)
            total = total + ((path[1:, :, :N] - seen) ** 2).sum()
            z = torch.cat([x[:, begin + n], path[-1][:, N:]], dim=1)
        loss = total / (x.shape[0] * steps * N)
        loss.backward()
        return float(loss.detach())

    return update


def main() -> None:
    torch.set_num_threads(1)
    model, batch = data()
    sides = {
        "CPLRNN, exact flow (ours)": ours(model, batch),
        "torchdiffeq rk4": peer(model, batch, "rk4"),
        "torchdiffeq dopri5": peer(model, batch, "dopri5"),
        "fused RK4 (our kernel)": _kernel(RK4Kernel(P, 1), model, batch),
        "fused AL-RNN (our kernel, another model)": _kernel(ALRNNKernel(P), model, batch),
    }
    losses = {name: _loss(update()) for name, update in sides.items()}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, update in sides.items():
            repeats = 1 if "torchdiffeq" in name else 10
            start = time.process_time()
            for _ in range(repeats):
                update()
            spent[name].append((time.process_time() - start) / repeats * 1e3)
    first = "CPLRNN, exact flow (ours)"
    rows = [
        [
            name, float(np.quantile(ms, 0.25)), losses[name],
            "1" if name == first else shown(ratio_interval(ms, spent[first])),
        ]
        for name, ms in spent.items()
    ]  # fmt: skip
    result = ours(model, batch)()
    write_result(
        "cplrnn_speed",
        {"rounds": ROUNDS, "batch": 16, "samples": 200, "M": M, "P": P, "torch": torch.__version__},
        {
            "cplrnn-speed": {
                "columns": ["update of 16 x 200 samples", "CPU-ms", "loss", "time / ours"],
                "rows": rows,
                "note": "Forward and backward; lower quartile of 25 alternating rounds; ratio "
                f"with 95 % interval. {result.n_regions} regions, "
                f"{result.n_maps / 3200:.2f} maps a step.",
            }
        },
        milliseconds=spent,
    )
    print(*rows, sep="\n")


def _loss(result: Any) -> float:
    return result if isinstance(result, float) else float(result.loss)


if __name__ == "__main__":
    main()
