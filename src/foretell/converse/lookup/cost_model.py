"""Learned: how likely a document found now is still evidence when the question is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.prefix import FEATURES, Look
from foretell.converse.lookup.triggers import Moment
from foretell.core.errors import DataError

NAMES = ("rank", "score share", "was there", *FEATURES)


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
            before: Look | None = None
            for look in looks:
                for rank, id in enumerate(look.ids):
                    rows.append(_row(look, before, rank))
                    stays.append(id in final)
                before = look
        if not rows:
            raise DataError("There are no looks to learn from. Give at least one question.")
        self.model_ = LogisticModel(NAMES).fit(rows, stays)
        return self

    def __call__(self, moment: Moment, ranks: Sequence[int]) -> list[float]:
        """One probability for each rank."""
        rows = [_row(moment.look, moment.before, rank) for rank in ranks]
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


def _row(look: Look, before: Look | None, rank: int) -> tuple[float, ...]:
    top = look.scores[0] if look.scores else 0.0
    share = look.scores[rank] / top if top else 0.0
    was = float(before is not None and look.ids[rank] in before.ids)
    return (float(rank), share, was, *look.features)
