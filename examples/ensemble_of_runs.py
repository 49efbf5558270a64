"""What may come next: an ensemble of runs of a noisy system, and whether its width is right.

A double well is kicked at random: from one state it may stay or cross over. A model without chance
gives one future; a sampler gives many, and held-out recordings tell whether they are too alike.
"""

from importlib.util import find_spec

import numpy as np

from foretell.dynamics.lifting import AnalogueTransition
from foretell.dynamics.longrun import rank_histogram, spread_skill


def recordings(n: int, seed: int) -> np.ndarray:
    """Paths (n, 41, 1) of dx = (x - x^3) dt + 0.6 dW, seen every 0.1."""
    rng = np.random.default_rng(seed)
    x, path = rng.normal(size=(n, 1)), []
    for _ in range(41):
        path.append(x)
        for _ in range(10):
            x = x + 0.01 * (x - x**3) + 0.06 * rng.normal(size=x.shape)
    return np.stack(path, axis=1)


train, test = recordings(24, 0), recordings(40, 1)
model = AnalogueTransition(k=15)
if find_spec("torch") is not None:  # pip install "foretell[learn]"
    from foretell.dynamics.lifting import StochasticLifting

    model = StochasticLifting(label_dim=32, width=64, max_steps=400, lr=3e-3, random_state=0)
model.fit(train)
print(model)

runs = model.rollout([-1.0], n_steps=40, n_members=1000, random_state=0)[0, :, :, 0]
for k in (10, 20, 40):
    low, high = np.quantile(runs[:, k], [0.1, 0.9])
    print(f"after {k / 10:.0f}: 80 % of the runs between {low:.2f} and {high:.2f}, "
          f"{100 * (runs[:, k] > 0).mean():.0f} % have crossed over")  # fmt: skip

ahead = model.rollout(test[:, 0], n_steps=10, n_members=50, random_state=0)[:, :, 10]
print(spread_skill(ahead, test[:, 10]), rank_histogram(ahead, test[:, 10], n_bins=5))
