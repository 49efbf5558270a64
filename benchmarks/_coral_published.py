"""The published rule as it is coded, with its counts updated, as a policy for the closed loop.

Source: Bisht and others 2026 and the code beside that paper, read for facts. Category c of a user
scores r_c + kappa sqrt(ln t / N_c) - Pen(D) UCB_c with counts N_c by user and category,
Pen(D) = min(100, 1 / max(1e-6, L - D)), 100 from L on, and UCB_c the mean of past violations plus
sqrt(2 V a / N) + 3 a / N, a = 2 ln(2 / delta). Items are ordered by the score of their category.
Above L, categories of more than rho times the usual intensity are left out while others remain.
"""

import numpy as np

from foretell.trust import ExposureRegulator

KAPPA, DELTA = 1.0, 0.1


class PublishedRule:
    """Answers to ``rerank`` and ``update`` like an ExposureRegulator."""

    def __init__(self, like: ExposureRegulator, factor: float = 1.0) -> None:
        self.state_ = like.state_
        self.limit_ = factor * like.limit_
        shape = self.state_.S_.shape
        self.shown, self.engaged, self.violated = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def rerank(self, users, items, scores, categories, k=5):
        rows = self.state_.rows(users)
        limit = self.limit_[rows]
        D = self.state_.saturation(users)
        n = self.shown[rows]
        seen = np.maximum(n, 1.0)
        mean = self.violated[rows] / seen
        a = 2 * np.log(2 / DELTA)
        upper = mean + np.sqrt(2 * mean * (1 - mean) * a / seen) + 3 * a / seen
        gap = np.maximum(1e-6, limit - D)
        penalty = np.where(D >= limit, 100.0, np.minimum(100.0, 1.0 / gap))[:, None]
        t = np.maximum(n.sum(1, keepdims=True), 2.0)
        value = self.engaged[rows] / seen + KAPPA * np.sqrt(np.log(t) / seen) - penalty * upper
        excited = self.state_.excess(rows) > 0
        bar = excited & (D > limit)[:, None] & ~excited.all(1, keepdims=True)
        of_item = np.take_along_axis(np.where(bar, -1e9, value), categories, axis=1)
        order = np.lexsort((-scores, -of_item), axis=1)[:, :k]
        return np.take_along_axis(items, order, axis=1)

    def update(self, users, categories, engaged=None):
        if categories is None:
            self.state_.update(users, None)
            return
        rows = self.state_.rows(users)
        self.state_.update(users, categories, engaged)
        self.shown[rows, categories] += 1
        self.engaged[rows, categories] += engaged
        self.violated[rows, categories] += self.state_.saturation(users) > self.limit_[rows]
