"""Save a model, open it elsewhere, and use it in six lines.

The recording is a van der Pol oscillator (period 6.663) at irregular times.
"""

import numpy as np
from scipy.integrate import solve_ivp

from foretell import CPLRNN, load

t = np.cumsum(np.random.default_rng(0).uniform(0.05, 0.15, 1500))
x = solve_ivp(
    lambda _, s: [s[1], (1 - s[0] ** 2) * s[1] - s[0]], (0, t[-1]), [2, 0], t_eval=t, rtol=1e-8
).y.T
model = CPLRNN(
    latent_dim=8, n_relu=6, sequence_length=60, lr=1e-2, max_updates=1500, random_state=0
)
model.fit(x, t).save("oscillator")  # a folder: model.json and weights.safetensors

# Six lines, as anywhere else.
model = load("oscillator")
run = model.simulate([2.0, 0.0], np.linspace(0.0, 60.0, 601))
print(run)
print(model.equilibria())
for cycle in model.limit_cycles():
    print(cycle)
