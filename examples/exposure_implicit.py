"""ALS from the package `implicit`, re-ranked under a limit on saturation.

Needs implicit (pip install implicit); without it the script says so and ends.
"""

import sys

import numpy as np
from scipy.sparse import csr_matrix

from foretell.trust import MMR, EventLog, ExposureRegulator

try:
    from implicit.als import AlternatingLeastSquares
except ImportError:
    print("skipped: implicit is not installed. Install it with: pip install implicit")
    sys.exit(0)

# A log: 200 users watch 400 films of 6 genres, in moods that last.
rng = np.random.default_rng(0)
genre = rng.integers(6, size=400)
mood = np.repeat(rng.integers(6, size=200 * 10), 6)
users = np.repeat(np.arange(200), 60)
films = np.array([rng.choice(np.flatnonzero(genre == g)) for g in mood])

# The ranker, as implicit's pages show it.
seen = csr_matrix((np.ones(films.size, np.float32), (users, films)), shape=(200, 400))
seen.data[:] = 1.0
ranker = AlternatingLeastSquares(factors=16, iterations=10, random_state=0, num_threads=1)
ranker.fit(seen, show_progress=False)

# The adapter is one line: ids and scores of a hundred candidates for each user.
ids, scores = ranker.recommend(np.arange(200), seen, N=100, filter_already_liked_items=True)
log = EventLog.from_columns(users, genre[films], n_categories=6)
regulator = ExposureRegulator(diversifier=MMR(0.5)).fit(log)
slates = regulator.rerank(
    np.arange(200), ids, scores, genre[ids], k=5, mask=np.isfinite(scores), return_reasons=True
)
print(regulator.model_.gate_)
print(slates)
for move in slates.moves(0):
    print(" ", move)

# What user 0 clicked goes back, and the next slate knows of it.
print(regulator.update(0, genre[slates.items[0, 0]]))
