"""Learn a bouncing ball from recordings, without being told that it bounces.

The model finds when, where and how the ball jumps. A short training, to be quick; forty times as
many updates give runs that last.
"""

import importlib.util
import sys

from foretell import HybridLatentODE
from foretell.data.hybrid_systems import ball

if importlib.util.find_spec("torch") is None:
    print('needs torch: pip install "foretell[learn]"')
    sys.exit()

train = ball(40, 80, random_state=0).trajectories
model = HybridLatentODE(
    decoder_heads=3, horizons=(4, 8), updates_per_horizon=60, batch_size=32, random_state=0
).fit(train)

print(model.jumps_)  # where the recordings jump
print(model.seams_)  # whether the latent space has closed there
print(model.latent_rank_)
for event in model.events(train.values[0][0], train.times[0]):
    print(event)
print(model.guard_samples())
for guard in model.guards():
    print(guard)
