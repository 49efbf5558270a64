"""A learned trigger: send the query or not, from the words alone and what was last found.

It serves where looking is not cheap, so that the present hits are not known. Labels follow the rule
of Stream RAG: walking along a question, the label is "send" where the documents of the present
query are others than those of the last query *labelled* "send". At run time the last query is the
last one *sent*; so that one wrong query does not silence the trigger for good, some training rows
have the query of another question in its place, with the label "send".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.prefix import Look
from foretell.converse.lookup.triggers import FetchesAll, Moment
from foretell.converse.lookup.words import is_content
from foretell.core.errors import DataError, NotFittedError, ParameterError
from foretell.core.random import as_generator

PAIR_FEATURES = (
    "nothing sent", "words", "content words", "new terms", "gone terms", "idf of new",
    "best new idf", "share of new idf", "sent score per idf", "sent gap 1-2", "sent ratio 1/k",
    "words since", "last is stop", "last is name", "settled",
)  # fmt: skip


def pair_features(look: Look, sent: Look | None) -> tuple[float, ...]:
    """Features of the words now against what was last sent; the present hits are not used."""
    idf = dict(zip((name for name, _ in look.query.weights), look.idf, strict=True))
    old = dict(zip((n for n, _ in sent.query.weights), sent.idf, strict=True)) if sent else {}
    new = [weight for name, weight in idf.items() if name not in old]
    scores = sent.scores if sent else ()
    mass = sum(old.values())
    top = scores[0] if scores else 0.0
    last = look.words[-1] if look.words else ""
    return (
        float(sent is None),
        float(len(look.words)),
        float(len(idf)),
        float(len(new)),
        float(len(set(old) - set(idf))),
        sum(new),
        max(new, default=0.0),
        sum(new) / (sum(idf.values()) or 1.0),
        top / mass if mass else 0.0,
        (top - scores[1]) / top if len(scores) > 1 and top else 0.0,
        scores[-1] / top if top else 0.0,
        float(len(look.words) - (len(sent.words) if sent else 0)),
        float(not is_content(last)) if last else 1.0,
        float(last[:1].isupper() and len(look.words) > 1),
        look.stable / len(look.words) if look.words else 0.0,
    )


def label_walk(looks: Sequence[Look]) -> list[bool]:
    """Whether each look of a question should be sent, by the label rule.

    Examples
    --------
    >>> from foretell.converse.lookup.query import text_query
    >>> def look(*ids):
    ...     return Look(0.0, ("pump",), 1, text_query("pump"), ids, (), (1.0,))
    >>> label_walk([look("a", "b"), look("b", "a"), look("a", "c"), look("a", "b")])
    [True, False, True, True]
    """
    labels, sent = [], None
    for look in looks:
        send = bool(look.ids) and (sent is None or set(look.ids) != set(sent.ids))
        labels.append(send)
        sent = look if send else sent
    return labels


def trigger_examples(
    questions: Sequence[Sequence[Look]],
    groups: Sequence[Hashable] | None = None,
    *,
    negative_rate: float = 0.1,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rows of `PAIR_FEATURES` and labels.

    Parameters
    ----------
    questions : sequence of sequence of Look
        The looks of each question, in the order heard.
    groups : sequence, optional
        The article of each question; a wrong query is taken from another one.
    negative_rate : float
        Share of rows whose last query is replaced by a wrong one.
    """
    if not 0 <= negative_rate < 1:
        raise ParameterError(f"negative_rate={negative_rate!r}; needed is a number in [0, 1).")
    if groups is not None and len(groups) != len(questions):
        raise DataError(f"{len(groups)} groups for {len(questions)} questions; needed is one each.")
    generator = as_generator(random_state)
    group = list(range(len(questions))) if groups is None else list(groups)
    rows, labels = [], []
    for number, looks in enumerate(questions):
        others = [q for q in range(len(questions)) if group[q] != group[number] and questions[q]]
        sent: Look | None = None
        for look, send in zip(looks, label_walk(looks), strict=True):
            if others and generator.random() < negative_rate:
                other = questions[others[int(generator.integers(len(others)))]]
                wrong = other[int(generator.integers(len(other)))]
                rows.append(pair_features(look, wrong))
                labels.append(True)
            else:
                rows.append(pair_features(look, sent))
                labels.append(send)
            sent = look if send else sent
    if not rows:
        raise DataError("There are no looks to learn from. Give at least one question with words.")
    return np.array(rows, dtype=np.float64), np.array(labels, dtype=bool)


class ModelTrigger(FetchesAll):
    """Sends the query when a learned probability says that the documents are out of date.

    Parameters
    ----------
    threshold : float
        Probability from which on it sends, in (0, 1).
    negative_rate : float
        See `trigger_examples`.
    random_state : int, Generator or None
    """

    at_pause: ClassVar[bool] = True
    model_: LogisticModel

    def __init__(
        self,
        *,
        threshold: float = 0.5,
        negative_rate: float = 0.1,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        if not 0 < threshold < 1:
            raise ParameterError(f"threshold={threshold!r}; needed is a number between 0 and 1.")
        self.threshold, self.negative_rate = threshold, negative_rate
        self.random_state = random_state

    def fit(
        self, questions: Sequence[Sequence[Look]], groups: Sequence[Hashable] | None = None
    ) -> ModelTrigger:
        """Learn from the looks of past questions (`StreamingLookup.looks`)."""
        X, y = trigger_examples(
            questions, groups, negative_rate=self.negative_rate, random_state=self.random_state
        )
        self.model_ = LogisticModel(PAIR_FEATURES).fit(X, y)
        return self

    def predict_proba(self, look: Look, sent: Look | None) -> float:
        """Probability that the documents of the present words are others than those sent for."""
        if not hasattr(self, "model_"):
            raise NotFittedError("The trigger is not fitted. Call fit(questions, groups) first.")
        return self.model_.one(pair_features(look, sent))

    def fire(self, moment: Moment) -> bool:
        """When the probability reaches the threshold."""
        sent = moment.sent.look if moment.sent else None
        return self.predict_proba(moment.look, sent) >= self.threshold
