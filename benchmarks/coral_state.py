"""Does what a user just consumed predict the next category? The last fifth of MovieLens 100k.

Ours: ExcitationModel fitted to the first 80 %. Peers: each user's shrunk shares, fixed or updated
at every event, with their best strength on the held-out events themselves; everyone's shares; and
the parameters that the published code starts from, which its few gradient steps hardly move.
Controls: the order inside equal time stamps is random (five seeds); each history is shuffled.
"""

import warnings

import numpy as np
from _common import write_result
from _coral_data import Ratings, ml_100k

from foretell.core import ForetellWarning
from foretell.trust import EventLog, ExcitationModel
from foretell.trust._excitation_fit import decayed_counts, mark_losses
from foretell.trust._habits import earlier_of_same_mark, shares, shrunk

STRENGTHS = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
SEEDS = range(5)


def habits(log: EventLog) -> dict[str, np.ndarray]:
    """Losses of the held-out events without excitation."""
    early = log.early(0.8)
    counts = log.counts(early)
    prior = shares(counts.sum(0))
    user, mark, late = log.user_of_row, log.categories, ~early
    before = earlier_of_same_mark(user * log.n_categories + mark)
    fixed = [-np.log(shrunk(counts, prior, s)[user, mark][late]) for s in STRENGTHS]
    growing = [-np.log(((before + s * prior[mark]) / (log.position + s))[late]) for s in STRENGTHS]
    return {
        "shares of the user": min(fixed, key=np.mean),
        "shares of the user, updated at every event": min(growing, key=np.mean),
        "shares of everyone": -np.log(prior[mark[late]]),
    }


def published(log: EventLog, diagonal: float) -> np.ndarray:
    """mu = 0.01, beta = 1, alpha diagonal: where the published fit starts."""
    C = log.n_categories
    S, _ = decayed_counts(log, 1.0)
    losses = mark_losses(S, np.full((S.shape[0], C), 0.01), diagonal * np.eye(C), log.categories)
    return losses[~log.early(0.8)]


def ours(log: EventLog, **settings) -> tuple[np.ndarray, ExcitationModel]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)  # the shuffled control fails the gate
        model = ExcitationModel(**settings).fit(log.first(0.8))
    score = model.mark_nll(log, last=0.2)
    return score.by_user, model


def shuffled(log: EventLog, seed: int) -> EventLog:
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(log.categories.size), log.user_of_row))
    return EventLog.from_columns(
        log.user_of_row, log.categories[order], n_categories=log.n_categories
    )


def difference(by_user: np.ndarray, other: np.ndarray, events: np.ndarray) -> str:
    """Mean difference an event with a 95 % interval by resampling users."""
    gap = by_user - other
    draw = np.random.default_rng(0).integers(gap.size, size=(4000, gap.size))
    means = gap[draw].sum(1) / events[draw].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{gap.sum() / events.sum():.4f} [{low:.4f}, {high:.4f}]"


def rows_of(title: str, log: EventLog, **settings) -> tuple[list, ExcitationModel]:
    late = ~log.early(0.8)
    user = log.user_of_row[late]

    def by_user(losses):
        return np.bincount(user, weights=losses, minlength=log.n_users)

    peers = habits(log)
    mine, model = ours(log, **settings)
    events = np.bincount(user, minlength=log.n_users)
    fixed, growing = (peers[k] for k in list(peers)[:2])
    return [
        title,
        float(mine.sum() / events.sum()),
        float(fixed.mean()),
        float(growing.mean()),
        difference(mine, by_user(fixed), events),
        difference(mine, by_user(growing), events),
    ], model


def main() -> None:
    ratings: Ratings = ml_100k()
    rows = []
    for seed in SEEDS:
        row, model = rows_of(f"equal stamps in random order, seed {seed}", ratings.log(seed))
        rows.append(row)
        if seed == 0:
            chosen = {"decay": model.decay_, "excitation of itself": model.excitation_.trace() / 19}
    rows.append(rows_of("control: each history shuffled", shuffled(ratings.log(0), 1))[0])
    liked = EventLog.from_ratings(
        ratings.user, ratings.category_of_item[ratings.item], ratings.rating, scale=(1, 5),
        liked_from=3.5, times=ratings.time, sort=True, n_categories=19,
    )  # fmt: skip
    rows.append(rows_of("only ratings from 3.5 excite", liked)[0])
    log = ratings.log(0)
    others = [[name, float(loss.mean())] for name, loss in habits(log).items()]
    others += [
        [f"published start, alpha {a} on the diagonal", float(published(log, a).mean())]
        for a in (0.5, 1.0)
    ]
    write_result(
        "coral_state",
        {"strengths of the peers": list(STRENGTHS), "chosen": chosen},
        {
            "coral-state": {
                "columns": ["MovieLens 100k, last fifth of each user", "with excitation",
                            "fixed shares", "updated shares", "gain on fixed", "gain on updated"],
                "rows": rows,
                "note": "Nats an event; differences with 95 % interval over users. The peers have "
                "their best strength on the events they are judged on.",
            },
            "coral-state-others": {
                "columns": ["without a fit of excitation", "nats an event"], "rows": others,
            },
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
