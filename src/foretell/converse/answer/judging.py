"""How likely an answer is wrong, from how it was found: a logistic model of the reading.

What counts is not only how good the best sentence looks, but how far it is ahead of the next ones,
whether words and meaning point to the same sentence, and how much of the question the notes know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from foretell.converse.answer.quoting import given
from foretell.converse.answer.reading import Candidate, Reading, shipped_models
from foretell.converse.lookup.logistic import LogisticModel

SIGNS = (
    "best", "lead", "lead_elsewhere", "cover", "context", "rare", "pairs", "offers", "rank",
    "unknown", "words", "search_lead", "search_each", "agree", "novel",
    "length", "names", "numbers", "characters", "alone", "sure",
    "search_flat", "weight",
)  # fmt: skip
MEANING_SIGNS = ("cosine", "cosine_lead", "agree_meaning")


def signs(reading: Reading, names: Sequence[str]) -> list[float]:
    """The features of a reading that has at least one candidate.

    Examples
    --------
    >>> from foretell.converse.answer import Reader, Source
    >>> reader = Reader.shipped(vectors=False)
    >>> found = reader.read("Who found radium?", [Source("1", "Curie.")])
    >>> len(signs(found, reader.model.names)) == len(SIGNS)
    True
    """
    first, *others = reading.candidates
    elsewhere = [each for each in others if each.source.id != first.source.id]
    best = _logit(first.probability)
    value = dict(zip(names, first.features, strict=True))
    scores = (*reading.scores, 0.0, 0.0)
    said = {(source.id, part) for source, parts in given(reading) for part in parts}
    chances = [c.probability for c in reading.candidates if (c.source.id, c.sentence) in said]
    row = [
        best,
        best - _logit(others[0].probability) if others else 6.0,
        best - _logit(elsewhere[0].probability) if elsewhere else 6.0,
        value["cover"],
        value["context"],
        value["rare"],
        value["pairs"],
        value["offers"],
        value["rank"],
        reading.unknown / max(reading.known + reading.unknown, 1),
        math.log1p(reading.known + reading.unknown),
        scores[1] / scores[0] if scores[0] else 1.0,
        scores[0] / max(reading.known, 1),
        float(_at_top(reading.candidates, names, "cover")),
        value["novel"],
        value["length"],
        value["names"],
        value["numbers"],
        math.log(max(len(first.sentence.text), 1)),
        float(len(said) == 1),
        _logit(min(1 - 1e-6, sum(chances))),
        scores[min(len(reading.scores), 5) - 1] / scores[0] if scores[0] else 1.0,
        reading.weight,
    ]
    if "cosine" in value:
        cosines = [each.features[list(names).index("cosine")] for each in others]
        row += [
            value["cosine"],
            value["cosine"] - max(cosines, default=0.0),
            float(_at_top(reading.candidates, names, "cosine")),
        ]
    return row


class Judge:
    """Estimates how likely an answer is wrong.

    Parameters
    ----------
    model : LogisticModel
        Of right answers, with the features `SIGNS`, and `MEANING_SIGNS` where there are vectors.
    names : sequence of str
        Of the features of the reader.
    """

    def __init__(self, model: LogisticModel, names: Sequence[str]) -> None:
        self.model, self.names = model, tuple(names)

    @classmethod
    def shipped(cls, *, vectors: bool = True) -> Judge:
        """The judge that comes with the package, for the reader that does."""
        models, kind = shipped_models(), "full" if vectors else "lexical"
        judge = LogisticModel.from_dict(models[f"judge-{kind}"])
        return cls(judge, models[kind]["names"])

    def doubt(self, reading: Reading) -> float:
        """Estimated probability that the best sentence is no answer; 1 where there is none."""
        if not reading.candidates:
            return 1.0
        return 1.0 - self.model.one(signs(reading, self.names))


def _logit(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def _at_top(candidates: Sequence[Candidate], names: Sequence[str], name: str) -> bool:
    column = list(names).index(name)
    return candidates[0].features[column] >= max(each.features[column] for each in candidates)
