"""A cheap forecast where it is sure enough, the slow simulator where it is not, one guarantee.

The cheap models are three small recurrent networks, fitted to a noisy recording in seconds; the
slow one integrates the equations of the system, which cost far more. Each says how unsure it is
without knowing the truth: the networks by how far they are apart, the simulator by how much its
answer changes with the noise of the start. A forecast is wrong if it is off by more than half a
standard deviation at any time. At most one accepted forecast in twenty may be wrong, whoever made
it.
"""

import numpy as np

from foretell import ALRNN
from foretell.data.systems import lorenz63
from foretell.trust.selective import CascadeRouter, SelectiveThreshold

STEP, AHEAD, NOISE, TOLERANCE = 0.02, 20, 0.02, 0.5
COSTS = [1, 20]  # of one forecast, in the units of the cheap one
rng = np.random.default_rng(0)


def simulator(starts, n, fine=8):
    """The equations themselves, by Runge-Kutta steps: (B, n + 1, 3)."""

    def field(s):
        x, y, z = s.T
        return np.column_stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    states, h = [starts], STEP / fine
    for _ in range(n):
        s = states[-1]
        for _ in range(fine):
            k1 = field(s)
            k2 = field(s + h / 2 * k1)
            k3 = field(s + h / 2 * k2)
            s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(s + h * k3))
        states.append(s)
    return np.stack(states, axis=1)


# A recording to learn from, and another one, of cases to judge by.
train = lorenz63(4000, step=STEP, random_state=1).values[0]
sd = train.std(axis=0)
networks = [
    ALRNN(latent_dim=20, n_relu=10, sequence_length=20, max_updates=3000, lr=1e-2, random_state=k)
    for k in range(3)
]
for network in networks:
    network.fit(train + NOISE * sd * rng.normal(size=train.shape), STEP * np.arange(len(train)))

truth = lorenz63(150_000, step=STEP, random_state=2).values[0]
starts = np.arange(0, len(truth) - AHEAD - 1, 40)
ahead = np.stack([truth[s : s + AHEAD + 1] for s in starts])
seen = ahead[:, 0] + NOISE * sd * rng.normal(size=(len(starts), 3))
times = STEP * np.arange(AHEAD + 1)

guesses = np.stack([np.nan_to_num(network.predict(seen, times)) for network in networks])
slow = simulator(seen, AHEAD)
nudged = simulator(seen + NOISE * sd * rng.normal(size=seen.shape), AHEAD)


def furthest(a, b):
    """Largest distance on the way, in standard deviations."""
    return (np.abs(a - b) / sd).max(axis=(1, 2))


spread = np.max([furthest(guess, guesses.mean(axis=0)) for guess in guesses], axis=0)
scores = np.column_stack([spread, furthest(slow, nudged)])
errors = np.column_stack([furthest(guesses.mean(axis=0), ahead), furthest(slow, ahead)])
errors = errors > TOLERANCE

# A third of the cases to learn the route, a third to calibrate, a third to look at the result.
tune, calibrate, test = np.array_split(rng.permutation(len(starts)), 3)
router = CascadeRouter(alpha=0.05, costs=COSTS)
router.fit_path(scores[tune], errors[tune]).fit(scores[calibrate], errors[calibrate])
print(router.certificate_.statement)

routes = router.route(scores[test])
wrong = errors[test][np.arange(len(test)), routes.model]
print(routes)
print(f"wrong among the accepted: {wrong[routes.accepted].mean():.1%}")

for k, name in enumerate(["cheap only", "slow only"]):
    alone = SelectiveThreshold(alpha=0.05).fit(scores[calibrate, k], errors[calibrate, k])
    accepted = alone.predict(scores[test, k])
    print(f"{name}: {accepted.mean():.1%} accepted at a cost of {COSTS[k]} per case")
