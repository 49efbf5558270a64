"""Learned: how likely a document found now is still evidence when the question is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.prefix import FEATURES, Look
from foretell.converse.lookup.triggers import Moment
from foretell.core.errors import DataError

NAMES = ("rank", "score share", "margin", "streak", "counts now", *FEATURES)


class LearnedStays:
    """Probability that a document at a rank stays, for `CostAwareTrigger(stays=...)`.

    Examples
    --------
    >>> LearnedStays().fit([], [])
    Traceback (most recent call last):
    ...
    foretell.core.errors.DataError: There are no looks to learn from. ...
    """

    model_: LogisticModel

    def fit(
        self, questions: Sequence[Sequence[Look]], final_ids: Sequence[Sequence[str]]
    ) -> LearnedStays:
        """Learn from the looks of past questions and the documents of the complete ones."""
        rows, stays = [], []
        for looks, final in zip(questions, final_ids, strict=True):
            for look in looks:
                for rank, near in enumerate(look.near):
                    rows.append(_row(look, rank))
                    stays.append(near.id in final)
        if not rows:
            raise DataError("There are no looks to learn from. Give at least one question.")
        self.model_ = LogisticModel(NAMES).fit(rows, stays)
        return self

    def __call__(self, moment: Moment, ranks: Sequence[int]) -> list[float]:
        """One probability for each rank."""
        rows = [_row(moment.look, rank) for rank in ranks]
        return [float(p) for p in self.model_.probability(rows)] if rows else []

    def to_dict(self) -> dict[str, Any]:
        """The fitted model as JSON values."""
        return self.model_.to_dict()

    @classmethod
    def from_dict(cls, content: Any) -> LearnedStays:
        """The model that `to_dict` described."""
        stays = cls()
        stays.model_ = LogisticModel.from_dict(content)
        return stays


def _row(look: Look, rank: int) -> tuple[float, ...]:
    near = look.near[rank]
    streak = float(min(near.streak, 6))
    counts = float(rank < len(look.ids))
    return (float(rank), near.share, near.margin, streak, counts, *look.features)
