"""Put a popularity ranker under a limit on saturation, and see what that costs.

Ratings in the manner of a small MovieLens file are generated: 300 users, 900 films, 24 000 ratings
with genres and time stamps. Then a loop of ranker and simulated users runs under three ways of
choosing slates, each along its knob. With matplotlib the picture goes to exposure_pareto.png.
"""

import numpy as np

from foretell.trust import (
    MMR,
    ClosedLoopSimulator,
    EchoRanker,
    EventLog,
    ExcitationModel,
    ExposureRegulator,
    SimulatedUsers,
)

rng = np.random.default_rng(0)
GENRES = ["Action", "Comedy", "Crime", "Documentary", "Drama", "Horror", "Romance", "Sci-Fi"]
N_USERS, N_FILMS, N_RATINGS = 300, 900, 80

# --- A table of ratings: user, film, stars, time. Replace this part by your own file. -------------
genre_of_film = rng.choice(8, N_FILMS, p=[0.16, 0.22, 0.1, 0.05, 0.24, 0.07, 0.1, 0.06])
fame = rng.gamma(0.4, size=N_FILMS)  # few films get most of the ratings
taste = rng.dirichlet(np.full(8, 0.8), size=N_USERS)
by_genre = np.argsort(genre_of_film, kind="stable")
fame_up_to = np.append(0.0, fame[by_genre].cumsum())
first = np.searchsorted(genre_of_film[by_genre], np.arange(9))
users, films, times = [], [], []
mood = np.zeros((N_USERS, 8))  # what was just watched is watched again
for event in range(N_RATINGS):
    chance = (taste + 0.25 * mood).cumsum(axis=1)
    genre = (rng.random((N_USERS, 1)) * chance[:, -1:] < chance).argmax(axis=1)
    low, high = fame_up_to[first[genre]], fame_up_to[first[genre + 1]]
    films.append(by_genre[np.searchsorted(fame_up_to, rng.uniform(low, high)) - 1])
    users.append(np.arange(N_USERS))
    times.append(event * 3600.0 + rng.integers(600, size=N_USERS))
    mood *= 0.85
    mood[users[-1], genre] += 1.0
users, films, times = (np.concatenate(parts) for parts in (users, films, times))
stars = np.clip(np.round(2.5 + fame[films] / 3 + rng.normal(size=films.size)), 1, 5)

# --- Learn how users excite themselves, and what is a lot. ----------------------------------------
log = EventLog.from_ratings(
    users, genre_of_film[films], stars, scale=(1, 5), times=times, sort=True, n_categories=8
)
model = ExcitationModel().fit(log)
print(log)
print(model.gate_)
regulator = ExposureRegulator(model, mode="dual").fit(log)
print(f"limit: {regulator.limit_[0]:.3f}, the 0.9 quantile of saturation over the ratings")

# --- Re-rank one slate of a popularity ranker, with reasons. --------------------------------------
popularity = np.log1p(np.bincount(films, minlength=N_FILMS))
eager = int(regulator.state_.saturation().argmax())
slate = regulator.rerank(eager, np.arange(N_FILMS), popularity, genre_of_film, return_reasons=True)
print(f"user {eager} is shown", [GENRES[g] for g in genre_of_film[slate.items[0]]])
for move in slate.moves()[:3]:
    print(" ", move)

# --- The loop: popular films of the genres that a user clicks, again and again. -------------------
value = np.broadcast_to(popularity / popularity.std(), (N_USERS, N_FILMS))
tired = np.where(np.arange(N_USERS) % 2, 4.0, 0.0)  # every other user tires of repetition
people = SimulatedUsers(value, genre_of_film, model.baseline_, fatigue=tired, outside=2.0)
ranker = EchoRanker(value, genre_of_film, model.baseline_, pool=150)
measure = ExposureRegulator(model).fit(log, warm=False)


def loop(policy):
    simulator = ClosedLoopSimulator(
        people, ranker, policy, world=measure.state_, limit=measure.limit_
    )
    run = simulator.run(150, 60, random_state=1)
    return run.violation_rate, run.reward


def policy(**settings):
    return ExposureRegulator(model, **settings).fit(log, warm=False)


thetas = (0.2, 0.5, 0.8)
# Barrier mode refuses a limit that some state cannot keep, and names the smallest that all can;
# allow_infeasible shows the least saturating genre in those states.
curves = {
    "ranker alone": [loop(None)],
    "MMR": [loop(policy(limit=1e9, start_weight=0.0, diversifier=MMR(t))) for t in thetas],
    "dual 0.05 + MMR": [loop(policy(mode="dual", diversifier=MMR(t))) for t in thetas],
    "barrier + MMR": [
        loop(policy(mode="barrier", diversifier=MMR(t), allow_infeasible=True)) for t in thetas
    ],
}
for name, points in curves.items():
    for theta, (rate, clicks) in zip(thetas if len(points) > 1 else ("",), points, strict=True):
        print(f"{name:16} {theta:3} {rate:6.1%} above the limit, {clicks:.1f} clicks a user")

try:
    from foretell.trust.exposure_plots import plot_pareto

    axes = plot_pareto(curves)
except ImportError as missing:
    print(missing)
else:
    axes.set_title("A popularity ranker under a limit, 60 steps; on a line MMR 0.2, 0.5, 0.8")
    axes.figure.savefig("exposure_pareto.png", dpi=110)
