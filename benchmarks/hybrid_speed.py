"""Time of one training update, ours against torchdiffeq's rk4 on the same networks.

Both sides encode and decode all samples of the batch at once and have the same losses; only the
rollout differs. torchdiffeq's "rk4" is the 3/8 rule, ours the classical one; both have four stages.
"""

import time

import numpy as np
import torch
from _common import ratio_interval, shown, write_result
from torchdiffeq import odeint

from foretell.dynamics.hybrid import keeping, training
from foretell.dynamics.hybrid.latent_model import Shape
from foretell.dynamics.hybrid.learner import HybridLatentODE
from foretell.dynamics.hybrid.modules import HybridNetworks
from foretell.dynamics.hybrid.rollout import roll_out
from foretell.dynamics.hybrid.windows import WindowDrawer
from foretell.dynamics.module_task import seeded
from foretell.dynamics.sequences import Sequences

torch.set_num_threads(1)
ROUNDS = 12
BATCH, STEPS = 64, 25


def by_torchdiffeq(field, z0, dt, u, substeps):
    assert u is None
    assert (dt == dt[0, 0]).all()
    assert (substeps == 1).all()
    times = torch.arange(len(dt) + 1) * dt[0, 0]
    return odeint(lambda t, z: field(z), z0, times, method="rk4")


def main() -> None:
    rng = np.random.default_rng(0)
    data = Sequences(
        tuple(rng.normal(size=(100, 2)) for _ in range(20)),
        tuple(np.ones(99) for _ in range(20)), None,
    )  # fmt: skip
    flags = tuple(np.zeros(99, dtype=bool) for _ in range(20))
    networks = seeded(lambda: HybridNetworks(Shape(2, 5, 0, 64, 2, (1, 3))), 0)
    settings = keeping.settings_of(HybridLatentODE(random_state=0))
    loss = training.HybridLoss(networks, WindowDrawer(data, flags), settings)
    batch = loss.drawer.draw(STEPS, BATCH, rng)
    dt, one = torch.from_numpy(batch.dt), np.ones(STEPS, dtype=np.int64)
    z0 = torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    sides = {"ours": roll_out, "torchdiffeq rk4": by_torchdiffeq}

    def update(roll) -> None:
        training.roll_out = roll
        networks.zero_grad()
        loss.of_batch(batch).backward()

    def rollout(roll) -> None:
        roll(networks.field, z0, dt, None, one).pow(2).mean().backward()

    times = {(what.__name__, side): [] for what in (update, rollout) for side in sides}
    for round_ in range(ROUNDS + 1):
        for what in (update, rollout):
            for side, roll in sides.items():
                start = time.process_time()
                what(roll)
                if round_:
                    times[what.__name__, side].append(time.process_time() - start)
    with torch.no_grad():
        apart = (roll_out(networks.field, z0, dt, None, one)
                 - by_torchdiffeq(networks.field, z0, dt, None, one)).abs().max()  # fmt: skip
    rows = []
    for what in ("update", "rollout"):
        mine, theirs = (np.array(times[what, side]) for side in sides)
        rows.append([
            {"update": "whole update", "rollout": "rollout with its gradient"}[what],
            round(1e3 * float(np.quantile(mine, 0.25)), 2),
            round(1e3 * float(np.quantile(theirs, 0.25)), 2),
            shown(ratio_interval(mine, theirs)),
        ])  # fmt: skip
    write_result(
        "hybrid_speed",
        {"batch": BATCH, "steps": STEPS, "hidden": 64, "layers": 2, "latent": 5},
        {
            "hybrid-speed": {
                "columns": ["what", "ours, CPU-ms", "torchdiffeq rk4, CPU-ms", "ours / theirs"],
                "rows": rows,
                "note": f"Lower quartile of {ROUNDS} alternating rounds, one thread; ratio with "
                f"95 % interval. The rollouts differ by {float(apart):.1e} at most.",
            }
        },
    )
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
