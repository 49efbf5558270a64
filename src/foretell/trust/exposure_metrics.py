"""What narrows, and what it costs: measures of exposure, saturation and reward of a run.

Legend: T steps, B users, C categories, k slots; -1 stands for "nothing" among categories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError

Array = NDArray[np.float64]

WINDOW = 20  # recent events that the dominant category is read from


@dataclass(frozen=True)
class RecoveryTime:
    """How long users stay above their limit.

    Parameters
    ----------
    mean : float
        Mean length of a finished stretch of violations, in steps; 0 without one.
    n : int
        Finished stretches.
    censored : int
        Stretches that were still going on at the end; not in the mean.

    Examples
    --------
    >>> RecoveryTime(mean=1.5, n=12, censored=1)
    RecoveryTime(1.5 steps over 12 stretches, 1 unfinished)
    """

    mean: float
    n: int
    censored: int

    def __repr__(self) -> str:
        return (
            f"RecoveryTime({self.mean:.3g} steps over {self.n} stretches, "
            f"{self.censored} unfinished)"
        )


def violation_rate(violated: ArrayLike) -> float:
    """Share of (step, user) pairs above the limit; violated has shape (T, B).

    Examples
    --------
    >>> violation_rate([[True, False], [False, False]])
    0.25
    """
    return float(np.asarray(violated, dtype=bool).mean())


def recovery_time(violated: ArrayLike) -> RecoveryTime:
    """Mean length of the stretches of steps above the limit, shape (T, B).

    Examples
    --------
    >>> recovery_time(np.array([[1, 1, 0, 1]]).T)
    RecoveryTime(2 steps over 1 stretches, 1 unfinished)
    """
    flag = np.asarray(violated, dtype=np.int64)
    edges = np.diff(flag, axis=0, prepend=0)
    begun, finished = int((edges == 1).sum()), int((edges == -1).sum())
    lasting = flag[-1].astype(bool)
    length = np.zeros(flag.shape[1], dtype=np.int64)
    total = 0
    for row in flag:
        total += int(length[row == 0].sum())
        length = np.where(row == 1, length + 1, 0)
    mean = total / finished if finished else 0.0
    return RecoveryTime(mean, finished, int(lasting.sum()) if begun else 0)


def cumulative_reward(clicks: ArrayLike) -> float:
    """Mean number of engagements of a user; clicks has shape (T, B).

    Examples
    --------
    >>> cumulative_reward([[1, 0], [1, 1]])
    1.5
    """
    return float(np.asarray(clicks, dtype=np.float64).sum(0).mean())


def late_ctr(clicks: ArrayLike) -> float:
    """Engagements a step in the last quarter of the run.

    Examples
    --------
    >>> late_ctr([[1], [1], [1], [0]])
    0.0
    """
    x = np.asarray(clicks, dtype=np.float64)
    return float(x[-max(x.shape[0] // 4, 1) :].mean())


def category_coverage(clicked: ArrayLike, n_categories: int) -> float:
    """Share of all categories that a user engaged with at least once, averaged over users.

    Parameters
    ----------
    clicked : int array (T, B)
        Category engaged with, -1 for none.
    n_categories : int

    Examples
    --------
    >>> category_coverage([[0, 1], [0, -1], [2, 1]], n_categories=4)
    0.375
    """
    x = np.asarray(clicked, dtype=np.int64)
    seen = np.zeros((x.shape[1], n_categories + 1), dtype=bool)
    seen[np.arange(x.shape[1]), x] = True  # -1 fills the last column
    return float(seen[:, :-1].sum(1).mean() / n_categories)


def exposure_entropy(counts: ArrayLike) -> float:
    """Entropy in nats of exposure by category or item; counts of slots.

    Examples
    --------
    >>> round(exposure_entropy([5, 5, 0]), 4) == round(float(np.log(2)), 4)
    True
    """
    x = _shares(counts)
    return float(-(x[x > 0] * np.log(x[x > 0])).sum())


def exposure_gini(counts: ArrayLike) -> float:
    """Gini coefficient of exposure: 0 when all get the same, towards 1 when one gets everything.

    Examples
    --------
    >>> exposure_gini([3, 3, 3]), exposure_gini([0, 9])
    (0.0, 0.5)
    """
    x = np.sort(_shares(counts))
    rank = np.arange(1, x.size + 1)
    return float((2 * rank - x.size - 1) @ x / x.size)


def dominant_category(recent: ArrayLike, n_categories: int) -> tuple[int, float]:
    """The most frequent category of the last 20 events, and its share.

    Categories outside 0..C-1 do not count; ties go to the smallest index.

    Examples
    --------
    >>> dominant_category([0, 2, 2, -1, 1], n_categories=3)
    (2, 0.5)
    """
    x = np.asarray(recent, dtype=np.int64)[-WINDOW:]
    x = x[(x >= 0) & (x < n_categories)]
    if x.size == 0:
        raise DataError("no event has a category; the dominant one is not defined.")
    counts = np.bincount(x, minlength=n_categories)
    top = int(counts.argmax())
    return top, float(counts[top] / x.size)


def top_share(slate: ArrayLike, category: ArrayLike) -> Array:
    """Share of each slate (B, k) that is of a user's given category (B,): TCC at k.

    Examples
    --------
    >>> top_share([[0, 0, 1], [1, 1, 1]], [0, 0])
    array([0.66666667, 0.        ])
    """
    return np.asarray((np.asarray(slate) == np.asarray(category)[:, None]).mean(1))


def slate_distance(slate: ArrayLike) -> float:
    """Mean share of pairs of a slate's slots that differ in category, slates of shape (B, k).

    Examples
    --------
    >>> slate_distance([[0, 0, 1]])
    0.6666666666666666
    """
    x = np.asarray(slate)
    k = x.shape[1]
    if k < 2:
        raise ParameterError(f"a slate of {k} slots has no pairs; give at least 2 slots.")
    differs = (x[:, :, None] != x[:, None, :]).sum((1, 2))
    return float((differs / (k * (k - 1))).mean())


def dominates(
    reward: ArrayLike, violation: ArrayLike, other_reward: ArrayLike, other_violation: ArrayLike
) -> bool:
    """Whether one policy is at least as good as another in reward and in violations, by seed.

    True when its mean reward is at least as high and its mean violation rate at most as high, one
    of the two strictly. Noise counts for the other policy: a difference of means decides, however
    wide its interval.

    Parameters
    ----------
    reward, violation, other_reward, other_violation : array (seeds,)

    Examples
    --------
    >>> dominates([60, 61], [0.01, 0.01], [59, 60], [0.2, 0.2])
    True
    """
    gain = np.asarray(reward, dtype=float) - np.asarray(other_reward, dtype=float)
    saved = np.asarray(other_violation, dtype=float) - np.asarray(violation, dtype=float)
    some = gain.mean() > 0 or saved.mean() > 0
    return bool(gain.mean() >= 0 and saved.mean() >= 0 and some)


def reward_price(reward: ArrayLike, violation: ArrayLike, base_reward: float, at: float) -> float:
    """Share of the base ranker's reward that a policy gives up at a given violation rate.

    Interpolated along the policy's knob, one entry of ``reward`` and ``violation`` for each
    setting. NaN when the rate lies outside what the settings reach.

    Examples
    --------
    >>> reward_price([60, 50], [0.2, 0.0], base_reward=60, at=0.1)
    0.08333333333333333
    """
    order = np.argsort(violation)
    v, r = np.asarray(violation, dtype=float)[order], np.asarray(reward, dtype=float)[order]
    if not v[0] <= at <= v[-1]:
        return float("nan")
    return float((base_reward - np.interp(at, v, r)) / base_reward)


def _shares(counts: ArrayLike) -> Array:
    x = np.asarray(counts, dtype=np.float64).ravel()
    if x.size == 0 or (x < 0).any() or x.sum() <= 0:
        raise DataError("exposure counts must be >= 0 and not all 0.")
    return np.asarray(x / x.sum())
