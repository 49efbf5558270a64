"""What is usual for a user: shares of the categories, shrunk towards those of everyone.

Legend: N events, U users, C categories; counts (U, C); shares sum to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError
from foretell.trust._excitation_fit import Marks
from foretell.trust.event_log import EventLog

Array = NDArray[np.float64]

PERSONAL_EVENTS = 20  # fewer, and a user's usual shares are those of the group


def shares(counts: Array) -> Array:
    """Shares from counts, none of them zero."""
    return np.asarray((counts + 1.0) / (counts.sum() + counts.size))


def priors(log: EventLog, counts: Array) -> Array:
    return group_priors(log.groups, counts, shares(counts.sum(0)), 50.0)


def group_priors(groups: NDArray[Any] | None, counts: Array, prior: Array, s: float) -> Array:
    """Shares of each user's group, shrunk towards everyone's, shape (U, C) or (C,)."""
    if groups is None:
        return prior
    names, group = np.unique(groups, return_inverse=True)
    sums = np.zeros((names.size, counts.shape[1]))
    np.add.at(sums, group, counts)
    return np.asarray(((sums + s * prior) / (sums.sum(1, keepdims=True) + s))[group])


def merged_groups(
    old: NDArray[Any] | None,
    old_rows: NDArray[Any],
    new: NDArray[Any] | None,
    new_rows: NDArray[Any],
    n: int,
) -> NDArray[Any] | None:
    if old is None:
        return None
    if new is None:
        raise ParameterError("the model knows groups of users; give groups=... with the new log.")
    merged = np.zeros(n, dtype=np.result_type(old, new))
    merged[old_rows], merged[new_rows] = old, new
    return merged


def shrunk(counts: Array, prior: Array, strength: float) -> Array:
    """Usual shares (U, C): the user's own, shrunk to the prior, which alone counts below 20."""
    total = counts.sum(1, keepdims=True)
    own = (counts + strength * prior) / (total + strength)
    return np.where(total >= PERSONAL_EVENTS, own, prior)


def marks_of(
    S: Array, log: EventLog, rows: NDArray[np.bool_], counts: Array, strength: float
) -> Marks:
    """Events with the usual intensity of their mark, as if the event itself had not been counted.

    Counting it would explain each event by itself and leave too little to excitation.
    """
    user, mark = log.user_of_row, log.categories
    prior = np.broadcast_to(priors(log, counts), counts.shape)[user, mark]
    total = counts.sum(1)[user]
    own = (np.maximum(counts[user, mark] - 1.0, 0.0) + strength * prior) / (total - 1.0 + strength)
    usual = np.where(total >= PERSONAL_EVENTS, own, prior)
    return Marks.of(S[rows], usual[rows], mark[rows], log.n_categories)


def engagements_of(log: EventLog) -> Array:
    """Engagements and events of each category, shape (2, C)."""
    C = log.n_categories
    return np.stack(
        [
            np.bincount(log.categories, weights=log.engaged, minlength=C),
            np.bincount(log.categories, minlength=C),
        ]
    )


def without_excitation(
    log: EventLog, early: NDArray[np.bool_], strengths: tuple[float, ...]
) -> tuple[Array, float]:
    """Losses of users' shares on late events, the best of fixed and updated; everyone's mean."""
    counts = log.counts(early)
    prior = shares(counts.sum(0))
    user, mark, late = log.user_of_row, log.categories, ~early
    before = earlier_of_same_mark(user * log.n_categories + mark)
    losses = []
    for s in strengths:
        fixed = shrunk(counts, prior, s)[user, mark]
        growing = (before + s * prior[mark]) / (log.position + s)
        losses += [-np.log(p[late]) for p in (fixed, growing)]
    best = min(losses, key=lambda loss: float(loss.mean()))
    return best, float(-np.log(prior[mark[late]]).mean())


def clear_gain(losses: Array, others: Array, user: NDArray[np.int64]) -> bool:
    """Whether losses are lower by more than two standard errors, of users and of events."""
    gap = others - losses
    by_user = np.bincount(user, weights=gap - gap.mean())
    error = max(float(np.sqrt((by_user**2).sum())) / gap.size, gap.std() / np.sqrt(gap.size))
    return bool(gap.mean() > 2.0 * error)


def earlier_of_same_mark(key: NDArray[np.int64]) -> Array:
    """For each row the number of earlier rows with the same key."""
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    first = np.concatenate([[True], sorted_key[1:] != sorted_key[:-1]])
    places = np.arange(key.size)
    earlier = np.empty(key.size)
    earlier[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return earlier
