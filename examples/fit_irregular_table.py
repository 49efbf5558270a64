"""Fit a table with irregular time stamps and an input, and check it on the part kept aside.

The table is a tank that is filled at a known rate and overflows above 3 m: a hard threshold.
"""

import csv

import numpy as np

from foretell import CPLRNN, Trajectories

rng = np.random.default_rng(0)
level, rows, t = 1.0, [], 0.0
for k in range(1500):
    inflow = [0.2, 1.6, 0.8, 2.4][(k // 40) % 4] + 0.3 * np.sin(0.05 * k)
    rows.append([round(t, 3), round(level + 0.01 * rng.standard_normal(), 4), round(inflow, 4)])
    wait = rng.uniform(0.2, 1.8)
    for _ in range(20):  # the outflow grows with the level; what is above 3 m runs over fast
        level += wait / 20 * (0.5 * inflow - 0.3 * level - 2.0 * max(level - 3.0, 0.0))
    t += wait
with open("tank.csv", "w", newline="") as file:
    csv.writer(file).writerows([["t [min]", "level [m]", "inflow [m3/min]"], *rows])

tank = Trajectories.read("tank.csv", time="t", controls=["inflow"])
train, test = tank.split(0.7)
print(tank)

model = CPLRNN(
    latent_dim=6, n_relu=3, sequence_length=60, max_updates=1500, lr=1e-2, random_state=0
)
model.fit(train)

# A free run sees the first level and the inputs, and nothing of the level after that.
run = model.simulate(test.values[0][0], test.times[0], controls=test.controls[0])
error = run.values[0] - test.values[0]
print(f"held-out error {np.sqrt(np.mean(error**2)):.3f} m of {test.values[0].std():.3f} m")
for inflow in (0.5, 1.5, 2.5):
    (rest,) = model.equilibria(control=[inflow])
    true = min(0.5 * inflow / 0.3, (0.5 * inflow + 6.0) / 2.3)
    kind = "stable" if rest.stable else "unstable"
    print(f"inflow {inflow} m3/min: {kind} at {rest.state[0]:.2f} m; truly {true:.2f} m")
