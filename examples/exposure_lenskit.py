"""A LensKit scorer, re-ranked under a limit on saturation.

Needs LensKit 2025 (pip install lenskit); without it the script says so and ends.
"""

import sys

import numpy as np

from foretell.trust import MMR, EventLog, ExposureRegulator

try:
    import pandas as pd
    from lenskit.basic import PopScorer
    from lenskit.data import ItemList, from_interactions_df
except ImportError:
    print("skipped: LensKit is not installed. Install it with: pip install lenskit")
    sys.exit(0)

# A log: 100 users watch 200 films of 5 genres, in moods that last.
rng = np.random.default_rng(0)
genre = rng.integers(5, size=200)
mood = np.repeat(rng.integers(5, size=100 * 10), 6)
users = np.repeat(np.arange(100), 60)
films = np.array([rng.choice(np.flatnonzero(genre == g)) for g in mood])
watched = pd.DataFrame({"user_id": users, "item_id": films}).drop_duplicates()
data = from_interactions_df(watched)

# The ranker: any component that turns an ItemList into one with scores.
scorer = PopScorer()
scorer.train(data)

# The adapter: its items and scores as arrays; items that it cannot score are masked out.
scored = scorer(ItemList(item_ids=np.arange(200)))
ids, scores = scored.ids(), scored.scores()
log = EventLog.from_columns(users, genre[films], n_categories=5)
regulator = ExposureRegulator(diversifier=MMR(0.5)).fit(log)
slate = regulator.rerank(
    7, ids, scores, genre[ids], k=5, mask=np.isfinite(scores), return_reasons=True
)
print(regulator.model_.gate_)
print(slate)
for move in slate.moves():
    print(" ", move)
